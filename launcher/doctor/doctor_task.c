/* doctor_task.c: forks, polls and reaps. This process has one thread. */
#include "launcher/doctor/doctor_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"

enum { TEXT_MAX = 1 << 20, PIECE = 16 << 10, REAP_MS = 1000, REAP_STEP_MS = 5 };

static void doctor_task_child(const struct doctor_task *t, int out)
{
	int none = open("/dev/null", O_RDONLY);

	setpgid(0, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	dup2(none, STDIN_FILENO);
	dup2(out, STDOUT_FILENO);
	dup2(out, STDERR_FILENO);
	t->run(t->arg);
	_exit(fflush(stdout) ? EXIT_FAILURE : EXIT_SUCCESS);
}

static void doctor_task_start(struct doctor_task *t, int ms)
{
	int ends[2];

	buf_init(&t->out, TEXT_MAX);
	t->fd = -1;
	if (pipe2(ends, O_CLOEXEC) < 0) {
		t->status = -errno;
		return;
	}
	/* the child must not write what this process has not written yet */
	fflush(stdout);
	t->pid = fork();
	if (t->pid == 0)
		doctor_task_child(t, ends[1]);
	if (t->pid < 0)
		t->status = -errno;
	close(ends[1]);
	t->fd = ends[0];
	t->until = clock_ms() + (uint64_t)ms;
	if (t->pid > 0)
		return;
	close(t->fd);
	t->fd = -1;
}

/* A process that hangs in a driver does not end even if it is killed. */
static void doctor_task_reap(struct doctor_task *t)
{
	uint64_t until = clock_ms() + REAP_MS;
	pid_t rc;

	close(t->fd);
	t->fd = -1;
	if (t->is_late)
		kill(-t->pid, SIGKILL);
	for (;;) {
		rc = waitpid(t->pid, &t->status, WNOHANG);
		if (rc == t->pid || (rc < 0 && errno != EINTR))
			return;
		if (clock_ms() >= until && t->is_late)
			return;
		if (clock_ms() >= t->until) {
			t->is_late = 1;
			kill(-t->pid, SIGKILL);
		}
		poll(NULL, 0, REAP_STEP_MS);
	}
}

static void doctor_task_read(struct doctor_task *t)
{
	char *to = buf_reserve(&t->out, PIECE);
	char spare[PIECE]; /* what exceeds the maximum is read and lost */
	ssize_t n = read(t->fd, to ? to : spare, PIECE);

	if (n > 0 && to)
		t->out.len += (size_t)n;
	else if (n == 0 || (n < 0 && errno != EINTR))
		doctor_task_reap(t);
	t->out.failed = 0;
}

/* Waits for output, an end or a time limit of tasks 0 to n - 1. */
static void doctor_task_poll(struct doctor_task *tasks, struct pollfd *fds,
			     int n)
{
	uint64_t now = clock_ms(), until = UINT64_MAX;

	for (int i = 0; i < n; i++) {
		fds[i] = (struct pollfd){.fd = tasks[i].fd, .events = POLLIN};
		if (tasks[i].fd >= 0 && tasks[i].until < until)
			until = tasks[i].until;
	}
	if (poll(fds, (nfds_t)n, until > now ? (int)(until - now) : 0) < 0)
		return;
	now = clock_ms();
	for (int i = 0; i < n; i++) {
		struct doctor_task *t = &tasks[i];

		if (t->fd < 0)
			continue;
		if (fds[i].revents) {
			doctor_task_read(t);
		} else if (now >= t->until) {
			t->is_late = 1;
			doctor_task_reap(t);
		}
	}
}

static int doctor_task_running(const struct doctor_task *tasks, int n)
{
	int running = 0;

	for (int i = 0; i < n; i++)
		running += tasks[i].fd >= 0;
	return running;
}

void doctor_task_run(struct doctor_task *tasks, int n, int width, int ms)
{
	struct pollfd *fds = calloc((size_t)n + 1, sizeof(*fds));
	int next = 0;

	for (int i = 0; i < n; i++) {
		tasks[i].fd = -1;
		tasks[i].status = -ENOMEM;
		tasks[i].is_late = 0;
		buf_init(&tasks[i].out, TEXT_MAX);
	}
	while (fds && (next < n || doctor_task_running(tasks, next))) {
		while (next < n && doctor_task_running(tasks, next) < width)
			doctor_task_start(&tasks[next++], ms);
		doctor_task_poll(tasks, fds, next);
	}
	free(fds);
}

void doctor_task_release(struct doctor_task *tasks, int n)
{
	for (int i = 0; i < n; i++)
		buf_release(&tasks[i].out);
}
