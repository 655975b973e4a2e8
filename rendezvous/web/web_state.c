/* web_state.c: makes a state from the frames of `ddprun status`. */
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "rendezvous/status/job_status.h"
#include "rendezvous/web/web_internal.h"

static void web_state_release(struct web_state *x)
{
	free(x->job);
	buf_release(&x->text);
	x->job = NULL;
}

/* A job in short. */
static void web_state_put_short(struct buf *out, const struct json *j,
				const struct hosted_job *h)
{
	struct wire_job m;

	job_status(h->job, &m);
	buf_printf(out, "{\"job\":");
	json_put_text(out, j, m.job);
	buf_printf(out, ",\"state\":\"%s\",\"state_seconds\":%.3f,"
		   "\"round\":%u,\"restarts\":%u,\"joined\":%u,"
		   "\"world_size\":%u,\"connected\":%u,\"ended\":%u}",
		   job_status_state_name(m.state),
		   (double)(uv_now(h->server->loop) - h->since) / 1e3, m.round,
		   m.attempt, m.joined, m.world_size, h->nworkers, m.exited);
}

static void web_state_put_jobs(struct buf *out, const struct json *j,
			       const struct server *s)
{
	struct hosted_job *h = NULL;
	unsigned n = 0;

	buf_printf(out, "\"jobs\":[");
	while ((h = server_next_named_job(s, h))) {
		if (n++ >= WEB_SHORT_MAX)
			continue;
		if (n > 1)
			buf_put(out, ",", 1);
		web_state_put_short(out, j, h);
	}
	buf_printf(out, "],\"more_jobs\":%u",
		   n > WEB_SHORT_MAX ? n - WEB_SHORT_MAX : 0);
}

/* A job in full: what `ddprun status --json` says of it. */
static int web_state_put_full(struct buf *out, struct hosted_job *h,
			      struct err *e)
{
	struct job_status_list l = {.n = 0};
	struct buf frames = BUF_INIT(WEB_STATE_MAX);
	struct slice rest;
	struct wire_frame f;
	int rc = 0;
	long n = 0;

	status_put(&frames, h);
	rest = SLICE(frames.data, frames.len);
	while (rc == 0 && (n = wire_cut(rest, WIRE_BODY_MAX, &f, e)) > 0) {
		rc = job_status_list_add(&l, h->server->endpoint, &f, e);
		rest = SLICE(rest.data + n, rest.len - (size_t)n);
	}
	if (rc == 0)
		rc = n < 0 ? (int)n : job_status_put_json(out, &l, e);
	job_status_list_release(&l);
	buf_release(&frames);
	return rc;
}

static int web_state_make(struct web_state *x, struct server *s, struct err *e)
{
	struct hosted_job *h =
		*x->job ? server_find_named_job(s, SLICE_STR(x->job)) : NULL;
	const struct json *j = json_load(e);
	int rc = 0;

	if (!j)
		return ERR_SYSTEM;
	buf_printf(&x->text, "{\"version\":1,\"server\":");
	json_put_text(&x->text, j, SLICE_STR(s->endpoint));
	buf_put(&x->text, ",", 1);
	web_state_put_jobs(&x->text, j, s);
	buf_printf(&x->text, ",\"rounds\":");
	round_log_put_json(h ? h->rounds : NULL, &x->text, j, uv_now(s->loop));
	buf_printf(&x->text, ",\"status\":");
	if (h)
		rc = web_state_put_full(&x->text, h, e);
	else
		buf_printf(&x->text, "null");
	buf_printf(&x->text, "}\n");
	if (rc == 0 && x->text.failed)
		return err_set(e, ERR_SYSTEM, "the job's state has more than "
			       "%d bytes; ask ddprun status", WEB_STATE_MAX);
	return rc;
}

/* The place of that job, or else the oldest. */
static struct web_state *web_states_choose(struct web_states *w,
					   const char *job)
{
	struct web_state *oldest = w->kept;

	for (struct web_state *x = w->kept; x < w->kept + WEB_STATES; x++) {
		if (x->job && strcmp(x->job, job) == 0)
			return x;
		if (x->number < oldest->number)
			oldest = x;
	}
	return oldest;
}

const struct web_state *web_states_get(struct web_states *w, struct server *s,
				       const char *job, struct err *e)
{
	struct web_state *x = web_states_choose(w, job);
	uint64_t began = clock_ms(), ms;

	if (x->job && strcmp(x->job, job) == 0 &&
	    uv_now(s->loop) < x->until_ms)
		return x;
	web_state_release(x);
	buf_init(&x->text, WEB_STATE_MAX);
	x->job = strdup(job);
	x->number = ++w->last;
	if (!x->job) {
		err_no_memory(e, "the state of the jobs");
		return NULL;
	}
	if (web_state_make(x, s, e) < 0) {
		web_state_release(x);
		return NULL;
	}
	/* with thousands of ranks, agents must not wait for the page */
	ms = (clock_ms() - began) * WEB_STATE_SHARE;
	x->until_ms = uv_now(s->loop) + (ms > WEB_STATE_MS ? ms : WEB_STATE_MS);
	return x;
}

void web_states_release(struct web_states *w)
{
	for (int i = 0; i < WEB_STATES; i++)
		web_state_release(&w->kept[i]);
}
