/* web_output.c: a few places, each for a rank whose lines somebody reads. */
#include <stdlib.h>
#include <string.h>

#include "rendezvous/status/job_status.h"
#include "rendezvous/web/web_internal.h"

enum { TEXT_MAX = 1 << 20, TICK_MS = 1000 };

static uint64_t web_output_now_ms(const struct web_output *o)
{
	return uv_now(o->all->server->loop);
}

static void web_output_put(struct web_output *o, const struct wire_node_dump *m)
{
	struct err e = ERR_INIT;
	const struct json *j = json_load(&e);
	struct job_output lines = {0};
	cJSON *to;

	buf_reset(&o->text);
	if (!j || job_output_init(&lines, o->rank, m) < 0) {
		job_output_release(&lines);
		return;
	}
	to = j->object();
	job_output_put_json(j, to, &lines);
	if (json_put(&o->text, j, to, &e) < 0)
		buf_reset(&o->text);
	job_output_release(&lines);
}

static void web_output_on_node(struct dump_reader *r,
			       const struct wire_node_dump *m)
{
	struct web_output *o = (struct web_output *)r;
	struct wire_node_dump late = *m;

	if (!m->answered && !m->text.len)
		late.text = SLICE_STR("its agent does not answer");
	web_output_put(o, &late);
}

static void web_outputs_on_timer(uv_timer_t *t)
{
	struct web_outputs *w = t->data;
	int are_open = 0;

	for (int i = 0; i < WEB_OUTPUTS; i++) {
		struct web_output *o = &w->kept[i];

		if (o->is_open && web_output_now_ms(o) - o->asked_ms >=
					  WEB_OUTPUT_WAIT_MS)
			dump_end_for(w->server, &o->reader);
		are_open |= o->is_open;
	}
	if (!are_open)
		uv_timer_stop(t);
}

static void web_output_on_done(struct dump_reader *r)
{
	struct web_output *o = (struct web_output *)r;

	o->is_open = 0;
}

void web_outputs_init(struct web_outputs *w, struct server *s)
{
	w->server = s;
	uv_timer_init(s->loop, &w->timer);
	w->timer.data = w;
	for (int i = 0; i < WEB_OUTPUTS; i++) {
		struct web_output *o = &w->kept[i];

		o->all = w;
		o->reader.on_node = web_output_on_node;
		o->reader.on_done = web_output_on_done;
		buf_init(&o->text, TEXT_MAX);
	}
}

/* The rank's place: its own, or a free one, or that of a rank which nobody has
 * read for longest. NULL: all others are being asked. */
static struct web_output *web_outputs_find(struct web_outputs *w,
					   const char *job, uint32_t rank)
{
	struct web_output *oldest = NULL;

	for (int i = 0; i < WEB_OUTPUTS; i++) {
		struct web_output *o = &w->kept[i];

		if (o->job && o->rank == rank && strcmp(o->job, job) == 0)
			return o;
		if (!o->is_open && (!oldest || !o->job ||
				    (oldest->job && o->used_ms <
							    oldest->used_ms)))
			oldest = o;
	}
	if (!oldest)
		return NULL;
	free(oldest->job);
	oldest->job = strdup(job);
	oldest->rank = rank;
	buf_reset(&oldest->text);
	return oldest;
}

static void web_output_forget(struct web_output *o)
{
	free(o->job);
	o->job = NULL;
	buf_release(&o->text);
}

/* Returns an HTTP status; 200: asked. */
static int web_output_ask(struct web_output *o, struct http_reply *r)
{
	const struct wire_dump m = {
		.timeout_ms = WEB_OUTPUT_WAIT_MS, .lines = WEB_OUTPUT_LINES,
		.rank = o->rank,
	};
	struct server *s = o->all->server;
	struct err e = ERR_INIT;
	int rc;

	o->is_open = 1;
	o->asked_ms = web_output_now_ms(o);
	rc = dump_start_for(&o->reader, s, SLICE_STR(o->job), &m, &e);
	if (rc < 0) {
		o->is_open = 0;
		web_output_forget(o);
		buf_printf(&r->text, "%s\n", e.text);
		return rc == ERR_REFUSED ? 404 : 503;
	}
	conn_flush_all(&s->pool);
	if (!uv_is_active((uv_handle_t *)&o->all->timer))
		uv_timer_start(&o->all->timer, web_outputs_on_timer, TICK_MS,
			       TICK_MS);
	return 200;
}

int web_outputs_reply(struct web_outputs *w, const char *job, uint32_t rank,
		      struct http_reply *r)
{
	struct web_output *o = web_outputs_find(w, job, rank);
	int status = 200;

	if (!o || !o->job) {
		buf_printf(&r->text, "too many ranks' lines are being read; "
			   "try again in a few seconds\n");
		return 409;
	}
	o->used_ms = web_output_now_ms(o);
	if (!o->is_open && (!o->text.len ||
			    o->used_ms - o->asked_ms >= WEB_OUTPUT_MS))
		status = web_output_ask(o, r);
	if (status != 200)
		return status;
	if (!o->text.len) {
		buf_printf(&r->text, "asking the rank's agent\n");
		return 202;
	}
	r->type = "application/json";
	buf_put(&r->text, o->text.data, o->text.len);
	return 200;
}

void web_outputs_close(struct web_outputs *w, uv_close_cb on_closed)
{
	for (int i = 0; i < WEB_OUTPUTS; i++) {
		dump_end_for(w->server, &w->kept[i].reader);
		web_output_forget(&w->kept[i]);
	}
	uv_close((uv_handle_t *)&w->timer, on_closed);
}
