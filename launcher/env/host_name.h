/* host_name.h: one host as people write it, [user@]host[:slots]: cut, checked,
 * compared. Pure; it knows no list and resolves nothing. */
#ifndef LAUNCHER_HOST_NAME_H
#define LAUNCHER_HOST_NAME_H

#include <stdint.h>

#include "base/buf.h"

enum { HOST_NAME_SLOTS_MAX = 65536 };

struct host_name {
	struct slice user; /* len 0: none */
	struct slice host; /* an IPv6 address without its brackets */
	uint32_t slots;    /* 0: not said */
};

/* Cuts word, which n then points into: NULL, or what is wrong with it and what
 * to write. What it lets through is safe as a word of ssh's and of a shell's
 * command line: a host is of letters, digits, '.', '-' and '_', or an IPv6
 * address with its zone; a user has no blanks and nothing that a shell would
 * act on; neither begins with '-'. */
const char *host_name_parse(struct host_name *n, struct slice word);

/* All of s as a number of slots from min (0 or 1) on; else 0. */
int host_name_slots(struct slice s, uint32_t min, uint32_t *slots);

/* Hosts alone, without regard to case. */
int host_name_is_same(struct slice a, struct slice b);
uint64_t host_name_hash(struct slice host);

#endif
