/* pickle.h: reads plain data in Python's pickle format: None, numbers, text,
 * lists, tuples and dicts. Calls nothing that the bytes name. Pure; any bytes
 * are allowed. */
#ifndef LAUNCHER_PICKLE_H
#define LAUNCHER_PICKLE_H

#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

enum pickle_type {
	PICKLE_NONE,
	PICKLE_INT, /* or a boolean */
	PICKLE_FLOAT,
	PICKLE_TEXT,
	PICKLE_LIST, /* or a tuple, or a set */
	PICKLE_DICT, /* each key is followed by its value */
	PICKLE_OTHER,
};

struct pickle_value {
	enum pickle_type type;
	int64_t number;	   /* an int, or the whole part of a float */
	struct slice text; /* points into the bytes that were read */
	/* links of a list or a dict; 0: empty */
	uint32_t first, last;
};

/* Values refer to each other by number, and one may be in several lists. */
struct pickle_link {
	uint32_t value, next; /* 0: the end */
};

struct pickle {
	struct pickle_value *values; /* from 1 on */
	struct pickle_link *links;   /* from 1 on */
	uint32_t nvalues, nlinks;
	uint32_t root;
};

/* 0; ERR_DATA: not a pickle, cut, or of more than plain data; -ENOMEM. The
 * caller releases p in any case, and keeps the bytes until then. */
int pickle_read(struct pickle *p, struct slice bytes, struct err *e);
void pickle_release(struct pickle *p);

const struct pickle_value *pickle_root(const struct pickle *p);

/* Goes through a list: *at is 0 at first. NULL: the end, or no list. */
const struct pickle_value *pickle_next(const struct pickle *p,
				       const struct pickle_value *list,
				       uint32_t *at);

/* A value of a dict by its key, which is among its first 64; NULL: it has none,
 * or is no dict. */
const struct pickle_value *pickle_get(const struct pickle *p,
				      const struct pickle_value *dict,
				      const char *key);
/* The same; the text, or "", and the number, or -1. */
struct slice pickle_get_text(const struct pickle *p,
			     const struct pickle_value *dict, const char *key);
int64_t pickle_get_number(const struct pickle *p,
			  const struct pickle_value *dict, const char *key);

#endif
