/* host_name.h: parses, checks and compares a host, [user@]host[:slots]. Pure;
 * resolves no names. */
#ifndef LAUNCHER_HOST_NAME_H
#define LAUNCHER_HOST_NAME_H

#include <stdint.h>

#include "base/buf.h"

enum { HOST_NAME_SLOTS_MAX = 65536 };

struct host_name {
	struct slice user; /* len 0: none */
	struct slice host; /* an IPv6 address without its brackets */
	uint32_t slots;    /* 0: not given */
};

/* Parses word, which n then points into. Returns NULL, or what is wrong with it
 * and what to write. A name that it accepts is safe as a word of ssh's and of a
 * shell's command line: a host has only letters, digits, '.', '-' and '_', or
 * is an IPv6 address, maybe with a zone; a user has no blanks and no character
 * special to a shell; neither begins with '-'. */
const char *host_name_parse(struct host_name *n, struct slice word);

/* 1 if all of s is a number of slots that is at least min (0 or 1); else 0. */
int host_name_slots(struct slice s, uint32_t min, uint32_t *slots);

/* Both take the host part alone and ignore case. */
int host_name_is_same(struct slice a, struct slice b);
uint64_t host_name_hash(struct slice host);

#endif
