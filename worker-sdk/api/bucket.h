/* bucket.h: groups a model's gradients into buckets, and decides which bucket
 * may start next. Pure: knows parameters by number only. */
#ifndef SDK_BUCKET_H
#define SDK_BUCKET_H

#include <stddef.h>

struct ddp__bucket {
	/* Its members are the parameters i in first..end-1 with of[i] == this
	 * bucket: all, unless some have their own bucket. */
	int first, end, members;
	size_t at, count; /* offset of first; elements of all members */
	size_t from;	  /* elements of earlier buckets */
	int missing;	  /* members that are not ready */
};

struct ddp__buckets {
	int n;	   /* parameters */
	int count; /* buckets; the first has the last parameters */
	int taken; /* buckets returned by _take: always the first ones */
	struct ddp__bucket *list;
	size_t *at; /* [n + 1] offset of each parameter, then the total */
	int *of;    /* [n] the bucket of each parameter */
	unsigned char *ready; /* [n] */
};

/* Groups parameters of counts[0..n) elements from the last one on. The first
 * bucket has at most `first` elements, each later one at most `later`; a larger
 * parameter is a bucket of its own. alone: SIZE_MAX for gradients in one arena.
 * For separate gradients, those of at least `alone` elements are buckets of
 * their own, and the others share buckets of at most `first`, whatever lies
 * between. 0, -ENOMEM or -EOVERFLOW. The caller releases b. */
int ddp__buckets_init(struct ddp__buckets *b, const size_t *counts, int n,
		      size_t first, size_t later, size_t alone);
void ddp__buckets_release(struct ddp__buckets *b);

/* Starts a step: nothing is ready, nothing is taken. */
void ddp__buckets_reset(struct ddp__buckets *b);
/* Marks parameter i, of 0..n-1, ready. Returns 1; 0: it was ready already. */
int ddp__buckets_ready(struct ddp__buckets *b, int i);
/* The next bucket, in the order that all ranks share, if all its members are
 * ready; else -1. */
int ddp__buckets_take(struct ddp__buckets *b);

#endif
