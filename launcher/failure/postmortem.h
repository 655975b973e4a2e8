/* postmortem.h: asks the kernel why a worker died: whether the OOM killer ended
 * it (at a cgroup's limit, or because the host had no memory left), what
 * NVIDIA's driver complained about, which limit or fault its signal stands for,
 * where its core file is. Never waits. */
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
	/* OOM kills that are explained: in the cgroup, in those below it, and
	 * on the host */
	int64_t kills, below, host_kills;
	struct kernel_log log;
	/* we may read the log, and outside a container its pids are ours: a
	 * process that it does not name was not killed by the kernel */
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

/* Finds the cgroup and opens the log, once. Takes a fraction of a millisecond:
 * call it when there is nothing else to do, long before workers are started. */
void postmortem_prepare(struct postmortem *p);

/* Workers are about to be started: remembers the kernel's counts, which later
 * kills will raise. Fast after postmortem_prepare. */
void postmortem_begin(struct postmortem *p);

/* Each of these three appends to why, in one line, what is known about the
 * death of a worker that was not asked to stop, if anything. Call the first
 * once for each death: each kill explains one. */

/* The kernel's kills, and the complaints of NVIDIA's driver. */
void postmortem_examine(struct postmortem *p, const struct postmortem_death *d,
			struct buf *why);
/* What its signal means: the limit that was reached, the file system that is
 * full, a null pointer, a stack overflow. */
void postmortem_examine_signal(const struct postmortem *p,
			       const struct postmortem_death *d,
			       struct buf *why);
/* Where its core file is, or why there is none. */
void postmortem_examine_core(const struct postmortem *p,
			     const struct postmortem_death *d,
			     struct buf *why);

#endif
