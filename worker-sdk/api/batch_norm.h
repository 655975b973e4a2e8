/* batch_norm.h: the statistics of a whole from those of its parts. Pure. */
#ifndef SDK_BATCH_NORM_H
#define SDK_BATCH_NORM_H

#include <stdint.h>

/* Adds a part of b values to one of *a: mean and biased variance become those
 * of both (Chan, Golub, LeVeque 1979). A part of no values changes nothing,
 * whatever its mean is. */
void ddp__moments_add(double *mean, double *var, uint64_t a, double b_mean,
		      double b_var, uint64_t b);

#endif
