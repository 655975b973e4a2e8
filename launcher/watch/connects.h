/* connects.h: the TCP connection that a process is trying to open, and that
 * has had no answer yet. */
#ifndef LAUNCHER_CONNECTS_H
#define LAUNCHER_CONNECTS_H

#include <sys/types.h>

enum { CONNECTS_WORDS_MAX = 96 };

/* ", connecting to 10.0.0.1:41291 without an answer", or "" if there is none
 * or it cannot be seen, into out[CONNECTS_WORDS_MAX]; returns out. */
char *connects_words(pid_t pid, char *out);

#endif
