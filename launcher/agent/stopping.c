/* stopping.c: the cell in the recorder, signals, and one timer. */
#include "launcher/agent/stopping.h"

#include <signal.h>

#include "base/log.h"

enum { SAY_MS = 1000 }; /* a stop that takes longer is announced */

static void say(const struct stopping *s)
{
	double left = (double)s->left_ms / 1000.0;
	uint32_t n = s->group->running;

	if (n)
		log_info("%s; waiting for %u worker%s to stop, killed in %g s",
			 s->cause, n, n == 1 ? "" : "s", left);
	else if (s->far)
		log_info("%s; waiting for the workers of other nodes to stop, "
			 "killed in %g s", s->cause, left);
	else
		log_info("%s; waiting for what the workers left behind to "
			 "stop, killed in %g s", s->cause, left);
}

static void on_timer(uv_timer_t *t)
{
	struct stopping *s = t->data;

	if (s->announced || !s->left_ms) {
		s->on_over(s->owner);
		return;
	}
	s->announced = 1;
	say(s);
	uv_timer_start(t, on_timer, s->left_ms + 1, 0);
}

static void on_look(uv_timer_t *t)
{
	struct stopping *s = t->data;

	s->told.looks++;
	s->on_look(s->owner);
}

void stopping_init(struct stopping *s, uv_loop_t *loop, struct group *group,
		   struct recorder *recorder)
{
	s->group = group;
	s->recorder = recorder;
	s->signal = SIGTERM;
	uv_timer_init(loop, &s->timer);
	uv_timer_init(loop, &s->look);
	s->timer.data = s->look.data = s;
}

void stopping_close(struct stopping *s)
{
	uv_close((uv_handle_t *)&s->timer, NULL);
	uv_close((uv_handle_t *)&s->look, NULL);
}

void stopping_release(struct stopping *s)
{
	sweep_release(&s->told);
}

uint32_t stopping_tell(struct stopping *s, int signal)
{
	struct group *g = s->group;
	uint32_t told = 0;

	/* first: who begins to ask now sees it */
	recorder_stop(s->recorder);
	for (uint32_t i = 0; i < g->n; i++) {
		struct worker *w = &g->workers[i];
		int asks = w->running && recorder_asks(s->recorder, i);

		if (w->running && !asks && signal)
			group_signal_one(w, signal);
		told += w->running && (asks || signal);
	}
	return told;
}

void stopping_signal(struct stopping *s)
{
	struct group *g = s->group;

	for (uint32_t i = 0; i < g->n; i++) {
		if (g->workers[i].had != s->signal)
			group_signal_one(&g->workers[i], s->signal);
	}
}

void stopping_kill(struct stopping *s)
{
	uint32_t n = s->group->running;

	/* who is told so again while they go does not say it again */
	if (n && s->signal != SIGKILL)
		log_info("killing %u worker%s", n, n == 1 ? "" : "s");
	stopping_end(s);
	s->signal = SIGKILL;
	sweep_forget(&s->told);
	group_signal(s->group, SIGKILL);
}

void stopping_give(struct stopping *s, uint32_t ms)
{
	if (ms == STOPPING_NO_LIMIT) {
		stopping_end(s);
		return;
	}
	s->announced = 0;
	s->left_ms = ms > SAY_MS ? ms - SAY_MS : 0;
	uv_timer_start(&s->timer, on_timer, ms < SAY_MS ? ms : SAY_MS, 0);
}

void stopping_wait(struct stopping *s, uint32_t ms)
{
	s->announced = 1;
	uv_timer_start(&s->timer, on_timer, ms, 0);
}

void stopping_end(struct stopping *s)
{
	uv_timer_stop(&s->timer);
}

int stopping_gives(const struct stopping *s)
{
	return uv_is_active((const uv_handle_t *)&s->timer);
}

void stopping_sweep(struct stopping *s, const pid_t *ours, int nours)
{
	/* a shell's background commands ignore SIGINT and SIGQUIT */
	int signal = s->signal == SIGKILL ? SIGKILL : SIGTERM;

	if (s->group->running || s->group->closing)
		return;
	if (sweep_children(&s->told, ours, nours, s->marks, signal) == 0)
		group_close(s->group);
	if (!s->told.in_exec)
		uv_timer_stop(&s->look);
	else if (!uv_is_active((uv_handle_t *)&s->look))
		uv_timer_start(&s->look, on_look, SWEEP_LOOK_MS, 0);
}

void stopping_begin(struct stopping *s)
{
	sweep_forget(&s->told);
}
