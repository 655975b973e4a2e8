/* stages.h: what each kind of collective does in a host and between hosts: it
 * says what to do, cpu_op.c when. */
#ifndef SDK_STAGES_H
#define SDK_STAGES_H

#include "worker-sdk/comm/cpu_op.h"

/* in and out return 1 when op->shm is prepared, or 0 when there is nothing to
 * do over shared memory: the same on all ranks of a host. between prepares
 * op->tcp; only on leaders, once `in` of that segment is done, and before `out`
 * of it. Errors are -ENOMEM. */
struct ddp__stages {
	int cuts; /* may go in segments */
	int (*start)(struct ddp__cpu_op *op, struct err *e); /* its memory */
	int (*in)(struct ddp__cpu_op *op, size_t segment, struct err *e);
	int (*between)(struct ddp__cpu_op *op, size_t segment, struct err *e);
	int (*out)(struct ddp__cpu_op *op, size_t segment, struct err *e);
	void (*end)(struct ddp__cpu_op *op);
};

/* Of a kind that is a collective. */
const struct ddp__stages *ddp__stages(enum ddp__kind kind);

static inline const struct ddp__host *ddp__my_host(const struct ddp_comm *c)
{
	return &c->topology.hosts[c->topology.host_of[c->rank]];
}

static inline int ddp__is_leading(const struct ddp_comm *c)
{
	return ddp__my_host(c)->ranks[0] == c->rank;
}

#endif
