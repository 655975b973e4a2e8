/* postmortem.h: what the kernel knows of a worker's death and the worker could
 * not say any more: killed for lack of memory (by a cgroup's limit or the
 * host), its core file, what NVIDIA's driver complained of. Never waits. */
#ifndef LAUNCHER_POSTMORTEM_H
#define LAUNCHER_POSTMORTEM_H

#include <sys/types.h>
#include <time.h>

#include "base/buf.h"
#include "launcher/failure/cgroup.h"
#include "launcher/failure/kernel_log.h"

enum { POSTMORTEM_WHY_MAX = 4 << 10 };

struct postmortem {
	int prepared;
	struct cgroup cgroup;
	int64_t kills, below; /* of the cgroup, that are accounted for */
	int64_t host_kills;
	struct kernel_log log;
	/* the log may be read and its process numbers are ours, for this is no
	 * container: whom it does not name the kernel has not killed */
	int is_certain;
};

struct postmortem_death {
	pid_t pid;
	int status;         /* wait(2)'s */
	time_t started;     /* wall-clock time */
	const char *host;
};

void postmortem_init(struct postmortem *p);
void postmortem_release(struct postmortem *p);

/* Finds out where to ask, once. Takes a fraction of a millisecond: call it when
 * there is nothing else to do, long before workers are started. */
void postmortem_prepare(struct postmortem *p);

/* Remembers the kernel's counts: what it kills from now on is ours to explain.
 * Workers are about to be started: quick where it is prepared. */
void postmortem_begin(struct postmortem *p);

/* Appends to why, in one line, what is known of the death of a worker that was
 * not told to stop; nothing where nothing is known. Each kill is told once. */
void postmortem_examine(struct postmortem *p, const struct postmortem_death *d,
			struct buf *why);

#endif
