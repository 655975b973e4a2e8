/* spawn.h: starts one process, as cheaply as vfork. The process leads a process
 * group of its own and dies with this thread. Knows no ranks. */
#ifndef LAUNCHER_SPAWN_H
#define LAUNCHER_SPAWN_H

#include <stdint.h>
#include <sys/resource.h>
#include <sys/types.h>

#include "base/error.h"
#include "launcher/plan/cpus.h"

struct spawn {
	const char *path;
	char *const *argv;
	char *const *envp;
	int in, out, err; /* become 0, 1, 2; each is above 2, or that number */
	/* two more descriptors (-1: none), which the child gets as keep_as and
	 * keep_as + 1, followed by nmore others; all are above these numbers */
	int keep[2];
	int keep_as;
	const int *more;
	int nmore;
	const struct cpus *cpus; /* that it may run on; NULL: as ours */
	uint64_t open_files; /* its soft limit; 0: as ours */
	/* marks it and its descendants: see sweep.h; 0: as ours */
	uint64_t locks;
	/* in ns: how late its timers may be; 0: as ours */
	unsigned long timer_slack;
	/* in is a terminal, which becomes the controlling one of a session that
	 * the child leads */
	int has_terminal;
	int survives;        /* no death signal: it exits on its own */
	/* blocks the signals that were blocked when this program was started;
	 * without it the child blocks none */
	int as_started;
	/* blocks the signals that this program blocks now */
	int as_now;
	/* the child writes its pid here before it runs the program, so that the
	 * program never runs unrecorded; may be NULL */
	volatile pid_t *pid;
};

/* Saves the signal dispositions and the signal mask that this program was
 * started with, for the children to inherit (but SIGINT and SIGQUIT are never
 * inherited as ignored). Then unblocks all signals and stops ignoring SIGCHLD,
 * so that this program's behaviour depends on neither. Call it before anything
 * that a signal may end. */
void spawn_take_over_signals(void);
/* Restores the saved signal mask; call it before this program executes another
 * one in its place. */
void spawn_restore_mask(void);
/* Saves the disposition of one more signal; call it before installing its first
 * handler. */
void spawn_remember_signal(int signal);
/* 1 if this program was started with this signal ignored (nohup). */
int spawn_was_ignored(int signal);

/* For in: opens /dev/null; the caller closes it. */
MUST_CHECK int spawn_no_input(struct err *e);

/* Returns the pid, or -errno if nothing runs; the error names the step that
 * failed and the program. */
pid_t spawn_process(const struct spawn *s, struct err *e);

/* ---- reaping ----
 *
 * Reaps the children that have ended, without waiting. */

/* usage includes the child's own children that it waited for. */
typedef void reap_on_death(void *arg, pid_t pid, int status,
			   const struct rusage *usage);

/* Calls on_death for every child that has ended. Among children found together,
 * those killed by a signal come first: a worker often exits because a signal
 * killed its peer, and the signal is the cause. */
void reap_children(reap_on_death *on_death, void *arg);

#endif
