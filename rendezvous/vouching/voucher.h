/* voucher.h: PyTorch's clients, who can prove nothing: which nodes of the job
 * each may come from, what the agents there say of it, and who is closed. Owns
 * the open questions; the connections are torch_port.c's. */
#ifndef RENDEZVOUS_VOUCHER_H
#define RENDEZVOUS_VOUCHER_H

#include "rendezvous/server/hosted_job.h"

enum { VOUCHER_MIN_MS = 1000 };

/* An agent's JOIN or RESUME, in two steps: all that can fail comes before the
 * job hears of it. `to` has those addresses, and the one that the agent's
 * connection comes from; ERR_PROTOCOL for what is no list of them, -ENOMEM:
 * `to` has none. */
int voucher_prepare(struct hosted_job *h, const struct peer *agent,
		    const struct wire_items *addrs, struct addr_owner *to,
		    struct err *e);
/* They are the agent's from now on, in the place of those that it had. */
void voucher_settle(struct hosted_job *h, struct peer *agent,
		    struct addr_owner *from);
/* They are nobody's: the job did not take it. */
static inline void voucher_drop(struct vouchers *v, struct addr_owner *from)
{
	addr_book_forget(&v->book, from);
}
/* It is gone, or is about to: nobody waits for its word. */
void voucher_forget(struct hosted_job *h, struct peer *agent);

/* Decides who may come to the job's torch_port. */
struct torch_gate voucher_gate(struct hosted_job *h);

/* An agent of the host that has that address, or NULL. */
struct peer *voucher_agent_at(struct hosted_job *h,
			      const struct sock_addr *from);

/* VOUCHED. */
int voucher_answer(struct peer *agent, const struct wire_frame *f,
		   struct err *e);

/* No client is left that waits, and no agent. */
void voucher_release(struct hosted_job *h);

#endif
