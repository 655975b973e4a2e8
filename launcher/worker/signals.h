/* signals.h: receives ddprun's own signals and reports to the owner what they
 * ask for. Decides nothing. */
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
	/* SIGTSTP (Ctrl-Z) and SIGCONT; the owner stops this program itself. */
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

/* A SIGUSR1 or SIGUSR2 that is on no list is logged: unhandled it would end
 * this program. warning may hold only these two. Signals that were ignored when
 * this program was started stay ignored (nohup). Only SIGCHLD keeps the loop
 * alive. If it fails, the caller must still call signals_close. */
MUST_CHECK int signals_start(struct signals *s, uv_loop_t *loop,
			     const struct signal_set *ending,
			     const struct signal_set *forwarded,
			     const struct signal_set *warning,
			     const struct signals_events *events, void *owner,
			     struct err *e);

/* SIGCHLD no longer keeps the loop alive. */
void signals_unref_child(struct signals *s);

void signals_close(struct signals *s);

#endif
