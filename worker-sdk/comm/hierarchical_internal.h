/* hierarchical_internal.h: shared by the stages of collectives with one count
 * (hierarchical.c) and with a count for each rank (hierarchical_v.c,
 * hierarchical_all_to_all_v.c). */
#ifndef SDK_HIERARCHICAL_INTERNAL_H
#define SDK_HIERARCHICAL_INTERNAL_H

#include <stdlib.h>

#include "worker-sdk/comm/cpu.h"
#include "worker-sdk/comm/cpu_op.h"
#include "worker-sdk/core/call.h"
#include "worker-sdk/math/copy.h"
#include "worker-sdk/math/reduce.h"

static inline const struct ddp__path *local_of(const struct ddp__cpu_op *op)
{
	return &((struct ddp__cpu *)op->c->state)->local;
}

static inline const struct ddp__path *remote_of(const struct ddp__cpu_op *op)
{
	return &((struct ddp__cpu *)op->c->state)->remote;
}

static inline const struct ddp__topology *
topology_of(const struct ddp__cpu_op *op)
{
	return &op->c->topology;
}

/* ---- this rank's place */

static inline int is_leading(const struct ddp__cpu_op *op)
{
	return ddp__is_leading(op->c);
}

/* 1 if this rank's host has other ranks. */
static inline int is_shared(const struct ddp__cpu_op *op)
{
	return ddp__my_host(op->c)->n > 1;
}

static inline size_t here_of(const struct ddp__cpu_op *op)
{
	return (size_t)ddp__my_host(op->c)->n;
}

/* ---- sizes and memory */

static inline size_t stage_bytes(const struct ddp__cpu_op *op, size_t elements)
{
	return elements * ddp_type_size(op->call->type);
}

static inline int stage_allocate(char **p, size_t size, struct err *e)
{
	*p = malloc(size ? size : 1);
	return *p ? 0 : err_no_memory(e, "%zu bytes", size);
}

static inline void stage_copy(void *to, const void *from, size_t size)
{
	if (!size || to == from)
		return;
	if (!to || !from) /* a rank that is alone on its host has both */
		__builtin_trap();
	ddp__move(to, from, size);
}

/* The divisor to apply to this host's sum before it leaves the host. */
static inline int divisor_here(const struct ddp__cpu_op *op)
{
	return ddp__is_scaled(op->call->type, op->call->op)
		       ? ddp__scale_of(ddp__my_host(op->c)->n)
		       : 1;
}

/* ---- the local transport, towards and from the leader, which is index 0 */

/* These return 1, or 0 if this rank is alone on its host and so is done. */

/* Reduces count elements of every rank's send into the leader's recv. */
static inline int local_reduce(struct ddp__cpu_op *op, const void *send,
			       void *recv, size_t count)
{
	const struct ddp__path *p = local_of(op);

	if (!is_shared(op)) {
		stage_copy(recv, send, stage_bytes(op, count));
		return 0;
	}
	p->transport->native.reduce(&op->local, p->collectives, op->call, send,
				    recv, count, 0, divisor_here(op));
	return 1;
}

/* Broadcasts root's size bytes; each rank takes size_out of them. */
static inline int local_broadcast(struct ddp__cpu_op *op, int root,
				  const void *from, size_t size, void *to,
				  size_t size_out)
{
	const struct ddp__path *p = local_of(op);

	if (!is_shared(op))
		return 0;
	p->transport->native.broadcast(&op->local, p->collectives, op->call,
				       root, from, size, to, 0, size_out);
	return 1;
}

/* Copies size bytes from the leader's `from` to every rank's `to`. */
static inline int stage_pass_on(struct ddp__cpu_op *op, const char *from,
				char *to, size_t size)
{
	return local_broadcast(op, 0, from, size, to,
			       is_leading(op) ? 0 : size);
}

/* ---- calls with a count for each rank: hierarchical_v.c. Their segment 0, the
 * counts, has no stage `out`. */

/* Arrays of hosts' ranges have a number more than there are hosts. */
struct ddp__cpu_counts {
	size_t *owned[8]; /* all that follow */
	int n, has_failed;
	size_t *deal; /* offsets of blocks to and from ranks of this host */
	/* the leader's, where all ranks pass the same counts: */
	size_t *digests; /* each host's */
	size_t *numbers; /* each leader's; NULL: they need not be compared */
	size_t *digest_ranges, *number_ranges, *data_ranges;
	/* all_to_all's: both offsets of each rank of this host, */
	size_t *rows;
	/* and the leader's, [to rank in host order][my rank], [from host][to
	 * my rank][its rank], and the ranges of both: */
	size_t *counts_out, *counts_in, *count_ranges;
	size_t *from, *to; /* ranges of the data, in bytes */
};

static inline const struct ddp__counts *counts_of(const struct ddp__cpu_op *op)
{
	return op->call->counts;
}

/* Bytes of an element; 0 if no data moves. */
static inline size_t elem_of(const struct ddp__cpu_op *op)
{
	return counts_of(op)->compare_only ? 0 : ddp_type_size(op->call->type);
}

static inline int my_index(const struct ddp__cpu_op *op)
{
	return topology_of(op)->index_of[op->c->rank];
}

/* n zeros, which end with the operation; NULL: no memory, as ddp__numbers_check
 * reports. */
size_t *ddp__numbers_new(struct ddp__cpu_op *op, size_t n);
int ddp__numbers_check(const struct ddp__cpu_op *op, struct err *e);
/* A range for each host, `each` apart. */
size_t *ddp__ranges_new(struct ddp__cpu_op *op, size_t each);
int ddp__counts_start(struct ddp__cpu_op *op, struct err *e);
void ddp__counts_release(struct ddp__cpu_op *op);
/* Sends each rank i of this host its block, size_of(op, i) elements, from the
 * leader, where the blocks lie one after the other. As local_reduce. */
int ddp__deal_blocks(struct ddp__cpu_op *op, const char *blocks,
		     size_t (*size_of)(const struct ddp__cpu_op *op, int i));

extern const struct ddp__stages ddp__stages_all_gather_v,
	ddp__stages_reduce_scatter_v, ddp__stages_all_to_all_v;

#endif
