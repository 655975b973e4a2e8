/* host_topology.c: the agent's side: a child, and the file that it fills. */
#include "launcher/pmi/host_topology.h"

#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/log.h"
#include "launcher/worker/spawn.h"

extern char **environ;

static int host_topology_is_chosen(void)
{
	for (char **var = environ; *var; var++)
		if (strncmp(*var, "HWLOC_", 6) == 0)
			return 1;
	return 0;
}

static void host_topology_drop(struct host_topology *t)
{
	if (t->fd >= 0)
		close(t->fd);
	t->fd = -1;
}

void host_topology_start(struct host_topology *t, const char *program)
{
	static char name[] = "ddprun", command[] = HOST_TOPOLOGY_COMMAND;
	char *argv[] = {name, command, (char *)program, NULL};
	struct spawn order = {
		.path = "/proc/self/exe", .argv = argv, .envp = environ,
		.err = STDERR_FILENO, .keep = {-1, -1},
	};
	struct err e = ERR_INIT;
	int null;

	*t = (struct host_topology){.fd = -1};
	if (host_topology_is_chosen())
		return;
	null = spawn_no_input(&e);
	if (null < 0)
		return;
	t->fd = memfd_create("ddprun-topology", MFD_CLOEXEC);
	order.in = null;
	order.out = t->fd;
	if (t->fd >= 0)
		t->pid = spawn_process(&order, &e);
	close(null);
	if (t->pid > 0)
		return;
	log_debug("each rank looks for the host's devices itself: %s", e.text);
	t->pid = 0;
	host_topology_drop(t);
}

int host_topology_is_pending(const struct host_topology *t)
{
	return t->pid != 0;
}

int host_topology_reaped(struct host_topology *t, pid_t pid, int status)
{
	if (!pid || t->pid != pid)
		return 0;
	t->pid = 0;
	if (status) {
		log_debug("hwloc's description of this host is not shared "
			  "(status %d)", status);
		host_topology_drop(t);
	}
	return 1;
}

void host_topology_path(const struct host_topology *t,
			char out[HOST_TOPOLOGY_PATH_MAX])
{
	out[0] = '\0';
	if (!t->pid && t->fd >= 0)
		snprintf(out, HOST_TOPOLOGY_PATH_MAX, "/proc/%d/fd/%d",
			 (int)getpid(), t->fd);
}

void host_topology_cancel(const struct host_topology *t)
{
	if (t->pid)
		kill(t->pid, SIGKILL);
}

void host_topology_close(struct host_topology *t)
{
	host_topology_cancel(t);
	if (t->pid)
		waitpid(t->pid, NULL, 0);
	t->pid = 0;
	host_topology_drop(t);
}
