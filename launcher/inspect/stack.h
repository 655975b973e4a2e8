/* stack.h: the native stacks of another process. Each thread is stopped for as
 * long as it takes to copy its registers and the top of its stack, and let go
 * before anything is made of that; it goes on, too, when we are killed. */
#ifndef LAUNCHER_STACK_H
#define LAUNCHER_STACK_H

#include <stdint.h>
#include <sys/types.h>

#include "base/error.h"

enum { STACK_FRAMES_MAX = 64, STACK_NAME_MAX = 160, STACK_THREADS_MAX = 512 };

struct stack_frame {
	uint64_t pc;
	char function[STACK_NAME_MAX]; /* "": not known */
	char module[STACK_NAME_MAX];   /* the file's name, "" */
	char source[STACK_NAME_MAX];   /* "train.c:120", "" */
};

struct stack_thread {
	pid_t tid;
	char name[32];
	int n;
	struct stack_frame frames[STACK_FRAMES_MAX]; /* the innermost first */
	struct err why; /* where n is 0 */
};

typedef void stack_on_thread(void *arg, const struct stack_thread *t);

/* Calls on_thread for each thread of pid. An error says what is missing here
 * (a library, a permission) and what to do; then there was no call. */
int stack_walk(pid_t pid, stack_on_thread *on_thread, void *arg, struct err *e);

#endif
