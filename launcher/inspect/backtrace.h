/* backtrace.h: the native stacks of another process. Stops each thread only
 * while its registers and the top of its stack are copied; unwinds the copy
 * later. If we are killed, the thread runs on. */
#ifndef LAUNCHER_BACKTRACE_H
#define LAUNCHER_BACKTRACE_H

#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include "base/error.h"
#include "launcher/inspect/thread_snapshot.h"

enum {
	BACKTRACE_FRAMES_MAX = 64,
	BACKTRACE_NAME_MAX = 160,
	BACKTRACE_THREADS_MAX = 512,
};

struct backtrace_frame {
	uint64_t pc;
	char function[BACKTRACE_NAME_MAX]; /* "": not known */
	char module[BACKTRACE_NAME_MAX];   /* the file's name, or "" */
	char source[BACKTRACE_NAME_MAX];   /* "train.c:120", or "" */
	uint64_t offset; /* where the call is, from where the module begins */
};

struct backtrace_thread {
	pid_t tid;
	char name[32];
	int n;
	/* innermost first */
	struct backtrace_frame frames[BACKTRACE_FRAMES_MAX];
	struct err why; /* if n is 0 */
};

typedef void backtrace_on_thread(void *arg, const struct backtrace_thread *t);

/* Calls on_thread for each thread of pid. After an error, which says what is
 * missing (a library, a permission) and what to do, there was no call. */
int backtrace_process(pid_t pid, backtrace_on_thread *on_thread, void *arg,
		      struct err *e);

/* The same for its first thread only, into t; s is what was copied of it. */
int backtrace_main_thread(pid_t pid, struct thread_snapshot *s,
			  struct backtrace_thread *t, struct err *e);

/* Frame i, from 0. */
typedef void backtrace_on_frame(void *arg, int i,
				const struct backtrace_frame *x);

/* One thread of a process that has ended, which had these maps (those of
 * /proc/PID/maps): calls on_frame for each frame as soon as it is known. */
int backtrace_dead_thread(struct thread_snapshot *s, FILE *maps,
			  backtrace_on_frame *on_frame, void *arg,
			  struct err *e);

/* ---- crash_stack.c ----
 *
 * `ddprun --crash-stack N`, a child of an agent: unwinds the stack in the
 * crash record at offset N of the file on its stdin, and prints it. A process
 * of its own, so that the agent can give it up. */

/* Not an option for users. */
#define CRASH_STACK_COMMAND "--crash-stack"

/* argv[1]: where the record begins on stdin. Prints a line for each frame at
 * once, "#0 step at train.c:120 (train)"; for code without a name
 * "#0 ? (train+0x1139)", which addr2line takes. After an error prints what is
 * missing as a line without '#'. Returns the exit code. */
int crash_stack_main(int argc, char **argv);

#endif
