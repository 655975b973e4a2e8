/* kernel_log.h: what the kernel writes to its log while workers run: whom it
 * killed for lack of memory, and what NVIDIA's driver complains of. Needs the
 * right to read /dev/kmsg; without it there is nothing. Never waits. */
#ifndef LAUNCHER_KERNEL_LOG_H
#define LAUNCHER_KERNEL_LOG_H

#include <sys/types.h>

enum { KERNEL_LOG_LINES = 32, KERNEL_LOG_LINE_MAX = 512 };

struct kernel_log {
	int fd; /* -1: may not be read */
	unsigned n; /* lines kept, the last ones */
	char lines[KERNEL_LOG_LINES][KERNEL_LOG_LINE_MAX];
};

struct kernel_kill {
	int cgroup; /* a cgroup's limit, not the host's memory */
	char path[KERNEL_LOG_LINE_MAX]; /* with the limit; "": not said */
};

/* Starts at the log's end: what was before is not ours. */
void kernel_log_open(struct kernel_log *k);
void kernel_log_close(struct kernel_log *k);

/* Goes on from its end, and forgets the lines that were kept. */
void kernel_log_skip(struct kernel_log *k);

/* Takes what has come since, and keeps the lines that matter. */
void kernel_log_read(struct kernel_log *k);

/* Pure: keeps a record as /dev/kmsg gives it ("6,339,5140900,-;text"), if it
 * matters. */
void kernel_log_take(struct kernel_log *k, const char *record, size_t len);

/* 1 if the kernel says that it killed pid. Its numbers are those of the host,
 * not of a container. */
int kernel_log_killed(const struct kernel_log *k, pid_t pid,
		      struct kernel_kill *kill);

/* The last line of NVIDIA's driver, from "NVRM: Xid" on; NULL if none. */
const char *kernel_log_xid(const struct kernel_log *k);

#endif
