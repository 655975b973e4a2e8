/* hierarchical.h: what each kind of collective does in a host and between
 * hosts: hierarchical.c says what to do, cpu_op.c when. */
#ifndef SDK_HIERARCHICAL_H
#define SDK_HIERARCHICAL_H

#include "worker-sdk/comm/cpu_op.h"

/* in and out prepare op->local and return 1, or 0 where there is nothing to do
 * within the host, which all of its ranks find alike. between prepares
 * op->remote; it is called on leaders, after a segment's `in` and before its
 * `out`. Errors are -ENOMEM. */
struct ddp__stages {
	int cuts; /* may go in segments */
	int (*start)(struct ddp__cpu_op *op, struct err *e); /* allocates */
	int (*in)(struct ddp__cpu_op *op, size_t segment, struct err *e);
	int (*between)(struct ddp__cpu_op *op, size_t segment, struct err *e);
	int (*out)(struct ddp__cpu_op *op, size_t segment, struct err *e);
	void (*end)(struct ddp__cpu_op *op);
};

/* kind is a collective. */
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
