/* report.h: the failure page, which says why the job failed, as text and as
 * JSON. Pure: a struct in, text out. */
#ifndef LAUNCHER_REPORT_H
#define LAUNCHER_REPORT_H

#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"
#include "launcher/failure/attempts.h"
#include "launcher/failure/error_file.h"
#include "launcher/failure/gpu_news.h"
#include "rendezvous/wire.h"

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
