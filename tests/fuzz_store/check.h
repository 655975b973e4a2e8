/* check.h: checks whether the acts on a key can have happened one after
 * another, each between its request and its answer: the just-in-time search of
 * Wing, Gong and Lowe. */
#ifndef TESTS_FUZZ_STORE_CHECK_H
#define TESTS_FUZZ_STORE_CHECK_H

#include "tests/fuzz_store/model.h"

enum check_result {
	CHECK_OK,
	CHECK_WRONG, /* *at is the act whose answer is impossible */
	CHECK_GAVE_UP, /* too many possibilities */
};

/* acts: all acts on one key, in any order; they are sorted by their beginning.
 * *most: the maximum of possibilities so far, kept over calls. */
enum check_result check_key(struct act *acts, size_t n, size_t *at,
			    size_t *most);

#endif
