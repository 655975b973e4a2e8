/* hierarchical.h: the stages of each kind of collective, in a host and between
 * hosts: hierarchical.c and hierarchical_v.c define the stages, cpu_op.c their
 * order in time. */
#ifndef SDK_HIERARCHICAL_H
#define SDK_HIERARCHICAL_H

#include "worker-sdk/comm/cpu_op.h"

/* in and out prepare op->local and return 1, or 0 if there is nothing to do
 * within the host; all its ranks return the same. between prepares op->remote;
 * it is called on leaders, after a segment's `in` and before its `out`. Errors
 * are -ENOMEM. */
struct ddp__stages {
	int cuts; /* may be cut into segments */
	int (*start)(struct ddp__cpu_op *op, struct err *e); /* allocates */
	int (*in)(struct ddp__cpu_op *op, size_t segment, struct err *e);
	int (*between)(struct ddp__cpu_op *op, size_t segment, struct err *e);
	int (*out)(struct ddp__cpu_op *op, size_t segment, struct err *e);
	void (*end)(struct ddp__cpu_op *op);
	int counts; /* has two segments: the first compares counts */
	void (*release)(struct ddp__cpu_op *op); /* frees op->counts */
};

/* kind must be a collective. */
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
