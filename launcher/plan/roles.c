/* roles.c: splits the text into words, the words of a line into a role, and
 * looks ranks up. */
#include "launcher/plan/roles.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/option.h"

#define WHAT "--multi-prog"
#define RANK "${rank}"
#define ROLE_RANK "${role_rank}"

enum { GROWTH = sizeof(ROLE_RANK), GPUS_MAX = 1024 };

/* Where a parser is. */
struct roles_at {
	const char *in;
	char *out;
	uint32_t line; /* from 1 */
	uint32_t start; /* where the role's words began */
};

/* ---- words ---- */

static int roles_is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r';
}

/* A backslash at the end of a line, with the line's end: its bytes, or 0. */
static size_t roles_continues(const char *p)
{
	if (p[0] != '\\')
		return 0;
	return p[1] == '\n' ? 2 : p[1] == '\r' && p[2] == '\n' ? 3 : 0;
}

static void roles_skip_blanks(struct roles_at *at)
{
	size_t n;

	for (;;) {
		n = roles_continues(at->in);
		at->line += n != 0;
		if (!n && !roles_is_blank(*at->in))
			return;
		at->in += n ? n : 1;
	}
}

static void roles_copy(struct roles_at *at, const char *text)
{
	at->out = stpcpy(at->out, text);
}

/* One character of a word, or two that stand for something else. */
static void roles_take_character(struct roles_at *at, char quote)
{
	const char *p = at->in;
	size_t n = quote == '\'' ? 0 : roles_continues(p);

	at->line += *p == '\n' || n;
	if (n) {
		at->in += n;
		return;
	}
	if (quote != '\'' && p[0] == '%' && (p[1] == 't' || p[1] == 'o')) {
		roles_copy(at, p[1] == 't' ? RANK : ROLE_RANK);
		at->in++;
	} else if (quote != '\'' && *p == '\\' && p[1] &&
		   (!quote || strchr("$`\"\\", p[1]))) {
		*at->out++ = p[1];
		at->in++;
	} else {
		*at->out++ = *p;
	}
	at->in++;
}

/* 0, or ERR_USAGE for an unfinished quote. */
static int roles_take_word(struct roles_at *at, struct err *e)
{
	uint32_t line = at->line;
	char quote = 0;

	while (*at->in &&
	       (quote || (!roles_is_blank(*at->in) && *at->in != '\n'))) {
		char c = *at->in;

		if (quote ? c == quote : c == '\'' || c == '"') {
			quote = quote ? 0 : c;
			at->in++;
		} else {
			roles_take_character(at, quote);
		}
	}
	*at->out++ = '\0';
	if (quote)
		return err_set(e, ERR_USAGE, WHAT ": line %u: a quote is "
			       "opened and never closed", line);
	return 0;
}

/* The words of one line, and a NULL after them. */
static int roles_take_line(struct roles *r, struct roles_at *at, struct err *e)
{
	int rc = 0;

	at->start = (uint32_t)r->nwords;
	roles_skip_blanks(at);
	if (*at->in == '#')
		at->in += strcspn(at->in, "\n");
	while (rc == 0 && *at->in && *at->in != '\n') {
		r->words[r->nwords++] = at->out;
		rc = roles_take_word(at, e);
		roles_skip_blanks(at);
	}
	if (r->nwords > at->start)
		r->words[r->nwords++] = NULL;
	return rc;
}

/* ---- a role ---- */

struct role_options {
	const char *name, *wrap;
	long gpus_per_proc;
	int is_optional, module, no_python, run_path;
};

#define AT(field) offsetof(struct role_options, field)

static const struct option_spec role_option_rows[] = {
	{.name = "role", .kind = OPTION_STRING, .offset = AT(name),
	 .arg = "NAME"},
	{.name = "role-optional", .kind = OPTION_FLAG,
	 .offset = AT(is_optional)},
	{.name = "wrap", .kind = OPTION_STRING, .offset = AT(wrap),
	 .arg = "COMMAND"},
	{.name = "gpus-per-proc", .kind = OPTION_INT, .min = 0,
	 .max = GPUS_MAX, .offset = AT(gpus_per_proc), .arg = "N"},
	{.name = "module", .letter = 'm', .kind = OPTION_FLAG,
	 .offset = AT(module)},
	{.name = "no-python", .kind = OPTION_FLAG, .offset = AT(no_python)},
	{.name = "run-path", .kind = OPTION_FLAG, .offset = AT(run_path)},
	{.name = NULL},
};

/* The options of a line, except -x, which may be given several times: moves its
 * values to the front, over words that were read. Returns the words that the
 * options have. */
static int role_read_options(struct role *role, char **words, uint32_t line,
			     struct err *e)
{
	struct role_options o = {.gpus_per_proc = -1};
	struct err why = ERR_INIT;
	char **ours; /* those but -x; the parser skips the first word */
	int n = 0, used = 0, rc;

	while (words[n])
		n++;
	ours = calloc((size_t)n + 2, sizeof(*ours));
	if (!ours)
		return err_no_memory(e, "the programs");
	n = 1;
	while (words[used] && words[used][0] == '-' && words[used][1]) {
		int each = 1;

		if (strcmp(words[used], "-x") == 0 && words[used + 1] &&
		    strchr(words[used + 1], '=') > words[used + 1]) {
			role->vars[role->nvars++] = words[used + 1];
			used += 2;
			continue;
		}
		option_at(role_option_rows, words + used, &each);
		for (; each > 0 && words[used]; each--)
			ours[n++] = words[used++];
	}
	rc = option_parse(role_option_rows, &o, n, ours, 0, &why);
	free(ours);
	if (rc != n)
		return err_set(e, ERR_USAGE, WHAT ": line %u: %s", line,
			       why.code ? why.text
					: "give -x NAME=VALUE, --role NAME, "
					  "--wrap COMMAND, --gpus-per-proc N, "
					  "--role-optional, or the program");
	role->name = (char *)o.name;
	role->wrap = o.wrap;
	role->gpus_per_proc = o.gpus_per_proc;
	role->is_optional = o.is_optional;
	role->module = o.module;
	role->no_python = o.no_python;
	role->run_path = o.run_path;
	return used;
}

static int role_read_ranks(struct roles *r, struct role *role,
			   const char *text, uint32_t line, struct err *e)
{
	char what[40];
	int rc;

	if (strcmp(text, "*") == 0) {
		if (r->rest)
			return err_set(e, ERR_USAGE, WHAT ": line %u: * stands "
				       "for all other ranks, and a line above "
				       "has it already", line);
		r->rest = role;
		return 0;
	}
	snprintf(what, sizeof(what), WHAT ": line %u:", line);
	rc = rank_list_parse(&role->ranks, text, what, e);
	for (uint32_t i = 0; rc == 0 && i < r->n; i++) {
		uint32_t both;

		if (rank_list_common(&r->list[i].ranks, &role->ranks, &both))
			return err_set(e, ERR_USAGE, WHAT ": line %u: rank %u "
				       "has a program already, %s", line, both,
				       r->list[i].words[0]);
	}
	return rc;
}

static int role_is_name_character(char c)
{
	return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' &&
	       (c | 0x20) <= 'z') || (c && strchr("_.-", c));
}

static int roles_has_name(const struct roles *r, const char *name)
{
	for (uint32_t i = 0; i < r->n; i++) {
		if (strcmp(r->list[i].name, name) == 0)
			return 1;
	}
	return 0;
}

/* The program's name, without its folder; with the role's number if another
 * role has that name. */
static int role_make_name(const struct roles *r, struct role *role,
			  struct err *e)
{
	const char *slash = strrchr(role->words[0], '/');
	const char *base = slash && slash[1] ? slash + 1 : role->words[0];
	char name[80];

	snprintf(name, sizeof(name), "%.60s", *base ? base : "program");
	for (char *c = name; *c; c++) {
		if (!role_is_name_character(*c))
			*c = '_';
	}
	for (uint32_t i = r->n; roles_has_name(r, name); i++) {
		name[60] = '\0';
		snprintf(strchr(name, '\0'), 16, "-%u", i);
	}
	role->name = strdup(name);
	return role->name ? 0 : err_no_memory(e, "the programs");
}

static int role_set_name(const struct roles *r, struct role *role,
			 uint32_t line, struct err *e)
{
	const char *name = role->name;
	size_t n = 0;

	role->name = NULL;
	if (!name)
		return role_make_name(r, role, e);
	while (role_is_name_character(name[n]))
		n++;
	if (!n || name[n] || n > 64)
		return err_set(e, ERR_USAGE, WHAT ": line %u: --role '%s': "
			       "where a job has several programs, a role's "
			       "name has 1 to 64 letters, digits, '.', '_' or "
			       "'-'", line, name);
	if (roles_has_name(r, name))
		return err_set(e, ERR_USAGE, WHAT ": line %u: --role %s: "
			       "another program has this role; give each its "
			       "own", line, name);
	role->name = strdup(name);
	return role->name ? 0 : err_no_memory(e, "the programs");
}

/* words: of a whole line. */
static int roles_add(struct roles *r, char **words, uint32_t line,
		     struct err *e)
{
	struct role *role = &r->list[r->n];
	int used, rc;

	*role = (struct role){.vars = words};
	rc = role_read_ranks(r, role, words[0], line, e);
	used = rc < 0 ? rc : role_read_options(role, words + 1, line, e);
	if (used >= 0 && (!words[1 + used] || !*words[1 + used]))
		used = err_set(e, ERR_USAGE, WHAT ": line %u: no program "
			       "follows; write RANKS PROGRAM [ARGUMENTS]",
			       line);
	role->words = used < 0 ? NULL : words + 1 + used;
	rc = used < 0 ? used : role_set_name(r, role, line, e);
	if (rc < 0) {
		rank_list_release(&role->ranks);
		return rc;
	}
	r->listed += (uint32_t)rank_list_count(&role->ranks);
	r->n++;
	return 0;
}

/* ---- the text ---- */

static int roles_make_room(struct roles *r, const char *text, struct err *e)
{
	size_t size = strlen(text) + 1, lines = 1;

	if (size > ROLES_TEXT_MAX)
		return err_set(e, ERR_USAGE, WHAT ": the text has more than "
			       "%d bytes", ROLES_TEXT_MAX);
	for (const char *p = text; (p = strchr(p, '\n')); p++)
		lines++;
	if (lines > ROLES_MAX)
		lines = ROLES_MAX;
	r->bytes = malloc(size * GROWTH);
	/* each word and each line's NULL take a byte, or the end */
	r->words = calloc(size + 2, sizeof(*r->words));
	r->list = calloc(lines + 1, sizeof(*r->list));
	return r->bytes && r->words && r->list
		       ? 0 : err_no_memory(e, "the programs");
}

int roles_parse(struct roles *r, const char *text, struct err *e)
{
	struct roles_at at = {.in = text, .line = 1};
	int rc;

	*r = (struct roles){.n = 0};
	rc = roles_make_room(r, text, e);
	at.out = r->bytes;
	while (rc == 0 && *at.in) {
		uint32_t line = at.line;

		rc = roles_take_line(r, &at, e);
		if (rc == 0 && r->nwords > at.start && r->n == ROLES_MAX)
			rc = err_set(e, ERR_USAGE, WHAT ": more than %d "
				     "programs", ROLES_MAX);
		else if (rc == 0 && r->nwords > at.start)
			rc = roles_add(r, r->words + at.start, line, e);
		at.line += *at.in == '\n';
		at.in += *at.in == '\n';
	}
	if (rc == 0 && !r->n)
		rc = err_set(e, ERR_USAGE, WHAT ": no line names a program; "
			     "write RANKS PROGRAM [ARGUMENTS], as in "
			     "'0-3 ./learner'");
	if (rc < 0)
		roles_release(r);
	return rc;
}

void roles_release(struct roles *r)
{
	for (uint32_t i = 0; i < r->n; i++) {
		rank_list_release(&r->list[i].ranks);
		free(r->list[i].name);
	}
	free(r->list);
	free(r->words);
	free(r->bytes);
	*r = (struct roles){.n = 0};
}

/* ---- ranks ---- */

const struct role *roles_of(const struct roles *r, uint32_t rank)
{
	if (!r)
		return NULL;
	for (uint32_t i = 0; i < r->n; i++) {
		if (rank_list_contains(&r->list[i].ranks, rank))
			return &r->list[i];
	}
	return r->rest;
}

uint32_t roles_end(const struct roles *r)
{
	uint32_t end = 0;

	for (uint32_t i = 0; i < r->n; i++) {
		const struct rank_list *l = &r->list[i].ranks;

		if (l->n && rank_list_last(l) >= end)
			end = rank_list_last(l) + 1;
	}
	return end;
}

int roles_check(const struct roles *r, uint32_t world_size, struct err *e)
{
	for (uint32_t i = 0; i < r->n; i++) {
		const struct role *role = &r->list[i];
		uint32_t last;

		if (!role->ranks.n)
			continue;
		last = rank_list_last(&role->ranks);
		if (last >= world_size)
			return err_set(e, ERR_USAGE, "role %s (%s) has rank "
				       "%u, but the job has %u worker%s, "
				       "counted from 0", role->name,
				       role->words[0], last, world_size,
				       world_size == 1 ? "" : "s");
	}
	if (r->rest && r->listed >= world_size)
		return err_set(e, ERR_USAGE, "role %s (%s) has no worker: the "
			       "other programs have all %u ranks",
			       r->rest->name, r->rest->words[0], world_size);
	for (uint32_t i = 0; !r->rest && r->listed < world_size &&
	     i < world_size; i++) {
		if (!roles_of(r, i))
			return err_set(e, ERR_USAGE, "rank %u of %u has no "
				       "program: the programs have %u ranks "
				       "together", i, world_size, r->listed);
	}
	return 0;
}

uint32_t roles_find(const struct roles *r, uint32_t rank, uint32_t *role_rank)
{
	const struct role *role = roles_of(r, rank);
	uint32_t others = 0;

	if (role->ranks.n) {
		*role_rank = rank_list_below(&role->ranks, rank);
		return (uint32_t)(role - r->list);
	}
	for (uint32_t i = 0; i < r->n; i++)
		others += rank_list_below(&r->list[i].ranks, rank);
	*role_rank = rank - others;
	return (uint32_t)(role - r->list);
}

uint32_t roles_size(const struct roles *r, uint32_t role, uint32_t world_size)
{
	const struct rank_list *l = &r->list[role].ranks;

	return l->n ? (uint32_t)rank_list_count(l) : world_size - r->listed;
}

int roles_has(const struct roles *r, uint32_t role, uint32_t first, uint32_t n)
{
	const struct rank_list *l = &r->list[role].ranks;
	uint32_t others = 0;

	if (l->n)
		return rank_list_below(l, first + n) >
		       rank_list_below(l, first);
	for (uint32_t i = 0; i < r->n; i++)
		others += rank_list_below(&r->list[i].ranks, first + n) -
			  rank_list_below(&r->list[i].ranks, first);
	return others < n;
}

/* ---- text ---- */

static void roles_put_range(struct buf *b, int *n, uint32_t first,
			    uint32_t last)
{
	buf_printf(b, first == last ? "%s%u" : "%s%u-%u", (*n)++ ? "," : "",
		   first, last);
}

/* All ranks below world_size that no line names. */
static void roles_put_rest(struct buf *b, const struct roles *r,
			   uint32_t world_size)
{
	uint32_t first = 0;
	int n = 0;

	for (uint32_t i = 0; i <= world_size; i++) {
		if (i < world_size && roles_of(r, i) == r->rest)
			continue;
		if (i > first)
			roles_put_range(b, &n, first, i - 1);
		first = i + 1;
	}
}

void roles_put(struct buf *b, const struct roles *r, uint32_t world_size)
{
	for (uint32_t i = 0; i < r->n; i++) {
		const struct rank_list *l = &r->list[i].ranks;
		int n = 0;

		buf_printf(b, "%s%s=", i ? " " : "", r->list[i].name);
		if (!l->n && !world_size)
			buf_printf(b, "*");
		else if (!l->n)
			roles_put_rest(b, r, world_size);
		for (size_t k = 0; k < l->n; k++)
			roles_put_range(b, &n, l->ranges[k].first,
					l->ranges[k].last);
	}
}
