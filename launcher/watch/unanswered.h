/* unanswered.h: a TCP connection of a process whose other end does not answer:
 * the process is trying to open it, or has sent data that the kernel sends
 * again and again. */
#ifndef LAUNCHER_UNANSWERED_H
#define LAUNCHER_UNANSWERED_H

#include <sys/types.h>

#include "launcher/worker/proc_tcp.h"

enum { UNANSWERED_WORDS_MAX = 128, UNANSWERED_MAX = 64 };

/* The connections without an answer in one network namespace. The kernel walks
 * its whole table to list them, which takes milliseconds, so they are read once
 * for all workers that are looked at together. Zeroed: nothing is read yet. */
struct unanswered {
	ino_t net; /* the namespace; 0: none */
	struct proc_tcp found[UNANSWERED_MAX];
	int n;
};

/* ", connecting to 10.0.0.1:41291 without an answer", or
 * ", resending 65536 bytes to 10.0.0.1:41291 without an answer (7 times)", or
 * "" if there is none or it cannot be seen, into out[UNANSWERED_WORDS_MAX];
 * returns out. */
char *unanswered_words(struct unanswered *u, pid_t pid, char *out);

#endif
