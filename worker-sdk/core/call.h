/* call.h: a collective call as one word, which ranks compare, and as text, for
 * errors; and the counts of a call that has one for each rank. Pure. */
#ifndef SDK_CALL_H
#define SDK_CALL_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/flight_recorder.h"
#include "worker-sdk/core/call.h"
#include "worker-sdk/core/peers.h"
#include "worker-sdk/ddp.h"

struct ddp__counts;

enum ddp__kind {
	DDP__INIT,
	DDP__ALL_REDUCE,
	DDP__BROADCAST,
	DDP__ALL_GATHER,
	DDP__REDUCE_SCATTER,
	DDP__BARRIER,
	DDP__REDUCE,
	DDP__GATHER,
	DDP__SCATTER,
	DDP__ALL_TO_ALL,
	DDP__SEND, /* root is the peer */
	DDP__RECV,
	DDP__SPLIT,
	DDP__REDUCER, /* ddp_reducer_new */
	DDP__SHOULD_STOP,
	DDP__ONCE,
	DDP__BATCH_NORM,
	DDP__PROGRESS, /* ddp_progress_start */
	DDP__ALL_GATHER_V, /* from here on: with counts, and count is 0 */
	DDP__REDUCE_SCATTER_V,
	DDP__ALL_TO_ALL_V,
	DDP__CHECK_REPLICAS, /* without counts again */
	DDP__WAIT_EVENT, /* concerns this rank's earlier collectives */
	DDP__KINDS
};

struct ddp__call {
	enum ddp__kind kind;
	enum ddp_type type;
	enum ddp_op op;
	int root;
	size_t count;
	/* number of this collective on the communicator, or of this message
	 * between the two ranks in this direction; from 1 */
	uint64_t number;
	const char *group; /* the group's name, borrowed; NULL: the world */
	uint64_t ticket;   /* in the flight recorder */
	/* A count for each rank, borrowed; NULL: the call has only `count`.
	 * They may differ by rank, so the word that ranks compare lacks them:
	 * the operation compares them (below). */
	const struct ddp__counts *counts;
};

enum { DDP__CALL_TEXT = 144 };
#define DDP__COUNT_MAX (((size_t)1 << 36) - 1)

/* Bytes of the call's elements; type and count must be valid. */
static inline size_t ddp__call_bytes(const struct ddp__call *c)
{
	static const unsigned char size[DDP_TYPES] = {
		[DDP_F32] = 4, [DDP_F64] = 8,  [DDP_I32] = 4, [DDP_I64] = 8,
		[DDP_F16] = 2, [DDP_BF16] = 2, [DDP_I8] = 1,  [DDP_U8] = 1,
	};

	return c->count * size[c->type];
}

/* 1 for a message between two ranks; root is the peer. */
static inline int ddp__is_message(const struct ddp__call *c)
{
	return c->kind == DDP__SEND || c->kind == DDP__RECV;
}

/* 1 if in this call ranks exchange values in several rounds with one number. */
static inline int ddp__is_meeting(const struct ddp__call *c)
{
	return c->kind == DDP__INIT || c->kind == DDP__SPLIT ||
	       c->kind == DDP__REDUCER;
}

/* Packs all but number and group, as the flight recorder does; equal words are
 * equal calls. */
static inline uint64_t ddp__call_pack(const struct ddp__call *c)
{
	const struct flight_call f = {.kind = c->kind, .type = c->type,
				      .op = c->op, .root = c->root,
				      .count = c->count};

	return flight_pack(&f);
}
void ddp__call_unpack(struct ddp__call *c, uint64_t word, uint64_t number);

/* 1 if a packed call has c's type and, as far as the word holds it, c's
 * count. */
static inline int ddp__is_same_data(uint64_t word, const struct ddp__call *c)
{
	return !((word ^ ddp__call_pack(c)) &
		 ((uint64_t)7 << 56 | FLIGHT_COUNT_MOST));
}

/* The word that ranks compare: the packed call, the part of its count that does
 * not fit, its number, and `before`, a digest of the asynchronous calls before
 * it. Equal marks mean the same call after the same calls. */
static inline uint64_t ddp__call_mark(const struct ddp__call *c, uint64_t word,
				      uint64_t before)
{
	uint64_t more = (uint64_t)c->count >> FLIGHT_COUNT_BITS;

	return word ^ (c->number * 0x9e3779b97f4a7c15u) ^ before ^ more << 8;
}

/* Extends a digest by one word. */
static inline uint64_t ddp__digest(uint64_t before, uint64_t word)
{
	return ((before ^ word) * 0xbf58476d1ce4e5b9u) ^ before >> 29;
}

/* Writes "all_reduce #12 (f32 x 39760, sum)", with " of group 1.0" for a group,
 * to out[DDP__CALL_TEXT]; returns out. */
char *ddp__call_text(const struct ddp__call *c, char *out);

/* ---- a count for each rank ----
 *
 * The counts of a collective that has one for each rank, as the places where
 * the ranks' blocks begin; and the errors of ranks whose counts do not match.
 * Ranks do not compare them with the call: the operation does. */

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

/* Ranks a and b passed different counts. The first n counts are known, as
 * begin[0..n]: rank i's elements begin at begin[i]. Returns ERR_ARGUMENT; the
 * text names the first count that differs. */
int ddp__counts_differ(const struct ddp__call *call,
		       const struct ddp__peers *peers, int a,
		       const size_t *a_begin, int b, const size_t *b_begin,
		       int n, struct err *e);
/* Rank `from` sends another number of elements than rank `to` expects. */
int ddp__counts_mismatch(const struct ddp__call *call,
			 const struct ddp__peers *peers, int from, size_t sent,
			 int to, size_t expected, struct err *e);

#endif
