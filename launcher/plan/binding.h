/* binding.h: which CPUs each worker of this node is bound to, from what the
 * host looks like. Pure: a topology in, sets of CPUs out. */
#ifndef LAUNCHER_BINDING_H
#define LAUNCHER_BINDING_H

#include "launcher/plan/topology.h"

enum binding {
	BINDING_NONE,
	BINDING_NODE,         /* all CPUs of the NUMA node */
	BINDING_SOCKET,       /* all CPUs of the socket */
	BINDING_EXCLUSIVE,    /* a share of the node's cores */
	BINDING_CORE_COMPLEX, /* the cores of one cache */
	BINDING_CORES,        /* a share of all cores, wherever GPUs are */
};

/* ERR_USAGE: names the nearest mode, and all. */
int binding_parse(enum binding *mode, const char *text, struct err *e);
const char *binding_name(enum binding mode);

struct binding_request {
	enum binding mode; /* not NONE */
	uint32_t nproc;
	/* the NUMA node of each GPU, -1 where it is not known; worker i's home
	 * is that of GPU i * gpus_per_proc, counted round where there are not
	 * so many */
	const int *gpu_nodes;
	uint32_t gpus; /* 0: none */
	uint32_t gpus_per_proc;
};

/* Fills out[nproc]; no set is ever empty. Only the CPUs in t are given.
 *
 * With GPUs a worker's home is the NUMA node of its first one. Without (or
 * where a node is not known) the workers are laid evenly along the cores, in
 * rank order, and home is where a worker's first core is: workers above the
 * number of nodes, sockets or caches share one with their neighbours in rank.
 * Of several workers at one home, each gets another cache in turn
 * (core-complex), or an even share of its cores, the first ones one more
 * (exclusive). CORES without enough of them: workers share them.
 *
 * ERR_USAGE, with what to do: exclusive and too few cores; a GPU on a node of
 * which no CPU is in t. -ENOMEM. */
int binding_decide(const struct topology *t, const struct binding_request *r,
		   struct cpus *out, struct err *e);

#endif
