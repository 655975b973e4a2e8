/* pmix_job.h: what a PMIx server has to know about the job in one round: the
 * name of its world, the nodes and the ranks on each. Pure. */
#ifndef LAUNCHER_PMIX_JOB_H
#define LAUNCHER_PMIX_JOB_H

#include "base/buf.h"

enum {
	PMIX_JOB_NAME_MAX = 256,
	PMIX_JOB_FOLDER_MAX = 4096,
	PMIX_JOB_TEXT_MAX = 8 << 20,
};

struct pmix_job {
	char name[PMIX_JOB_NAME_MAX]; /* the world's: new in each round */
	char folder[PMIX_JOB_FOLDER_MAX]; /* for files of the round */
	uint32_t base_rank, nproc, world_size;
	uint32_t node_rank, nnodes, restarts;
	uint32_t *ranks; /* on each node; NULL: not known yet */
	char *nodes;     /* their names, "a,b,c" */
	uint32_t *apps;  /* for each rank, the number of its program; NULL: the
			  * job has one */
};

void pmix_job_release(struct pmix_job *j);

/* What a node tells the others, and what it learns from all of them: ranks and
 * nodes, and the world's name from node 0. The name of a node that an earlier
 * one has gets the node's rank: two ddpruns on one host are two nodes.
 * ERR_PROTOCOL also if the nodes' ranks are not those of the world: the helper
 * allocates and lists each of them. -ENOMEM. */
void pmix_job_put_node(struct buf *part, const struct pmix_job *j,
		       const char *host);
int pmix_job_learn(struct pmix_job *j, const struct slice *parts,
		   struct err *e);

/* For HELPER_BEGIN. ERR_PROTOCOL, -ENOMEM; after an error j needs no release.
 */
void pmix_job_put(struct buf *b, const struct pmix_job *j);
int pmix_job_get(struct pmix_job *j, struct slice bytes, struct err *e);

/* "0,1,2" for the ranks of node i, appended to out; all nodes: "0,1;2". */
void pmix_job_put_peers(const struct pmix_job *j, uint32_t node,
			struct buf *out);
void pmix_job_put_procs(const struct pmix_job *j, struct buf *out);
/* The number of a rank's program, its lowest rank and how many it has. */
uint32_t pmix_job_app(const struct pmix_job *j, uint32_t rank, uint32_t *first,
		      uint32_t *size);
/* Where a rank runs; nnodes: nowhere. */
uint32_t pmix_job_node_of(const struct pmix_job *j, uint32_t rank);
/* The name of node i; 0 if it does not fit. */
int pmix_job_node_name(const struct pmix_job *j, uint32_t node, char *out,
		       size_t size);

#endif
