/* recorder.h: the agent's side of the flight recorder (base/flight_recorder.h):
 * one file without a name for the workers of a round, which outlives them. */
#ifndef LAUNCHER_RECORDER_H
#define LAUNCHER_RECORDER_H

#include "base/flight_recorder.h"

struct recorder {
	int fd; /* -1: there is none, and nothing is known of any worker */
	struct flight_file *head; /* mapped */
	size_t size;
	char path[32]; /* as any process of ours can open it; "": none */
};

struct recorder_round {
	const char *agent_id, *job, *host, *server, *job_key;
	uint32_t round, attempt, base_rank, nproc, world_size;
	uint32_t node_rank, nodes;
};

void recorder_init(struct recorder *r);
void recorder_release(struct recorder *r);

/* A new file; the last round's is gone. Where none can be made the job runs
 * without. */
void recorder_begin(struct recorder *r, const struct recorder_round *round);
/* Who it is, for those who look from outside. */
void recorder_started(struct recorder *r, uint32_t local_rank, pid_t pid);

/* Those of its workers that ask (ddp_should_stop) are told so from now on. */
void recorder_stop(struct recorder *r);
/* Whether it asks: 0, or an enum flight_polls. */
int recorder_asks(const struct recorder *r, uint32_t local_rank);

/* It has made its world and has not called ddp_finalize. */
int recorder_is_in_world(const struct recorder *r, uint32_t local_rank);

/* The call in which its last calls began to fail, "" if the last one did not
 * fail, into out[FLIGHT_CALL_MAX]; returns out. */
char *recorder_missed(const struct recorder *r, uint32_t local_rank, char *out);

/* What the worker did last before now_ns, "" if that is not known, into
 * out[FLIGHT_TEXT_MAX]; returns out. */
char *recorder_last(const struct recorder *r, uint32_t local_rank,
		    uint64_t now_ns, char *out);

#endif
