/* postmortem.h: asks the kernel why a worker died: whether the OOM killer ended
 * it (at a cgroup's limit, or because the host had no memory left), what
 * NVIDIA's driver complained about, which limit or fault its signal stands for,
 * where its core file is. Never waits. */
#ifndef LAUNCHER_POSTMORTEM_H
#define LAUNCHER_POSTMORTEM_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "base/buf.h"

/* ---- cgroup.c ----
 *
 * The memory cgroup of this process, version 1 or 2: its limit, and how many
 * processes the kernel killed in it for lack of memory. */

enum { CGROUP_PATH_MAX = 1024 };

struct cgroup {
	int version;    /* 1 or 2; 0: no memory cgroup */
	size_t mounted; /* length of the mount point, with which dir begins */
	char dir[CGROUP_PATH_MAX];  /* where its files are */
	char path[CGROUP_PATH_MAX]; /* its name in the hierarchy */
};

/* Pure: parses the texts of /proc/self/cgroup and /proc/self/mountinfo. Prefers
 * version 1 if it has the memory controller; does not check that version 2 has
 * it. In a container that sees only part of the hierarchy, dir is the top of
 * that part. version is 0 if there is no such cgroup. */
void cgroup_parse(struct cgroup *c, const char *membership,
		  const char *mountinfo);

/* Pure: N of the line "name N"; -1 without such a line. */
int64_t cgroup_count(const char *text, const char *name);

/* Reads the two files and parses them. */
void cgroup_find(struct cgroup *c);

/* How many processes the kernel has killed in it for lack of memory, or -1.
 * *below is the number of those in cgroups below it; version 1 does not count
 * them, and it is 0. */
int64_t cgroup_oom_kills(const struct cgroup *c, int64_t *below);

/* The lowest limit in bytes, in this cgroup or one above it, that allocations
 * have run into, and its cgroup's path. 0: none. */
uint64_t cgroup_limit_hit(const struct cgroup *c, char *path, size_t size);

/* ---- kernel_log.c ----
 *
 * Lines of the kernel's log that explain a worker's death: OOM kills, faults,
 * and complaints of NVIDIA's driver. Needs the right to read /dev/kmsg;
 * without it the log is empty. Never waits. */

enum { KERNEL_LOG_LINES = 32, KERNEL_LOG_LINE_MAX = 512 };

struct kernel_log {
	int fd; /* -1: no permission */
	unsigned n; /* lines so far; the last ones are kept */
	char lines[KERNEL_LOG_LINES][KERNEL_LOG_LINE_MAX];
};

struct kernel_kill {
	int cgroup; /* at a cgroup's limit; 0: the host ran out of memory */
	char path[KERNEL_LOG_LINE_MAX]; /* that cgroup's; "": not known */
};

/* A SIGSEGV: the address that was used, and the stack pointer. */
struct kernel_fault {
	uint64_t address, stack;
};

/* Opens the log at its end. */
void kernel_log_open(struct kernel_log *k);
void kernel_log_close(struct kernel_log *k);

/* Skips to the end of the log, and forgets the lines that were kept. */
void kernel_log_skip(struct kernel_log *k);

/* Reads the new records, and keeps the lines that matter. */
void kernel_log_read(struct kernel_log *k);

/* Pure: keeps a record as /dev/kmsg gives it ("6,339,5140900,-;text"), if it
 * matters. */
void kernel_log_add(struct kernel_log *k, const char *record, size_t len);

/* 1 if the kernel logged that it killed pid, which is a pid of the host, not of
 * a container. */
int kernel_log_killed(const struct kernel_log *k, pid_t pid,
		      struct kernel_kill *kill);

/* 1 if the kernel logged a fault of pid's main thread (x86 does, unless
 * debug.exception-trace is 0). pid is one of the host, not of a container. */
int kernel_log_fault(const struct kernel_log *k, pid_t pid,
		     struct kernel_fault *fault);

/* The last line of NVIDIA's driver, from "NVRM: Xid" on; NULL: none. */
const char *kernel_log_xid(const struct kernel_log *k);

/* ---- core_file.c ----
 *
 * Finds the core file of a process that has ended, by the kernel's
 * core_pattern (core(5)). */

struct core_process {
	pid_t pid;
	int signal;
	time_t since;     /* an older file belongs to another process */
	const char *cwd;  /* in which the process was started */
	const char *host; /* for %h */
};

/* Pure: turns the kernel's pattern into one for glob(3): fills in what is
 * known; the rest (the program's name, the time, ...) becomes '*'. uses_pid is
 * the kernel's core_uses_pid. Not for patterns that begin with '|'. */
void core_file_glob(struct buf *out, const char *pattern, int uses_pid,
		    const struct core_process *of);

/* Finds the newest regular file that matches and is not older than since: 1 and
 * its path, or 0. */
int core_file_find(const char *pattern, time_t since, char *path, size_t size);

/* Appends a phrase about the core file. If the kernel reported that it dumped
 * one: its path, where it should be, or the program that received it. Else: why
 * there is none. */
void core_file_describe(struct buf *why, int dumped,
			const struct core_process *of);

/* Whether this signal's default action leaves a core. */
int core_file_is_expected(int signal);

/* ---- postmortem.c ---- */

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
