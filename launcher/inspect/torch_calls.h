/* torch_calls.h: the calls that PyTorch has recorded in workers that still run.
 * PyTorch's NCCL backend writes its flight recorder to a file when a byte
 * arrives in its pipe (TORCH_NCCL_DEBUG_INFO_PIPE_FILE; DumpPipe and
 * HeartbeatMonitor in ProcessGroupNCCL, which read it once a second). Its other
 * backends have no pipe. Blocks. */
#ifndef LAUNCHER_TORCH_CALLS_H
#define LAUNCHER_TORCH_CALLS_H

#include "launcher/inspect/local_workers.h"
#include "launcher/traces/torch_trace.h"

enum { TORCH_CALLS_MS = 5000 }; /* how long PyTorch may take to answer */

/* One worker's. */
struct torch_calls {
	int has_pipe;
	struct torch_call *calls; /* the last ones, the oldest first */
	size_t n;
	struct err why; /* text "" or why there are no calls */
	uint64_t unix_ns; /* when they were read; compare torch_call.ns */
};

/* Asks all workers at once, waits until each has answered or TORCH_CALLS_MS
 * have passed, and keeps the last `last` calls of each, and before them the
 * oldest call that has not completed. Returns one entry for each worker of l;
 * free them with torch_calls_free. NULL if no worker has such a pipe, or memory
 * is exhausted. */
struct torch_calls *torch_calls_read(const struct local_workers *l,
				     size_t last);
void torch_calls_free(struct torch_calls *all, const struct local_workers *l);

/* Pure: the call that the worker is in, or NULL. */
const struct torch_call *torch_calls_current(const struct torch_calls *t);

/* Appends the lines of one worker as `ddprun dump` shows them. */
void torch_calls_put(struct buf *out, const struct torch_calls *t);

#endif
