/* torch_port.h: serves a round's store to PyTorch's clients, at a port of the
 * round's own, so that each attempt of a job sees an empty store, as PyTorch
 * expects (pytorch/pytorch, PR #135957). Owns its connections. */
#ifndef RENDEZVOUS_TORCH_PORT_H
#define RENDEZVOUS_TORCH_PORT_H

#include "base/sock.h"
#include "rendezvous/net/conn.h"
#include "rendezvous/store/store.h"
#include "rendezvous/torch/torch_wire.h"

struct torch_port;
struct torch_client;

/* A client that waits. */
struct torch_wait {
	const struct torch_client *client;
	const struct sock_addr *from;
	uint64_t since; /* loop time */
	const struct store_waiter *waiter;
};

/* Decides on the admission of clients and observes their changes. */
struct torch_gate {
	void *owner;
	/* A client connected, from `from` to `to`. None of its bytes is read
	 * yet: admit, refuse or hold it before this returns. NULL: admits
	 * all. */
	void (*on_come)(void *owner, struct torch_client *k,
			const struct sock_addr *from,
			const struct sock_addr *to);
	/* A held client's time is over: refuse or admit it. */
	void (*on_late)(void *ticket);
	/* A held client is gone because its port was closed. */
	void (*on_gone)(void *ticket);
	/* The request changed the round's store. May be NULL. */
	void (*on_change)(void *owner, enum torch_generation g,
			  struct slice request);
	/* A client begins to wait, or gives up waiting. May be NULL. */
	void (*on_wait)(void *owner);
	void (*on_gave_up)(void *owner, const struct torch_wait *w);
};

enum { TORCH_ADDRS_MAX = 8 };
/* Listens at n addresses (at most TORCH_ADDRS_MAX; 0: clients come only from
 * torch_port_take) on one port for the clients of `ranks` ranks. *port 0
 * chooses a free port and sets it. Clients wait until torch_port_begin. -errno
 * with text. */
int torch_port_open(struct torch_port **out, struct conn_pool *pool,
		    struct store *store, const struct sock_addr *at, int n,
		    uint32_t ranks, const struct torch_gate *gate,
		    uint16_t *port, struct err *e);

/* Takes the clients that wait, and later ones. Idempotent. */
int torch_port_begin(struct torch_port *p, struct err *e);

/* Takes a client that connected elsewhere; its bytes are unread. -EBUSY: the
 * port is full, or has ended; or -ENOMEM. fd then remains the caller's. */
int torch_port_take(struct torch_port *p, int fd);

/* 1 and the next waiting client of a running round, or 0 at the end. *at NULL
 * begins; p NULL has none. */
int torch_port_next_wait(const struct torch_port *p, struct torch_client **at,
			 struct torch_wait *w);

/* The address that it connected to. -errno after a reset. */
int torch_client_to(const struct torch_client *k, struct sock_addr *to);
/* Executes what it has sent and will send. */
void torch_client_admit(struct torch_client *k);
/* Closes it without a reply. */
void torch_client_refuse(struct torch_client *k);
/* Holds it with this ticket, for at most ms. */
void torch_client_hold(struct torch_client *k, void *ticket, uint64_t ms);

/* The round is over and its workers are about to be stopped: takes no new
 * clients. Connected ones continue, because PyTorch prints long errors when it
 * loses its store. Takes the store, and frees it with the last client. */
void torch_port_end(struct torch_port *p);

/* Closes the port, which has ended, and all its connections. NULL is fine. */
void torch_port_close(struct torch_port *p);

#endif
