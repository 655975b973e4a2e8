/* tcp_mesh.c: makes the sockets between leaders: each leader connects to those
 * before it and accepts those after it, all at once, so that no chain of waits
 * arises. */
#include "worker-sdk/tcp/tcp.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/local_addrs.h"

enum {
	ADDRESSES_MAX = 8,
	STRANGERS_MAX = 64, /* callers at once, beside the expected ones */
	RAILS_DEFAULT = 1,
	LOOK_MS = 1000 /* how often to check that the missing hosts are alive */
};

static const char magic[8] = {'d', 'd', 'p', 'm', 'e', 's', 'h', '4'};

/* The addresses at which a host may be reached. */
struct addresses {
	struct sock_addr a[ADDRESSES_MAX];
	int n;
};

struct mesh {
	const struct ddp__tcp_setup *setup;
	struct ddp__tcp *t;
	struct addresses *where; /* the hosts before this one */
	struct ddp__dial *calls; /* by host and link, to the hosts before this
				  * one */
	struct ddp__callers callers;
	int missing;
	uint32_t secure; /* encryption that this rank offers; 0: plain text */
	int rc; /* error from handling a caller */
	struct err *e;
};

/* This end of a link. */
static struct ddp__link mesh_end(const struct mesh *m, int link)
{
	struct ddp__link end = {
		.round = m->setup->round,
		.from = (uint32_t)m->setup->me,
		.to = (uint32_t)(link / m->t->links),
		.link = (uint16_t)(link % m->t->links),
		.links = (uint16_t)m->t->links,
		.secure = m->secure,
	};

	memcpy(end.magic, magic, sizeof(magic));
	return end;
}

/* Expects the hosts after this one, in this round. The two ends may differ in
 * their number of links; each learns the other's number. */
static int mesh_expects(void *owner, const struct ddp__link *caller,
			struct ddp__link *me)
{
	const struct mesh *m = owner;

	if (caller->from <= (uint32_t)m->setup->me ||
	    caller->from >= (uint32_t)m->setup->n)
		return 0;
	*me = mesh_end(m, (int)caller->from * m->t->links);
	me->link = caller->link;
	return ddp__link_fits(me, caller);
}

static int mesh_check_rails(struct mesh *m, const struct ddp__link *h)
{
	const struct ddp__peers *p = m->setup->peers;
	char name[DDP__NAME_MAX];

	if (h->links == m->t->links)
		return 0;
	return err_set(m->e, ERR_USAGE,
		       "ddp_init: %s opens %d sockets per host, but this rank "
		       "%d: give all ranks the same DDP_TCP_SOCKETS",
		       p->name(p->owner, m->setup->sites[h->from].leader, name),
		       h->links - 1, m->t->rails);
}

static int mesh_check_secure(struct mesh *m, const struct ddp__hello *h,
			     int host)
{
	const struct ddp__peers *p = m->setup->peers;
	char name[DDP__NAME_MAX], me[DDP__NAME_MAX];

	if (ddp__secure_agree(h))
		return 0;
	return err_set(m->e, ERR_USAGE,
		       "ddp_init: %s has DDP_ENCRYPT_DATA=%d, %s has %d: give "
		       "all ranks the same (ddprun --encrypt-data)",
		       p->name(p->owner, m->setup->sites[host].leader, name),
		       !m->secure,
		       p->name(p->owner, m->setup->sites[m->setup->me].leader,
			       me),
		       !!m->secure);
}

/* Keeps a connection that h has proved, to a host before this one if is_caller.
 * Takes fd over, unless it fails. */
static int mesh_keep(struct mesh *m, int link, int fd,
		     const struct ddp__hello *h, int is_caller)
{
	int one = 1, host = link / m->t->links;
	int rc = mesh_check_rails(m, is_caller ? &h->listener : &h->caller);

	if (!rc)
		rc = mesh_check_secure(m, h, host);
	if (!rc && ddp__secure_new(&m->t->secure[link], h, is_caller,
				   m->setup->key))
		rc = err_no_memory(m->e, "ddp_init");
	if (rc)
		return rc;
	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	m->t->fd[link] = fd;
	m->missing--;
	return 0;
}

/* The host has published this address: if it has been lost since, that is the
 * cause, and the server will know. */
static int mesh_unreachable(struct mesh *m, int host, const char *why)
{
	const struct ddp__peers *p = m->setup->peers;
	const struct ddp__tcp_site *site = &m->setup->sites[host];
	char me[DDP__NAME_MAX], other[DDP__NAME_MAX], at[SOCK_TEXT_MAX];
	char seen[768];

	snprintf(seen, sizeof(seen),
		 "ddp_init: %s cannot reach %s at %s: %s; check that the "
		 "hosts reach each other at DDP_NODE_ADDR and that no "
		 "firewall is between them",
		 p->name(p->owner, m->setup->sites[m->setup->me].leader, me),
		 p->name(p->owner, site->leader, other),
		 endpoint_text(&site->where, at), why);
	return p->unreached(p->owner, site->leader, seen, m->e);
}

/* The result of a call of ddp__dial. */
static int mesh_called(struct mesh *m, int link, int error)
{
	return error ? mesh_unreachable(m, link / m->t->links, strerror(error))
		     : 0;
}

static int mesh_call_all(struct mesh *m)
{
	int rc = 0;

	for (int host = 0; host < m->setup->me && rc >= 0; host++) {
		rc = sock_resolve(&m->setup->sites[host].where,
				  m->where[host].a, ADDRESSES_MAX, m->e);
		m->where[host].n = rc;
		for (int i = 0; i < m->t->links && rc >= 0; i++) {
			int link = host * m->t->links + i;

			m->calls[link].at = m->where[host].a;
			m->calls[link].n = m->where[host].n;
			rc = mesh_called(m, link, ddp__dial(&m->calls[link],
							    EADDRNOTAVAIL));
		}
	}
	return rc < 0 ? rc : 0;
}

static int mesh_hung_up(struct mesh *m, int link)
{
	const struct ddp__peers *p = m->setup->peers;
	int rank = m->setup->sites[link / m->t->links].leader;
	int error = ddp__dial_again(&m->calls[link]);
	char name[DDP__NAME_MAX], seen[256];

	if (error != EPIPE)
		return mesh_called(m, link, error);
	snprintf(seen, sizeof(seen), "ddp_init: %s closed its connection",
		 p->name(p->owner, rank, name));
	return p->fate(p->owner, rank, seen, m->e);
}

static int mesh_on_called(struct mesh *m, int link)
{
	struct ddp__dial *l = &m->calls[link];
	struct ddp__link me = mesh_end(m, link);
	int rc;

	if (l->is_connecting)
		return mesh_called(m, link, ddp__dial_connected(l, &me));
	rc = ddp__hello_answered(&l->hello, l->fd, m->setup->key);
	if (rc == -EPROTO)
		return mesh_unreachable(m, link / m->t->links,
					"another program listens there");
	if (rc < 0)
		return mesh_hung_up(m, link);
	if (!rc)
		return 0;
	rc = mesh_keep(m, link, l->fd, &l->hello, 1);
	if (!rc)
		l->fd = -1;
	return rc;
}

static void mesh_on_caller(void *owner, const struct ddp__hello *h, int fd)
{
	struct mesh *m = owner;
	int link = (int)h->caller.from * m->t->links + h->caller.link;

	if (!m->rc)
		m->rc = mesh_check_rails(m, &h->caller);
	if (m->rc || h->caller.link >= m->t->links || m->t->fd[link] >= 0) {
		close(fd);
		return;
	}
	m->rc = mesh_keep(m, link, fd, h, 0);
	if (m->rc)
		close(fd);
}

/* The first host, from this one on, with a connection missing; n: none. */
static int mesh_missing(const struct mesh *m, int host)
{
	for (int l = host * m->t->links; l < m->setup->n * m->t->links; l++)
		if (m->t->fd[l] < 0 && l / m->t->links != m->setup->me)
			return l / m->t->links;
	return m->setup->n;
}

/* A host's data from before its end has arrived by now: looks for it once
 * more. */
static int mesh_is_connected(struct mesh *m, int host)
{
	ddp__callers_serve(&m->callers, &m->setup->listener);
	return mesh_missing(m, host) != host;
}

/* For each host that has not connected for a while: checks whether it has
 * ended. */
static int mesh_check(struct mesh *m)
{
	const struct ddp__peers *p = m->setup->peers;
	int rc = 0;

	for (int h = mesh_missing(m, 0); h < m->setup->n && !rc;
	     h = mesh_missing(m, h + 1)) {
		rc = p->fate(p->owner, m->setup->sites[h].leader, NULL, m->e);
		if (rc && mesh_is_connected(m, h))
			rc = m->rc;
	}
	return rc;
}

static int mesh_timed_out(struct mesh *m, uint64_t waited)
{
	const struct ddp__peers *p = m->setup->peers;
	const struct ddp__tcp_site *site = &m->setup->sites[mesh_missing(m, 0)];
	char name[DDP__NAME_MAX], at[SOCK_TEXT_MAX];

	return err_set(m->e, ERR_TIMEOUT,
		       "ddp_init: no connection with %s at %s for %.1f s",
		       p->name(p->owner, site->leader, name),
		       endpoint_text(&site->where, at), (double)waited / 1e9);
}

/* Waits for events and handles them. */
static int mesh_turn(struct mesh *m, struct pollfd *polls)
{
	int n = 0, calls = m->setup->me * m->t->links, rc = 0;

	for (int i = 0; i < calls; i++)
		polls[n++] = (struct pollfd){
			m->calls[i].fd,
			m->calls[i].is_connecting ? POLLOUT : POLLIN, 0};
	n += ddp__callers_polls(&m->callers, &m->setup->listener, polls + n,
				m->callers.max + DDP__LISTEN_MAX);
	if (poll(polls, (nfds_t)n, LOOK_MS) <= 0)
		return 0;
	for (int i = 0; i < calls && !rc; i++)
		if (polls[i].revents)
			rc = mesh_on_called(m, i);
	if (!rc)
		ddp__callers_serve(&m->callers, &m->setup->listener);
	return rc ? rc : m->rc;
}

static int mesh_meet(struct mesh *m, struct pollfd *polls)
{
	uint64_t start = clock_ns(), looked = start;
	int rc = mesh_call_all(m);

	while (m->missing && !rc) {
		uint64_t now;

		rc = mesh_turn(m, polls);
		now = clock_ns();
		if (!rc && m->missing && m->setup->timeout_ms >= 0 &&
		    now - start > (uint64_t)m->setup->timeout_ms * 1000000u)
			rc = mesh_timed_out(m, now - start);
		if (!rc && m->missing && now - looked > LOOK_MS * 1000000u) {
			looked = now;
			rc = mesh_check(m);
		}
	}
	return rc;
}

static int mesh_rails(const struct ddp__tcp_setup *setup, struct err *e)
{
	const char *text = getenv("DDP_TCP_SOCKETS");
	char *end;
	long n;

	if (setup->rails || !text || !text[0])
		return setup->rails ? setup->rails : RAILS_DEFAULT;
	n = strtol(text, &end, 10);
	if (*end || n < 1 || n > DDP__RAILS_MAX)
		return err_set(e, ERR_USAGE,
			       "DDP_TCP_SOCKETS is '%s': give a number from 1 "
			       "to %d", text, DDP__RAILS_MAX);
	return (int)n;
}

/* Makes room for all expected callers beside any strangers. */
static int mesh_await_callers(struct mesh *m)
{
	int hosts = m->setup->n - 1 - m->setup->me;

	if (ddp__callers_init(&m->callers,
			      STRANGERS_MAX + hosts * m->t->links))
		return err_no_memory(m->e, "ddp_init");
	m->callers.key = m->setup->key;
	m->callers.owner = m;
	m->callers.expects = mesh_expects;
	m->callers.on_caller = mesh_on_caller;
	return 0;
}

static int mesh_start(struct mesh *m)
{
	const struct ddp__tcp_setup *setup = m->setup;
	struct ddp__tcp *t = m->t;
	size_t n = (size_t)setup->n, links;
	int secure = ddp__secure_wanted(m->e);

	memset(t, 0, sizeof(*t));
	t->rails = mesh_rails(setup, m->e);
	if (secure < 0 || t->rails < 0)
		return secure < 0 ? secure : t->rails;
	m->secure = (uint32_t)secure;
	t->me = setup->me;
	t->n = setup->n;
	t->links = t->rails + 1;
	t->peers = setup->peers;
	t->timeout_ms = ddp__tcp_timeout(setup->timeout_ms);
	links = n * (size_t)t->links;
	t->fd = malloc(links * sizeof(int));
	t->secure = calloc(links, sizeof(struct ddp__secure *));
	t->leaders = malloc(n * sizeof(int));
	t->ranks = malloc(n * sizeof(int));
	t->before = calloc(n + 1, sizeof(int));
	t->waits = calloc(n, sizeof(*t->waits));
	m->calls = calloc(links, sizeof(*m->calls));
	m->where = calloc(n, sizeof(*m->where));
	for (size_t i = 0; t->fd && i < links; i++)
		t->fd[i] = -1;
	if (!t->fd || !t->secure || !t->leaders || !t->ranks || !t->before ||
	    !t->waits || !m->calls || !m->where)
		return err_no_memory(m->e, "ddp_init: %zu hosts", n);
	for (size_t i = 0; i < links; i++)
		m->calls[i].fd = -1;
	for (size_t i = 0; i < n; i++) {
		const struct ddp__tcp_site *s = &setup->sites[i];

		t->leaders[i] = s->leader;
		t->ranks[i] = s->ranks ? s->ranks : 1;
		t->before[i + 1] = t->before[i] + t->ranks[i];
	}
	m->missing = (int)(links - (size_t)t->links);
	return mesh_await_callers(m);
}

int ddp__tcp_connect(struct ddp__tcp *t, const struct ddp__tcp_setup *setup,
		     struct err *e)
{
	struct mesh m = {.setup = setup, .t = t, .e = e};
	int rc = mesh_start(&m), links = t->n * t->links;
	struct pollfd *polls = NULL;

	if (rc)
		goto out;
	polls = calloc((size_t)(links + m.callers.max + DDP__LISTEN_MAX),
		       sizeof(*polls));
	rc = polls ? mesh_meet(&m, polls)
		   : err_no_memory(e, "ddp_init");
	for (int i = 0; i < links; i++)
		if (m.calls[i].fd >= 0)
			close(m.calls[i].fd);
out:
	ddp__callers_close(&m.callers);
	if (rc)
		ddp__tcp_close(t);
	free(m.calls);
	free(m.where);
	free(polls);
	return rc;
}
