/* sampler.h: reads what a worker has done: its part of the flight recorder, its
 * step file, and /proc. Changes nothing, and never waits. */
#ifndef LAUNCHER_SAMPLER_H
#define LAUNCHER_SAMPLER_H

#include "launcher/watch/activity.h"
#include "launcher/worker/recorder.h"

/* What the recorder says beyond a sample. */
struct sampler_call {
	uint64_t world;	 /* collectives of the world that it entered */
	uint32_t comm;	 /* the collective's that it is in */
	uint64_t number; /* its number plus 1; 0: it is in none */
	int32_t peer;	 /* in its send or recv in the world, or -1 */
	char text[FLIGHT_CALL_MAX]; /* that call, or the last one; or "" */
};

/* Fills s and c for the worker local_rank, whose process is pid. view is room
 * for the recorder's copy. step_file: a path, or "". */
void sampler_read(const struct recorder *r, uint32_t local_rank, pid_t pid,
		  const char *step_file, struct flight_view *view,
		  struct activity_sample *s, struct sampler_call *c);

/* For a process that has computed for a while: sets s->handles if it is in the
 * handler of a fault in one of several looks. It may return from the handler to
 * the fault, a million times a second. */
void sampler_read_handler(struct activity_sample *s);

/* The last step that it has reported, in the recorder or else in that file; -1:
 * none. The worker may be gone. */
int64_t sampler_read_steps(const struct recorder *r, uint32_t local_rank,
			   const char *step_file, struct flight_view *view);

/* For a worker that has failed: sets c to the first of its failed calls after
 * the last that did not fail, and returns when it began. 0: there is none. */
uint64_t sampler_read_missed(const struct recorder *r, uint32_t local_rank,
			     struct flight_view *view, struct sampler_call *c);

/* The last line of that file that is a number, in its last bytes; -1: none. */
int64_t sampler_read_step(const char *path);
/* Pure: the same of a text. */
int64_t sampler_last_step(const char *text, size_t n);

#endif
