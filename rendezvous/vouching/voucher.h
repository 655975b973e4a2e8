/* voucher.h: admits PyTorch's clients, which cannot authenticate, by asking the
 * agents of their source host whether the socket belongs to the job's user.
 * Owns the open questions; torch_port.c owns the connections. */
#ifndef RENDEZVOUS_VOUCHER_H
#define RENDEZVOUS_VOUCHER_H

#include "rendezvous/server/hosted_job.h"

enum { VOUCHER_MIN_MS = 1000 };

/* The addresses in an agent's JOIN or RESUME, in two steps: everything that can
 * fail happens before the job's event. Enters them, and the source address of
 * the agent's connection, for `to`. ERR_PROTOCOL if the list is invalid, or
 * -ENOMEM; then `to` has none. */
int voucher_prepare(struct hosted_job *h, const struct peer *agent,
		    const struct wire_items *addrs, struct addr_owner *to,
		    struct err *e);
/* Gives them to the agent, in place of its former ones. */
void voucher_settle(struct hosted_job *h, struct peer *agent,
		    struct addr_owner *from);
/* The job refused the agent: removes them. */
static inline void voucher_drop(struct vouchers *v, struct addr_owner *from)
{
	addr_book_forget(&v->book, from);
}
/* The agent is gone or about to be: its answers are not waited for. */
void voucher_forget(struct hosted_job *h, struct peer *agent);

/* The callbacks with which torch_port asks for admission. */
struct torch_gate voucher_gate(struct hosted_job *h);

/* An agent on the host with that address, or NULL. */
struct peer *voucher_agent_at(struct hosted_job *h,
			      const struct sock_addr *from);

/* VOUCHED. */
int voucher_answer(struct peer *agent, const struct wire_frame *f,
		   struct err *e);

/* No client waits any more, and no agent is left. */
void voucher_release(struct hosted_job *h);

/* ---- torch_home.c ----
 *
 * The addresses and the port of a round's store for PyTorch's clients, and
 * opening it there again after a restart. */

struct hosted_job;

/* Opens the port for the round that begins, if its first node's host runs the
 * server. Else, or if that fails (which is logged), rank 0 has to be the store,
 * and torch_port is 0. */
void torch_home_open(struct hosted_job *h);

/* Opens the same port at the same addresses for a round from a journal; a
 * failure is logged. Clients that connect wait until torch_home_begin, because
 * the agents that vouch for them are not back yet. */
void torch_home_open_again(struct hosted_job *h);
void torch_home_begin(struct hosted_job *h);

#endif
