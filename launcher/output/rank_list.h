/* rank_list.h: ranks as users write them, "0,4-7". Pure. */
#ifndef LAUNCHER_RANK_LIST_H
#define LAUNCHER_RANK_LIST_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

struct rank_range {
	uint32_t first, last; /* both are in the range */
};

/* All zero is an empty list, which contains nothing. */
struct rank_list {
	struct rank_range *ranges; /* sorted; none touches another */
	size_t n;
};

enum { RANK_LIST_LAST = 1 << 30 }; /* no rank is above this */

/* Parses numbers and ranges separated by commas, in any order; blanks around
 * them are ignored. what names the option in the error. "" is an error: a
 * caller that allows it checks first. ERR_USAGE or -ENOMEM; l is empty then. */
int rank_list_parse(struct rank_list *l, const char *text, const char *what,
		    struct err *e);
void rank_list_release(struct rank_list *l); /* l is empty after it */

int rank_list_contains(const struct rank_list *l, uint32_t rank);

/* The highest rank; l is not empty. */
uint32_t rank_list_last(const struct rank_list *l);

/* How many ranks the list has; how many of them are below rank. */
size_t rank_list_count(const struct rank_list *l);
uint32_t rank_list_below(const struct rank_list *l, uint32_t rank);

/* 1, and the lowest rank that is in both lists, if there is one. */
int rank_list_common(const struct rank_list *a, const struct rank_list *b,
		     uint32_t *rank);

#endif
