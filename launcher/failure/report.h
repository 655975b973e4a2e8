/* report.h: the failure page, which says why the job failed, as text and as
 * JSON. Pure: a struct in, text out. */
#ifndef LAUNCHER_REPORT_H
#define LAUNCHER_REPORT_H

#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/json.h"
#include "rendezvous/wire.h"

/* ---- gpu_news.c ----
 *
 * What happened to GPUs in this round, on any node: lines of the failure page,
 * and a list in report.json. */

enum { GPU_NEWS_MAX = 32 }; /* further ones are dropped */

struct gpu_news_item {
	struct wire_gpu_news as; /* the slices point into bytes */
	struct buf bytes;
};

struct gpu_news {
	struct gpu_news_item list[GPU_NEWS_MAX];
	uint32_t n;
};

/* Copies it. Without memory it is left out. */
void gpu_news_add(struct gpu_news *all, const struct wire_gpu_news *news);
/* Forgets all, and frees the memory. */
void gpu_news_reset(struct gpu_news *all);
/* Appends the text of each, but not those that `known` contains, with the
 * label before the first: "|  GPUs         node 1 (h2): GPU 3: ...". */
void gpu_news_put(struct buf *out, const struct gpu_news *all,
		  struct slice known,
		  void (*put)(struct buf *out, const char *label,
			      struct slice text));
/* Adds "gpus". all may be NULL. */
void gpu_news_put_json(const struct json *j, cJSON *to,
		       const struct gpu_news *all);

/* ---- attempts.c ----
 *
 * How each attempt of the job ended, as this node saw it: the list on the
 * failure page and in report.json. */

enum { ATTEMPTS_MAX = 1000 }; /* the oldest are dropped */

struct attempt {
	uint32_t attempt; /* from 0 */
	int64_t ended_ms; /* unix time at which this node learned of it */
	int32_t rank;     /* that failed first; -1: none */
	uint32_t local_rank;
	int64_t pid;
	int32_t code, signal;
	int hangs;
	uint64_t ran_ms;
	char *host, *text; /* NULL: no memory */
	char *swap; /* the node that a spare replaced then; or "", or NULL */
};

struct attempts {
	struct attempt *list; /* oldest first */
	uint32_t n, capacity;
};

void attempts_release(struct attempts *a);

/* END ended that attempt; it replaces an entry for the same death. Without
 * memory the attempt is left out. */
void attempts_add(struct attempts *a, const struct wire_end *end,
		  uint32_t attempt, int64_t ended_ms);

/* Appends "rank 1 on h2 exited with code 3: boom", cut to max bytes. */
void attempt_put_cause(struct buf *out, const struct attempt *a, size_t max);

/* ---- error_file.c ----
 *
 * Reads the error file that a worker wrote before it failed
 * ($TORCHELASTIC_ERROR_FILE: torch's @record, libddp's ddp_record_error), and
 * writes one for the launcher that started us. torchrun has two forms:
 *   {"message": {"message": text, "extraInfo": {"py_callstack": text,
 *                                               "timestamp": "seconds"}}}
 *   {"message": text, "timestamp": seconds} */

enum { ERROR_FILE_MAX = 63 << 10 }; /* it must fit in a message's text */

/* Reads path into json: 1 if it is JSON of either form; 0 if there is no such
 * file, or path is "". Otherwise ERR_DATA or -errno, and what is wrong: empty,
 * truncated, too large, in an unknown form, not a regular file, or on a file
 * system that does not answer for a second: it waits no longer. */
int error_file_read(const char *path, struct buf *json, struct err *e);

struct error_file {
	char *message;     /* or NULL */
	char *callstack;   /* Python's traceback, or NULL */
	int64_t timestamp; /* unix seconds, or 0 */
};

/* Parses the text of an error file. ERR_DATA if it is of no known form. */
int error_file_parse(struct error_file *f, struct slice json, struct err *e);
void error_file_release(struct error_file *f);

/* Writes what torchrun would write for its own launcher: json with errorCode
 * added or, if json is "", text. The file is written whole or not at all. */
int error_file_forward(const char *path, struct slice json, struct slice text,
		       int error_code, int64_t now, struct err *e);

/* Replaces path by a new file with this text, by rename. Writes into a link, a
 * device or a FIFO instead. */
int error_file_replace(const char *path, const char *text, struct err *e);

/* ---- report.c ---- */

/* How a worker of this node ended. */
enum report_fate {
	REPORT_FIRST,   /* it is the first failure */
	REPORT_VICTIM,  /* failed before it was asked to stop */
	REPORT_STOPPED, /* ended after it was asked to */
	REPORT_KILLED,  /* did not end when asked to, and was killed */
	REPORT_DONE,    /* had exited with 0 */
	REPORT_FATES
};

struct report_worker {
	enum report_fate fate;
	uint32_t rank, local_rank;
	int64_t pid;
	int32_t code, signal;
	int64_t after_ms; /* after the first failure; see first_is_here */
	uint64_t max_rss_kib;
	char *last; /* its last call of libddp; NULL: not known */
	const char *role; /* one of several programs; NULL: the job has one */
};

/* The rank that slowed the round down last. */
struct report_slow {
	int is_known, is_over;
	uint32_t rank, share; /* in thousandths of the time */
	char text[512];
};

struct report {
	const char *job;
	const struct wire_end *end; /* the server's, the same for all nodes */
	uint32_t world_size; /* 0: not known, on a spare that never ran */
	uint32_t max_restarts;
	uint32_t attempt; /* from 0 */
	/* about this node; all may be 0 */
	int first_is_here; /* else after_ms counts from when END came */
	const char *host;
	int64_t now_ms;    /* unix time at which the failure became known */
	const struct error_file *error; /* END's, parsed; or NULL */
	const char *role, *program; /* END's rank's, likewise */
	const struct report_worker *workers;
	uint32_t nworkers;
	/* oldest first; END ended the last of them, unless no attempt has
	 * begun */
	const struct attempt *attempts;
	uint32_t nattempts;
	const struct report_slow *slow;
	const struct gpu_news *gpus; /* NULL: none */
};

/* Appends the page; the first line names the cause. It has some 40 lines at
 * most, however many workers there are. If no worker failed it is the first
 * line alone. */
void report_put(struct buf *out, const struct report *r);

/* Appends the same as JSON; docs/report-json.md describes the format. */
int report_put_json(struct buf *out, const struct report *r, struct err *e);

/* The first failure is a rank that hung, and was ended. */
int report_is_hang(const struct wire_end *end);

/* For example "victim". */
const char *report_fate_name(enum report_fate fate);

#endif
