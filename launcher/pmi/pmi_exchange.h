/* pmi_exchange.h: exchanges values among the agents of a round, as a client of
 * the round's store. In the exchange N, each sets the key "MPI/N/node RANK",
 * enters the barrier "MPI/N (of nodes)", whose size is the number of nodes, and
 * gets the keys of all. One exchange at a time. A server that is lost is called
 * again, as the agent does (docs/protocol.txt, 4.7). Knows nothing of PMI's
 * lines. */
#ifndef LAUNCHER_PMI_EXCHANGE_H
#define LAUNCHER_PMI_EXCHANGE_H

#include "base/loop.h"
#include "rendezvous/client/async_client.h"

struct pmi_exchange;

struct pmi_exchange_events {
	/* A value of each node, in order; valid until return. */
	void (*on_done)(struct pmi_exchange *x, const struct slice *values);
	/* It cannot be: the server refused. Not if the round is over. */
	void (*on_failed)(struct pmi_exchange *x, const struct err *why);
	void (*on_closed)(struct pmi_exchange *x);
	/* Where the server is now. */
	const struct sock_addr *(*find_server)(struct pmi_exchange *x);
};

struct pmi_exchange_round {
	const char *job, *host;
	const struct auth *auth;
	uint32_t round, rank; /* a rank of this node */
	uint32_t node_rank, nnodes;
};

enum pmi_exchange_step { EXCHANGE_IDLE, EXCHANGE_SET, EXCHANGE_MEET,
			 EXCHANGE_GET };

struct pmi_exchange {
	void *owner;
	const struct pmi_exchange_events *events;
	struct pmi_exchange_round round; /* its pointers outlive x */
	uv_loop_t *loop;
	uint64_t session;
	enum pmi_exchange_step step;
	uint32_t number, id;
	struct buf mine;
	struct async_client link;
	uv_timer_t retry;
	int link_open, is_greeted, is_closing, is_retry_open;
	int is_over; /* the server lets no rank of this round in */
};

/* Starts to connect. After an error x needs no close. */
int pmi_exchange_start(struct pmi_exchange *x, uv_loop_t *loop,
		       const struct pmi_exchange_round *round,
		       const struct pmi_exchange_events *events,
		       struct err *e);
/* Every agent calls it, in the same order; on_done follows. */
void pmi_exchange_begin(struct pmi_exchange *x, struct slice mine);
/* on_closed follows, from the loop; then x may be freed. */
void pmi_exchange_close(struct pmi_exchange *x);

#endif
