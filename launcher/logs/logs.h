/* logs.h: `ddprun logs FOLDER`: the lines that the workers of a job have
 * written below --log-dir, merged by their times, filtered by rank, level and
 * pattern, after the job or while it runs. Reads files only: asks no agent and
 * no server.
 *
 *   log_line.h   the time and the level in a line
 *   log_tree.c   which files belong to a job
 *   log_merge.c  their lines in the order of time
 *   logs.c       the command */
#ifndef LAUNCHER_LOGS_H
#define LAUNCHER_LOGS_H

#include <limits.h>
#include <stdint.h>
#include <time.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/option.h"
#include "launcher/logs/log_line.h"
#include "launcher/output/rank_list.h"

extern const struct option_spec logs_options[];

/* argv[0] is "logs". Returns the exit code. */
int logs_main(int argc, char **argv);

/* ---- log_tree.c ---- */

/* A file that a worker writes. */
struct log_file {
	char *path; /* the owner frees it */
	uint32_t rank;
	int is_stderr;
	int64_t ahead_ns; /* its host's clock, compared to the first node's */
};

struct log_tree {
	struct log_file *files; /* by rank, stdout first */
	size_t n;
	long attempt; /* theirs */
	int are_local; /* ranks are local: ddprun has left no node.json */
	char clocks[256]; /* whose clocks are apart; "": none */
};

enum { LOG_ATTEMPT_LAST = -1 };

/* Finds the files of the newest job in folder: a --log-dir, a run's folder in
 * it, or an attempt's. attempt: a number, or LOG_ATTEMPT_LAST. 0; ERR_ARGUMENT:
 * there are none; -errno. The caller releases t in any case. */
int log_tree_find(struct log_tree *t, const char *folder, long attempt,
		  struct err *e);
void log_tree_release(struct log_tree *t);

/* ---- log_merge.c ---- */

struct log_reader {
	const struct log_file *file;
	int fd;
	struct buf bytes;    /* read, and not shown yet */
	size_t begin, scan;  /* where the line begins, and the search goes on */
	struct slice line;   /* the current one, without its newline */
	int64_t time; /* the line's, or an earlier line's if that has none */
	enum line_level level;
	time_t near; /* when the file was last written */
};

struct log_merge {
	struct log_reader *readers;
	size_t n;
	size_t *heap, heaped; /* readers with a line, the earliest first */
	size_t last; /* the reader of the last line, plus 1; 0: all are at
		      * their ends, or at their starts */
};

/* Opens the files of t whose ranks are in the list (NULL: all). last: how many
 * lines before the end of each file to begin; < 0: at its start. streams: 1 for
 * stdout, 2 for stderr, 3 for both. t must outlive m.
 * 0 or -errno; the caller releases m in any case. */
int log_merge_init(struct log_merge *m, const struct log_tree *t,
		   const struct rank_list *ranks, int streams, long last,
		   struct err *e);
void log_merge_release(struct log_merge *m);

/* The next line, or NULL: all files are at their ends. A line is valid until
 * the next call. take_parts: a last line without a newline counts as well. Call
 * it again when files may have grown. */
const struct log_reader *log_merge_next(struct log_merge *m, int take_parts);

#endif
