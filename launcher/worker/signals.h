/* signals.h: the signals that ddprun itself gets, sorted into what they ask
 * for. Decides nothing. */
#ifndef LAUNCHER_SIGNALS_H
#define LAUNCHER_SIGNALS_H

#include "base/loop.h"
#include "launcher/worker/signal_set.h"

struct signals;

struct signals_events {
	void (*on_child)(void *owner);
	void (*on_end)(void *owner, int number);
	void (*on_forward)(void *owner, int number);
	void (*on_warn)(void *owner, int number);
	/* Ctrl-Z, and what undoes it; the owner stops this program itself. */
	void (*on_suspend)(void *owner);
	void (*on_continue)(void *owner);
};

struct signals {
	void *owner;
	const struct signals_events *events;
	struct signal_set ending, forwarded, warning;
	uv_signal_t handles[SIGNAL_SET_MAX];
	int n;
};

/* SIGUSR1 and SIGUSR2 that are on no list are answered by a line, for they
 * would end this program; warning has no others. What was ignored when this
 * program was started stays so (nohup). Only SIGCHLD keeps the loop alive.
 * Where it fails, signals_close is still the caller's. */
MUST_CHECK int signals_start(struct signals *s, uv_loop_t *loop,
			     const struct signal_set *ending,
			     const struct signal_set *forwarded,
			     const struct signal_set *warning,
			     const struct signals_events *events, void *owner,
			     struct err *e);

/* SIGCHLD does not keep the loop alive any more. */
void signals_unref_child(struct signals *s);

void signals_close(struct signals *s);

#endif
