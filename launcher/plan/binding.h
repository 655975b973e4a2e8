/* binding.h: decides which CPUs each worker of this node is bound to. Pure: a
 * topology in, sets of CPUs out. */
#ifndef LAUNCHER_BINDING_H
#define LAUNCHER_BINDING_H

#include "launcher/plan/cpus.h"

/* ---- topology.c ----
 *
 * Which CPUs of this host share a core, a cache, a NUMA node or a socket.
 * Plain data, read through hwloc, which is loaded at run time: only users of
 * the topology need it. */

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

/* ---- binding.c ---- */

enum binding {
	BINDING_NONE,
	BINDING_NODE,         /* all CPUs of the NUMA node */
	BINDING_SOCKET,       /* all CPUs of the socket */
	BINDING_EXCLUSIVE,    /* a share of the node's cores */
	BINDING_CORE_COMPLEX, /* the cores of one cache */
	BINDING_CORES,        /* a share of all cores; GPUs do not matter */
};

/* 0 or ERR_USAGE, which names the nearest mode and all modes. */
int binding_parse(enum binding *mode, const char *text, struct err *e);
const char *binding_name(enum binding mode);

struct binding_request {
	enum binding mode; /* not NONE */
	uint32_t nproc;
	/* the NUMA node of each GPU, -1 if unknown; worker i's home is the node
	 * of GPU i * gpus_per_proc, modulo the number of GPUs */
	const int *gpu_nodes;
	uint32_t gpus; /* 0: none */
	uint32_t gpus_per_proc;
};

/* Fills out[nproc] with CPUs of t; no set is ever empty.
 *
 * With GPUs a worker's home is the NUMA node of its first GPU. Without GPUs (or
 * if a node is unknown) the workers are spread evenly along the cores in rank
 * order, and a worker's home is where its first core is: if there are more
 * workers than nodes, sockets or caches, workers of neighbouring ranks share
 * one. Workers with the same home get its caches in turn (CORE_COMPLEX), or
 * equal shares of its cores, the first workers one core more (EXCLUSIVE). With
 * CORES, workers share cores if there are too few.
 *
 * ERR_USAGE, with advice, if EXCLUSIVE has too few cores or a GPU is on a node
 * without a CPU in t; or -ENOMEM. */
int binding_decide(const struct topology *t, const struct binding_request *r,
		   struct cpus *out, struct err *e);

/* ---- the placement ----
 *
 * Decides by --cpu-bind on which CPUs of this host each worker runs. Asks
 * hwloc, NVML and the kernel. Binds nothing itself: spawn.h does, in the
 * child. */

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
