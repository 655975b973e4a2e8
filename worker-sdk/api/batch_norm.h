/* batch_norm.h: combines the mean and variance of two sets of values. Pure. */
#ifndef SDK_BATCH_NORM_H
#define SDK_BATCH_NORM_H

#include <stdint.h>

/* *mean and *var are those of a values; combines them with the mean and biased
 * variance of b further ones (Chan, Golub, LeVeque 1979). b = 0 changes
 * nothing, whatever b_mean is. */
void ddp__moments_add(double *mean, double *var, uint64_t a, double b_mean,
		      double b_var, uint64_t b);

#endif
