/* tcp_callers.c: calls other ranks, and takes calls until they are proved. */
#include "worker-sdk/tcp/tcp_callers.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

#define HOLD_NS 1000000000u /* how long a silent caller keeps its place */

enum { ROUNDS_MAX = 4 };

struct ddp__caller {
	int fd; /* -1: finished */
	int answered;
	uint64_t since;
	struct ddp__hello hello;
};

int ddp__dial(struct ddp__dial *d, int error)
{
	if (d->fd >= 0)
		close(d->fd);
	d->fd = -1;
	while (d->next < d->n) {
		int fd = sock_begin_connect(&d->at[d->next++]);

		if (fd >= 0) {
			d->fd = fd;
			d->is_connecting = 1;
			return 0;
		}
		error = -fd;
	}
	if (error != EHOSTUNREACH || d->no_retry || d->has_retried)
		return error;
	d->has_retried = 1;
	d->next = 0;
	return ddp__dial(d, error);
}

int ddp__dial_connected(struct ddp__dial *d, const struct ddp__link *me)
{
	socklen_t size = sizeof(int);
	int error = 0;

	d->is_connecting = 0;
	getsockopt(d->fd, SOL_SOCKET, SO_ERROR, &error, &size);
	if (!error && ddp__hello_call(&d->hello, d->fd, me))
		error = EPIPE;
	return error ? ddp__dial(d, error) : 0;
}

int ddp__dial_again(struct ddp__dial *d)
{
	if (++d->rounds < ROUNDS_MAX)
		d->next = 0;
	else
		d->next = d->n;
	return ddp__dial(d, EPIPE);
}

int ddp__callers_init(struct ddp__callers *c, int max)
{
	memset(c, 0, sizeof(*c));
	c->list = calloc((size_t)max, sizeof(*c->list));
	c->max = max;
	return c->list ? 0 : -ENOMEM;
}

void ddp__callers_close(struct ddp__callers *c)
{
	for (int i = 0; i < c->n; i++)
		close(c->list[i].fd);
	free(c->list);
	memset(c, 0, sizeof(*c));
}

/* 1: the caller needs another step; 0: more bytes have to arrive; < 0:
 * disconnect it. */
static int caller_step(const struct ddp__callers *c, struct ddp__caller *k)
{
	struct ddp__link me;
	int rc;

	if (k->answered)
		return ddp__hello_proved(&k->hello, k->fd, c->key);
	rc = ddp__hello_called(&k->hello, k->fd);
	if (rc <= 0)
		return rc;
	if (!c->expects(c->owner, &k->hello.caller, &me))
		return -EPROTO;
	k->answered = 1;
	rc = ddp__hello_answer(&k->hello, k->fd, &me, c->key);
	return rc ? rc : 1;
}

static void caller_receive(struct ddp__callers *c, struct ddp__caller *k)
{
	int was_answered, rc;

	do {
		was_answered = k->answered;
		rc = caller_step(c, k);
	} while (rc > 0 && !was_answered);
	if (rc == 0)
		return;
	if (rc > 0)
		c->on_caller(c->owner, &k->hello, k->fd);
	else
		close(k->fd);
	k->fd = -1;
}

/* Closes the gaps that finished callers leave. */
static void callers_tidy(struct ddp__callers *c)
{
	int n = 0;

	for (int i = 0; i < c->n; i++)
		if (c->list[i].fd >= 0)
			c->list[n++] = c->list[i];
	c->n = n;
}

/* 1 if a place is free, or can be taken from a caller that was silent for too
 * long. */
static int callers_have_room(const struct ddp__callers *c)
{
	return c->n < c->max || clock_ns() - c->list[0].since > HOLD_NS;
}

static void callers_drop_oldest(struct ddp__callers *c)
{
	close(c->list[0].fd);
	c->list[0].fd = -1;
	callers_tidy(c);
}

void ddp__callers_serve(struct ddp__callers *c, const struct ddp__listener *l)
{
	for (int i = 0; i < c->n; i++)
		caller_receive(c, &c->list[i]);
	callers_tidy(c);
	while (callers_have_room(c)) {
		struct ddp__caller *k;
		int fd = ddp__listen_accept(l);

		if (fd < 0)
			return;
		if (c->n == c->max)
			callers_drop_oldest(c);
		k = &c->list[c->n++];
		*k = (struct ddp__caller){.fd = fd, .since = clock_ns()};
		caller_receive(c, k); /* most new callers have sent their call
				       * by now */
		callers_tidy(c);
	}
}

int ddp__callers_polls(const struct ddp__callers *c,
		       const struct ddp__listener *l, struct pollfd *out,
		       int max)
{
	int n = callers_have_room(c) ? ddp__listen_polls(l, out, max) : 0;

	for (int i = 0; i < c->n && n < max; i++)
		out[n++] = (struct pollfd){c->list[i].fd, POLLIN, 0};
	return n;
}
