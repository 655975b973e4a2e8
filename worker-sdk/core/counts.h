/* counts.h: the counts of a collective that has one for each rank, as the
 * places where the ranks' blocks begin; and the errors of ranks whose counts do
 * not match. Ranks do not compare them with the call: the operation does. */
#ifndef SDK_COUNTS_H
#define SDK_COUNTS_H

#include "base/error.h"
#include "worker-sdk/core/call.h"
#include "worker-sdk/core/peers.h"

/* send[i]..send[i + 1], in elements, is the block of send that is for rank i;
 * recv likewise, from rank i. Both have n + 1 numbers, and are the same array
 * where all ranks pass the same counts. */
struct ddp__counts {
	int n; /* ranks of the communicator */
	/* The operation compares the counts and moves no data; nccl does that
	 * itself. */
	int compare_only;
	uint64_t digest; /* recv's */
	const size_t *send, *recv; /* NULL: the caller passed NULL */
};

static inline size_t ddp__count_of(const size_t *begin, int i)
{
	return begin[i + 1] - begin[i];
}

/* begin[0..n] from counts[0..n). If the sum exceeds DDP__COUNT_MAX, begin[n]
 * does as well. */
void ddp__counts_begin(size_t *begin, const size_t *counts, int n);
uint64_t ddp__counts_digest(const size_t *begin, int n);
/* Copies v, with its arrays, to ddp__counts_size(v) bytes at `to`, where the
 * copy begins. v is complete. */
size_t ddp__counts_size(const struct ddp__counts *v);
struct ddp__counts *ddp__counts_copy(void *to, const struct ddp__counts *v);

/* Ranks a and b passed other counts: begin[0..n] each, of which the first n
 * counts are known. Returns ERR_ARGUMENT; the text names the first count that
 * differs. */
int ddp__counts_differ(const struct ddp__call *call,
		       const struct ddp__peers *peers, int a,
		       const size_t *a_begin, int b, const size_t *b_begin,
		       int n, struct err *e);
/* Rank `from` sends another number of elements than rank `to` expects. */
int ddp__counts_mismatch(const struct ddp__call *call,
			 const struct ddp__peers *peers, int from, size_t sent,
			 int to, size_t expected, struct err *e);

#endif
