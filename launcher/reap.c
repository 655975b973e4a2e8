/* reap.c: waitpid, in batches. */
#include "launcher/reap.h"

#include <errno.h>
#include <sys/wait.h>

enum { BATCH = 128 };

struct death {
	pid_t pid;
	int status;
};

static int collect(struct death *deaths, int max)
{
	int n = 0;

	while (n < max) {
		pid_t pid = waitpid(-1, &deaths[n].status, WNOHANG);

		if (pid < 0 && errno == EINTR)
			continue;
		if (pid <= 0)
			break;
		deaths[n++].pid = pid;
	}
	return n;
}

void reap_children(void (*on_death)(void *arg, pid_t pid, int status),
		   void *arg)
{
	struct death deaths[BATCH];
	int n;

	do {
		n = collect(deaths, BATCH);
		for (int i = 0; i < n; i++) {
			if (WIFSIGNALED(deaths[i].status))
				on_death(arg, deaths[i].pid, deaths[i].status);
		}
		for (int i = 0; i < n; i++) {
			if (!WIFSIGNALED(deaths[i].status))
				on_death(arg, deaths[i].pid, deaths[i].status);
		}
	} while (n == BATCH);
}
