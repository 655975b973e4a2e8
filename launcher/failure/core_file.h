/* core_file.h: finds the core file of a process that has ended, by the kernel's
 * core_pattern (core(5)). */
#ifndef LAUNCHER_CORE_FILE_H
#define LAUNCHER_CORE_FILE_H

#include <sys/types.h>
#include <time.h>

#include "base/buf.h"

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

#endif
