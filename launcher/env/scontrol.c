/* scontrol.c: runs scontrol and parses a node's address. */
#include "launcher/env/scontrol.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "launcher/plan/program.h"
#include "launcher/worker/spawn.h"

enum { WORDS_MAX = 4, ANSWER_MS = 10000, ANSWER_MAX = 4096 };

/* Reads fd until its end; 0 or -errno. */
static int scontrol_read_all(int fd, int ms, char *out, size_t size)
{
	uint64_t until = clock_ms() + (uint64_t)ms;
	size_t n = 0;

	while (n + 1 < size) {
		struct pollfd p = {.fd = fd, .events = POLLIN};
		uint64_t now = clock_ms();
		ssize_t got;
		int rc = poll(&p, 1, now < until ? (int)(until - now) : 0);

		if (rc < 0 && errno == EINTR)
			continue;
		if (rc == 0)
			return -ETIMEDOUT;
		got = read(fd, out + n, size - n - 1);
		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			break;
		n += (size_t)got;
	}
	out[n] = '\0';
	return 0;
}

static int scontrol_start(char **words, int fd, struct err *e)
{
	extern char **environ;
	const struct program_how how = {.no_python = 1};
	struct program p;
	/* if Slurm tracks processes by their parents, srun -K and scancel send
	 * SIGTERM to all processes of a step: a signal that we block at the end
	 * of a job must not end scontrol either */
	struct spawn order = {.keep = {-1, -1}, .out = fd, .err = fd,
			      .as_now = 1};
	int rc = program_find(&p, words, &how, e);

	if (rc < 0)
		return rc;
	order.path = p.path;
	order.argv = p.argv;
	order.envp = environ;
	order.in = spawn_no_input(e);
	rc = order.in < 0 ? order.in : spawn_process(&order, e);
	if (order.in >= 0)
		close(order.in);
	program_release(&p);
	return rc;
}

int scontrol_run(const char *const *arguments, int ms, char *out, size_t size,
		 struct err *e)
{
	char *words[WORDS_MAX + 2] = {(char *)"scontrol"};
	int ends[2], status = 0, rc;
	pid_t pid;

	for (int i = 0; i < WORDS_MAX && arguments[i]; i++)
		words[i + 1] = (char *)arguments[i];
	out[0] = '\0';
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_set(e, -errno, "no pipe for scontrol: %s",
			       strerror(errno));
	pid = scontrol_start(words, ends[1], e);
	close(ends[1]);
	rc = pid < 0 ? pid : scontrol_read_all(ends[0], ms, out, size);
	close(ends[0]);
	if (pid < 0)
		return rc;
	if (rc < 0)
		kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		continue;
	if (rc < 0)
		return err_set(e, rc, "scontrol does not answer within %d s",
			       ms / 1000);
	if (status == 0)
		return 0;
	return err_set(e, ERR_REMOTE, "%.*s", (int)strcspn(out, "\n"),
		       *out ? out : "scontrol failed");
}

/* ---- where a node is ---- */

int scontrol_parse_address(const char *text, const char *node, char *out)
{
	char value[SOCK_TEXT_MAX];
	size_t n = strlen(node), len;
	struct endpoint at;

	for (; *text; text += len + (text[len] == '\n')) {
		len = strcspn(text, "\n");
		if (len <= n || strncmp(text, node, n) != 0 || text[n] != ':')
			continue;
		snprintf(value, sizeof(value), "%.*s", (int)(len - n - 1),
			 text + n + 1);
		if (endpoint_parse(&at, value + strspn(value, " "), 0,
				   NULL) < 0)
			return 0;
		snprintf(out, SOCK_HOST_MAX, "%s", at.host);
		return 1;
	}
	return 0;
}

int scontrol_address(const char *node, char *out)
{
	const char *const words[] = {"getaddrs", node, NULL};
	char text[ANSWER_MAX];

	return scontrol_run(words, ANSWER_MS, text, sizeof(text), NULL) == 0 &&
	       scontrol_parse_address(text, node, out);
}
