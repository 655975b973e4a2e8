/* connects.h: the TCP connection that a process is trying to open, and that
 * has had no answer yet. */
#ifndef LAUNCHER_CONNECTS_H
#define LAUNCHER_CONNECTS_H

#include <sys/types.h>

#include "launcher/worker/proc_tcp.h"

enum { CONNECTS_WORDS_MAX = 96, CONNECTS_MAX = 64 };

/* The connections without an answer in one network namespace. The kernel walks
 * its whole table to list them, which takes milliseconds, so they are read once
 * for all workers that are looked at together. Zeroed: nothing is read yet. */
struct connects {
	ino_t net; /* the namespace; 0: none */
	struct proc_tcp found[CONNECTS_MAX];
	int n;
};

/* ", connecting to 10.0.0.1:41291 without an answer", or "" if there is none
 * or it cannot be seen, into out[CONNECTS_WORDS_MAX]; returns out. */
char *connects_words(struct connects *c, pid_t pid, char *out);

#endif
