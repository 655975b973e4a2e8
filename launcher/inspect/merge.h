/* merge.h: `ddprun dump --merge DIR`: reads what the ranks of jobs recorded, of
 * all nodes, from the files in a folder: the copies of the flight recorder that
 * ddprun leaves in attempt_N (recorder_NODE), and PyTorch's (fr_trace_RANK).
 * Contacts no job. */
#ifndef LAUNCHER_MERGE_H
#define LAUNCHER_MERGE_H

#include "base/buf.h"
#include "base/flight_recorder.h"
#include "base/json.h"
#include "launcher/inspect/dump_query.h"
#include "launcher/traces/pickle.h"
#include "launcher/traces/trace.h"

/* Appends the findings from the files in dir and its folders, as text or JSON:
 * for each attempt of a job the last call of each rank, the first call in which
 * ranks differ, those that have not arrived in a call, a deadlock, and the
 * ranks without a record. Warns of files that it cannot use. Returns how many
 * files it used, or an error. */
int merge_put(struct buf *out, const char *dir, int json, struct err *e);

/* ---- merge_world.c ----
 *
 * The ranks of one attempt of a job, as their files say: adds the content of
 * files, and reports what follows. Reads no file. */

struct merge_rank {
	uint32_t rank;
	char *host; /* or its file, if that does not name the host */
	char *last; /* what it did last, in words */
};

struct merge_world {
	char *name; /* "job 'run7', attempt 1": unique */
	const char *source; /* "libddp" or "PyTorch" */
	uint32_t world_size; /* 0: unknown */
	struct merge_rank *ranks; /* sorted by merge_world_finish */
	size_t nranks;
	struct dump_node *nodes; /* one for each file */
	size_t nnodes;
	struct trace trace;
	struct buf findings; /* lines */
};

/* Takes name. 0 or -ENOMEM. */
int merge_world_init(struct merge_world *w, char *name, const char *source);
void merge_world_release(struct merge_world *w);

/* 1 if the rank was added before. */
int merge_world_has(const struct merge_world *w, uint32_t rank);

/* Adds the ranks of a copy of a node's flight recorder. 0; ERR_DATA: the file
 * is cut; -ENOMEM. */
int merge_world_add_recorder(struct merge_world *w,
			     const struct flight_file *head, int fd,
			     struct err *e);
/* Adds a rank's trace, which torch_trace_is. */
int merge_world_add_torch(struct merge_world *w, const struct pickle *p,
			  uint32_t rank, const char *file, struct err *e);

/* All files are added: sorts the ranks, and fills in the findings. */
int merge_world_finish(struct merge_world *w, struct err *e);

void merge_world_put(struct buf *out, const struct merge_world *w);
cJSON *merge_world_json(const struct json *j, const struct merge_world *w);

#endif
