/* voucher.h: PyTorch's clients, who can prove nothing: which nodes of the job
 * each may come from, what the agents there say of it, and who is closed. Owns
 * the open questions; the connections are torch_port.c's. */
#ifndef RENDEZVOUS_VOUCHER_H
#define RENDEZVOUS_VOUCHER_H

#include "rendezvous/torch/addr_book.h"
#include "rendezvous/torch/torch_port.h"
#include "rendezvous/wire.h"

struct hosted;
struct member;

enum { VOUCHER_NAMED_MAX = 64, VOUCHER_MIN_MS = 1000 };

/* Of one job; all zeroes to begin with. */
struct vouchers {
	struct addr_book book;
	struct table open;     /* struct voucher, by number */
	uint32_t last;         /* number */
	/* the server's addresses by which agents have come, so workers can */
	struct sock_addr ways[TORCH_ADDRS_MAX];
	int nways;
	struct sock_addr named[VOUCHER_NAMED_MAX]; /* in the log, once each */
	uint32_t nnamed;
};

/* An agent's JOIN or RESUME, in two steps: all that can fail comes before the
 * job hears of it. `to` has those addresses, and the one that the agent's
 * connection comes from; ERR_PROTOCOL for what is no list of them, -ENOMEM:
 * `to` has none. */
int voucher_prepare(struct hosted *h, const struct member *agent,
		    const struct wire_items *addrs, struct addr_owner *to,
		    struct err *e);
/* They are the agent's from now on, in the place of those that it had. */
void voucher_settle(struct hosted *h, struct member *agent,
		    struct addr_owner *from);
/* They are nobody's: the job did not take it. */
static inline void voucher_drop(struct vouchers *v, struct addr_owner *from)
{
	addr_book_forget(&v->book, from);
}
/* It is gone, or is about to: nobody waits for its word. */
void voucher_forget(struct hosted *h, struct member *agent);

/* Decides who may come to the job's torch_port. */
struct torch_gate voucher_gate(struct hosted *h);

/* An agent of the host that has that address, or NULL. */
struct member *voucher_agent_at(struct hosted *h, const struct sock_addr *from);

/* VOUCHED. */
int voucher_answer(struct member *agent, const struct wire_frame *f,
		   struct err *e);

/* No client is left that waits, and no agent. */
void voucher_release(struct hosted *h);

#endif
