/* signal_set.h: a set of signals, as users write it: SIGTERM,INT,10. Pure. */
#ifndef LAUNCHER_SIGNAL_SET_H
#define LAUNCHER_SIGNAL_SET_H

#include <stdint.h>

#include "base/error.h"

enum { SIGNAL_SET_MAX = 64 }; /* the highest number */

struct signal_set {
	uint64_t bits; /* signal n is bit n - 1 */
};

/* Names with or without SIG, in any case, RTMIN+N, or numbers, with commas
 * between them; an empty text is the empty set. ERR_USAGE, naming option and
 * word: no such signal, or one that ddprun cannot give away (KILL, STOP, CHLD,
 * PIPE, faults, and those of job control, which it passes on by itself). */
int signal_set_parse(struct signal_set *set, const char *text,
		     const char *option, struct err *e);

/* The set of this one; of none if number is 0. */
struct signal_set signal_set_of(int number);

int signal_set_has(const struct signal_set *set, int number);

/* The lowest signal that is in both, 0 if there is none. */
int signal_set_common(const struct signal_set *a, const struct signal_set *b);

#endif
