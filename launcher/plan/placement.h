/* placement.h: where on this host each worker runs, as --cpu-bind has it. Asks
 * hwloc, NVML and the kernel; moves nobody: spawn.h does, in the child. */
#ifndef LAUNCHER_PLACEMENT_H
#define LAUNCHER_PLACEMENT_H

#include "launcher/plan/binding.h"

/* What the user asked for. */
struct placement_request {
	const char *cpu_bind;   /* the mode's name; NULL: none */
	uint32_t nproc;
	uint32_t gpus_per_proc; /* 0: one each */
	int only_show;          /* --dry-run: binds nobody */
};

/* All zero binds nobody. */
struct placement {
	enum binding mode;
	uint32_t nproc;
	struct cpus *cpus; /* of each worker; NULL: they are not bound */
	struct cpus allowed; /* with --dry-run: what this process may use */
	struct topology topology; /* only if bound or --dry-run; may be empty */
};

/* Without --cpu-bind (or with none) this costs nothing, but for --dry-run.
 * Errors: those of binding_parse, binding_decide and topology_read; ERR_USAGE
 * for a topology that is another machine's, unless --dry-run only shows it. */
int placement_init(struct placement *p, const struct placement_request *r,
		   struct err *e);
void placement_release(struct placement *p);

/* NULL: as ours. */
const struct cpus *placement_cpus(const struct placement *p,
				  uint32_t local_rank);

/* The NUMA nodes of these CPUs, "0-1", which is where what a worker bound to
 * them first touches will lie; nothing where that is not known. */
void placement_put_nodes(const struct placement *p, struct buf *b,
			 const struct cpus *cpus);

#endif
