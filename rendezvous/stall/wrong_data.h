/* wrong_data.h: finds the rank whose numbers are wrong, after a worker failed
 * because a check of libddp found them: all ranks fail with the same sentence.
 * Pure. */
#ifndef RENDEZVOUS_WRONG_DATA_H
#define RENDEZVOUS_WRONG_DATA_H

#include "rendezvous/stall/stall.h"

/* 1 if the cause that a worker gives is that one rank has other data than most
 * ranks, or a gradient that no rank should have. */
int wrong_data_parse(struct slice why, uint32_t *rank);

/* Fills in rank, local_rank, pid and why of that rank and returns 1. 0: why is
 * about something else, or nothing is known about that rank. */
int wrong_data_find(const struct stall *s, struct slice why,
		    struct stall_news *out);

#endif
