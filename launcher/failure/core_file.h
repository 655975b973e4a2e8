/* core_file.h: where the kernel has put the core file of a process that ended.
 * It is found by the kernel's pattern, as core(5) has it. */
#ifndef LAUNCHER_CORE_FILE_H
#define LAUNCHER_CORE_FILE_H

#include <sys/types.h>
#include <time.h>

#include "base/buf.h"

struct core_of {
	pid_t pid;
	int signal;
	time_t since;     /* an older file is another process's */
	const char *cwd;  /* of the process, if it has not changed it */
	const char *host; /* its name, for %h */
};

/* Pure: the pattern as one for glob(3): what is known is filled in, the rest
 * (the program's name, the second, ...) is '*'. uses_pid is the kernel's
 * core_uses_pid. Not for patterns that begin with '|'. */
void core_file_glob(struct buf *out, const char *pattern, int uses_pid,
		    const struct core_of *of);

/* The youngest regular file that matches and is not older than since: 1 and its
 * path, or 0. */
int core_file_find(const char *pattern, time_t since, char *path, size_t size);

/* Appends what is known of the core file, in a few words without a full stop:
 * its path, or where it should be, or the program that got it. dumped: the
 * kernel says that it wrote one; else why there is none. */
void core_file_describe(struct buf *why, int dumped, const struct core_of *of);

/* Whether this signal's default action leaves a core. */
int core_file_signal(int signal);

#endif
