/* recorder.h: the agent's side of the flight recorder (base/flight_recorder.h):
 * one unnamed file for the workers of a round, which outlives them. */
#ifndef LAUNCHER_RECORDER_H
#define LAUNCHER_RECORDER_H

#include "base/buf.h"
#include "base/flight_recorder.h"

struct recorder {
	int fd; /* -1: none, so nothing is known about the workers */
	struct flight_file *head; /* mapped */
	size_t size;
	char path[32]; /* valid in any process of ours; "": none */
};

struct recorder_round {
	const char *agent_id, *job, *host, *server, *job_key;
	uint32_t round, attempt, base_rank, nproc, world_size;
	uint32_t node_rank, nodes;
};

void recorder_init(struct recorder *r);
void recorder_release(struct recorder *r);

/* Creates a new file and drops the last round's. If that fails the job runs
 * without a recorder. */
void recorder_begin(struct recorder *r, const struct recorder_round *round);
/* Records the worker's pid, for ddprun dump and debuggers. */
void recorder_started(struct recorder *r, uint32_t local_rank, pid_t pid);

/* From now on ddp_should_stop returns true in this round's workers. */
void recorder_stop(struct recorder *r);
/* Whether the worker polls ddp_should_stop: 0, or an enum flight_polls. */
int recorder_asks(const struct recorder *r, uint32_t local_rank);

/* Copies the recorder to a file, for `ddprun dump --merge`, without the job's
 * key. 0, also if there is none, or -errno. recorder_put appends what the file
 * would hold. */
int recorder_save(const struct recorder *r, const char *path);
int recorder_put(const struct recorder *r, struct buf *out);

/* 1 if the worker, or one before it in its place, has called ddp_init. */
int recorder_has_begun(const struct recorder *r, uint32_t local_rank);

/* 1 if the worker has initialized its world and not called ddp_finalize. */
int recorder_is_in_world(const struct recorder *r, uint32_t local_rank);

/* Writes to out[FLIGHT_CALL_MAX] the first of the worker's failed calls after
 * the last that succeeded; "" if that is its last call. Returns out. */
char *recorder_missed(const struct recorder *r, uint32_t local_rank, char *out);

/* Writes to out[FLIGHT_TEXT_MAX] the worker's last activity before now_ns, or
 * "" if it is unknown. Returns out. */
char *recorder_last(const struct recorder *r, uint32_t local_rank,
		    uint64_t now_ns, char *out);

#endif
