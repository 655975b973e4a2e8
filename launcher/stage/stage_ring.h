/* stage_ring.h: the frames that a node has and the node after it may not have
 * yet. One thread adds frames at the head, one sends them from the tail. The
 * memory is mapped twice in a row, so all that lies between tail and head, and
 * the free rest, is in one piece.
 *
 * Knows nothing of locks: its owner guards head and tail. */
#ifndef LAUNCHER_STAGE_RING_H
#define LAUNCHER_STAGE_RING_H

#include <stddef.h>
#include <stdint.h>

struct stage_ring {
	char *data;    /* NULL: none */
	uint64_t head; /* both only grow; whole frames are between them */
	uint64_t tail;
};

enum { STAGE_RING_SIZE = 4 << 20 }; /* a multiple of all sizes of pages */

/* 0 or -errno. It is never released: it is used until the process ends. */
int stage_ring_init(struct stage_ring *r);

/* Where byte number `at` is: up to STAGE_RING_SIZE may follow. */
static inline char *stage_ring_at(const struct stage_ring *r, uint64_t at)
{
	return r->data + at % STAGE_RING_SIZE;
}

#endif
