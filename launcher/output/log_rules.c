/* log_rules.c: checks and parses the console's options; matches lines against
 * the strings of a filter. */
#include "launcher/output/log_rules.h"

#include <stdlib.h>
#include <string.h>

#include "launcher/output/redirect.h"
#include "launcher/output/template.h"

int log_rules_check(const struct output_options *o, uint32_t nproc,
		    struct err *e)
{
	struct log_rules rules;
	int rc = std_map_check(o->redirects, nproc, "--redirects", e);

	if (rc == 0)
		rc = std_map_check(o->tee, nproc, "--tee", e);
	if (rc == 0 && o->log_dir && !*o->log_dir)
		rc = err_set(e, ERR_USAGE, "--log-dir is empty; give a folder, "
			     "or /dev/null for no files");
	if (rc == 0)
		rc = log_rules_init(&rules, o, e);
	if (rc == 0)
		log_rules_release(&rules);
	return rc;
}

static int log_rules_take_list(struct rank_list *l, int *given,
			       const char *text, const char *what,
			       struct err *e)
{
	*given = text && *text;
	return *given ? rank_list_parse(l, text, what, e) : 0;
}

int log_rules_init(struct log_rules *r, const struct output_options *o,
		   struct err *e)
{
	int rc;

	*r = (struct log_rules){.prefix = o->log_prefix,
				.collapse = o->collapse};
	if (!r->prefix)
		r->prefix = getenv("TORCHELASTIC_LOG_LINE_PREFIX_TEMPLATE");
	if (!r->prefix)
		r->prefix = LINE_PREFIX_DEFAULT;
	rc = log_rules_take_list(&r->ranks, &r->some_ranks, o->ranks_filter,
				 "--ranks-filter", e);
	if (rc == 0)
		rc = log_rules_take_list(&r->local_ranks, &r->some_local_ranks,
					 o->local_ranks_filter,
					 "--local-ranks-filter", e);
	if (rc == 0)
		rc = line_filter_init(&r->copied[0], o->stdout_filters,
				      "--duplicate-stdout-filters", e);
	if (rc == 0)
		rc = line_filter_init(&r->copied[1], o->stderr_filters,
				      "--duplicate-stderr-filters", e);
	if (rc < 0)
		log_rules_release(r);
	return rc;
}

void log_rules_release(struct log_rules *r)
{
	rank_list_release(&r->ranks);
	rank_list_release(&r->local_ranks);
	line_filter_release(&r->copied[0]);
	line_filter_release(&r->copied[1]);
}

static int log_rules_has_bit(const char *map, uint32_t local_rank,
			     int is_stderr)
{
	return (std_map_of(map, local_rank) &
		(is_stderr ? STD_ERR : STD_OUT)) != 0;
}

int log_rules_to_file(const struct output_options *o, uint32_t local_rank,
		      int is_stderr)
{
	return log_rules_has_bit(o->redirects, local_rank, is_stderr) ||
	       log_rules_has_bit(o->tee, local_rank, is_stderr);
}

int log_rules_to_console(const struct output_options *o, uint32_t local_rank,
			 int is_stderr)
{
	return log_rules_has_bit(o->tee, local_rank, is_stderr) ||
	       !log_rules_has_bit(o->redirects, local_rank, is_stderr);
}

int log_rules_shows(const struct log_rules *r, uint32_t local_rank,
		    uint32_t rank)
{
	if (r->some_ranks && !rank_list_contains(&r->ranks, rank))
		return 0;
	return log_rules_shows_local(r, local_rank);
}

int log_rules_shows_local(const struct log_rules *r, uint32_t local_rank)
{
	return !r->some_local_ranks ||
	       rank_list_contains(&r->local_ranks, local_rank);
}

/* ---- filters ---- */

/* Copies the word at p, each ",," as a comma; returns where the next begins. */
static const char *line_filter_take_word(const char *p, char *to, size_t *len)
{
	*len = 0;
	for (; *p; p++) {
		if (*p == ',' && p[1] != ',')
			return p + 1;
		if (*p == ',')
			p++;
		to[(*len)++] = *p;
	}
	return p;
}

int line_filter_init(struct line_filter *f, const char *text, const char *what,
		     struct err *e)
{
	size_t len = text ? strlen(text) : 0, n;
	const char *p = text;
	char *to;

	*f = (struct line_filter){.n = 0};
	if (!len)
		return 0;
	f->text = malloc(len);
	f->words = calloc(len, sizeof(*f->words));
	if (!f->text || !f->words) {
		line_filter_release(f);
		return err_no_memory(e, "%s", what);
	}
	for (to = f->text; *p; to += n) {
		p = line_filter_take_word(p, to, &n);
		if (n)
			f->words[f->n++] = SLICE(to, n);
	}
	if (f->n)
		return 0;
	line_filter_release(f);
	return err_set(e, ERR_USAGE,
		       "%s '%s': give strings separated by commas", what, text);
}

void line_filter_release(struct line_filter *f)
{
	free(f->text);
	free(f->words);
	*f = (struct line_filter){.n = 0};
}

int line_filter_matches(const struct line_filter *f, struct slice line)
{
	for (size_t i = 0; i < f->n; i++) {
		if (memmem(line.data, line.len, f->words[i].data,
			   f->words[i].len))
			return 1;
	}
	return 0;
}
