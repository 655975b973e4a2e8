/* tcp_callers.c: see tcp_callers.h. */
#include "worker-sdk/tcp/tcp_callers.h"

#include <errno.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

#define HOLD_NS 1000000000u /* how long a silent caller keeps its place */

struct ddp__caller {
	int fd; /* -1: finished */
	int answered;
	uint64_t since;
	struct ddp__hello hello;
};

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
