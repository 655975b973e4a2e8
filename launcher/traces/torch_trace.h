/* torch_trace.h: reads the file that PyTorch's flight recorder leaves for a
 * rank (TORCH_FR_DUMP_TEMP_FILE; a pickle, versions 2.x): the calls of NCCL or
 * gloo, with sizes, states and Python frames. Pure; any bytes are allowed. */
#ifndef LAUNCHER_TORCH_TRACE_H
#define LAUNCHER_TORCH_TRACE_H

#include "base/flight_recorder.h"
#include "launcher/traces/pickle.h"
#include "launcher/traces/trace.h"

enum { TORCH_TRACE_LIBRARY_MAX = 16 };

struct torch_call {
	char words[TRACE_WORDS_MAX]; /* "all_reduce #23 (Float [4096])" */
	char where[TRACE_WHERE_MAX]; /* as in trace.h */
	char library[TORCH_TRACE_LIBRARY_MAX]; /* "nccl", "gloo" */
	uint64_t group; /* a hash of its name and ranks; 0: all ranks */
	uint64_t number, same;
	uint64_t ns; /* unix time when it was called; 0: unknown */
	enum flight_state state;
	/* for all ranks of its group, and numbered with the others; neither is
	 * a message nor a part of a coalesced call */
	int is_collective;
	/* a message: 1 send, 2 recv; the ranks in the group */
	int message;
	uint32_t place, peer;
};

typedef void torch_trace_on_call(void *arg, const struct torch_call *c);

/* 1 if p is such a file. */
int torch_trace_is(const struct pickle *p);

/* The ranks of the job, as far as its groups say; 0: unknown. */
uint32_t torch_trace_world_size(const struct pickle *p);

/* Calls on_call for each call, the oldest first. */
void torch_trace_each_call(const struct pickle *p, torch_trace_on_call *on_call,
			   void *arg);

#endif
