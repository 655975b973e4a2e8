/* elastic_event.h: --event-log-handler console: what happens to this node's
 * workers, as the lines of JSON that torchrun prints. Pure: a struct in, a line
 * out. The states are torchrun's:
 *   AGENT   RENDEZVOUS        a round begins; duration_ms since it was joined
 *   WORKER  START             for each worker of a round
 *   WORKER  SUCCEEDED, FAILED, TERMINATED   how each ended, at the job's end
 *   AGENT   SUCCEEDED         it saw the job to its end, whatever that was
 *   AGENT   FAILED            it was stopped, or lost the job */
#ifndef LAUNCHER_ELASTIC_EVENT_H
#define LAUNCHER_ELASTIC_EVENT_H

#include <stdint.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/error.h"

/* The same for all events of a round. */
struct elastic_round {
	const char *run_id, *host, *role, *backend;
	const char *program; /* a path: its last part is shown */
	int has_begun;       /* else the numbers are not known */
	uint32_t node_rank, nnodes, attempt;
};

struct elastic_worker {
	uint32_t rank, local_rank, role_rank, role_world_size;
	const char *role; /* NULL: the round's */
	pid_t pid;
	int has_failed;
	int exit_code; /* if it has; negative: the signal */
};

struct elastic_event {
	const char *state;
	int64_t now_ms;        /* unix time */
	uint64_t ran_s;        /* until the end of the job; before: 0 */
	double duration_ms;    /* negative: none */
	struct slice error;    /* JSON, or the agent's text; empty: none */
	const struct elastic_worker *worker; /* NULL: the agent's event */
};

enum { ELASTIC_EVENT_MAX = 192 << 10 };

/* Appends the line. Spaces and the order of the names are those of Python's
 * json.dumps, for readers that look for parts of the text. An error if there is
 * no memory, or the library for JSON cannot be loaded. */
int elastic_event_put(struct buf *out, const struct elastic_round *r,
		      const struct elastic_event *v, struct err *e);

/* Appends {"message": text}, as the error of a worker that left none. */
int elastic_event_put_error(struct buf *out, struct slice text, struct err *e);

#endif
