/* tcp_mesh.c: making the sockets between leaders: each connects to those before
 * it and accepts those after it, all at once, so that none waits in a chain. */
#include "worker-sdk/tcp.h"

#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

enum {
	ADDRESSES_MAX = 8,
	STRANGERS_MAX = 64, /* accepted, not yet known */
	LOOK_MS = 1000	    /* how often to ask whether those missing live */
};

/* Both sides say it; the answer has from and to the other way round. */
struct hello {
	char magic[8];
	unsigned char cookie[DDP__MESH_COOKIE];
	uint32_t round, from, to, zero;
};

static const char magic[8] = {'d', 'd', 'p', 'm', 'e', 's', 'h', '1'};

/* A connection being made. */
struct link_try {
	int fd;
	int connecting; /* not yet writable */
	size_t got;
	struct hello hello; /* what came so far */
};

struct mesh {
	const struct ddp__tcp_setup *setup;
	struct ddp__tcp *t;
	struct link_try *tries; /* by host, for those before me */
	struct link_try strangers[STRANGERS_MAX];
	int missing;
	struct err *e;
};

/* Debian gives a host's own name the address 127.0.1.1: that a name is loopback
 * here says nothing of where others find it. */
static int is_own_name(const struct endpoint *ep, const struct sock_addr *a)
{
	char text[SOCK_TEXT_MAX];

	return sock_addr_is_loopback(a) && strcmp(ep->host, "localhost") &&
	       strcmp(ep->host, sock_addr_host(a, text));
}

int ddp__tcp_listen(const char *addr, uint16_t *port, struct err *e)
{
	struct endpoint ep;
	struct sock_addr a[ADDRESSES_MAX];
	int fd = -1, n = endpoint_parse(&ep, addr, 0, e);

	if (!n)
		n = sock_resolve(&ep, a, ADDRESSES_MAX, e);
	if (n < 0)
		return n;
	for (int i = 0; i < n && fd < 0; i++) {
		if (!sock_addr_is_local(&a[i]) || is_own_name(&ep, &a[i]))
			continue;
		fd = sock_listen(&a[i], e);
		if (fd >= 0)
			*port = sock_addr_port(&a[i]);
	}
	if (fd >= 0)
		return fd;
	/* That, or behind a NAT the advertised address is nowhere here. */
	memset(&a[0].ss, 0, sizeof(a[0].ss));
	a[0].ss.ss_family = a[0].len == sizeof(struct sockaddr_in6) ? AF_INET6
								    : AF_INET;
	fd = sock_listen(&a[0], e);
	if (fd >= 0)
		*port = sock_addr_port(&a[0]);
	return fd;
}

static struct hello hello_to(const struct mesh *m, int host)
{
	struct hello h;

	memset(&h, 0, sizeof(h));
	memcpy(h.magic, magic, sizeof(magic));
	memcpy(h.cookie, m->setup->cookie, sizeof(h.cookie));
	h.round = m->setup->round;
	h.from = (uint32_t)m->setup->me;
	h.to = (uint32_t)host;
	return h;
}

/* A fresh socket's buffer takes a hello whole, or it is of no use. */
static int say_hello(const struct mesh *m, int fd, int host)
{
	struct hello h = hello_to(m, host);

	return send(fd, &h, sizeof(h), MSG_NOSIGNAL | MSG_DONTWAIT) ==
			       (ssize_t)sizeof(h)
		       ? 0
		       : -1;
}

/* The host that said this hello to me, or -1. */
static int known_host(const struct mesh *m, const struct hello *h)
{
	unsigned char diff = 0;

	for (int i = 0; i < DDP__MESH_COOKIE; i++)
		diff |= (unsigned char)(h->cookie[i] ^ m->setup->cookie[i]);
	if (diff || memcmp(h->magic, magic, sizeof(magic)) ||
	    h->round != m->setup->round || h->to != (uint32_t)m->setup->me ||
	    h->from >= (uint32_t)m->setup->n)
		return -1;
	return (int)h->from;
}

static void keep(struct mesh *m, int host, int fd)
{
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	m->t->fd[host] = fd;
	m->missing--;
}

/* 1: the hello is whole; 0: not yet; -1: the connection is of no use. */
static int hear_hello(struct link_try *l)
{
	ssize_t n = recv(l->fd, (char *)&l->hello + l->got,
			 sizeof(l->hello) - l->got, MSG_DONTWAIT);

	if (n < 0)
		return errno == EAGAIN || errno == EINTR ? 0 : -1;
	l->got += (size_t)n;
	return n == 0 ? -1 : l->got == sizeof(l->hello);
}

static int unreachable(struct mesh *m, int host, int error)
{
	const struct ddp__peers *p = m->setup->peers;
	const struct ddp__tcp_site *site = &m->setup->sites[host];
	char me[DDP__NAME_MAX], other[DDP__NAME_MAX], at[SOCK_TEXT_MAX];

	return err_set(m->e, ERR_SYSTEM,
		       "ddp_init: %s cannot reach %s at %s: %s; check that the "
		       "hosts reach each other at DDP_NODE_ADDR and that no "
		       "firewall is between them",
		       p->name(p->owner, m->setup->sites[m->setup->me].leader,
			       me),
		       p->name(p->owner, site->leader, other),
		       endpoint_text(&site->where, at), strerror(error));
}

/* Starts a connection to a host before me. */
static int call_host(struct mesh *m, int host)
{
	struct sock_addr a[ADDRESSES_MAX];
	int n = sock_resolve(&m->setup->sites[host].where, a, ADDRESSES_MAX,
			     m->e);
	int error = EADDRNOTAVAIL;

	if (n < 0)
		return n;
	for (int i = 0; i < n; i++) {
		struct link_try *l = &m->tries[host];
		int fd = socket(a[i].ss.ss_family,
				SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

		if (fd >= 0 &&
		    (!connect(fd, (struct sockaddr *)&a[i].ss, a[i].len) ||
		     errno == EINPROGRESS)) {
			l->fd = fd;
			l->connecting = 1;
			return 0;
		}
		error = errno;
		if (fd >= 0)
			close(fd);
	}
	return unreachable(m, host, error);
}

static int on_called(struct mesh *m, int host)
{
	struct link_try *l = &m->tries[host];
	socklen_t size = sizeof(int);
	int error = 0, rc;

	if (l->connecting) {
		getsockopt(l->fd, SOL_SOCKET, SO_ERROR, &error, &size);
		if (error || say_hello(m, l->fd, host))
			return unreachable(m, host, error ? error : EPIPE);
		l->connecting = 0;
		return 0;
	}
	rc = hear_hello(l);
	if (rc < 0) {
		const struct ddp__peers *p = m->setup->peers;
		int rank = m->setup->sites[host].leader;
		char name[DDP__NAME_MAX], seen[256];

		snprintf(seen, sizeof(seen),
			 "ddp_init: %s closed its connection",
			 p->name(p->owner, rank, name));
		return p->fate(p->owner, rank, seen, m->e);
	}
	if (rc && known_host(m, &l->hello) != host)
		return unreachable(m, host, EPROTO);
	if (rc) {
		keep(m, host, l->fd);
		l->fd = -1;
	}
	return 0;
}

static void on_listener(struct mesh *m)
{
	for (;;) {
		struct link_try *l = NULL;
		int fd = accept4(m->setup->listener, NULL, NULL,
				 SOCK_CLOEXEC | SOCK_NONBLOCK);

		if (fd < 0)
			return;
		for (int i = 0; i < STRANGERS_MAX && !l; i++)
			if (m->strangers[i].fd < 0)
				l = &m->strangers[i];
		if (!l) {
			/* Full of silent ones: the first has had its time. */
			l = &m->strangers[0];
			close(l->fd);
			memmove(l, l + 1, (STRANGERS_MAX - 1) * sizeof(*l));
			l = &m->strangers[STRANGERS_MAX - 1];
		}
		*l = (struct link_try){.fd = fd};
	}
}

static void on_stranger(struct mesh *m, struct link_try *l)
{
	int rc = hear_hello(l), host = rc > 0 ? known_host(m, &l->hello) : -1;

	if (!rc)
		return;
	if (host > m->setup->me && m->t->fd[host] < 0 &&
	    !say_hello(m, l->fd, host))
		keep(m, host, l->fd);
	else
		close(l->fd);
	l->fd = -1;
}

/* Someone has not come for a while: did it end? */
static int look(struct mesh *m)
{
	const struct ddp__peers *p = m->setup->peers;

	for (int host = 0; host < m->setup->n; host++) {
		int rank = m->setup->sites[host].leader, rc;

		if (host == m->setup->me || m->t->fd[host] >= 0)
			continue;
		rc = p->fate(p->owner, rank, NULL, m->e);
		if (rc)
			return rc;
	}
	return 0;
}

static int timed_out(struct mesh *m, uint64_t waited)
{
	const struct ddp__peers *p = m->setup->peers;
	char name[DDP__NAME_MAX];
	int host = 0;

	while (host == m->setup->me || m->t->fd[host] >= 0)
		host++;
	return err_set(m->e, ERR_TIMEOUT,
		       "ddp_init: no connection with %s for %.1f s",
		       p->name(p->owner, m->setup->sites[host].leader, name),
		       (double)waited / 1e9);
}

/* Waits for what is there to do, and does it. */
static int turn(struct mesh *m, struct pollfd *polls)
{
	int n = 0, me = m->setup->me, rc = 0;

	polls[n++] = (struct pollfd){m->setup->listener, POLLIN, 0};
	for (int i = 0; i < me; i++)
		polls[n++] = (struct pollfd){
			m->tries[i].fd,
			m->tries[i].connecting ? POLLOUT : POLLIN, 0};
	for (int i = 0; i < STRANGERS_MAX; i++)
		polls[n++] = (struct pollfd){m->strangers[i].fd, POLLIN, 0};
	if (poll(polls, (nfds_t)n, LOOK_MS) <= 0)
		return 0;
	for (int i = 0; i < me && !rc; i++)
		if (polls[1 + i].revents)
			rc = on_called(m, i);
	for (int i = 0; i < STRANGERS_MAX && !rc; i++)
		if (polls[1 + me + i].revents)
			on_stranger(m, &m->strangers[i]);
	if (polls[0].revents && !rc)
		on_listener(m);
	return rc;
}

static int meet_all(struct mesh *m, struct pollfd *polls)
{
	uint64_t start = clock_ns(), looked = start;
	int rc = 0;

	for (int i = 0; i < m->setup->me && !rc; i++)
		rc = call_host(m, i);
	while (m->missing && !rc) {
		uint64_t now;

		rc = turn(m, polls);
		now = clock_ns();
		if (!rc && m->missing && m->setup->timeout_ms >= 0 &&
		    now - start > (uint64_t)m->setup->timeout_ms * 1000000u)
			rc = timed_out(m, now - start);
		if (!rc && m->missing && now - looked > LOOK_MS * 1000000u) {
			looked = now;
			rc = look(m);
		}
	}
	return rc;
}

int ddp__tcp_connect(struct ddp__tcp *t, const struct ddp__tcp_setup *setup,
		     struct err *e)
{
	size_t n = (size_t)setup->n;
	struct mesh m = {.setup = setup, .t = t, .missing = setup->n - 1,
			 .e = e};
	struct pollfd *polls = calloc(n + 1 + STRANGERS_MAX, sizeof(*polls));
	int rc;

	memset(t, 0, sizeof(*t));
	t->me = setup->me;
	t->n = setup->n;
	t->timeout_ms = setup->timeout_ms;
	t->peers = setup->peers;
	t->fd = malloc(n * sizeof(int));
	t->leaders = malloc(n * sizeof(int));
	t->transfers = calloc(2 * n, sizeof(*t->transfers));
	t->polls = calloc(2 * n, sizeof(*t->polls));
	m.tries = calloc(n, sizeof(*m.tries));
	if (!t->fd || !t->leaders || !t->transfers || !t->polls || !m.tries ||
	    !polls) {
		free(t->fd);
		t->fd = NULL; /* nothing in it to close */
		rc = err_set(e, -ENOMEM, "ddp_init: no memory for %zu hosts",
			     n);
		goto out;
	}
	for (size_t i = 0; i < n; i++) {
		t->fd[i] = m.tries[i].fd = -1;
		t->leaders[i] = setup->sites[i].leader;
	}
	for (int i = 0; i < STRANGERS_MAX; i++)
		m.strangers[i].fd = -1;
	rc = meet_all(&m, polls);
	for (size_t i = 0; i < n; i++)
		if (m.tries[i].fd >= 0)
			close(m.tries[i].fd);
	for (int i = 0; i < STRANGERS_MAX; i++)
		if (m.strangers[i].fd >= 0)
			close(m.strangers[i].fd);
out:
	if (rc)
		ddp__tcp_close(t);
	free(m.tries);
	free(polls);
	return rc;
}
