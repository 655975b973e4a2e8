/* guard.h: a tiny process that kills the workers if the agent itself is killed
 * (kill -9, out of memory). It shares with the agent only a table of the
 * workers' process groups and pipes, and the paths of two folders. */
#ifndef LAUNCHER_GUARD_H
#define LAUNCHER_GUARD_H

#include <stdint.h>
#include <sys/types.h>
#include <termios.h>

#include "base/error.h"
#include "launcher/worker/sweep.h"

/* The folders that it removes: the job's, and one of the running round, or a
 * file. */
enum guard_folder { GUARD_JOB_FOLDER, GUARD_ROUND_FOLDER, GUARD_FOLDERS };

enum { GUARD_FOLDER_MAX = 4096 };

struct guard_terminal {
	int is_raw;
	struct termios saved;
};

struct guard {
	pid_t pid;
	int pipe;         /* the guard acts when this pipe closes */
	int is_dismissed; /* its death is expected */
	volatile pid_t *groups;
	volatile ino_t *pipes; /* two for each worker: see guard_note_pipes */
	volatile char *folders; /* GUARD_FOLDERS paths: guard_note_folder */
	volatile struct guard_terminal *terminal; /* guard_note_terminal */
	uint32_t n;
	const struct sweep_marks *marks;
	uint32_t deaths;       /* the guard's deaths since deaths_since */
	uint64_t deaths_since; /* ms */
};

/* Before guard_start and after guard_stop. */
#define GUARD_NONE ((struct guard){.pid = -1, .pipe = -1})

/* Forks the guard. marks, with the pipes, identify all descendants, and are
 * borrowed until guard_stop. The fork takes as long as this process is large:
 * call it when there is something to wait for. */
int guard_start(struct guard *g, uint32_t n, const struct sweep_marks *marks,
		struct err *e);

/* The table's slot for the i-th worker's process group; 0: none. Once the
 * group's leader is reaped the caller negates the number: the kernel may have
 * given it to another process, so it is checked before each use. */
volatile pid_t *guard_slot(struct guard *g, uint32_t i);

/* Records the i-th worker's stdout and stderr. Its descendants inherit these
 * pipes, even if they clear their environment, and are found by them. -1: not a
 * pipe of ours. */
void guard_note_pipes(struct guard *g, uint32_t i, int out, int err);

/* Records a folder that the guard removes after it has killed the workers. Call
 * it before the folder exists: its maker may be killed at any time. A later
 * call replaces the path of that kind, and "" removes it. A path of
 * GUARD_FOLDER_MAX bytes or more is not recorded. */
void guard_note_folder(struct guard *g, enum guard_folder kind,
		       const char *path);

/* Records the settings that the controlling terminal gets back if the agent is
 * killed; NULL: they are unchanged. */
void guard_note_terminal(struct guard *g, const struct termios *saved);

/* Call it for each child that ended; 1 if it was the guard. Something then
 * killed the guard alone: starts another one with the same table and logs a
 * warning. If guards end too often or none can be started, the warning says
 * which protection is lost, and there is no guard. */
int guard_reaped(struct guard *g, pid_t pid, int status);

/* Signals the process group in a slot; 0 if it has no process. */
int guard_signal(pid_t slot, int signal);

/* Call it when everything is stopped but this process cannot remove the folder
 * for lack of memory or descriptors: the guard does it, as if the agent had
 * died. guard_stop must still follow. */
void guard_finish(struct guard *g);

/* Call it when everything is stopped and nothing is left to remove: ends the
 * guard without a wait. Its death is reaped by guard_reaped or guard_stop. */
void guard_dismiss(struct guard *g);

/* Call it when everything is stopped: ends the guard and waits for it. */
void guard_stop(struct guard *g);

#endif
