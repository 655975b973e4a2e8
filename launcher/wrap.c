/* wrap.c: the wrapper and who gets it. */
#include "launcher/wrap.h"

static int check_ranks(const struct wrap *w, const struct config *c,
		       struct err *e)
{
	if (c->max_nodes > 1 || rank_list_last(&w->ranks) < c->nproc)
		return 0;
	return err_set(e, ERR_USAGE, "--wrap-ranks '%s': there is no rank %u: "
		       "this job has %u worker%s, counted from 0",
		       c->wrap_ranks, rank_list_last(&w->ranks), c->nproc,
		       c->nproc == 1 ? "" : "s");
}

static int init(struct wrap *w, const struct config *c, struct err *e)
{
	static const struct program_how by_name = {.no_python = 0};
	int rc = words_split(&w->words, c->wrap, "--wrap", e);

	if (rc == 0 && w->words.n == 0)
		rc = err_set(e, ERR_USAGE, "--wrap names no command; give one, "
			     "as in --wrap 'gdb -batch -ex run --args'");
	if (rc == 0 && c->wrap_ranks && *c->wrap_ranks) {
		rc = rank_list_parse(&w->ranks, c->wrap_ranks, "--wrap-ranks",
				     e);
		if (rc == 0)
			rc = check_ranks(w, c, e);
	}
	if (rc == 0)
		rc = program_find(&w->program, w->words.list, &by_name, e);
	return rc;
}

int wrap_init(struct wrap *w, const struct config *c, struct err *e)
{
	int rc = 0;

	*w = (struct wrap){.words = {.n = 0}};
	if (c->wrap)
		rc = init(w, c, e);
	else if (c->wrap_ranks && *c->wrap_ranks)
		rc = err_set(e, ERR_USAGE, "--wrap-ranks '%s' needs a --wrap "
			     "COMMAND to run them under", c->wrap_ranks);
	if (rc < 0)
		wrap_release(w);
	return rc;
}

void wrap_release(struct wrap *w)
{
	program_release(&w->program);
	rank_list_release(&w->ranks);
	words_release(&w->words);
}

int wrap_applies(const struct wrap *w, uint32_t rank)
{
	return w->words.n &&
	       (w->ranks.n == 0 || rank_list_contains(&w->ranks, rank));
}
