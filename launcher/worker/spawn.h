/* spawn.h: starts one process, at the price of a vfork. It leads a process
 * group of its own and dies with this thread. Knows no ranks. */
#ifndef LAUNCHER_SPAWN_H
#define LAUNCHER_SPAWN_H

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"
#include "launcher/plan/cpus.h"

struct spawn {
	const char *path;
	char *const *argv;
	char *const *envp;
	int in, out, err; /* become 0, 1, 2; each is above 2, or that number */
	/* one more descriptor pair, open in the child under fixed numbers
	 * (-1: none), and n more behind them: all are above those numbers */
	int keep[2];
	int keep_as;
	const int *more;
	int nmore;
	const struct cpus *cpus; /* all that it may run on; NULL: as ours */
	uint64_t open_files; /* its soft limit; 0: as ours */
	/* marks it and all that it starts: see sweep.h; 0: as ours */
	uint64_t locks;
	int survives;        /* no death signal: it knows itself when to go */
	/* blocks the signals that were blocked when this program was started;
	 * without it the child blocks none */
	int as_started;
	/* blocks the signals that this program blocks now */
	int as_now;
	/* written by the child itself before it runs the program, so that there
	 * is no moment at which it runs and is not in there; may be NULL */
	volatile pid_t *pid;
};

/* Saves the signal dispositions and the signal mask that this program was
 * started with, for the children to inherit (but SIGINT and SIGQUIT are never
 * inherited as ignored). Then it blocks no signal and no longer ignores
 * SIGCHLD, so that neither changes what this program does. Call it before all
 * that signals may end. */
void spawn_take_over_signals(void);
/* Blocks again what was blocked then: before this program executes another in
 * its own place. */
void spawn_restore_mask(void);
/* One more, before its first handler is installed. */
void spawn_remember_signal(int signal);
/* 1 if this program was started with this signal ignored (nohup). */
int spawn_was_ignored(int signal);

/* For in: a descriptor of /dev/null, which is the caller's to close. */
MUST_CHECK int spawn_no_input(struct err *e);

/* The pid, or -errno: nothing runs, the text names the step and the program. */
pid_t spawn_process(const struct spawn *s, struct err *e);

#endif
