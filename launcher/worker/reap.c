/* reap.c: calls wait4 in batches. */
#include "launcher/worker/reap.h"

#include <errno.h>
#include <sys/wait.h>

enum { BATCH = 128 };

struct reap_death {
	pid_t pid;
	int status;
	struct rusage usage;
};

static int reap_collect(struct reap_death *deaths, int max)
{
	int n = 0;

	while (n < max) {
		struct reap_death *d = &deaths[n];

		d->pid = wait4(-1, &d->status, WNOHANG, &d->usage);
		if (d->pid < 0 && errno == EINTR)
			continue;
		if (d->pid <= 0)
			break;
		n++;
	}
	return n;
}

void reap_children(reap_on_death *on_death, void *arg)
{
	struct reap_death deaths[BATCH];
	int n;

	do {
		n = reap_collect(deaths, BATCH);
		for (int killed = 1; killed >= 0; killed--) {
			for (int i = 0; i < n; i++) {
				struct reap_death *d = &deaths[i];

				if ((WIFSIGNALED(d->status) != 0) == killed)
					on_death(arg, d->pid, d->status,
						 &d->usage);
			}
		}
	} while (n == BATCH);
}
