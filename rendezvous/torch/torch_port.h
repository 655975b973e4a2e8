/* torch_port.h: where PyTorch's clients find a round's store: a port of the
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

/* Who decides whether a client may come in, and hears what it changes. */
struct torch_gate {
	void *owner;
	/* One has come, from there, to here. Nothing of it is read: it is to
	 * be admitted, refused or held before this returns. NULL: all may. */
	void (*on_come)(void *owner, struct torch_client *k,
			const struct sock_addr *from,
			const struct sock_addr *to);
	/* The time of one that is held is over: refuse it, or admit it. */
	void (*on_late)(void *ticket);
	/* One that was held has gone with its port. */
	void (*on_gone)(void *ticket);
	/* The round's store is another by this; NULL: nobody asks. */
	void (*on_change)(void *owner, enum torch_generation g,
			  struct slice request);
	/* One begins to wait; one gives that up. NULL as above. */
	void (*on_wait)(void *owner);
	void (*on_gave_up)(void *owner, const struct torch_wait *w);
};

enum { TORCH_ADDRS_MAX = 8 };
/* Listens at those addresses (at most that many), at one port, for clients of
 * so many ranks: at *port, or, where that is 0, at a free one, which goes
 * there. Nobody is taken before torch_port_begin: they wait. -errno with text.
 */
int torch_port_open(struct torch_port **out, struct conn_pool *pool,
		    struct store *store, const struct sock_addr *at, int n,
		    uint32_t ranks, const struct torch_gate *gate,
		    uint16_t *port, struct err *e);

/* Who has come, and who comes, is taken. Once more is nothing. */
int torch_port_begin(struct torch_port *p, struct err *e);

/* 1 and the next client that waits, of a round that runs; 0 at the end. *at
 * NULL begins; p NULL has none. */
int torch_port_next_wait(const struct torch_port *p, struct torch_client **at,
			 struct torch_wait *w);

/* Where it came to. -errno for one that has been reset. */
int torch_client_to(const struct torch_client *k, struct sock_addr *to);
/* What it has sent, and sends, is done. */
void torch_client_admit(struct torch_client *k);
/* Closes it, without a word. */
void torch_client_refuse(struct torch_client *k);
/* It waits for one of these, for so long at most. */
void torch_client_hold(struct torch_client *k, void *ticket, uint64_t ms);

/* The round is over, and its workers are about to be stopped: nobody new, but
 * who is there goes on undisturbed, for a PyTorch that loses its store says so
 * at length. Takes the store, and frees it with the last of them. */
void torch_port_end(struct torch_port *p);

/* Closes all, of one that has ended. NULL is fine. */
void torch_port_close(struct torch_port *p);

#endif
