/* doctor_task.h: runs functions in processes of their own, several at a time,
 * each with a time limit, and collects what they write. */
#ifndef LAUNCHER_DOCTOR_TASK_H
#define LAUNCHER_DOCTOR_TASK_H

#include <sys/types.h>

#include "base/buf.h"

struct doctor_task {
	/* ---- the caller's ---- */
	/* Called in the child, whose stdout and stderr are read, and whose
	 * stdin is empty. May exec. */
	void (*run)(void *arg);
	void *arg;

	/* ---- the result ---- */
	struct buf out; /* at most 1 MiB */
	int status;     /* waitpid's; -errno if the child was not started */
	int is_late;    /* it was killed at the time limit */

	/* ---- private ---- */
	pid_t pid;
	int fd;
	uint64_t until;
};

/* Runs n tasks, at most width at a time, each for at most ms. Kills a child
 * with all processes of its group, and does not wait for it if the kernel
 * cannot end it. The children do not outlive this process. Blocks. */
void doctor_task_run(struct doctor_task *tasks, int n, int width, int ms);
void doctor_task_release(struct doctor_task *tasks, int n);

#endif
