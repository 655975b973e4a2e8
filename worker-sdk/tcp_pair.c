/* tcp_pair.c: making the socket between two ranks, without waiting. */
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker-sdk/tcp_p2p.h"

enum {
	STRANGERS_MAX = 64,
	/* Who is full of strangers may have hung up on me by mistake. */
	TRIES_MAX = 4
};

struct ddp__stranger {
	int fd; /* -1: free */
	struct ddp__hello_in in;
};

/* While I connect. */
struct ddp__greeting {
	struct sock_addr a[DDP__ADDRESSES_MAX];
	int n, next; /* address to try */
	int tries;   /* of all addresses, so far */
	struct ddp__hello_in in;
};

char *ddp__tcp_p2p_name(const struct ddp__tcp_p2p *p, int rank, char *out)
{
	return p->peers->name(p->peers->owner, rank, out);
}

int ddp__pairs_init(struct ddp__tcp_p2p *p, struct err *e)
{
	p->pairs = calloc((size_t)p->n, sizeof(*p->pairs));
	p->strangers = calloc(STRANGERS_MAX, sizeof(*p->strangers));
	if (!p->pairs || !p->strangers) {
		free(p->pairs);
		free(p->strangers);
		p->pairs = NULL;
		p->strangers = NULL;
		return err_set(e, -ENOMEM, "no memory for %d ranks", p->n);
	}
	for (int i = 0; i < p->n; i++)
		p->pairs[i].fd = -1;
	for (int i = 0; i < STRANGERS_MAX; i++)
		p->strangers[i].fd = -1;
	return 0;
}

void ddp__pairs_close(struct ddp__tcp_p2p *p)
{
	for (int i = 0; p->pairs && i < p->n; i++) {
		if (p->pairs[i].fd >= 0)
			close(p->pairs[i].fd);
		free(p->pairs[i].greeting);
	}
	for (int i = 0; p->strangers && i < STRANGERS_MAX; i++)
		if (p->strangers[i].fd >= 0)
			close(p->strangers[i].fd);
	free(p->pairs);
	free(p->strangers);
}

/* It was there in ddp_init: it is gone, or something came between us. */
static int unreachable(struct ddp__tcp_msg *m, const char *why, struct err *e)
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

static struct ddp__hello hello_to(const struct ddp__tcp_p2p *p, int rank)
{
	struct ddp__hello h = p->hello;

	h.to = (uint32_t)rank;
	return h;
}

static void ready(struct ddp__tcp_p2p *p, int rank, int fd)
{
	struct ddp__pair *pair = &p->pairs[rank];
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	pair->fd = fd;
	pair->state = DDP__PAIR_READY;
	free(pair->greeting);
	pair->greeting = NULL;
}

/* At the next address; error: why the one before failed. */
static int call(struct ddp__tcp_msg *m, int error, struct err *e)
{
	struct ddp__pair *pair = &m->p->pairs[m->peer];
	struct ddp__greeting *g = pair->greeting;

	while (g->next < g->n) {
		const struct sock_addr *a = &g->a[g->next++];
		int fd = socket(a->ss.ss_family,
				SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

		if (fd >= 0 &&
		    (!connect(fd, (const struct sockaddr *)&a->ss, a->len) ||
		     errno == EINPROGRESS)) {
			pair->fd = fd;
			pair->state = DDP__PAIR_CONNECTING;
			return 0;
		}
		error = errno;
		if (fd >= 0)
			close(fd);
	}
	return unreachable(m, strerror(error), e);
}

static int begin_call(struct ddp__tcp_msg *m, struct err *e)
{
	struct ddp__greeting *g = calloc(1, sizeof(*g));

	if (!g)
		return err_set(e, -ENOMEM, "no memory for a connection");
	m->p->pairs[m->peer].greeting = g;
	g->n = sock_resolve(&m->p->where[m->peer], g->a, DDP__ADDRESSES_MAX, e);
	return g->n < 0 ? g->n : call(m, EADDRNOTAVAIL, e);
}

static int on_connected(struct ddp__tcp_msg *m, struct err *e)
{
	struct ddp__pair *pair = &m->p->pairs[m->peer];
	struct pollfd poll_it = {pair->fd, POLLOUT, 0};
	struct ddp__hello h = hello_to(m->p, m->peer);
	socklen_t size = sizeof(int);
	int error = 0;

	if (poll(&poll_it, 1, 0) <= 0)
		return 0;
	getsockopt(pair->fd, SOL_SOCKET, SO_ERROR, &error, &size);
	if (!error && ddp__hello_say(pair->fd, &h))
		error = EPIPE;
	if (!error) {
		pair->state = DDP__PAIR_GREETED;
		return 0;
	}
	close(pair->fd);
	pair->fd = -1;
	return call(m, error, e);
}

static int on_answer(struct ddp__tcp_msg *m, struct err *e)
{
	struct ddp__pair *pair = &m->p->pairs[m->peer];
	struct ddp__greeting *g = pair->greeting;
	struct ddp__hello h = hello_to(m->p, m->peer);
	int rc = ddp__hello_hear(pair->fd, &g->in);

	if (!rc)
		return 0;
	if (rc > 0 && (ddp__hello_differs(&g->in.hello, &h) ||
		       g->in.hello.from != (uint32_t)m->peer))
		return unreachable(m, "another program listens there", e);
	if (rc > 0) {
		ready(m->p, m->peer, pair->fd);
		return 1;
	}
	close(pair->fd);
	pair->fd = -1;
	if (++g->tries == TRIES_MAX)
		return unreachable(m, "it closed the connection", e);
	g->next = 0;
	g->in.got = 0;
	return call(m, EPIPE, e);
}

static void on_stranger(struct ddp__tcp_p2p *p, struct ddp__stranger *s)
{
	int rc = ddp__hello_hear(s->fd, &s->in);
	struct ddp__hello *h = &s->in.hello, answer;

	if (!rc)
		return;
	answer = hello_to(p, rc > 0 ? (int)h->from : 0);
	if (rc > 0 && !ddp__hello_differs(h, &answer) &&
	    h->from < (uint32_t)p->me && p->pairs[h->from].fd < 0 &&
	    !ddp__hello_say(s->fd, &answer))
		ready(p, (int)h->from, s->fd);
	else
		close(s->fd);
	s->fd = -1;
}

static void accept_all(struct ddp__tcp_p2p *p)
{
	for (;;) {
		struct ddp__stranger *s = p->strangers;
		int fd = ddp__listen_accept(&p->listener), i = 0;

		if (fd < 0)
			return;
		while (i < STRANGERS_MAX && s[i].fd >= 0)
			i++;
		if (i == STRANGERS_MAX) {
			/* Full of silent ones: the first has had its time. */
			close(s[0].fd);
			memmove(s, s + 1, --i * sizeof(*s));
		}
		s[i] = (struct ddp__stranger){.fd = fd};
		/* most have said their hello by now */
		on_stranger(p, &s[i]);
	}
}

void ddp__pairs_serve(struct ddp__tcp_p2p *p)
{
	if (p->me == 0)
		return;
	for (int i = 0; i < STRANGERS_MAX; i++)
		if (p->strangers[i].fd >= 0)
			on_stranger(p, &p->strangers[i]);
	accept_all(p);
}

int ddp__pair_ready(struct ddp__tcp_msg *m, struct err *e)
{
	struct ddp__pair *pair = &m->p->pairs[m->peer];

	switch (pair->state) {
	case DDP__PAIR_NONE:
		return m->peer < m->p->me ? 0 : begin_call(m, e);
	case DDP__PAIR_CONNECTING:
		return on_connected(m, e);
	case DDP__PAIR_GREETED:
		return on_answer(m, e);
	default:
		return 1;
	}
}

int ddp__pairs_polls(const struct ddp__tcp_p2p *p, struct pollfd *out, int max)
{
	int n = 0;

	if (p->me > 0)
		n = ddp__listen_polls(&p->listener, out, max);
	for (int i = 0; i < STRANGERS_MAX && n < max; i++)
		if (p->strangers[i].fd >= 0)
			out[n++] = (struct pollfd){p->strangers[i].fd, POLLIN,
						   0};
	return n;
}
