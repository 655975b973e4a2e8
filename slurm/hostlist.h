/* hostlist.h: expands Slurm's host lists ("rack[0-1]n[01-04]-ib,login") to
 * names, in Slurm's own order, which determines the ranks. Pure: asks neither
 * the network nor slurmctld. */
#ifndef SLURM_HOSTLIST_H
#define SLURM_HOSTLIST_H

#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

enum {
	HOSTLIST_NAME_MAX = 255,       /* bytes of a name, as in DNS */
	HOSTLIST_RANGE_MAX = 65536,    /* hosts in "lo-hi"; Slurm's MAX_RANGE */
	HOSTLIST_PREFIXES_MAX = 65536, /* Slurm's MAX_PREFIX_CNT */
	HOSTLIST_HOSTS_MAX = 262144,   /* in all; Slurm's MAX_RANGES */
};

struct hostlist {
	struct buf text;   /* the names, each NUL-ended, in order */
	struct buf starts; /* a u32 for each name: its offset in text */
	uint32_t count;
};

void hostlist_init(struct hostlist *l);
void hostlist_release(struct hostlist *l);

/* Adds the names of a list in Slurm's grammar to l: tokens separated by commas
 * and blanks; in a token any number of groups "[lo-hi,n,...]", padded to the
 * width of lo. Keeps the given order. In a token the last group counts fastest,
 * then the first, the second and so on, because Slurm recurses on the part
 * before the last group (its src/common/hostlist.c). An empty list adds
 * nothing.
 *
 * 0; ERR_USAGE, which names the character, counted from 1, and the mistake; or
 * -ENOMEM. The caller releases l also after an error. */
int hostlist_parse(struct hostlist *l, struct slice text, struct err *e);

/* The i-th name, i < count; valid until l changes. */
const char *hostlist_name(const struct hostlist *l, uint32_t i);

#endif
