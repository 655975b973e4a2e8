/* placement.h: decides by --cpu-bind on which CPUs of this host each worker
 * runs. Asks hwloc, NVML and the kernel. Binds nothing itself: spawn.h does, in
 * the child. */
#ifndef LAUNCHER_PLACEMENT_H
#define LAUNCHER_PLACEMENT_H

#include "launcher/plan/binding.h"

/* What the user asked for. */
struct placement_request {
	const char *cpu_bind;   /* the mode's name; NULL: none */
	uint32_t nproc;
	uint32_t gpus_per_proc; /* 0: one each */
	int only_show;          /* --dry-run: no worker is started */
};

/* All zero: workers are not bound. */
struct placement {
	enum binding mode;
	uint32_t nproc;
	struct cpus *cpus; /* each worker's; NULL: they are not bound */
	struct cpus allowed; /* --dry-run: the CPUs this process may use */
	struct topology topology; /* only if bound or --dry-run; may be empty */
};

/* Without --cpu-bind (or with none) this reads nothing, except for --dry-run.
 * Errors: those of binding_parse, binding_decide and topology_read; ERR_USAGE
 * for another machine's topology, unless --dry-run only shows it. */
int placement_init(struct placement *p, const struct placement_request *r,
		   struct err *e);
void placement_release(struct placement *p);

/* NULL: the worker is not bound and inherits our CPUs. */
const struct cpus *placement_cpus(const struct placement *p,
				  uint32_t local_rank);

/* Appends the NUMA nodes of these CPUs, as in "0-1": memory that a worker bound
 * to them touches first will be on these nodes. Appends nothing if they are
 * unknown. */
void placement_put_nodes(const struct placement *p, struct buf *b,
			 const struct cpus *cpus);

#endif
