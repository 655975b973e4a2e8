/* torch_port.h: where PyTorch's clients find a round's store: a port of the
 * round's own, so that each attempt of a job sees an empty store, as PyTorch
 * expects (pytorch/pytorch, PR #135957). Owns its connections. */
#ifndef RENDEZVOUS_TORCH_PORT_H
#define RENDEZVOUS_TORCH_PORT_H

#include "base/sock.h"
#include "rendezvous/conn.h"
#include "rendezvous/store.h"

struct torch_port;

/* Listens at that address, port 0 being any, for clients of so many ranks; the
 * port goes to *port. -errno with text. */
int torch_port_open(struct torch_port **out, struct conn_pool *pool,
		    struct store *store, const struct sock_addr *at,
		    uint32_t ranks, uint16_t *port, struct err *e);

/* The round is over, and its workers are about to be stopped: nobody new, but
 * who is there goes on undisturbed, for a PyTorch that loses its store says so
 * at length. Takes the store, and frees it with the last of them. */
void torch_port_end(struct torch_port *p);

/* Closes all, of one that has ended. NULL is fine. */
void torch_port_close(struct torch_port *p);

#endif
