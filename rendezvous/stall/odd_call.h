/* odd_call.h: finds the rank whose call differs from the call that most ranks
 * made, after a worker failed because two calls differ: the worker that fails
 * first may be either of the two. Pure. */
#ifndef RENDEZVOUS_ODD_CALL_H
#define RENDEZVOUS_ODD_CALL_H

#include "rendezvous/stall/stall.h"

/* libddp's sentence: "rank 0 on h1 called X, but rank 3 on h2 called Y". */
struct odd_call_pair {
	uint32_t rank[2];
	struct slice call[2]; /* borrowed from the sentence */
};

/* 1 if the cause that a worker gives has that sentence in it. */
int odd_call_parse(struct slice why, struct odd_call_pair *out);

/* Fills in rank, local_rank, pid and why of the rank that made the rarer of the
 * two calls, by what the ranks' last reports say, and returns 1. 0: why is
 * about something else; no call has two ranks, or both have equally many; or
 * nothing is known about that rank. */
int odd_call_find(const struct stall *s, struct slice why,
		  struct stall_news *out);

#endif
