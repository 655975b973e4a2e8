/* worker_shutdown.c: a flag in the flight recorder, signals and a timer. */
#include "launcher/agent/worker_shutdown.h"

#include <signal.h>

#include "base/log.h"

enum { ANNOUNCE_MS = 1000 }; /* the log mentions a stop that takes longer */

static void worker_shutdown_log(const struct worker_shutdown *s)
{
	double left = (double)s->left_ms / 1000.0;
	uint32_t n = s->group->running;

	if (n)
		log_info(
			"%s; waiting for %u worker%s to stop (SIGKILL in %g s)",
			s->cause, n, n == 1 ? "" : "s", left);
	else if (s->is_far)
		log_info("%s; waiting for the workers of other nodes to stop "
			 "(SIGKILL in %g s)",
			 s->cause, left);
	else
		log_info("%s; waiting for processes that the workers left "
			 "behind to stop (SIGKILL in %g s)",
			 s->cause, left);
}

static void worker_shutdown_on_timer(uv_timer_t *t)
{
	struct worker_shutdown *s = t->data;

	if (s->is_announced || !s->left_ms) {
		s->on_over(s->owner);
		return;
	}
	s->is_announced = 1;
	worker_shutdown_log(s);
	uv_timer_start(t, worker_shutdown_on_timer, s->left_ms + 1, 0);
}

static void worker_shutdown_on_sweep_timer(uv_timer_t *t)
{
	struct worker_shutdown *s = t->data;

	s->sweep.looks++;
	s->on_sweep(s->owner);
}

void worker_shutdown_init(struct worker_shutdown *s, uv_loop_t *loop,
			  struct worker_group *group, struct recorder *recorder)
{
	s->group = group;
	s->recorder = recorder;
	s->signal = SIGTERM;
	uv_timer_init(loop, &s->timer);
	uv_timer_init(loop, &s->sweep_timer);
	s->timer.data = s->sweep_timer.data = s;
}

void worker_shutdown_close(struct worker_shutdown *s)
{
	uv_close((uv_handle_t *)&s->timer, NULL);
	uv_close((uv_handle_t *)&s->sweep_timer, NULL);
}

void worker_shutdown_release(struct worker_shutdown *s)
{
	sweep_release(&s->sweep);
}

uint32_t worker_shutdown_notify(struct worker_shutdown *s, int signal)
{
	struct worker_group *g = s->group;
	uint32_t notified = 0;

	/* before the signals: a worker that begins to poll now sees the flag */
	recorder_stop(s->recorder);
	for (uint32_t i = 0; i < g->n; i++) {
		struct worker *w = &g->workers[i];
		int polls = w->running && recorder_asks(s->recorder, i);

		if (w->running && !polls && signal)
			worker_stop(w, signal);
		notified += w->running && (polls || signal);
	}
	return notified;
}

void worker_shutdown_signal(struct worker_shutdown *s)
{
	struct worker_group *g = s->group;

	for (uint32_t i = 0; i < g->n; i++) {
		if (g->workers[i].had != s->signal)
			worker_stop(&g->workers[i], s->signal);
	}
}

void worker_shutdown_kill(struct worker_shutdown *s)
{
	uint32_t n = s->group->running;

	/* log it once, even if it is called again while they are dying */
	if (n && s->signal != SIGKILL)
		log_info("killing %u worker%s", n, n == 1 ? "" : "s");
	worker_shutdown_end_grace(s);
	s->signal = SIGKILL;
	sweep_forget(&s->sweep);
	worker_group_stop(s->group, SIGKILL);
}

void worker_shutdown_set_grace(struct worker_shutdown *s, uint32_t ms)
{
	if (ms == SHUTDOWN_NO_LIMIT) {
		worker_shutdown_end_grace(s);
		return;
	}
	s->is_announced = 0;
	s->left_ms = ms > ANNOUNCE_MS ? ms - ANNOUNCE_MS : 0;
	uv_timer_start(&s->timer, worker_shutdown_on_timer,
		       ms < ANNOUNCE_MS ? ms : ANNOUNCE_MS, 0);
}

void worker_shutdown_wait(struct worker_shutdown *s, uint32_t ms)
{
	s->is_announced = 1;
	uv_timer_start(&s->timer, worker_shutdown_on_timer, ms, 0);
}

void worker_shutdown_end_grace(struct worker_shutdown *s)
{
	uv_timer_stop(&s->timer);
}

int worker_shutdown_has_grace(const struct worker_shutdown *s)
{
	return uv_is_active((const uv_handle_t *)&s->timer);
}

void worker_shutdown_sweep(struct worker_shutdown *s, const pid_t *ours,
			   int nours)
{
	/* a shell's background commands ignore SIGINT and SIGQUIT */
	int signal = s->signal == SIGKILL ? SIGKILL : SIGTERM;

	if (s->group->running || s->group->closing)
		return;
	if (sweep_children(&s->sweep, ours, nours, s->marks, signal) == 0)
		worker_group_close(s->group);
	if (!s->sweep.in_exec)
		uv_timer_stop(&s->sweep_timer);
	else if (!uv_is_active((uv_handle_t *)&s->sweep_timer))
		uv_timer_start(&s->sweep_timer, worker_shutdown_on_sweep_timer,
			       SWEEP_LOOK_MS, 0);
}

void worker_shutdown_begin(struct worker_shutdown *s)
{
	sweep_forget(&s->sweep);
}
