/* option.h: one table of options drives parsing, defaults from the environment,
 * --help, and (as data) the man page and completion. Every option is accepted
 * as --a-b and --a_b, with --x v and --x=v. */
#ifndef BASE_OPTION_H
#define BASE_OPTION_H

#include <stddef.h>

#include "base/error.h"

enum option_kind {
	OPTION_FLAG, /* int, set to 1; a number in the environment, 0 is off */
	OPTION_INT,  /* long, min..max */
	OPTION_DOUBLE, /* double, min..max */
	OPTION_STRING, /* const char *, borrowed from argv or the environment */
	OPTION_HELP,   /* --help: option_parse returns OPTION_WANT_HELP */
	OPTION_VERSION /* --version: OPTION_WANT_VERSION */
};

/* None of errno's numbers, nor of error.h's. */
enum { OPTION_WANT_HELP = -30001, OPTION_WANT_VERSION = -30002 };

struct option_spec {
	const char *name; /* "nproc-per-node"; NULL ends the table */
	char letter;      /* 'm', or 0 */
	enum option_kind kind;
	size_t offset;        /* where the caller's struct has the field */
	size_t given_offset;  /* where it has an int that becomes 1 when the
			       * command line or the environment gives the
			       * option; 0: nowhere */
	double min, max;      /* for OPTION_INT and OPTION_DOUBLE */
	const char *arg;      /* "N", for --help; lower-case words in it are
				 literal values ("N|auto|cpu") */
	const char *env;      /* "PET_NPROC_PER_NODE" or NULL */
	const char *help;     /* one sentence */
	const char *more;     /* for the man page only, or NULL */
	int yields;	      /* a shared abbreviation means the other option */
	/* The default as text: option_parse sets it before it reads anything,
	 * and "{}" in help stands for it. NULL: the caller sets it. */
	const char *def;
	/* OPTION_STRING: the value if the option is the last word or another
	 * option follows, or, where arg is a list of literal values, none of
	 * them; NULL: a value is required. */
	const char *bare;
	/* --help prints it before this row: the group that begins here */
	const char *heading;
};

/* Whether the option takes an argument. */
int option_takes_value(const struct option_spec *s);

/* Fills *values: first with the rows' defaults, then from the environment, then
 * from argv, which wins. With stop_at_first, the first word that is not an
 * option and all after it belong to the program ("--" also ends the options).
 * Returns the index of that word (argc if none), OPTION_WANT_HELP or _VERSION,
 * or ERR_USAGE with a text that names the option, the value, and, for an
 * unknown option, the nearest known one. Unambiguous prefixes of names are
 * accepted. A variable that is set to "" counts as a value, and is an error if
 * a number is expected. */
MUST_CHECK int option_parse(const struct option_spec *table, void *values,
			    int argc, char **argv, int stop_at_first,
			    struct err *e);

/* As option_parse with stop_at_first. *options is the number of words that are
 * options or their values; a "--" that ends the options does not count, a "--"
 * that is a value does. */
MUST_CHECK int option_parse_program(const struct option_spec *table,
				    void *values, int argc, char **argv,
				    int *options, struct err *e);

/* The option that argv[0], a word with a dash, stands for, and the number of
 * words that it has with its value: 1 or 2. NULL if there is no such option. */
const struct option_spec *option_at(const struct option_spec *table,
				    char **argv, int *words);

enum { OPTION_HELP_MAX = 1024 };

/* The row's help with its default in it, into out; returns out. */
const char *option_help(const struct option_spec *s, char out[OPTION_HELP_MAX]);

/* Prints the table, wrapped at 80 columns, to stdout. */
void option_print_help(const struct option_spec *table);

/* Parses the whole text as a base-10 integer in min..max. ERR_USAGE with a text
 * that begins with `what`. */
MUST_CHECK int parse_long(const char *text, long min, long max,
			  const char *what, long *out, struct err *e);

/* A number as Python's int() takes it, which ignores blanks around it: text
 * without them, in out or, if it is too long to be a number, text itself. */
enum { OPTION_NUMBER_MAX = 32 };
const char *option_trim(const char *text, char out[OPTION_NUMBER_MAX]);

/* Edit distance of two short texts, to suggest what was meant. */
int option_distance(const char *a, const char *b);

#endif
