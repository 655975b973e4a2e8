/* topology.h: which CPUs of this host share a core, a cache, a NUMA node, a
 * socket. Plain data; reading it is hwloc's work, which is looked up at run
 * time: who does not ask for it needs no hwloc. */
#ifndef LAUNCHER_TOPOLOGY_H
#define LAUNCHER_TOPOLOGY_H

#include "launcher/plan/cpus.h"

enum { TOPOLOGY_UNKNOWN = UINT32_MAX };

/* Two CPUs with the same number share the thing. */
struct topology_cpu {
	uint32_t cpu;  /* the kernel's number */
	uint32_t core; /* CPUs of one core are its hyperthreads */
	uint32_t cache;  /* the outermost; UNKNOWN: none is told of */
	uint32_t node;   /* the kernel's number of the NUMA node */
	uint32_t socket;
};

/* Neighbours in cpus are neighbours on the machine; those of one core, cache,
 * node or socket follow one another. */
struct topology {
	struct topology_cpu *cpus;
	uint32_t n; /* at least 1 */
	int elsewhere; /* it describes another machine (HWLOC_XMLFILE,
			  HWLOC_SYNTHETIC): good to look at, not to bind to */
};

/* Fills t with the CPUs that are in allowed (and, where t is of another
 * machine, with all of them). -ENOENT: there is no hwloc; the text says which
 * package has it. -EINVAL, -ENOMEM. */
int topology_read(struct topology *t, const struct cpus *allowed,
		  struct err *e);
void topology_release(struct topology *t);

#endif
