/* tool.c: starts a command and reads its output, with a time limit; parses a
 * node's address from scontrol's. */
#include "launcher/env/tool.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "launcher/plan/program.h"
#include "launcher/worker/spawn.h"

enum { WORDS_MAX = 6 };

/* Reads fd until its end; 0 or -errno. */
static int tool_read_all(int fd, int ms, char *out, size_t size)
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

static int tool_start(char **words, int fd, struct err *e)
{
	extern char **environ;
	const struct program_how how = {.no_python = 1};
	struct program p;
	/* if Slurm tracks processes by their parents, srun -K and scancel send
	 * SIGTERM to all processes of a step: a signal that we block at the end
	 * of a job must not end the tool either */
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

int tool_run(const char *const *words, int ms, char *out, size_t size,
	     struct err *e)
{
	char *copy[WORDS_MAX + 1] = {NULL};
	int ends[2], status = 0, rc;
	pid_t pid;

	for (int i = 0; i < WORDS_MAX && words[i]; i++)
		copy[i] = (char *)words[i];
	out[0] = '\0';
	if (pipe2(ends, O_CLOEXEC) < 0)
		return err_set(e, -errno, "no pipe for %s: %s", words[0],
			       strerror(errno));
	pid = tool_start(copy, ends[1], e);
	close(ends[1]);
	rc = pid < 0 ? pid : tool_read_all(ends[0], ms, out, size);
	close(ends[0]);
	if (pid < 0)
		return rc;
	if (rc < 0)
		kill(pid, SIGKILL);
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		continue;
	if (rc < 0)
		return err_set(e, rc, "%s does not answer within %d s",
			       words[0], ms / 1000);
	if (status == 0)
		return 0;
	if (!*out)
		return err_set(e, ERR_REMOTE, "%s failed", words[0]);
	return err_set(e, ERR_REMOTE, "%.*s", (int)strcspn(out, "\n"), out);
}

/* ---- Slurm's scontrol ---- */

enum { ARGUMENTS_MAX = 4, ANSWER_MS = 10000, ANSWER_MAX = 4096 };

int scontrol_run(const char *const *arguments, int ms, char *out, size_t size,
		 struct err *e)
{
	const char *words[ARGUMENTS_MAX + 2] = {"scontrol"};

	for (int i = 0; i < ARGUMENTS_MAX && arguments[i]; i++)
		words[i + 1] = arguments[i];
	return tool_run(words, ms, out, size, e);
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
