/* node_relay.h: passes a list on among the agents of a round, so that it leaves
 * the server only once (docs/protocol.txt, SHARE; protocol-records.txt). A
 * relay belongs to one exchange: it listens, and gives the list to the nodes
 * that the server sends to it. A fetch gets the list from such a node. Neither
 * knows what is in the list. Libddp's ranks do the same, without a loop
 * (gather_relay.h).
 *
 * The list travels encrypted, and only to a node that proves that it has the
 * relay's token, which the server gave to it. */
#ifndef LAUNCHER_NODE_RELAY_H
#define LAUNCHER_NODE_RELAY_H

#include "base/loop.h"
#include "base/sock.h"
#include "rendezvous/auth/cipher.h"
#include "rendezvous/wire.h"

/* ---- to other nodes ---- */

enum {
	NODE_RELAY_STRANGERS = 16, /* connections beside the nodes' */
	NODE_RELAY_MS = 5000,	   /* without progress: it ends */
};

struct node_relay;
struct node_relay_peer;

struct node_relay {
	void *owner;
	struct node_relay *next; /* the owner's */
	void (*on_closed)(struct node_relay *r); /* it may be freed */
	uv_loop_t *loop;
	uv_tcp_t listener;
	uv_timer_t timer;
	char addr[SOCK_TEXT_MAX];
	uint16_t port;
	char token[WIRE_TOKEN_SIZE];
	struct node_relay_peer *peers; /* newest first */
	uint32_t npeers, peers_max;
	struct buf sealed; /* the salt and the records */
	int has_list, is_closing;
	uint32_t left;	       /* nodes that have not got it */
	uint32_t open_handles;
};

/* Listens at addr, by which other nodes reach this one; behind NAT, at every
 * address. nnodes: the most that connect, besides strangers. Set owner and
 * on_closed before. After an error r needs no close. */
int node_relay_start(struct node_relay *r, uv_loop_t *loop, const char *addr,
		     uint32_t nnodes, struct err *e);
/* Puts the address and the token into m, which then points into r. */
void node_relay_offer(const struct node_relay *r, struct wire_share *m);
/* Gives the list to this many nodes; then, or after NODE_RELAY_MS without
 * progress, closes itself. Copies the list. */
void node_relay_pass_on(struct node_relay *r, struct slice list,
			uint32_t comers);
/* on_closed follows, once, from the loop. */
void node_relay_close(struct node_relay *r);

/* ---- from another node ---- */

/* For each hand that the list goes through on its way, without progress. */
enum { NODE_FETCH_MS = 3000 };

struct node_fetch {
	void *owner;
	/* The list, valid until return; data NULL: it did not arrive, or has
	 * not the hash that the server announced. */
	void (*on_list)(struct node_fetch *f, struct slice list);
	void (*on_closed)(struct node_fetch *f); /* it may be freed */
	uv_tcp_t tcp;
	uv_connect_t connect;
	uv_write_t write;
	uv_timer_t timer;
	unsigned char hello[CIPHER_RELAY_HELLO];
	char token[WIRE_TOKEN_SIZE], hash[WIRE_HASH_SIZE];
	size_t bytes;
	uint64_t patience_ms;
	struct cipher_way way;
	int has_salt, is_over, is_closing;
	struct buf raw, list;
	uint32_t open_handles;
};

/* Connects to the node that the server's reply names; own is this node's
 * address, on the same network. Set owner and the calls back before. on_list
 * follows, from the loop, unless it is closed before. */
void node_fetch_start(struct node_fetch *f, uv_loop_t *loop,
		      const struct wire_shared *from, const char *own);
/* on_closed follows, once, from the loop. */
void node_fetch_close(struct node_fetch *f);

#endif
