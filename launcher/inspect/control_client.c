/* control_client.c: one connection, one request. */
#include "launcher/inspect/control_client.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/loop.h"
#include "launcher/failure/exit_code.h"
#include "rendezvous/client/async_client.h"

enum { REQUEST_ID = 2, /* HELLO's is 1 */ RETRY_MS = 20 };

struct control_client {
	const struct control_request *q;
	uv_loop_t loop;
	struct async_client link;
	uv_timer_t timer;
	struct sock_addr addr;
	int rc; /* 1: in progress */
	struct err *e;
};

static void control_client_end(struct control_client *c, int rc)
{
	if (c->rc <= 0)
		return;
	c->rc = rc;
	async_client_close(&c->link);
	uv_close((uv_handle_t *)&c->timer, NULL);
}

static int control_client_handle(struct control_client *c,
				 const struct wire_frame *f)
{
	struct wire_error why;
	int rc;

	if (f->kind == WIRE_ERROR_REPLY) {
		rc = wire_get_error(f, &why, c->e);
		if (rc < 0)
			return rc;
		return err_set(c->e, exit_code_refusal(why.code), "%.*s",
			       SLICE_FMT(why.text));
	}
	if (f->kind == WIRE_REPLY)
		return f->id == REQUEST_ID ? 0 : 1;
	rc = c->q->on_notice(c->q->arg, f, c->e);
	return rc < 0 ? rc : 1;
}

static void control_client_on_frame(struct async_client *l,
				    const struct wire_frame *f)
{
	struct control_client *c = l->owner;
	int rc = control_client_handle(c, f);

	if (rc <= 0)
		control_client_end(c, rc);
}

static void control_client_on_lost(struct async_client *l,
				   const struct err *why)
{
	struct control_client *c = l->owner;

	*c->e = *why;
	control_client_end(c, why->code);
}

static void control_client_on_closed(struct async_client *l)
{
}

static void control_client_on_timer(uv_timer_t *t)
{
	struct control_client *c = t->data;
	char at[SOCK_TEXT_MAX];
	int rc = async_client_munge_is_late(&c->link, c->e);

	if (rc == 0)
		rc = err_set(c->e, ERR_TIMEOUT, "rendezvous server %s: no "
			     "answer", sock_addr_text(&c->link.addr, at));
	control_client_end(c, rc);
}

static const struct async_client_events events = {
	.on_frame = control_client_on_frame,
	.on_lost = control_client_on_lost,
	.on_closed = control_client_on_closed,
};

static void control_client_run(struct control_client *c)
{
	char host[SOCK_HOST_MAX];
	struct wire_hello hello = {.role = WIRE_TOOL,
				   .job = SLICE_STR(c->q->job)};
	int rc;

	sock_host_name(host);
	hello.host = SLICE_STR(host);
	c->rc = loop_check(loop_init(&c->loop), c->e,
			   "cannot create an event loop");
	if (c->rc < 0)
		return;
	uv_timer_init(&c->loop, &c->timer);
	c->timer.data = c;
	c->rc = 1;
	rc = async_client_start(&c->link, &c->loop, &c->addr, &hello,
				c->q->auth, &events, c->e);
	if (rc < 0) {
		c->rc = rc;
		uv_close((uv_handle_t *)&c->timer, NULL);
	} else {
		c->link.owner = c;
		async_client_send_preface(&c->link);
		c->q->put(async_client_out(&c->link), REQUEST_ID, c->q->arg);
		async_client_flush(&c->link);
		uv_timer_start(&c->timer, control_client_on_timer,
			       c->q->timeout_ms, 0);
	}
	uv_run(&c->loop, UV_RUN_DEFAULT);
	uv_loop_close(&c->loop);
}

/* A standby reports after 2 s that there is no leader yet: try again. */
static void control_client_run_until(struct control_client *c)
{
	uint64_t end = clock_ms() + c->q->timeout_ms;

	do {
		control_client_run(c);
	} while (c->rc == ERR_NOT_YET && clock_ms() < end &&
		 poll(NULL, 0, RETRY_MS) == 0);
}

int control_client_request(const struct endpoint *server,
			   const struct control_request *q, struct err *e)
{
	struct control_client *c = calloc(1, sizeof(*c));
	int rc;

	if (!c)
		return err_no_memory(e, "the request");
	c->q = q;
	c->e = e;
	rc = sock_resolve(server, &c->addr, 1, e);
	if (rc > 0) {
		control_client_run_until(c);
		rc = c->rc;
	}
	free(c);
	return rc;
}

int control_client_job_auth(struct auth *a, const struct flight_file *job,
			    struct err *e)
{
	char key[FLIGHT_KEY_MAX];

	memcpy(key, job->job_key, sizeof(key));
	key[sizeof(key) - 1] = '\0';
	if (key[0])
		return auth_of_key(a, key, e);
	auth_none(a);
	return 0;
}

/* ---- for the command line ---- */

void control_client_print_help(const char *usage,
			       const struct option_spec *options,
			       const char *what)
{
	fputs(usage, stdout);
	option_print_help(options);
	printf("\nExit code: 0, or 1 if there is no such %s.\n", what);
}

int control_client_fail(const struct err *e, int code)
{
	log_error("error: %s", e->text);
	return code;
}
