/* name_wait.c: look-ups in a thread, one after the other, until one
 * succeeds. */
#include "launcher/membership/connection_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/thread.h"

enum {
	AGAIN_MIN_MS = 50,
	AGAIN_MAX_MS = 1000,
	QUIET_MS = 2000, /* then the wait is named */
	LOOK_MS = 2000,
};

/* One look-up: owned by its thread and by its caller; the last one to leave
 * frees it. */
struct name_lookup {
	atomic_int owners;
	struct endpoint ep;
	int max, n;
	struct sock_addr addrs[NAME_WAIT_MAX];
	struct err err;
	int done[2]; /* a pipe; the thread closes its end */
};

static void name_lookup_leave(struct name_lookup *l)
{
	if (atomic_fetch_sub(&l->owners, 1) > 1)
		return;
	close(l->done[0]);
	free(l);
}

static void *name_lookup_run(void *arg)
{
	struct name_lookup *l = arg;

	l->n = sock_resolve(&l->ep, l->addrs, l->max, &l->err);
	close(l->done[1]);
	name_lookup_leave(l);
	return NULL;
}

/* NULL, with e set, if it cannot be started. */
static struct name_lookup *name_lookup_start(const struct endpoint *ep, int max,
					     struct err *e)
{
	struct name_lookup *l = calloc(1, sizeof(*l));
	int rc;

	if (!l) {
		err_no_memory(e, "the look-up of a name");
		return NULL;
	}
	l->ep = *ep;
	l->max = max < NAME_WAIT_MAX ? max : NAME_WAIT_MAX;
	atomic_init(&l->owners, 2);
	rc = pipe2(l->done, O_CLOEXEC) < 0 ? errno : 0;
	if (rc) {
		free(l);
		err_set(e, -rc, "no pipe to look up '%s': %s", ep->host,
			strerror(rc));
		return NULL;
	}
	rc = thread_detach(name_lookup_run, l, 0);
	if (rc < 0) {
		close(l->done[1]);
		close(l->done[0]);
		free(l);
		err_set(e, rc, "no thread to look up '%s': %s", ep->host,
			strerror(-rc));
		return NULL;
	}
	return l;
}

/* ---- the wait ---- */

struct name_waiter {
	struct name_wait *w;
	const struct endpoint *ep;
	int signals; /* a signalfd, -1: none */
	uint64_t until_ms; /* 0: no limit */
	int is_named;
};

static void name_wait_log(struct name_waiter *n, const char *why)
{
	if (n->is_named)
		return;
	n->is_named = 1;
	log_info("%s; waiting for the name to resolve, for up to %g s "
		 "(--rdzv-timeout)", why, n->w->timeout_s);
}

/* Waits until fd (-1: none) is readable or ms are over. 0, -EINTR, or
 * -ETIMEDOUT: until_ms is over. */
static int name_wait_poll(struct name_waiter *n, int fd, int ms)
{
	struct pollfd p[2] = {{.fd = n->signals, .events = POLLIN},
			      {.fd = fd, .events = POLLIN}};
	struct signalfd_siginfo got;
	uint64_t now = clock_ms();
	int left = ms, rc;

	if (n->until_ms && now >= n->until_ms)
		return -ETIMEDOUT;
	if (n->until_ms && (uint64_t)left > n->until_ms - now)
		left = (int)(n->until_ms - now);
	rc = poll(p, 2, left);
	if (rc > 0 && p[0].revents & POLLIN &&
	    read(n->signals, &got, sizeof(got)) == sizeof(got)) {
		n->w->signal = (int)got.ssi_signo;
		return -EINTR;
	}
	if (rc == 0 && n->until_ms && clock_ms() >= n->until_ms)
		return -ETIMEDOUT;
	return 0;
}

/* As sock_resolve, or -EINTR, -ETIMEDOUT. */
static int name_wait_once(struct name_waiter *n, struct sock_addr *out, int max,
			  struct err *e)
{
	struct name_lookup *l = name_lookup_start(n->ep, max, e);
	uint64_t from = clock_ms();
	char text[SOCK_HOST_MAX + 64];
	struct pollfd p;
	int rc = 0;

	if (!l)
		return e->code;
	p = (struct pollfd){.fd = l->done[0], .events = POLLIN};
	snprintf(text, sizeof(text), "the resolver has not answered for '%s'",
		 n->ep->host);
	while (rc == 0 && poll(&p, 1, 0) == 0) {
		if (n->w->timeout_s > 0 && clock_ms() - from >= QUIET_MS)
			name_wait_log(n, text);
		rc = name_wait_poll(n, l->done[0], QUIET_MS);
	}
	if (rc == 0) {
		rc = l->n;
		if (rc < 0)
			*e = l->err;
		else
			memcpy(out, l->addrs, (size_t)rc * sizeof(*out));
	}
	name_lookup_leave(l);
	return rc;
}

static int name_wait_loop(struct name_waiter *n, struct sock_addr *out, int max,
			  struct err *e)
{
	double timeout_s = n->w->timeout_s;
	unsigned again_ms = AGAIN_MIN_MS;
	struct err why = ERR_INIT;
	int rc = name_wait_once(n, out, max, &why);

	if (rc < 0 && rc != -EINTR && timeout_s <= 0) {
		*e = why;
		return rc;
	}
	if (rc < 0 && rc != -EINTR && rc != -ETIMEDOUT)
		name_wait_log(n, why.text);
	while (rc < 0 && rc != -EINTR && rc != -ETIMEDOUT) {
		rc = name_wait_poll(n, -1, (int)again_ms);
		again_ms = again_ms < AGAIN_MAX_MS / 2 ? again_ms * 2
						       : AGAIN_MAX_MS;
		if (rc == 0)
			rc = name_wait_once(n, out, max, &why);
		else
			break;
	}
	if (rc == -ETIMEDOUT)
		return err_set(e, ERR_TIMEOUT, "the name '%s' did not resolve "
			       "within %g s (--rdzv-timeout)%s%.700s",
			       n->ep->host, timeout_s, why.text[0] ? ": " : "",
			       why.text);
	return rc;
}

/* Those that the user does not ignore (nohup) end the wait. */
static void name_wait_choose_signals(sigset_t *set)
{
	static const int ending[] = {SIGTERM, SIGINT, SIGHUP, SIGQUIT};
	struct sigaction now;

	sigemptyset(set);
	for (size_t i = 0; i < sizeof(ending) / sizeof(*ending); i++) {
		if (sigaction(ending[i], NULL, &now) == 0 &&
		    now.sa_handler != SIG_IGN)
			sigaddset(set, ending[i]);
	}
}

int name_wait_resolve(struct name_wait *w, const struct endpoint *ep,
		      struct sock_addr *out, int max, struct err *e)
{
	struct name_waiter n = {.w = w, .ep = ep};
	char name[SIGNAL_NAME_MAX];
	sigset_t ending, before;
	int rc;

	w->signal = 0;
	/* numbers, and localhost, need no resolver */
	if (sock_addr_scoped_number(ep->host, ep->port, out) ||
	    strcmp(ep->host, "localhost") == 0 || strchr(ep->host, '%'))
		return sock_resolve(ep, out, max, e);
	if (w->timeout_s > 0)
		n.until_ms = clock_ms() + (uint64_t)(w->timeout_s * 1000);
	name_wait_choose_signals(&ending);
	/* the first process of a container gets no signal that it does not
	 * handle: block them, and read them */
	sigprocmask(SIG_BLOCK, &ending, &before);
	n.signals = signalfd(-1, &ending, SFD_CLOEXEC | SFD_NONBLOCK);
	rc = name_wait_loop(&n, out, max, e);
	if (n.signals >= 0)
		close(n.signals);
	sigprocmask(SIG_SETMASK, &before, NULL);
	if (rc == -EINTR)
		err_set(e, rc, "got %s while waiting for the name '%s' to "
			"resolve", signal_name(w->signal, name), ep->host);
	return rc;
}

/* ---- again ---- */

struct name_again {
	struct connection *c;
	struct name_lookup *lookup;
	uv_poll_t done;
};

static void name_again_on_closed(uv_handle_t *h)
{
	struct name_again *a = h->data;

	name_lookup_leave(a->lookup);
	free(a);
}

void connection_stop_looking(struct connection *c)
{
	if (c->again)
		uv_close((uv_handle_t *)&c->again->done, name_again_on_closed);
	c->again = NULL;
}

static int name_again_has(const struct connection *c, const struct sock_addr *a)
{
	for (int i = 0; i < c->naddrs; i++)
		if (c->addrs[i].len == a->len &&
		    memcmp(&c->addrs[i].ss, &a->ss, a->len) == 0)
			return 1;
	return 0;
}

static void name_again_take(struct connection *c, const struct name_lookup *l)
{
	char was[SOCK_TEXT_MAX], is[SOCK_TEXT_MAX];
	int i = 0;

	while (i < l->n && name_again_has(c, &l->addrs[i]))
		i++;
	if (i >= l->n)
		return;
	log_info("'%s' is %s now, and was %s", l->ep.host,
		 sock_addr_host(&l->addrs[i], is),
		 sock_addr_host(&c->addrs[0], was));
	c->naddrs = l->n;
	memcpy(c->addrs, l->addrs, (size_t)l->n * sizeof(*l->addrs));
	c->next_addr = 0;
}

static void name_again_on_done(uv_poll_t *p, int status, int events)
{
	struct name_again *a = p->data;
	struct connection *c = a->c;

	if (c->search == SEARCH_FIRST && c->role == ROLE_GUEST)
		name_again_take(c, a->lookup);
	connection_stop_looking(c);
}

static int connection_has_fixed_addresses(const struct connection *c)
{
	const struct rdzv_options *o = c->options;
	struct sock_addr a;

	return o->etcd.members || o->private_endpoint || o->nports ||
	       c->is_nameless || strchr(o->endpoint.host, '%') ||
	       strcmp(o->endpoint.host, "localhost") == 0 ||
	       sock_addr_scoped_number(o->endpoint.host, 0, &a);
}

void connection_look_again(struct connection *c)
{
	struct name_again *a;
	struct err e = ERR_INIT;

	if (c->again || c->search != SEARCH_FIRST || c->role != ROLE_GUEST ||
	    clock_ms() - c->began_ms < LOOK_MS ||
	    clock_ms() - c->looked_ms < LOOK_MS ||
	    connection_has_fixed_addresses(c))
		return;
	c->looked_ms = clock_ms();
	a = calloc(1, sizeof(*a));
	if (a)
		a->lookup = name_lookup_start(&c->options->endpoint,
					      CONNECTION_ADDRS_MAX, &e);
	if (!a || !a->lookup || uv_poll_init(c->loop, &a->done,
					     a->lookup->done[0]) < 0) {
		log_debug("no look-up of '%s': %s", c->options->endpoint.host,
			  e.text);
		if (a && a->lookup)
			name_lookup_leave(a->lookup);
		free(a);
		return;
	}
	a->c = c;
	a->done.data = a;
	c->again = a;
	/* the end of the pipe counts as readable */
	if (uv_poll_start(&a->done, UV_READABLE | UV_DISCONNECT,
			  name_again_on_done) < 0)
		connection_stop_looking(c);
}
