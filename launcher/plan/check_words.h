/* check_words.h: the words that start ddprun-check: alone for `ddprun check`,
 * before a program with --preflight, which it then executes. Looks for the
 * program's file; starts nothing. */
#ifndef LAUNCHER_CHECK_WORDS_H
#define LAUNCHER_CHECK_WORDS_H

#include <limits.h>

#include "base/error.h"

enum { CHECK_WORDS_MAX = 12 };

/* What the user asked for; NULL: nothing. */
struct check_words_request {
	int full;
	const char *folders, *command, *json;
	const char *log_dir; /* workers write there as well */
};

/* All zero: no check. */
struct check_words {
	char *list[CHECK_WORDS_MAX + 1]; /* n words, then NULL */
	int n;
	char *path; /* the program's; also the first word */
	char *folders;
};

/* r's texts must outlive w. -ENOMEM; w is then empty. */
int check_words_init(struct check_words *w, const struct check_words_request *r,
		     struct err *e);
void check_words_release(struct check_words *w);

#endif
