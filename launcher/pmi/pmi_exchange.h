/* pmi_exchange.h: exchanges values among the agents of a round, as a client of
 * the round's store. In the exchange N, each calls SHARE with the key "NAME/N
 * (of nodes)", and gets the list of all values. If the list is large, nodes
 * pass it on to each other (node_relay.h). A value that is too large for the
 * list is set in pieces instead, "NAME/N/node RANK/0" and so on: the last one
 * is shorter than the others, or empty. One exchange at a time. Knows nothing
 * of PMI's lines. */
#ifndef LAUNCHER_PMI_EXCHANGE_H
#define LAUNCHER_PMI_EXCHANGE_H

#include "launcher/pmi/node_relay.h"
#include "launcher/pmi/round_client.h"

enum {
	PMI_EXCHANGE_PIECE = 4 << 20,
	PMI_EXCHANGE_VALUE_MAX = 64 << 20, /* for each node */
	/* the bytes of all values in the list */
	PMI_EXCHANGE_REPLY_MAX = WIRE_BODY_MAX / 2,
	/* Nodes pass on a list from this size on, as each guesses it from its
	 * own value. */
	PMI_EXCHANGE_PASSED_ON = 64 << 10,
};

struct pmi_exchange;

struct pmi_exchange_events {
	/* A value of each node, in order; valid until return. */
	void (*on_done)(struct pmi_exchange *x, const struct slice *values);
	/* The server refused. Not called once the round is over. */
	void (*on_failed)(struct pmi_exchange *x, const struct err *why);
	void (*on_closed)(struct pmi_exchange *x);
};

struct pmi_exchange_round {
	const char *name; /* names its keys: "MPI", or another purpose */
	struct round_client_self self;
	uint32_t node_rank, nnodes;
	const char *addr; /* where other nodes reach this one; NULL: nowhere */
};

enum pmi_exchange_step {
	EXCHANGE_IDLE,
	EXCHANGE_SET_PIECE,
	EXCHANGE_SHARE,
	EXCHANGE_FETCH, /* the list, from another node */
	EXCHANGE_LIST,	/* from the server, because that node failed */
	EXCHANGE_GET_PIECE,
};

/* The value of a node, if one came in pieces. */
struct pmi_exchange_part {
	struct buf bytes;
	int is_here;
};

struct pmi_exchange {
	void *owner;
	const struct pmi_exchange_events *events;
	struct pmi_exchange_round round;
	enum pmi_exchange_step step;
	uint32_t number;
	struct buf mine; /* what is shared: a u8, 1: in pieces; the value */
	struct pmi_exchange_part *parts; /* nnodes; NULL: there are no pieces */
	uint32_t node, piece; /* that is set or got */
	struct round_client client;
	struct node_relay *relays; /* the first: this exchange's, if offers */
	struct node_fetch *fetch;
	int offers;
	uint32_t comers;     /* nodes that this exchange's relay serves */
	uint32_t open_parts; /* the client, relays and fetches */
};

/* Starts to connect. The pointers in round outlive x. After an error x needs no
 * close. */
int pmi_exchange_start(struct pmi_exchange *x, uv_loop_t *loop,
		       const struct pmi_exchange_round *round,
		       const struct pmi_exchange_events *events,
		       struct err *e);
/* Every agent calls it, in the same order; on_done follows. mine has at most
 * PMI_EXCHANGE_VALUE_MAX bytes. */
void pmi_exchange_begin(struct pmi_exchange *x, struct slice mine);
/* on_closed follows, from the loop; then x may be freed. */
void pmi_exchange_close(struct pmi_exchange *x);

#endif
