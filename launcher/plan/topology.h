/* topology.h: which CPUs of this host share a core, a cache, a NUMA node or a
 * socket. Plain data, read through hwloc, which is loaded at run time: only
 * users of the topology need it. */
#ifndef LAUNCHER_TOPOLOGY_H
#define LAUNCHER_TOPOLOGY_H

#include "launcher/plan/cpus.h"

enum { TOPOLOGY_UNKNOWN = UINT32_MAX };

/* CPUs with the same number share that core, cache, node or socket. */
struct topology_cpu {
	uint32_t cpu;  /* the kernel's number */
	uint32_t core; /* CPUs of one core are its hyperthreads */
	uint32_t cache;  /* the outermost; UNKNOWN: none is reported */
	uint32_t node;   /* the kernel's number of the NUMA node */
	uint32_t socket;
};

/* cpus is in the machine's order: the CPUs of one core, cache, node or socket
 * follow one another. */
struct topology {
	struct topology_cpu *cpus;
	uint32_t n; /* at least 1 */
	int elsewhere; /* it describes another machine (HWLOC_XMLFILE,
			  HWLOC_SYNTHETIC): can be shown, not bound to */
};

/* Fills t with the CPUs in allowed, or with all CPUs if it describes another
 * machine. -ENOENT: there is no hwloc; the error names the package. Or -EINVAL,
 * -ENOMEM. */
int topology_read(struct topology *t, const struct cpus *allowed,
		  struct err *e);
void topology_release(struct topology *t);

#endif
