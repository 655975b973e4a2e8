/* exits.c: EXITED, in order. */
#include "launcher/agent/exits.h"

#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "base/signal_name.h"

int exits_init(struct exits *x, uv_loop_t *loop, uint32_t workers,
	       struct err *e)
{
	uv_timer_init(loop, &x->timer);
	x->timer.data = x;
	x->held = calloc(workers, sizeof(*x->held));
	if (!x->held)
		return err_set(e, -ENOMEM, "out of memory for %u workers",
			       workers);
	return 0;
}

void exits_close(struct exits *x)
{
	uv_close((uv_handle_t *)&x->timer, NULL);
}

void exits_release(struct exits *x)
{
	free(x->held);
	x->held = NULL;
}

static void log_exit(const struct worker *w)
{
	char name[SIGNAL_NAME_MAX];

	if (w->signal)
		log_debug("worker %u (pid %d) was killed by %s", group_rank(w),
			  (int)w->pid, signal_name(w->signal, name));
	else
		log_debug("worker %u (pid %d) exited with code %d",
			  group_rank(w), (int)w->pid, w->code);
}

/* Whether it was told to stop, and where the job was told, ended so. */
static int is_stopped(struct exits *x, struct worker *w)
{
	if (!x->notice->level)
		return w->stopped;
	if (recorder_asks(&x->failure->recorder, w->local_rank) == FLIGHT_TOLD)
		w->stopped = 1;
	return notice_is_obeyed(x->notice, w, w->stopped);
}

static void tell(struct exits *x, struct worker *w)
{
	struct wire_exited m = {
		.round = x->round, .rank = group_rank(w),
		.local_rank = w->local_rank, .pid = w->pid, .code = w->code,
		.signal = w->signal, .ran_ms = w->ran_ms,
		.stopped = (uint8_t)is_stopped(x, w), .core = w->core,
		.max_rss_kib = w->max_rss_kib, .tail = tail_text(&w->tail),
	};
	int failed = w->status != 0 && !m.stopped;

	log_exit(w);
	if (failed)
		failure_examine(x->failure, w, w->status, &m);
	else if (!m.stopped)
		failure_examine_exit(x->failure, w, &m);
	member_exited(x->member, &m);
	/* others wait for this one's news */
	if (failed)
		member_flush(x->member);
}

void exits_flush(struct exits *x)
{
	uint32_t n = x->n;

	uv_timer_stop(&x->timer);
	x->n = 0;
	for (uint32_t i = 0; i < n; i++)
		tell(x, x->held[i]);
	if (n)
		member_flush(x->member);
}

static void on_held_long(uv_timer_t *t)
{
	exits_flush(t->data);
}

void exits_add(struct exits *x, struct worker *w)
{
	int waits = !x->notice->level && !w->stopped &&
		    notice_may_come(x->config, w);

	if (!x->n && !waits) {
		tell(x, w);
		return;
	}
	if (!x->n)
		uv_timer_start(&x->timer, on_held_long, NOTICE_HOLD_MS, 0);
	x->held[x->n++] = w;
}
