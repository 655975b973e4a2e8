/* wrap.h: --wrap: a debugger or profiler that starts the program, for some
 * ranks or for all. Finds the wrapper; starts nothing. */
#ifndef LAUNCHER_WRAP_H
#define LAUNCHER_WRAP_H

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

#endif
