/* web_dump.c: starts a dump, and keeps its text until the next one. */
#include <stdlib.h>
#include <string.h>

#include "rendezvous/web/web_internal.h"

enum { LATE_MS = 1000 }; /* for replies that agents send at the deadline */

static void web_dump_on_node(struct dump_reader *r,
			     const struct wire_node_dump *m)
{
	struct web_dump *d = (struct web_dump *)r;

	if (m->node_rank >= 0)
		buf_printf(&d->text, "== node %d (%.*s) ==\n",
			   (int)m->node_rank, SLICE_FMT(m->host));
	else
		buf_printf(&d->text, "== %.*s ==\n", SLICE_FMT(m->host));
	if (m->text.len)
		buf_printf(&d->text, "%.*s\n", SLICE_FMT(m->text));
	else if (!m->answered)
		buf_printf(&d->text, "no reply within %d s; last heard from "
			   "%.1f s ago\n", WEB_DUMP_MS / 1000,
			   (double)m->silent_ms / 1e3);
	buf_put(&d->text, m->page.data, m->page.len);
	buf_put(&d->text, "\n", 1);
}

static void web_dump_on_done(struct dump_reader *r)
{
	struct web_dump *d = (struct web_dump *)r;

	d->is_open = 0;
	uv_timer_stop(&d->timer);
}

static void web_dump_on_timer(uv_timer_t *t)
{
	struct web_dump *d = t->data;

	dump_end_for(d->server, &d->reader);
}

void web_dump_init(struct web_dump *d, struct server *s)
{
	d->reader.on_node = web_dump_on_node;
	d->reader.on_done = web_dump_on_done;
	d->server = s;
	buf_init(&d->text, WEB_DUMP_MAX);
	uv_timer_init(s->loop, &d->timer);
	d->timer.data = d;
}

static int web_dump_is(const struct web_dump *d, const char *job,
		       const char *id)
{
	return d->job && d->id && strcmp(d->job, job) == 0 &&
	       strcmp(d->id, id) == 0;
}

static int web_dump_start(struct web_dump *d, const char *job, const char *id,
			  struct http_reply *r)
{
	const struct wire_dump m = {.last = 8, .timeout_ms = WEB_DUMP_MS};
	struct err e = ERR_INIT;
	int rc;

	free(d->job);
	free(d->id);
	d->job = strdup(job);
	d->id = strdup(id);
	buf_reset(&d->text);
	if (!d->job || !d->id)
		return 503;
	d->is_open = 1;
	uv_timer_start(&d->timer, web_dump_on_timer, WEB_DUMP_MS + LATE_MS, 0);
	rc = dump_start_for(&d->reader, d->server, SLICE_STR(job), &m, &e);
	if (rc == 0) {
		conn_flush_all(&d->server->pool);
		return 202;
	}
	web_dump_on_done(&d->reader);
	free(d->id);
	d->id = NULL;
	buf_printf(&r->text, "%s\n", e.text);
	return rc == ERR_REFUSED ? 404 : 503;
}

int web_dump_reply(struct web_dump *d, const char *job, const char *id,
		   struct http_reply *r)
{
	int status = 202;

	if (!web_dump_is(d, job, id)) {
		if (d->is_open) {
			buf_printf(&r->text, "another dump is under way; try "
				   "again in a few seconds\n");
			return 409;
		}
		status = web_dump_start(d, job, id, r);
		if (status != 202)
			return status;
	}
	if (d->is_open) {
		buf_printf(&r->text, "the dump is under way\n");
		return 202;
	}
	buf_put(&r->text, d->text.data, d->text.len);
	if (d->text.failed)
		buf_printf(&r->text, "... the rest is missing: the dump has "
			   "more than %d bytes; use ddprun dump\n",
			   WEB_DUMP_MAX);
	return 200;
}

void web_dump_close(struct web_dump *d, uv_close_cb on_closed)
{
	dump_end_for(d->server, &d->reader);
	free(d->job);
	free(d->id);
	d->job = d->id = NULL;
	buf_release(&d->text);
	uv_close((uv_handle_t *)&d->timer, on_closed);
}
