/* exit_reports.c: sends EXITED messages, in order. */
#include "launcher/agent/exit_reports.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "launcher/failure/exit_code.h"

int exit_reports_init(struct exit_reports *r, uv_loop_t *loop, uint32_t workers,
		      struct err *e)
{
	uv_timer_init(loop, &r->timer);
	r->timer.data = r;
	r->held = calloc(workers, sizeof(*r->held));
	if (!r->held)
		return err_no_memory(e, "%u workers", workers);
	return 0;
}

void exit_reports_close(struct exit_reports *r)
{
	uv_close((uv_handle_t *)&r->timer, NULL);
}

void exit_reports_release(struct exit_reports *r)
{
	free(r->held);
	r->held = NULL;
}

static void exit_report_log(const struct worker *w)
{
	char name[SIGNAL_NAME_MAX];

	if (w->signal)
		log_debug("worker %u (pid %d) was killed by %s", worker_rank(w),
			  (int)w->pid, signal_name(w->signal, name));
	else
		log_debug("worker %u (pid %d) exited with code %d",
			  worker_rank(w), (int)w->pid, w->code);
}

/* Whether w was notified and, after a request to stop the job, complied. */
static int exit_report_is_stopped(struct exit_reports *r, struct worker *w)
{
	if (!r->stop->level)
		return w->stopped;
	if (recorder_asks(&r->failure->recorder, w->local_rank) ==
	    FLIGHT_NOTIFIED)
		w->stopped = 1;
	return stop_request_is_obeyed(r->stop, w, w->stopped);
}

/* What the server needs to find the rank for which this one waited too long. It
 * is not collected if nobody needs it: a restart would wait until all workers
 * have been examined. */
static int exit_report_may_be_victims(const struct wire_exited *m)
{
	return m->missed.len || m->why.len;
}

/* ddprun-check ended, not the program that it starts, which may have the same
 * exit code. */
static int exit_report_is_unfit(const struct exit_reports *r,
				const struct worker *w,
				const struct wire_exited *m)
{
	return w->code == EXIT_UNFIT && r->options->has_preflight &&
	       slice_has(m->why, " is not fit: ");
}

/* ---- --role-optional ---- */

static void exit_report_announce(struct exit_reports *r, const struct worker *w,
				 int is_left_out, const char *text)
{
	const struct wire_role_news news = {
		.round = r->round, .rank = worker_rank(w),
		.left_out = (uint8_t)is_left_out, .host = SLICE_STR(""),
		.text = SLICE_STR(text),
	};

	log_warn("%s", text);
	member_role_news(r->member, &news);
}

/* A worker of an optional role has failed: starts it again alone, and returns
 * 1, or leaves it out. */
static int exit_report_optional(struct exit_reports *r, const struct role *role,
				struct worker *w, struct wire_exited *m)
{
	char name[SIGNAL_NAME_MAX], how[200], text[WIRE_NAME_MAX];
	struct err e = ERR_INIT;
	int pid = (int)w->pid, is_again;

	if (m->signal)
		snprintf(how, sizeof(how), "was killed by %s",
			 signal_name(m->signal, name));
	else
		snprintf(how, sizeof(how), "exited with code %d", m->code);
	is_again = r->start_again(r->owner, w, &e);
	if (is_again)
		snprintf(text, sizeof(text), "rank %u of role %s (pid %d) %s; "
			 "it was started again alone, restart %u of %ld",
			 m->rank, role->name, pid, how, w->restarts,
			 r->options->rdzv.max_restarts);
	else
		snprintf(text, sizeof(text), "rank %u of role %s (pid %d) %s; "
			 "the role is optional: the job continues without "
			 "it%s%.600s", m->rank, role->name, pid, how,
			 e.code ? ", because " : "", e.code ? e.text : "");
	m->early = WIRE_LEFT_OUT;
	exit_report_announce(r, w, !is_again, text);
	return is_again;
}

static void exit_report_send(struct exit_reports *r, struct worker *w)
{
	const struct role *role = roles_of(r->options->failure.roles,
					   worker_rank(w));
	struct wire_exited m = {
		.round = r->round, .rank = worker_rank(w),
		.local_rank = w->local_rank, .pid = w->pid, .code = w->code,
		.signal = w->signal, .ran_ms = w->ran_ms,
		.stopped = (uint8_t)exit_report_is_stopped(r, w),
		.core = w->core, .max_rss_kib = w->max_rss_kib,
		.tail = tail_last(tail_text(&w->tail), TAIL_SHOWN),
	};
	int failed = w->status != 0 && !m.stopped;

	exit_report_log(w);
	if (failed && role && role->is_optional) {
		if (exit_report_optional(r, role, w, &m))
			return;
		failed = 0;
	} else if (failed) {
		m.steps = watch_steps(r->watch);
		failure_examine(r->failure, w, w->status, &m);
	} else if (!m.stopped) {
		failure_examine_exit(r->failure, w, &m);
	}
	if (failed && exit_report_is_unfit(r, w, &m)) {
		r->on_unfit(r->owner, m.why);
		return;
	}
	if (failed && exit_report_may_be_victims(&m)) /* comes before EXITED */
		watch_report_failure(r->watch, w->local_rank);
	member_exited(r->member, &m);
	/* the other nodes wait for this report */
	if (failed)
		member_flush(r->member);
}

void exit_reports_flush(struct exit_reports *r)
{
	uint32_t n = r->n;

	uv_timer_stop(&r->timer);
	r->n = 0;
	for (uint32_t i = 0; i < n; i++)
		exit_report_send(r, r->held[i]);
	if (n)
		member_flush(r->member);
}

static void exit_reports_on_hold_over(uv_timer_t *t)
{
	exit_reports_flush(t->data);
}

void exit_reports_add(struct exit_reports *r, struct worker *w)
{
	int waits = !r->stop->level && !w->stopped &&
		    stop_request_may_follow(&r->options->stop, w);

	if (!r->n && !waits) {
		exit_report_send(r, w);
		return;
	}
	if (!r->n)
		uv_timer_start(&r->timer, exit_reports_on_hold_over,
			       STOP_HOLD_MS, 0);
	r->held[r->n++] = w;
}
