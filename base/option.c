/* option.c: parses a command line and the environment by one table. */
#include "base/option.h"

#include <ctype.h>
#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { NAME_MAX_BYTES = 64 };

int parse_long(const char *text, long min, long max, const char *what,
	       long *out, struct err *e)
{
	char *end;
	long v;

	errno = 0;
	v = strtol(text, &end, 10);
	if (end == text || *end || isspace((unsigned char)*text) ||
	    *text == '+')
		return err_set(e, ERR_USAGE, "%s: '%s' is not a whole number",
			       what, text);
	if (errno == ERANGE || v < min || v > max)
		return err_set(e, ERR_USAGE,
			       "%s: %s is not in the range %ld to %ld", what,
			       text, min, max);
	*out = v;
	return 0;
}

static int parse_double(const char *text, double min, double max,
			const char *what, double *out, struct err *e)
{
	char *end;
	double v = strtod(text, &end);

	if (end == text || *end || isnan(v))
		return err_set(e, ERR_USAGE, "%s: '%s' is not a number", what,
			       text);
	if (v < min || v > max)
		return err_set(e, ERR_USAGE,
			       "%s: %s is not in the range %g to %g", what,
			       text, min, max);
	*out = v;
	return 0;
}

const char *option_trim(const char *text, char out[OPTION_NUMBER_MAX])
{
	size_t n;

	while (isspace((unsigned char)*text))
		text++;
	n = strlen(text);
	while (n && isspace((unsigned char)text[n - 1]))
		n--;
	if (n >= OPTION_NUMBER_MAX)
		return text;
	memcpy(out, text, n);
	out[n] = '\0';
	return out;
}

/* what names the value in errors: "--epochs" or "PET_X in the environment" */
static int option_assign(const struct option_spec *s, void *values,
			 const char *text, const char *what, struct err *e)
{
	char *field = (char *)values + s->offset;
	char number[OPTION_NUMBER_MAX];
	long flag;
	int rc = 0;

	switch (s->kind) {
	case OPTION_FLAG:
		rc = parse_long(option_trim(text, number), LONG_MIN, LONG_MAX,
				what, &flag, e);
		if (rc == 0)
			*(int *)(void *)field = flag != 0;
		break;
	case OPTION_INT:
		rc = parse_long(option_trim(text, number), (long)s->min,
				(long)s->max, what, (long *)(void *)field, e);
		break;
	case OPTION_DOUBLE:
		rc = parse_double(text, s->min, s->max, what,
				  (double *)(void *)field, e);
		break;
	case OPTION_STRING:
		*(const char **)(void *)field = text;
		break;
	case OPTION_HELP:
	case OPTION_VERSION:
		break;
	}
	if (rc == 0 && s->given_offset)
		*(int *)(void *)((char *)values + s->given_offset) = 1;
	return rc;
}

/* A default does not count as given. */
static int option_set_defaults(const struct option_spec *table, void *values,
			       struct err *e)
{
	int rc = 0;

	for (const struct option_spec *s = table; s->name && rc == 0; s++) {
		struct option_spec row = *s;

		row.given_offset = 0;
		if (s->def)
			rc = option_assign(&row, values, s->def, s->name, e);
	}
	return rc;
}

static int option_read_environment(const struct option_spec *table,
				   void *values, struct err *e)
{
	char what[NAME_MAX_BYTES + 32];

	for (const struct option_spec *s = table; s->name; s++) {
		const char *text = s->env ? getenv(s->env) : NULL;
		int rc;

		if (!text)
			continue;
		snprintf(what, sizeof(what), "%s in the environment", s->env);
		rc = option_assign(s, values, text, what, e);
		if (rc < 0)
			return rc;
	}
	return 0;
}

int option_distance(const char *a, const char *b)
{
	int row[NAME_MAX_BYTES + 1];
	int na = (int)strnlen(a, NAME_MAX_BYTES);
	int nb = (int)strnlen(b, NAME_MAX_BYTES);

	for (int j = 0; j <= nb; j++)
		row[j] = j;
	for (int i = 1; i <= na; i++) {
		int diagonal = row[0];

		row[0] = i;
		for (int j = 1; j <= nb; j++) {
			int change = diagonal + (a[i - 1] != b[j - 1]);
			int best = row[j] < row[j - 1] ? row[j] : row[j - 1];

			diagonal = row[j];
			row[j] = best + 1 < change ? best + 1 : change;
		}
	}
	return row[nb];
}

/* NULL if no name is similar: half of the letters would have to change. */
static const char *option_nearest(const struct option_spec *table,
				  const char *name)
{
	const char *best = NULL;
	int least = (int)strnlen(name, NAME_MAX_BYTES) / 2 + 1;

	for (const struct option_spec *s = table; s->name; s++) {
		int d = option_distance(name, s->name);

		if (d < least) {
			least = d;
			best = s->name;
		}
	}
	return best;
}

/* The option with exactly this name, else the option whose prefix it is. */
static const struct option_spec *option_find(const struct option_spec *table,
					     const char *name, struct err *e)
{
	const struct option_spec *found = NULL, *other = NULL;
	size_t len = strlen(name);

	for (const struct option_spec *s = table; s->name; s++) {
		if (strcmp(s->name, name) == 0)
			return s;
	}
	for (const struct option_spec *s = table; s->name && len; s++) {
		if (strncmp(s->name, name, len) != 0)
			continue;
		if (!found || (found->yields && !s->yields)) {
			found = s;
			other = NULL;
		} else if (found->yields == s->yields) {
			other = other ? other : s;
		}
	}
	if (!found) {
		const char *like = option_nearest(table, name);

		err_set(e, ERR_USAGE, "unknown option --%s%s%s%s (--help lists "
			"all)", name, like ? "; did you mean --" : "",
			like ? like : "", like ? "?" : "");
	} else if (other) {
		err_set(e, ERR_USAGE, "option --%s is ambiguous: --%s or --%s?",
			name, found->name, other->name);
		return NULL;
	}
	return found;
}

static const struct option_spec *option_find_letter(
	const struct option_spec *table, char letter, struct err *e)
{
	for (const struct option_spec *s = table; s->name; s++) {
		if (s->letter && s->letter == letter)
			return s;
	}
	err_set(e, ERR_USAGE, "unknown option -%c (--help lists all)", letter);
	return NULL;
}

int option_takes_value(const struct option_spec *s)
{
	return s->kind != OPTION_FLAG && s->kind != OPTION_HELP &&
	       s->kind != OPTION_VERSION;
}

/* Whether a word is one of those in "quick|full". */
static int option_is_literal(const char *list, const char *word)
{
	size_t n = strlen(word);

	for (; *list; list += *list == '|') {
		size_t len = strcspn(list, "|");

		if (len == n && strncmp(list, word, n) == 0)
			return 1;
		list += len;
	}
	return 0;
}

/* Whether the value may be left out here; next: the following word, or NULL. */
static int option_is_bare(const struct option_spec *s, const char *next)
{
	if (!s->bare)
		return 0;
	return !next || next[0] == '-' ||
	       (islower((unsigned char)s->arg[0]) &&
		!option_is_literal(s->arg, next));
}

/* The option of a word, and the value in it, or NULL. */
static const struct option_spec *option_of_word(const struct option_spec *table,
						const char *word,
						const char **value,
						struct err *e)
{
	char name[NAME_MAX_BYTES];
	size_t len;

	*value = NULL;
	if (word[1] != '-') {
		*value = word[2] == '=' ? word + 3 : word[2] ? word + 2 : NULL;
		return option_find_letter(table, word[1], e);
	}
	len = strcspn(word + 2, "=");
	if (word[2 + len] == '=')
		*value = word + 2 + len + 1;
	snprintf(name, sizeof(name), "%.*s",
		 (int)(len < sizeof(name) ? len : sizeof(name) - 1), word + 2);
	for (char *p = name; *p; p++)
		*p = *p == '_' ? '-' : *p;
	return option_find(table, name, e);
}

const struct option_spec *option_at(const struct option_spec *table,
				    char **argv, int *words)
{
	const char *value;
	const struct option_spec *s = option_of_word(table, argv[0], &value,
						     NULL);

	*words = s && option_takes_value(s) && !value && argv[1] &&
				 !option_is_bare(s, argv[1])
			 ? 2
			 : 1;
	return s;
}

/* Parses the option at argv[*i] and leaves *i at its last word. */
static int option_parse_one(const struct option_spec *table, void *values,
			    int argc, char **argv, int *i, struct err *e)
{
	char what[NAME_MAX_BYTES + 8];
	const char *value;
	const struct option_spec *s = option_of_word(table, argv[*i], &value,
						     e);

	if (!s)
		return ERR_USAGE;
	if (s->kind == OPTION_HELP)
		return OPTION_WANT_HELP;
	if (s->kind == OPTION_VERSION)
		return OPTION_WANT_VERSION;
	snprintf(what, sizeof(what), "--%s", s->name);
	if (!option_takes_value(s)) {
		if (value)
			return err_set(e, ERR_USAGE, "%s takes no value", what);
		return option_assign(s, values, "1", what, e);
	}
	if (!value && option_is_bare(s, *i + 1 < argc ? argv[*i + 1] : NULL))
		value = s->bare;
	if (!value) {
		if (*i + 1 >= argc)
			return err_set(e, ERR_USAGE, "%s needs a value: %s %s",
				       what, what, s->arg ? s->arg : "VALUE");
		value = argv[++*i];
	}
	return option_assign(s, values, value, what, e);
}

static int option_parse_all(const struct option_spec *table, void *values,
			    int argc, char **argv, int stop_at_first,
			    int *ended, struct err *e)
{
	int i, rc = option_set_defaults(table, values, e);

	*ended = 0;
	if (rc == 0)
		rc = option_read_environment(table, values, e);
	if (rc < 0)
		return rc;
	for (i = 1; i < argc; i++) {
		if (strcmp(argv[i], "--") == 0) {
			*ended = 1;
			return i + 1;
		}
		if (argv[i][0] != '-' || !argv[i][1]) {
			if (stop_at_first)
				return i;
			return err_set(e, ERR_USAGE, "unexpected word '%s' "
				       "(--help lists the options)", argv[i]);
		}
		rc = option_parse_one(table, values, argc, argv, &i, e);
		if (rc < 0)
			return rc;
	}
	return i;
}

int option_parse(const struct option_spec *table, void *values, int argc,
		 char **argv, int stop_at_first, struct err *e)
{
	int ended;

	return option_parse_all(table, values, argc, argv, stop_at_first,
				&ended, e);
}

int option_parse_program(const struct option_spec *table, void *values,
			 int argc, char **argv, int *options, struct err *e)
{
	int ended,
		rc = option_parse_all(table, values, argc, argv, 1, &ended, e);

	*options = rc < 0 ? 0 : rc - 1 - ended;
	return rc;
}

/* Prints text wrapped at 80 columns; col is the current column. */
static void option_print_wrapped(const char *text, int indent, int col)
{
	while (*text) {
		int len = (int)strcspn(text, " ");

		if (col + 1 + len > 80 && col > indent) {
			printf("\n%*s", indent, "");
			col = indent;
		}
		printf("%s%.*s", col > indent ? " " : "", len, text);
		col += len + (col > indent);
		text += len;
		text += strspn(text, " ");
	}
	putchar('\n');
}

const char *option_help(const struct option_spec *s, char out[OPTION_HELP_MAX])
{
	const char *mark = s->def ? strstr(s->help, "{}") : NULL;

	if (mark)
		snprintf(out, OPTION_HELP_MAX, "%.*s%s%s",
			 (int)(mark - s->help), s->help, s->def, mark + 2);
	else
		snprintf(out, OPTION_HELP_MAX, "%s", s->help);
	return out;
}

void option_print_help(const struct option_spec *table)
{
	enum { HELP_COLUMN = 26 };

	for (const struct option_spec *s = table; s->name; s++) {
		char head[NAME_MAX_BYTES * 2], help[OPTION_HELP_MAX];
		char letter[8] = "    ";
		int col;

		if (s->heading)
			printf("%s%s:\n", s == table ? "" : "\n",
			       s->heading);
		if (s->letter)
			snprintf(letter, sizeof(letter), "-%c, ", s->letter);
		col = snprintf(head, sizeof(head), "  %s--%s%s%s", letter,
			       s->name, option_takes_value(s) ? " " : "",
			       !option_takes_value(s) ? ""
			       : s->arg		      ? s->arg
						      : "VALUE");
		fputs(head, stdout);
		if (col >= HELP_COLUMN) {
			putchar('\n');
			col = 0;
		}
		printf("%*s", HELP_COLUMN - col, "");
		option_print_wrapped(option_help(s, help), HELP_COLUMN,
				     HELP_COLUMN);
	}
}
