/* signal_set.h: a set of signals, written as SIGTERM,INT,10. Pure. */
#ifndef LAUNCHER_SIGNAL_SET_H
#define LAUNCHER_SIGNAL_SET_H

#include <stdint.h>

#include "base/error.h"

enum { SIGNAL_SET_MAX = 64 }; /* the highest number */

struct signal_set {
	uint64_t bits; /* signal n is bit n - 1 */
};

/* Parses names, with or without SIG and in any case, RTMIN+N, or numbers,
 * separated by commas; "" is the empty set. ERR_USAGE, naming the option and
 * the word, for an unknown signal and for a signal that cannot be on a list
 * (KILL, STOP, CHLD, PIPE, faults, and those of job control, which ddprun
 * always passes on). */
int signal_set_parse(struct signal_set *set, const char *text,
		     const char *option, struct err *e);

/* The set with only this signal; empty if number is 0. */
struct signal_set signal_set_of(int number);

int signal_set_has(const struct signal_set *set, int number);

/* The lowest signal in both sets; 0 if there is none. */
int signal_set_common(const struct signal_set *a, const struct signal_set *b);

#endif
