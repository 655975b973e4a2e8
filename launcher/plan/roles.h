/* roles.h: the programs of a job that has several, each with its own ranks: the
 * text of --multi-prog, which is Slurm's format with options of ours, and which
 * rank has which role. Pure. */
#ifndef LAUNCHER_ROLES_H
#define LAUNCHER_ROLES_H

#include "base/buf.h"
#include "launcher/output/rank_list.h"

/* A line: RANKS [OPTIONS] PROGRAM [ARGUMENTS]. All texts are the roles'. */
struct role {
	char *name; /* --role, or the program's name; no other has it */
	struct rank_list ranks; /* empty: all that no other role has ("*") */
	char **words; /* the program and its arguments; ends with NULL */
	char **vars;  /* NAME=VALUE of -x, nvars of them */
	uint32_t nvars;
	const char *wrap;   /* --wrap; NULL: the job's */
	long gpus_per_proc; /* -1: the job's */
	int is_optional;    /* --role-optional */
	int module, no_python, run_path;
};

/* All zero: the job has one program. */
struct roles {
	struct role *list;
	uint32_t n;
	uint32_t listed; /* ranks that lines name */
	struct role *rest; /* the role of all others, or NULL */
	/* private */
	char **words, *bytes;
	size_t nwords;
};

enum { ROLES_MAX = 4096, ROLES_TEXT_MAX = 1 << 20 };

/* Parses a text of lines. `#` begins a comment, a backslash at the end of a
 * line joins it with the next, quotes are a shell's; outside '...', %t is the
 * rank and %o the rank within the role. ERR_USAGE, which names the line, or
 * -ENOMEM; r is empty then. */
int roles_parse(struct roles *r, const char *text, struct err *e);
void roles_release(struct roles *r);

/* 0 if each of world_size ranks has a role and each role a rank, else
 * ERR_USAGE. */
int roles_check(const struct roles *r, uint32_t world_size, struct err *e);

/* One above the highest rank that a line names. */
uint32_t roles_end(const struct roles *r);

/* The role of a rank; NULL: none, or r is NULL. */
const struct role *roles_of(const struct roles *r, uint32_t rank);

/* For roles that were checked: the role of a rank, and its rank in it. */
uint32_t roles_find(const struct roles *r, uint32_t rank, uint32_t *role_rank);
uint32_t roles_size(const struct roles *r, uint32_t role, uint32_t world_size);
/* 1 if one of n ranks from first has the role. */
int roles_has(const struct roles *r, uint32_t role, uint32_t first, uint32_t n);

/* Appends "learner=0-3 actor=4-11", without a NUL; world_size 0: not known, the
 * rest is "*". */
void roles_put(struct buf *b, const struct roles *r, uint32_t world_size);

#endif
