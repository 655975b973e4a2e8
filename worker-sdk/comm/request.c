/* request.c: requests, and the public calls that test and wait for them. */
#include "worker-sdk/comm/request.h"

#include <pthread.h>
#include <sched.h>
#include <stdlib.h>

#include "base/clock.h"
#include "worker-sdk/comm/call_guard.h"
#include "worker-sdk/core/call.h"
#include "worker-sdk/core/last_error.h"

enum { POLL_GAP_NS = 20000 };

/* When this thread's last ddp_test that found nothing returned, and how long it
 * had left the CPU to others. */
static _Thread_local struct {
	uint64_t until_ns, yielded_ns;
} polled;

/* Requests whose communicator was freed. The program still owns each one until
 * it waits for it, from any thread. */
static struct ddp_request *orphans;
static pthread_mutex_t orphans_lock = PTHREAD_MUTEX_INITIALIZER;

static void request_unlink(struct ddp_request *r)
{
	*r->link = r->next;
	if (r->next)
		r->next->link = r->link;
}

static void request_link(struct ddp_request *r, struct ddp_request **list)
{
	r->next = *list;
	r->link = list;
	if (r->next)
		r->next->link = &r->next;
	*list = r;
}

struct ddp_request *ddp__request_new(struct ddp_comm *c,
				     const struct ddp__call *call,
				     const void *send, void *recv)
{
	/* counts, which the program need not keep, lie behind the op */
	size_t op_size = (c->backend->op_size + 15) / 16 * 16;
	size_t counts = call->counts ? ddp__counts_size(call->counts) : 0;
	struct ddp_request *r = calloc(1, sizeof(*r) + op_size + counts);

	if (!r)
		return NULL;
	r->comm = c;
	r->call = *call;
	if (call->counts)
		r->call.counts = ddp__counts_copy(r->op + op_size,
						  call->counts);
	r->send = send;
	r->recv = recv;
	request_link(r, &c->requests);
	return r;
}

/* Removes r from the backend, the recorder and its list. */
static void request_detach(struct ddp_request *r)
{
	if (!r->ended) /* nothing waits for it any more */
		flight_end(r->comm->world->flight, r->call.ticket, 1);
	if (r->own)
		ddp__self_forget(r);
	else if (r->comm->state && r->comm->backend->release)
		r->comm->backend->release(r);
	request_unlink(r);
}

void ddp__request_free(struct ddp_request *r)
{
	request_detach(r);
	free(r);
}

void ddp__request_orphan(struct ddp_request *r)
{
	request_detach(r);
	if (!r->ended)
		r->ended = ERR_ABORTED;
	r->comm = NULL;
	pthread_mutex_lock(&orphans_lock);
	request_link(r, &orphans);
	pthread_mutex_unlock(&orphans_lock);
}

/* 1, or the reason why it did not end. */
static int orphan_check(const struct ddp_request *r, struct err *e)
{
	char text[DDP__CALL_TEXT];

	if (r->ended > 0)
		return r->ended;
	return err_set(e, r->ended, "%s: its communicator was freed before it "
		       "ended; wait for requests before you free a group or "
		       "leave the world", ddp__call_text(&r->call, text));
}

static int orphan_wait(ddp_request **request, struct err *e)
{
	int rc = orphan_check(*request, e);

	pthread_mutex_lock(&orphans_lock);
	request_unlink(*request);
	pthread_mutex_unlock(&orphans_lock);
	free(*request);
	*request = NULL;
	return rc < 0 ? rc : 0;
}

/* 1, 0 or its error, after at most timeout_ms. */
static int request_check(struct ddp_request *r, int timeout_ms, struct err *e)
{
	struct ddp_comm *c = r->comm;
	_Atomic uint64_t *waited_ns;
	uint64_t from;
	int rc;

	if (r->ended < 0)
		*e = c->broken;
	if (r->ended)
		return r->ended;
	waited_ns = timeout_ms ? ddp__wait_counter(c, &r->call) : NULL;
	from = waited_ns ? flight_clock() : 0;
	if (r->own)
		rc = ddp__self_test(r, timeout_ms, e);
	else if (timeout_ms)
		rc = c->backend->wait(r, timeout_ms, e);
	else
		rc = c->backend->test(r, e);
	if (waited_ns)
		flight_add_wait(waited_ns, from);
	if (rc < 0)
		rc = ddp__leave(c, &r->call, rc, e);
	else if (rc)
		ddp__leave(c, &r->call, 0, e);
	r->ended = rc;
	return rc;
}

/* A test that found nothing, right after another one: the program polls, and
 * the time between them is a wait. If it is long, the program works meanwhile,
 * and only the time that sched_yield took counts. The world is acquired. */
static void request_count_poll(const struct ddp_request *r)
{
	_Atomic uint64_t *waited_ns = ddp__wait_counter(r->comm, &r->call);
	uint64_t gap = clock_ns() - polled.until_ns;

	if (waited_ns)
		flight_add_wait_ns(waited_ns, polled.yielded_ns +
					   (gap < POLL_GAP_NS ? gap : 0));
	polled.yielded_ns = 0;
}

static int request_test(struct ddp_request *r, int polls)
{
	struct err *e = ddp__last_error();
	int rc;

	if (!r)
		return err_set(e, ERR_ARGUMENT, "ddp_test: request is NULL");
	if (!r->comm)
		return orphan_check(r, e);
	rc = ddp__acquire(r->comm, &r->call, e);
	if (rc)
		return rc;
	rc = request_check(r, 0, e);
	if (!rc && polls)
		request_count_poll(r);
	ddp__release(r->comm);
	return rc;
}

int ddp__request_test(struct ddp_request *r)
{
	return request_test(r, 0);
}

int ddp_test(ddp_request *r)
{
	int rc = request_test(r, 1);
	uint64_t from;

	if (rc)
		return rc;
	from = clock_ns();
	/* a polling program may keep other ranks from their CPU */
	sched_yield();
	polled.until_ns = clock_ns();
	polled.yielded_ns = polled.until_ns - from;
	return 0;
}

static int request_timed_out(const struct ddp_request *r, int timeout_ms,
			     struct err *e)
{
	char text[DDP__CALL_TEXT];

	return err_set(e, ERR_TIMEOUT, "%s: still in progress after %d ms",
		       ddp__call_text(&r->call, text), timeout_ms);
}

int ddp_wait_timeout(ddp_request **request, int timeout_ms)
{
	struct err *e = ddp__last_error();
	struct ddp_request *r;
	struct ddp_comm *c;
	int rc;

	if (!request)
		return err_set(e, ERR_ARGUMENT, "ddp_wait: request is NULL");
	r = *request;
	if (!r)
		return 0;
	c = r->comm;
	if (!c)
		return orphan_wait(request, e);
	rc = ddp__acquire(c, &r->call, e);
	if (rc)
		return rc;
	rc = request_check(r, timeout_ms, e);
	if (rc) {
		ddp__request_free(r);
		*request = NULL;
	} else {
		rc = request_timed_out(r, timeout_ms, e);
	}
	ddp__release(c);
	return rc < 0 ? rc : 0;
}

int ddp_wait(ddp_request **request)
{
	return ddp_wait_timeout(request, -1);
}

int ddp_wait_all(ddp_request **requests, int n)
{
	struct err *e = ddp__last_error(), first = ERR_INIT;

	if (n < 0 || (n && !requests))
		return err_set(e, ERR_ARGUMENT,
			       "ddp_wait_all: %d requests at %p", n,
			       (void *)requests);
	for (int i = 0; i < n; i++) {
		int rc = ddp_wait(&requests[i]);

		if (rc && !first.code)
			first = *e;
	}
	if (first.code)
		*e = first;
	return first.code;
}
