/* wrap.h: programs that start the worker's program: --wrap's debugger or
 * profiler, for some ranks or for all, and ddprun-check. Finds them; starts
 * nothing. */
#ifndef LAUNCHER_WRAP_H
#define LAUNCHER_WRAP_H

#include "base/error.h"
#include "launcher/output/rank_list.h"
#include "launcher/plan/program.h"
#include "launcher/plan/shell_words.h"

/* What the user asked for. */
struct wrap_request {
	const char *command; /* NULL: none */
	const char *ranks;   /* a list; NULL or "": all */
	uint32_t world_size; /* 0: not known yet */
};

/* All zero: no wrapper. */
struct wrap {
	struct shell_words words;
	struct rank_list ranks; /* empty: all */
	struct program program; /* the wrapper's path and words */
};

/* Errors: those of shell_words_split, rank_list_parse and program_find;
 * ERR_USAGE for --wrap-ranks without --wrap, for a --wrap without a word, and
 * for ranks that a job on one node does not have. */
int wrap_init(struct wrap *w, const struct wrap_request *r, struct err *e);
void wrap_release(struct wrap *w);

/* 1 if the worker of this rank is started under the wrapper. */
int wrap_applies(const struct wrap *w, uint32_t rank);

/* ---- the words that start ddprun-check ----
 *
 * The words that start ddprun-check: alone for `ddprun check`, before a program
 * with --preflight, which it then executes. Looks for the program's file;
 * starts nothing. */

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
