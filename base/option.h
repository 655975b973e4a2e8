/* option.h: one table of options drives parsing, --help, the environment's
 * defaults, and (as data) the man page and completion. Every option exists in
 * both spellings (--a-b, --a_b) and as --x v and --x=v. */
#ifndef BASE_OPTION_H
#define BASE_OPTION_H

#include <stddef.h>

#include "base/error.h"

enum option_kind {
	OPTION_FLAG,   /* int, set to 1; from the environment a number, 0: no */
	OPTION_INT,    /* long, min..max */
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
	size_t offset;        /* of the field in the caller's struct */
	size_t given_offset;  /* of an int set to 1 when the command line or the
				 environment gave it; 0: none */
	double min, max;      /* for OPTION_INT and OPTION_DOUBLE */
	const char *arg;      /* "N", for --help; a word of it in lower case
				 ("N|auto|cpu") is a value as it stands */
	const char *env;      /* "PET_NPROC_PER_NODE" or NULL */
	const char *help;     /* one sentence */
	const char *more;     /* for the man page only, or NULL */
	int yields;           /* an abbreviation that others share means them */
	/* OPTION_STRING: what it is when nothing, or the next option, follows
	 * it; NULL: something must. */
	const char *bare;
};

/* Whether an argument follows it. */
int option_takes_value(const struct option_spec *s);

/* Fills *values (defaults set by the caller): first from the environment, then
 * from argv, which wins. stop_at_first: everything from the first word that is
 * no option on belongs to the program ("--" ends options too). Returns the
 * index of that word (argc if none), OPTION_WANT_HELP or _VERSION, or ERR_USAGE
 * with a text that names the option, the value, and for an unknown option the
 * nearest known one. Unambiguous prefixes of names are accepted. A variable
 * that is set to "" is a value, too, and an error where a number is due. */
MUST_CHECK int option_parse(const struct option_spec *table, void *values,
			    int argc, char **argv, int stop_at_first,
			    struct err *e);

/* The same for a line of options and a program, which stops at the first word.
 * *options is how many words are options and their values; a "--" that ends
 * them is neither, but one that is a value is. */
MUST_CHECK int option_parse_program(const struct option_spec *table,
				    void *values, int argc, char **argv,
				    int *options, struct err *e);

/* Prints the table, wrapped at 80 columns, to stdout. */
void option_print_help(const struct option_spec *table);

/* The whole text as a base-10 integer in min..max; ERR_USAGE, naming what. */
MUST_CHECK int parse_long(const char *text, long min, long max,
			  const char *what, long *out, struct err *e);

/* Edit distance of two short texts, to name what was probably meant. */
int option_distance(const char *a, const char *b);

#endif
