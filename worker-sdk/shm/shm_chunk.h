/* shm_chunk.h: a collective in chunks, one chunk per step: while a rank works
 * on one half of its slot the others read the other half. For shm_reduce.c and
 * shm_collective.c. */
#ifndef SDK_SHM_CHUNK_H
#define SDK_SHM_CHUNK_H

#include "worker-sdk/math/copy.h"
#include "worker-sdk/shm/shm_collective.h"

enum {
	/* A result of this size does not stay in the caches, so the stores
	 * bypass them, and the CPU does not read the destination first: at 16
	 * MiB and 2 ranks 1.5 times as fast, at 4 MiB still slower. */
	DDP__STREAM_MIN = 8 << 20
};

/* Results of an operation's work. NOTHING: it is done. POST: post, and continue
 * when all ranks have posted. LAST: post, and it is done: a rank that only
 * gives need not wait for the ranks that take. The next operation waits before
 * it touches the slot. */
enum { DDP__NOTHING, DDP__POST, DDP__LAST };

static inline size_t min_size(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* Elements of a chunk: all chunks are about equal, and none exceeds `most`
 * bytes. */
static inline size_t chunk_elems(size_t count, size_t most, size_t elem)
{
	size_t line = 64 / elem, max = most / elem;
	size_t chunks = (count + max - 1) / max;
	size_t each = chunks ? (count + chunks - 1) / chunks : 1;

	return min_size(max, (each + line - 1) / line * line);
}

/* Elements of a chunk if half a slot has to hold n chunks, one for each
 * rank. */
static inline size_t share_elems(const struct ddp__shm *s, size_t count,
				 size_t elem)
{
	size_t most = DDP__SHM_IN / (size_t)s->n / 64 * 64;

	return chunk_elems(count, min_size(most, s->chunk), elem);
}

/* Blocks of different sizes share half a slot: each is cut into the same number
 * of pieces, and in each step the next piece of every block is there. Sizes are
 * in bytes, and whole elements fit any piece but the last. */
enum { SHARE_GAP = 128 };

static inline size_t align_up(size_t size)
{
	return (size + 63) / 64 * 64;
}

/* The pieces that blocks of `total` bytes are cut into. */
static inline size_t share_pieces(const struct ddp__shm *s, size_t total)
{
	size_t gaps = SHARE_GAP * ((size_t)s->n + 1);
	size_t room = min_size(DDP__SHM_IN - gaps, s->chunk);

	return total > room ? (total + room - 1) / room : 1;
}

/* Where in the slot the piece of block i is, which begins at `begin` of all
 * blocks. The gaps make room for what rounding up adds to the blocks before. */
static inline size_t share_at(size_t begin, int i, size_t pieces)
{
	return align_up(begin / pieces) + SHARE_GAP * (size_t)i;
}

/* Chunk k of an operation; no elements: one empty chunk. */
struct chunk {
	size_t at, len;
};

static inline struct chunk chunk_of(const struct ddp__shm_op *op, size_t k)
{
	size_t at = min_size(op->count, k * op->each);

	return (struct chunk){at, min_size(op->each, op->count - at)};
}

static inline int is_chunk(const struct ddp__shm_op *op, size_t k)
{
	return k == 0 || k * op->each < op->count;
}

/* Piece k of a block. */
static inline struct chunk share_piece(size_t size, size_t pieces, size_t k)
{
	size_t each = align_up((size + pieces - 1) / pieces);
	size_t at = min_size(size, k * each);

	return (struct chunk){at, min_size(each, size - at)};
}

/* Writes a part of this rank's result. */
static inline void chunk_give(const struct ddp__shm_op *op, char *to,
			      const char *from, size_t size)
{
	if (op->stream)
		ddp__copy_stream(to, from, size);
	else
		ddp__copy_plain(to, from, size);
}

/* Writes into this rank's slot. */
static inline void chunk_put(const struct ddp__shm_op *op, char *to,
			     const char *from, size_t size)
{
	ddp__put(&op->s->put, to, from, size);
}

/* In shm_collective_v.c: with the first step a rank posts op->counts, and
 * compares them with those of the others. */
void ddp__shm_put_counts(const struct ddp__shm_op *op);
int ddp__shm_check_counts(const struct ddp__shm_op *op, struct err *e);

#endif
