/* std_map.h: --redirects and --tee as users write them: one mask for all local
 * ranks ("3") or one for each ("0:1,12:3"; other ranks have 0). Pure; the text
 * itself is the map, so there is nothing to free. */
#ifndef LAUNCHER_STD_MAP_H
#define LAUNCHER_STD_MAP_H

#include <stdint.h>

#include "base/error.h"

enum { STD_NONE = 0, STD_OUT = 1, STD_ERR = 2, STD_BOTH = 3 };

/* 0 or ERR_USAGE. what is the option's name. Each rank may be named once and
 * must be below nproc. */
int std_map_check(const char *text, uint32_t nproc, const char *what,
		  struct err *e);

/* The mask of a local rank; text has passed the check. */
int std_map_of(const char *text, uint32_t local_rank);

/* 1 if no rank has a bit set. */
int std_map_is_empty(const char *text);

#endif
