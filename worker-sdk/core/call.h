/* call.h: one collective call in a word, so that ranks can compare what they
 * were asked to do, and in words, for errors. Pure. */
#ifndef SDK_CALL_H
#define SDK_CALL_H

#include <stddef.h>
#include <stdint.h>

#include "base/flight_recorder.h"
#include "worker-sdk/ddp.h"

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
	DDP__KINDS
};

struct ddp__call {
	enum ddp__kind kind;
	enum ddp_type type;
	enum ddp_op op;
	int root;
	size_t count;
	/* of the collectives on this communicator, or of the messages between
	 * the two in that direction; from 1 */
	uint64_t number;
	const char *group; /* its name, which outlives the call; NULL: world */
	uint64_t ticket;   /* the flight recorder's */
};

enum { DDP__CALL_TEXT = 144 };
#define DDP__COUNT_MAX (((size_t)1 << 36) - 1)

/* Bytes of its elements, of a type and a count that are legal. */
static inline size_t ddp__call_bytes(const struct ddp__call *c)
{
	static const unsigned char size[DDP_TYPES] = {
		[DDP_F32] = 4, [DDP_F64] = 8,  [DDP_I32] = 4, [DDP_I64] = 8,
		[DDP_F16] = 2, [DDP_BF16] = 2, [DDP_I8] = 1,  [DDP_U8] = 1,
	};

	return c->count * size[c->type];
}

/* Between two ranks; root is the other. */
static inline int ddp__is_message(const struct ddp__call *c)
{
	return c->kind == DDP__SEND || c->kind == DDP__RECV;
}

/* Ranks meet in it, by several rounds of one number. */
static inline int ddp__is_meeting(const struct ddp__call *c)
{
	return c->kind == DDP__INIT || c->kind == DDP__SPLIT ||
	       c->kind == DDP__REDUCER;
}

/* All but number and group, as the flight recorder packs them; equal words are
 * equal calls. */
static inline uint64_t ddp__call_pack(const struct ddp__call *c)
{
	const struct flight_call f = {.kind = c->kind, .type = c->type,
				      .op = c->op, .root = c->root,
				      .count = c->count};

	return flight_pack(&f);
}
void ddp__call_unpack(struct ddp__call *c, uint64_t word, uint64_t number);

/* Whether a packed call is of the type and, as far as it tells, the count of
 * c. */
static inline int ddp__is_same_data(uint64_t word, const struct ddp__call *c)
{
	return !((word ^ ddp__call_pack(c)) &
		 ((uint64_t)7 << 56 | FLIGHT_COUNT_MOST));
}

/* What ranks compare of a call: its word, its count where the word cannot hold
 * it, its whole number, and `before`, a digest of the calls that nobody waited
 * for. Two that are equal are the same call after the same calls. */
static inline uint64_t ddp__call_mark(const struct ddp__call *c, uint64_t word,
				      uint64_t before)
{
	uint64_t more = (uint64_t)c->count >> FLIGHT_COUNT_BITS;

	return word ^ (c->number * 0x9e3779b97f4a7c15u) ^ before ^ more << 8;
}

/* The digest of those before and one more. */
static inline uint64_t ddp__digest(uint64_t before, uint64_t word)
{
	return ((before ^ word) * 0xbf58476d1ce4e5b9u) ^ before >> 29;
}

/* "all_reduce #12 (f32 x 39760, sum)", with " of group 1.0" where it has one,
 * into out[DDP__CALL_TEXT]; returns out. */
char *ddp__call_text(const struct ddp__call *c, char *out);

#endif
