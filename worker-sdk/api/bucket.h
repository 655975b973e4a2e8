/* bucket.h: how a model's gradients are cut into buckets, and which bucket may
 * go next. Pure: knows parameters by number, not what is done with a bucket. */
#ifndef SDK_BUCKET_H
#define SDK_BUCKET_H

#include <stddef.h>

struct ddp__bucket {
	/* Of the parameters from first to end - 1 those whose `of` is this one:
	 * all of them, unless some have a bucket of their own. */
	int first, end, members;
	size_t at, count; /* where first begins; elements of all */
	size_t from;	  /* elements of the buckets before it */
	int missing;	  /* members that are not ready */
};

struct ddp__buckets {
	int n;	   /* parameters */
	int count; /* buckets; the first has the last parameters */
	int taken; /* buckets that were given out: always the first ones */
	struct ddp__bucket *list;
	size_t *at; /* [n + 1] where each parameter begins, then the end */
	int *of;    /* [n] the bucket of each parameter */
	unsigned char *ready; /* [n] */
};

/* Cuts counts[0..n) elements from the end: the first bucket has at most `first`
 * elements, each later one at most `later`; a parameter that is larger has a
 * bucket of its own. alone: SIZE_MAX, but where parameters lie apart: those
 * of as many elements have a bucket of their own then, and the others share
 * buckets of at most `first`, whatever lies between them. 0, -ENOMEM, or
 * -EOVERFLOW; the caller releases it. */
int ddp__buckets_init(struct ddp__buckets *b, const size_t *counts, int n,
		      size_t first, size_t later, size_t alone);
void ddp__buckets_release(struct ddp__buckets *b);

/* Nothing is ready and nothing taken. */
void ddp__buckets_reset(struct ddp__buckets *b);
/* Parameter i, which is one of them, is ready. 1; 0: it was already. */
int ddp__buckets_ready(struct ddp__buckets *b, int i);
/* The next bucket, in the one order that all ranks have, once all of it is
 * ready; else -1. */
int ddp__buckets_take(struct ddp__buckets *b);

#endif
