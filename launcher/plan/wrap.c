/* wrap.c: parses --wrap and decides which ranks it applies to. */
#include "launcher/plan/wrap.h"

static int wrap_check_ranks(const struct wrap *w, const struct wrap_request *r,
			    struct err *e)
{
	if (!r->world_size || rank_list_last(&w->ranks) < r->world_size)
		return 0;
	return err_set(e, ERR_USAGE, "--wrap-ranks '%s': there is no rank %u: "
		       "this job has %u worker%s, counted from 0",
		       r->ranks, rank_list_last(&w->ranks), r->world_size,
		       r->world_size == 1 ? "" : "s");
}

static int wrap_parse(struct wrap *w, const struct wrap_request *r,
		      struct err *e)
{
	static const struct program_how by_name = {.no_python = 0};
	int rc = shell_words_split(&w->words, r->command, "--wrap", e);

	if (rc == 0 && w->words.n == 0)
		rc = err_set(e, ERR_USAGE, "--wrap names no command; give one, "
			     "as in --wrap 'gdb -batch -ex run --args'");
	if (rc == 0 && r->ranks && *r->ranks) {
		rc = rank_list_parse(&w->ranks, r->ranks, "--wrap-ranks",
				     e);
		if (rc == 0)
			rc = wrap_check_ranks(w, r, e);
	}
	if (rc == 0)
		rc = program_find(&w->program, w->words.list, &by_name, e);
	return rc;
}

int wrap_init(struct wrap *w, const struct wrap_request *r, struct err *e)
{
	int rc = 0;

	*w = (struct wrap){.words = {.n = 0}};
	if (r->command)
		rc = wrap_parse(w, r, e);
	else if (r->ranks && *r->ranks)
		rc = err_set(e, ERR_USAGE, "--wrap-ranks '%s' needs a --wrap "
			     "COMMAND to run them under", r->ranks);
	if (rc < 0)
		wrap_release(w);
	return rc;
}

void wrap_release(struct wrap *w)
{
	program_release(&w->program);
	rank_list_release(&w->ranks);
	shell_words_release(&w->words);
}

int wrap_applies(const struct wrap *w, uint32_t rank)
{
	return w->words.n &&
	       (w->ranks.n == 0 || rank_list_contains(&w->ranks, rank));
}
