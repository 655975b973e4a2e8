/* kernel_log.h: lines of the kernel's log that explain a worker's death: OOM
 * kills, faults, and complaints of NVIDIA's driver. Needs the right to read
 * /dev/kmsg; without it the log is empty. Never waits. */
#ifndef LAUNCHER_KERNEL_LOG_H
#define LAUNCHER_KERNEL_LOG_H

#include <stdint.h>
#include <sys/types.h>

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

#endif
