/* tcp_p2p_group.h: ranks that send each other messages, as forked processes
 * over loopback. */
#ifndef TESTS_TCP_P2P_GROUP_H
#define TESTS_TCP_P2P_GROUP_H

#include "tests/unit/worker-sdk/tcp/tcp_group.h"
#include "worker-sdk/tcp/tcp_p2p.h"

/* Joins as a rank of a job in which each rank is on a host of its own. */
static inline int join_p2p(struct ddp__tcp_p2p *p, const struct group *g,
			   int me)
{
	struct endpoint where[HOSTS_MAX];
	struct ddp__tcp_p2p_setup s = {.where = where,
				       .me = me,
				       .n = g->n,
				       .listener = g->listener[me],
				       .key = {1, 2, 3},
				       .round = 4,
				       .timeout_ms = g->timeout_ms,
				       .peers = &peers};
	struct err e = ERR_INIT;

	for (int i = 0; i < g->n; i++)
		where[i] = g->sites[i].where;
	/* the other ranks' listeners must close when those ranks end, so close
	 * our copies */
	for (int i = 0; i < g->n; i++) {
		struct ddp__listener other = g->listener[i];

		if (i != me)
			ddp__listen_close(&other);
	}
	return ddp__tcp_p2p_init(p, &s, &e);
}

static inline struct ddp__call call_of(enum ddp__kind kind, size_t count,
				      int peer)
{
	return (struct ddp__call){kind, DDP_I32, DDP_SUM, peer, count, 7};
}

static inline void send_to(struct ddp__tcp_msg *m, struct ddp__tcp_p2p *p,
			   const int32_t *v, size_t count, int to)
{
	struct ddp__call call = call_of(DDP__SEND, count, to);

	ddp__tcp_send(m, p, &call, v, count * 4, call.root);
}

static inline void receive_from(struct ddp__tcp_msg *m, struct ddp__tcp_p2p *p,
				int32_t *v, size_t count, int from)
{
	struct ddp__call call = call_of(DDP__RECV, count, from);

	ddp__tcp_recv(m, p, &call, v, count * 4, call.root);
}

#endif
