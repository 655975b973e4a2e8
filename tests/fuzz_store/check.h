/* check.h: whether the acts on one key can have happened one after the other,
 * each within its time: the just-in-time search of Wing, Gong and Lowe. */
#ifndef TESTS_FUZZ_STORE_CHECK_H
#define TESTS_FUZZ_STORE_CHECK_H

#include "tests/fuzz_store/model.h"

enum check_result {
	CHECK_OK,
	CHECK_WRONG, /* *at is the act that cannot have been answered so */
	CHECK_GAVE_UP, /* more possibilities than can be looked at */
};

/* n acts on one key, in any order: sorts them by their begin. most: the largest
 * number of possibilities at a time, kept over calls. */
enum check_result check_key(struct act *acts, size_t n, size_t *at,
			    size_t *most);

#endif
