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
};

struct reach_call {
	struct sock_addr at[ADDRESSES_MAX];
	struct ddp__dial dial; /* fd -1: over */
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
	struct ddp__dial *d = &r->calls[peer].dial;

	if (code != REACH_OK && d->fd >= 0)
		close(d->fd);
	r->peers[peer].code = code;
	r->peers[peer].out = code == REACH_OK ? d->fd : -1;
	d->fd = -1;
	r->missing--;
}

/* The result of a call of ddp__dial. */
static void reach_called(struct reach *r, int peer, int error)
{
	if (error)
		reach_call_over(r, peer, error);
}

static void reach_call_begin(struct reach *r, int peer)
{
	struct reach_call *c = &r->calls[peer];
	int n = sock_resolve(&r->peers[peer].where, c->at, ADDRESSES_MAX, NULL);

	c->dial = (struct ddp__dial){.at = c->at, .n = n, .no_retry = 1,
				     .fd = -1};
	if (n < 1)
		reach_call_over(r, peer, REACH_NO_NAME);
	else
		reach_called(r, peer, ddp__dial(&c->dial, EADDRNOTAVAIL));
}

static void reach_on_connected(struct reach *r, int peer)
{
	struct ddp__dial *d = &r->calls[peer].dial;
	struct ddp__link me = reach_end(r, peer);
	int error;

	reach_no_delay(d->fd);
	error = ddp__dial_connected(d, &me);
	reach_called(r, peer, error == EPIPE ? ddp__dial_again(d) : error);
}

static void reach_on_answer(struct reach *r, int peer)
{
	struct ddp__dial *d = &r->calls[peer].dial;
	int rc = ddp__hello_answered(&d->hello, d->fd, r->key);

	if (rc > 0)
		reach_call_over(r, peer, REACH_OK);
	else if (rc == -EPROTO)
		reach_call_over(r, peer, REACH_STRANGER);
	else if (rc < 0)
		reach_called(r, peer, ddp__dial_again(d));
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
		r->peers[i].in = r->peers[i].out = r->calls[i].dial.fd = -1;
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
		if (r->calls[i].dial.fd >= 0)
			close(r->calls[i].dial.fd);
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
		const struct ddp__dial *d = &r->calls[n].dial;

		polls[n] = (struct pollfd){
			d->fd, d->is_connecting ? POLLOUT : POLLIN, 0};
	}
	n += ddp__callers_polls(&r->callers, &r->listener, polls + n,
				r->callers.max + DDP__LISTEN_MAX);
	if (poll(polls, (nfds_t)n, ms) <= 0)
		return;
	for (int i = 0; i < r->n; i++) {
		if (polls[i].fd < 0 || !polls[i].revents)
			continue;
		if (r->calls[i].dial.is_connecting)
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
		const struct ddp__dial *d = &r->calls[i].dial;

		if (d->fd >= 0 && d->is_connecting >= is_connecting)
			reach_call_over(r, i, d->is_connecting
						      ? REACH_NO_ANSWER
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
