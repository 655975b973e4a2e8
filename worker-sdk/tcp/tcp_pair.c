/* tcp_pair.c: makes the socket between two ranks, without blocking. */
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker-sdk/tcp/tcp_p2p.h"

enum { CALLERS_MAX = 64 };

/* The state while this rank connects. */
struct ddp__greeting {
	struct sock_addr a[DDP__ADDRESSES_MAX];
	struct ddp__dial dial; /* its fd is the pair's */
};

char *ddp__tcp_p2p_name(const struct ddp__tcp_p2p *p, int rank, char *out)
{
	return p->peers->name(p->peers->owner, rank, out);
}

/* This end of the connection with a rank. */
static struct ddp__link pair_end(const struct ddp__tcp_p2p *p, int rank)
{
	return (struct ddp__link){.magic = {'d', 'd', 'p', 'p', '2', 'p', '_',
					    '3'},
				  .round = p->round,
				  .secure = p->secure,
				  .from = (uint32_t)p->me,
				  .to = (uint32_t)rank};
}

/* The connection is proved: 0 or -ENOMEM. */
static int pair_set_ready(struct ddp__tcp_p2p *p, int rank, int fd,
			  const struct ddp__hello *h)
{
	struct ddp__pair *pair = &p->pairs[rank];
	int one = 1, rc;

	rc = ddp__secure_new(&pair->secure, h, p->me < rank, p->key);
	if (rc)
		return rc;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	pair->fd = fd;
	pair->state = DDP__PAIR_READY;
	free(pair->greeting);
	pair->greeting = NULL;
	return 0;
}

/* Expects lower ranks without a connection yet. */
static int pair_expects(void *owner, const struct ddp__link *caller,
			struct ddp__link *me)
{
	const struct ddp__tcp_p2p *p = owner;

	if (caller->from >= (uint32_t)p->me || p->pairs[caller->from].fd >= 0)
		return 0;
	*me = pair_end(p, (int)caller->from);
	return ddp__link_fits(me, caller);
}

static void pair_on_caller(void *owner, const struct ddp__hello *h, int fd)
{
	struct ddp__tcp_p2p *p = owner;
	int rank = (int)h->caller.from;

	if (p->pairs[rank].fd < 0 && !ddp__secure_agree(h))
		p->pairs[rank].state = DDP__PAIR_DIFFERS;
	else if (p->pairs[rank].fd < 0 && !pair_set_ready(p, rank, fd, h))
		return;
	close(fd);
}

int ddp__pairs_init(struct ddp__tcp_p2p *p, struct err *e)
{
	p->pairs = calloc((size_t)p->n, sizeof(*p->pairs));
	if (!p->pairs || ddp__callers_init(&p->callers, CALLERS_MAX)) {
		free(p->pairs);
		p->pairs = NULL;
		return err_no_memory(e, "%d ranks", p->n);
	}
	p->callers.key = p->key;
	p->callers.owner = p;
	p->callers.expects = pair_expects;
	p->callers.on_caller = pair_on_caller;
	for (int i = 0; i < p->n; i++)
		p->pairs[i].fd = -1;
	return 0;
}

void ddp__pairs_close(struct ddp__tcp_p2p *p)
{
	for (int i = 0; p->pairs && i < p->n; i++) {
		if (p->pairs[i].fd >= 0)
			close(p->pairs[i].fd);
		ddp__secure_free(p->pairs[i].secure);
		free(p->pairs[i].greeting);
	}
	ddp__callers_close(&p->callers);
	free(p->pairs);
}

/* The rank could be reached in ddp_init, so it is gone, or the network is
 * cut. */
static int pair_unreachable(struct ddp__tcp_msg *m, const char *why,
			    struct err *e)
{
	char call[DDP__CALL_TEXT], name[DDP__NAME_MAX], at[SOCK_TEXT_MAX];
	char seen[768];

	snprintf(seen, sizeof(seen),
		 "%s: cannot reach %s at %s: %s (check that the hosts reach "
		 "each other at DDP_NODE_ADDR and that no firewall is between "
		 "them)",
		 ddp__call_text(&m->call, call),
		 ddp__tcp_p2p_name(m->p, m->peer, name),
		 endpoint_text(&m->p->where[m->peer], at), why);
	return m->p->peers->fate(m->p->peers->owner, m->peer, seen, e);
}

/* The result of a call of ddp__dial. */
static int pair_called(struct ddp__tcp_msg *m, int error, struct err *e)
{
	struct ddp__pair *pair = &m->p->pairs[m->peer];
	const struct ddp__dial *d = &pair->greeting->dial;

	pair->fd = d->fd;
	if (error)
		return pair_unreachable(m, error == EPIPE
						? "it closed the connection"
						: strerror(error), e);
	pair->state = d->is_connecting ? DDP__PAIR_CONNECTING
				       : DDP__PAIR_GREETED;
	return 0;
}

static int pair_begin_call(struct ddp__tcp_msg *m, struct err *e)
{
	struct ddp__greeting *g = calloc(1, sizeof(*g));
	int n;

	if (!g)
		return err_no_memory(e, "a connection");
	m->p->pairs[m->peer].greeting = g;
	n = sock_resolve(&m->p->where[m->peer], g->a, DDP__ADDRESSES_MAX, e);
	g->dial = (struct ddp__dial){.at = g->a, .n = n, .fd = -1};
	return n < 0 ? n : pair_called(m, ddp__dial(&g->dial, EADDRNOTAVAIL),
				       e);
}

static int pair_on_connected(struct ddp__tcp_msg *m, struct err *e)
{
	struct ddp__pair *pair = &m->p->pairs[m->peer];
	struct pollfd poll_it = {pair->fd, POLLOUT, 0};
	struct ddp__link me = pair_end(m->p, m->peer);

	if (poll(&poll_it, 1, 0) <= 0)
		return 0;
	return pair_called(m, ddp__dial_connected(&pair->greeting->dial, &me),
			   e);
}

/* The error if only one of the two ranks encrypts. */
static int pair_differs(const struct ddp__tcp_msg *m, struct err *e)
{
	char call[DDP__CALL_TEXT], name[DDP__NAME_MAX], me[DDP__NAME_MAX];
	const struct ddp__tcp_p2p *p = m->p;

	return err_set(e, ERR_USAGE,
		       "%s: %s has DDP_ENCRYPT_DATA=%d, %s has %d: give all "
		       "ranks the same (ddprun --encrypt-data)",
		       ddp__call_text(&m->call, call),
		       ddp__tcp_p2p_name(p, m->peer, name), !p->secure,
		       ddp__tcp_p2p_name(p, p->me, me), !!p->secure);
}

static int pair_on_proved(struct ddp__tcp_msg *m, const struct ddp__hello *h,
			  struct err *e)
{
	struct ddp__tcp_p2p *p = m->p;

	if (!ddp__secure_agree(h))
		return pair_differs(m, e);
	if (pair_set_ready(p, m->peer, p->pairs[m->peer].fd, h))
		return err_no_memory(e, "a connection");
	return 1;
}

static int pair_on_answer(struct ddp__tcp_msg *m, struct err *e)
{
	struct ddp__dial *d = &m->p->pairs[m->peer].greeting->dial;
	int rc = ddp__hello_answered(&d->hello, d->fd, m->p->key);

	if (!rc)
		return 0;
	if (rc == -EPROTO)
		return pair_unreachable(m, "another program listens there", e);
	if (rc > 0)
		return pair_on_proved(m, &d->hello, e);
	return pair_called(m, ddp__dial_again(d), e);
}

void ddp__pairs_serve(struct ddp__tcp_p2p *p)
{
	if (p->me > 0)
		ddp__callers_serve(&p->callers, &p->listener);
}

int ddp__pair_ready(struct ddp__tcp_msg *m, struct err *e)
{
	struct ddp__pair *pair = &m->p->pairs[m->peer];

	switch (pair->state) {
	case DDP__PAIR_NONE:
		return m->peer < m->p->me ? 0 : pair_begin_call(m, e);
	case DDP__PAIR_CONNECTING:
		return pair_on_connected(m, e);
	case DDP__PAIR_GREETED:
		return pair_on_answer(m, e);
	case DDP__PAIR_DIFFERS:
		return pair_differs(m, e);
	default:
		return 1;
	}
}

int ddp__pairs_polls(const struct ddp__tcp_p2p *p, struct pollfd *out, int max)
{
	return p->me > 0 ? ddp__callers_polls(&p->callers, &p->listener, out,
					      max)
			 : 0;
}
