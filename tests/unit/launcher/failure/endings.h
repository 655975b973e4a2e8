/* endings.h: the last lines of a program, how it ended, and the sentence that
 * is to be found in them. */
#ifndef TESTS_ENDINGS_H
#define TESTS_ENDINGS_H

#include <check.h>

#include "launcher/failure/last_words.h"

struct ending {
	int code, signal;
	const char *tail, *words;
};

typedef void put_words(struct buf *out, struct slice tail, int code,
		       int signal);

static void check_endings(const struct ending *e, size_t n, put_words *put)
{
	for (size_t i = 0; i < n; i++) {
		struct buf out = BUF_INIT(1 << 10);

		put(&out, SLICE_STR(e[i].tail), e[i].code, e[i].signal);
		buf_put(&out, "", 1);
		ck_assert_str_eq(out.data, e[i].words);
		buf_release(&out);
	}
}

#define CHECK_ENDINGS(list, put) \
	check_endings(list, sizeof(list) / sizeof(*(list)), put)

#endif
