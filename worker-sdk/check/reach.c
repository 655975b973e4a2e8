/* reach.c: all connections at once, in one loop of poll. */
#include "worker-sdk/check/reach.h"

#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

enum {
	ADDRESSES_MAX = 4,
	STRANGERS_MAX = 32, /* callers at once, beside the nodes */
	TRIES_MAX = 4, /* the other node may have hung up on us among
			* strangers */
};

struct reach_call {
	struct sock_addr at[ADDRESSES_MAX];
	int n, next, tries;
	int fd; /* -1: over */
	int connecting;
	struct ddp__hello hello;
};

static struct ddp__link reach_end(const struct reach *r, int peer)
{
	return (struct ddp__link){
		.magic = {'d', 'd', 'p', 'c', 'h', 'e', 'c', 'k'},
		.round = r->round, .from = (uint32_t)r->me,
		.to = (uint32_t)peer, .links = 1,
	};
}

static void reach_no_delay(int fd)
{
	int one = 1;

	setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
}

/* ---- calls of others ---- */

static int reach_expects(void *owner, const struct ddp__link *caller,
			 struct ddp__link *me)
{
	const struct reach *r = owner;

	if (caller->from >= (uint32_t)r->n || caller->from == (uint32_t)r->me ||
	    r->peers[caller->from].in >= 0)
		return 0;
	*me = reach_end(r, (int)caller->from);
	return ddp__link_fits(me, caller);
}

static void reach_on_caller(void *owner, const struct ddp__hello *h, int fd)
{
	struct reach *r = owner;
	struct reach_peer *p = &r->peers[h->caller.from];

	if (p->in >= 0) {
		close(fd);
		return;
	}
	reach_no_delay(fd);
	p->in = fd;
}

/* ---- our calls ---- */

static void reach_call_over(struct reach *r, int peer, int code)
{
	struct reach_call *c = &r->calls[peer];

	if (code != REACH_OK && c->fd >= 0)
		close(c->fd);
	r->peers[peer].code = code;
	r->peers[peer].out = code == REACH_OK ? c->fd : -1;
	c->fd = -1;
	r->missing--;
}

/* Calls its next address. error: why the address before it failed. */
static void reach_call_next(struct reach *r, int peer, int error)
{
	struct reach_call *c = &r->calls[peer];

	while (c->next < c->n) {
		const struct sock_addr *a = &c->at[c->next++];
		int fd = socket(a->ss.ss_family,
				SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);

		if (fd >= 0 &&
		    (!connect(fd, (const struct sockaddr *)&a->ss, a->len) ||
		     errno == EINPROGRESS)) {
			c->fd = fd;
			c->connecting = 1;
			return;
		}
		error = errno;
		if (fd >= 0)
			close(fd);
	}
	reach_call_over(r, peer, error);
}

static void reach_call_begin(struct reach *r, int peer)
{
	struct reach_call *c = &r->calls[peer];

	c->n = sock_resolve(&r->peers[peer].where, c->at, ADDRESSES_MAX, NULL);
	if (c->n < 1)
		reach_call_over(r, peer, REACH_NO_NAME);
	else
		reach_call_next(r, peer, EADDRNOTAVAIL);
}

static void reach_call_again(struct reach *r, int peer, int error)
{
	struct reach_call *c = &r->calls[peer];

	close(c->fd);
	c->fd = -1;
	if (error == EPIPE && ++c->tries < TRIES_MAX)
		c->next = 0;
	reach_call_next(r, peer, error);
}

static void reach_on_connected(struct reach *r, int peer)
{
	struct reach_call *c = &r->calls[peer];
	struct ddp__link me = reach_end(r, peer);
	socklen_t size = sizeof(int);
	int error = 0;

	getsockopt(c->fd, SOL_SOCKET, SO_ERROR, &error, &size);
	reach_no_delay(c->fd);
	if (!error && ddp__hello_call(&c->hello, c->fd, &me))
		error = EPIPE;
	c->connecting = 0;
	if (error)
		reach_call_again(r, peer, error);
}

static void reach_on_answer(struct reach *r, int peer)
{
	struct reach_call *c = &r->calls[peer];
	int rc = ddp__hello_answered(&c->hello, c->fd, r->key);

	if (rc > 0)
		reach_call_over(r, peer, REACH_OK);
	else if (rc == -EPROTO)
		reach_call_over(r, peer, REACH_STRANGER);
	else if (rc < 0)
		reach_call_again(r, peer, EPIPE);
}

/* ---- all of them ---- */

int reach_init(struct reach *r, int me, int n, uint32_t round, const char *addr,
	       uint16_t *port, struct err *e)
{
	*r = (struct reach){.me = me, .n = n, .round = round};
	r->peers = calloc((size_t)n, sizeof(*r->peers));
	r->calls = calloc((size_t)n, sizeof(*r->calls));
	if (!r->peers || !r->calls ||
	    ddp__callers_init(&r->callers, STRANGERS_MAX + n))
		return err_no_memory(e, "%d nodes", n);
	for (int i = 0; i < n; i++)
		r->peers[i].in = r->peers[i].out = r->calls[i].fd = -1;
	r->callers.key = r->key;
	r->callers.owner = r;
	r->callers.expects = reach_expects;
	r->callers.on_caller = reach_on_caller;
	return ddp__listen(&r->listener, addr, port, e);
}

void reach_release(struct reach *r)
{
	for (int i = 0; r->peers && i < r->n; i++) {
		if (r->peers[i].in >= 0)
			close(r->peers[i].in);
		if (r->peers[i].out >= 0)
			close(r->peers[i].out);
	}
	for (int i = 0; r->calls && i < r->n; i++) {
		if (r->calls[i].fd >= 0)
			close(r->calls[i].fd);
	}
	ddp__callers_close(&r->callers);
	ddp__listen_close(&r->listener);
	free(r->peers);
	free(r->calls);
	*r = (struct reach){.n = 0};
}

static void reach_turn(struct reach *r, struct pollfd *polls, int ms)
{
	int n = 0;

	for (; n < r->n; n++) {
		const struct reach_call *c = &r->calls[n];

		polls[n] = (struct pollfd){
			c->fd, c->connecting ? POLLOUT : POLLIN, 0};
	}
	n += ddp__callers_polls(&r->callers, &r->listener, polls + n,
				r->callers.max + DDP__LISTEN_MAX);
	if (poll(polls, (nfds_t)n, ms) <= 0)
		return;
	for (int i = 0; i < r->n; i++) {
		if (polls[i].fd < 0 || !polls[i].revents)
			continue;
		if (r->calls[i].connecting)
			reach_on_connected(r, i);
		else
			reach_on_answer(r, i);
	}
	ddp__callers_serve(&r->callers, &r->listener);
}

/* Fails the calls that have not connected, or have not been answered, by
 * now. */
static void reach_give_up(struct reach *r, int is_connecting)
{
	for (int i = 0; i < r->n; i++) {
		const struct reach_call *c = &r->calls[i];

		if (c->fd >= 0 && c->connecting >= is_connecting)
			reach_call_over(r, i, c->connecting ? REACH_NO_ANSWER
							    : REACH_SILENT);
	}
}

int reach_all(struct reach *r, int connect_ms, int answer_ms, struct err *e)
{
	uint64_t now = clock_ms(), connect_end = now + (uint64_t)connect_ms;
	uint64_t end = connect_end + (uint64_t)answer_ms;
	struct pollfd *polls = calloc((size_t)(r->n + r->callers.max +
					       DDP__LISTEN_MAX),
				      sizeof(*polls));

	if (!polls)
		return err_no_memory(e, "%d nodes", r->n);
	r->missing = r->n - 1;
	for (int i = 0; i < r->n; i++) {
		if (i != r->me)
			reach_call_begin(r, i);
	}
	for (; r->missing && now < end; now = clock_ms()) {
		if (now >= connect_end)
			reach_give_up(r, 1);
		if (r->missing)
			reach_turn(r, polls, (int)((now < connect_end
							    ? connect_end
							    : end) - now));
	}
	reach_give_up(r, 0);
	free(polls);
	return 0;
}

void reach_serve(struct reach *r)
{
	ddp__callers_serve(&r->callers, &r->listener);
}

const char *reach_text(int code)
{
	switch (code) {
	case REACH_OK:
		return "it can be reached";
	case REACH_NO_ANSWER:
		return "no answer (does a firewall drop the packets between "
		       "workers?)";
	case REACH_SILENT:
		return "connected, but not answered (is that node stopped or "
		       "overloaded?)";
	case REACH_STRANGER:
		return "another program answers there";
	case REACH_NO_NAME:
		return "that name has no address here";
	case ECONNREFUSED:
		return "connection refused (does a firewall reject it?)";
	default:
		return strerror(code);
	}
}
