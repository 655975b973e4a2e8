/* binding.h: decides which CPUs each worker of this node is bound to. Pure: a
 * topology in, sets of CPUs out. */
#ifndef LAUNCHER_BINDING_H
#define LAUNCHER_BINDING_H

#include "launcher/plan/topology.h"

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

#endif
