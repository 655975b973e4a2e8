/* signals.c: one handle for each watched signal. */
#include "launcher/worker/signals.h"

#include <signal.h>
#include <stdio.h>

#include "base/log.h"
#include "launcher/worker/spawn.h"

static void signals_log_ignored(int number)
{
	char name[SIGNAL_NAME_MAX];

	log_info("got %s: not forwarding it to the workers; --forward-signals "
		 "%s would",
		 signal_name(number, name), name);
}

static void signals_on_signal(uv_signal_t *h, int number)
{
	struct signals *s = h->data;

	if (number == SIGCHLD)
		s->events->on_child(s->owner);
	else if (number == SIGTSTP)
		s->events->on_suspend(s->owner);
	else if (number == SIGCONT)
		s->events->on_continue(s->owner);
	else if (signal_set_has(&s->ending, number))
		s->events->on_end(s->owner, number);
	else if (signal_set_has(&s->forwarded, number))
		s->events->on_forward(s->owner, number);
	else if (signal_set_has(&s->warning, number))
		s->events->on_warn(s->owner, number);
	else
		signals_log_ignored(number);
}

static int signals_watch(struct signals *s, uv_loop_t *loop, int number,
			 struct err *e)
{
	uv_signal_t *h = &s->handles[s->n];
	char name[SIGNAL_NAME_MAX], what[SIGNAL_NAME_MAX + 32];
	int rc;

	/* must come before the handler is installed */
	spawn_remember_signal(number);
	if (number != SIGCHLD && spawn_was_ignored(number))
		return 0;
	snprintf(what, sizeof(what), "cannot watch for %s",
		 signal_name(number, name));
	/* a handle whose init failed must not be closed */
	rc = uv_signal_init(loop, h);
	if (rc < 0)
		return loop_check(rc, e, what);
	h->data = s;
	if (s->n++ > 0)
		uv_unref((uv_handle_t *)h);
	return loop_check(uv_signal_start(h, signals_on_signal, number), e,
			  what);
}

int signals_start(struct signals *s, uv_loop_t *loop,
		  const struct signal_set *ending,
		  const struct signal_set *forwarded,
		  const struct signal_set *warning,
		  const struct signals_events *events, void *owner,
		  struct err *e)
{
	static const int always[] = {SIGTSTP, SIGCONT, SIGUSR1, SIGUSR2};
	int rc;

	s->events = events;
	s->owner = owner;
	s->ending = *ending;
	s->forwarded = *forwarded;
	s->warning = *warning;
	s->n = 0;
	signal(SIGPIPE, SIG_IGN);
	/* a log file at its limit (ulimit -f) is an error, like a full disk */
	signal(SIGXFSZ, SIG_IGN);
	rc = signals_watch(s, loop, SIGCHLD, e);
	for (size_t i = 0; rc == 0 && i < sizeof(always) / sizeof(*always); i++)
		rc = signals_watch(s, loop, always[i], e);
	for (int i = 1; rc == 0 && i <= SIGNAL_SET_MAX; i++) {
		if (i != SIGUSR1 && i != SIGUSR2 &&
		    (signal_set_has(ending, i) || signal_set_has(forwarded, i)))
			rc = signals_watch(s, loop, i, e);
	}
	return rc;
}

void signals_unref_child(struct signals *s)
{
	if (s->n)
		uv_unref((uv_handle_t *)&s->handles[0]);
}

void signals_close(struct signals *s)
{
	for (int i = 0; i < s->n; i++)
		uv_close((uv_handle_t *)&s->handles[i], NULL);
	s->n = 0;
}
