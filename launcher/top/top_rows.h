/* top_rows.h: the ranks of a job as the rows of `ddprun top`: what the server
 * knows of each, joined with its node, with what /proc says of those on this
 * host, and with marks for ranks that deserve a look. Pure but for
 * top_usage_read. */
#ifndef LAUNCHER_TOP_ROWS_H
#define LAUNCHER_TOP_ROWS_H

#include "launcher/inspect/job_status.h"

enum top_mark {
	TOP_FINE,
	TOP_SLOW,  /* the others wait for it (docs/stragglers.md) */
	TOP_QUIET, /* no progress for 30 s, or stopped */
};

enum top_order { TOP_BY_RANK, TOP_BY_QUIET, TOP_BY_STEP, TOP_BY_CPU };
enum { TOP_ORDERS = TOP_BY_CPU + 1 };

/* One process on this host. */
struct top_usage {
	double cpu_s;	/* CPU time since its start; -1: unknown */
	int64_t memory; /* resident bytes; -1: unknown */
};

struct top_row {
	struct wire_rank as; /* its slices point into the job */
	int32_t node;	     /* node rank; -1: unknown */
	struct slice host;   /* empty: unknown */
	struct slice role;   /* empty: the job has one program */
	struct top_usage usage;
	double cpu; /* 1.0 is one CPU, since the last reply; -1: unknown */
	enum top_mark mark;
};

struct top_rows {
	struct top_row *rows;
	size_t n;
	int has_roles;
	uint64_t at_ns; /* clock_ns of the look */
};

/* Reads a process's usage; unknown if it is not there. */
struct top_usage top_usage_read(int64_t pid);

/* Makes the rows of a job, by rank. here: this host's name; read is called for
 * the ranks of its nodes (NULL: for none). before: the rows of the last reply,
 * from which CPU rates are derived, or NULL. -ENOMEM. Release in any case; the
 * rows are valid as long as the job. */
int top_rows_init(struct top_rows *r, const struct job_status *job,
		  const char *here, struct top_usage (*read)(int64_t pid),
		  const struct top_rows *before);
void top_rows_release(struct top_rows *r);

/* The lowest rank or step comes first, but the highest age or CPU rate. Ties
 * remain in the order of ranks. */
void top_rows_sort(struct top_rows *r, enum top_order order);

/* Keeps the rows that contain text in their host, call or words, or whose rank
 * or role is text. "" keeps all. */
void top_rows_filter(struct top_rows *r, const char *text);

#endif
