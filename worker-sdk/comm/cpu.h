/* cpu.h: the cpu backend's state in a communicator, and how it starts and stops
 * (cpu_start.c). Its calls are in cpu.c, on top of engine.h. */
#ifndef SDK_CPU_H
#define SDK_CPU_H

#include "worker-sdk/algorithms/transport.h"
#include "worker-sdk/comm/engine.h"
#include "worker-sdk/shm/shm_p2p.h"
#include "worker-sdk/tcp/tcp_p2p.h"
#include "worker-sdk/tcp/tcp_steps.h"

struct ddp__exchange;

struct ddp__cpu {
	struct ddp__shm shm; /* if the host has more than one rank */
	struct ddp__tcp tcp; /* on leaders, if there is more than one host */
	struct ddp__tcp_p2p p2p; /* if there is more than one host */
	/* The transports in use, and their endpoints among those above: within
	 * the host, and to other hosts. */
	struct ddp__path local, remote;
	/* protected by the engine's lock */
	struct ddp__queue collectives;
	struct ddp__queue *messages; /* to each rank, then from each; or NULL */
	struct err failed; /* code 0, or the first error */
	uint64_t id;	   /* random, the same on all ranks */
};

/* The one place where transports are chosen. */
static inline void ddp__cpu_set_paths(struct ddp__cpu *cpu)
{
	cpu->local =
		(struct ddp__path){&ddp__shm_transport, &cpu->shm, &cpu->shm};
	cpu->remote =
		(struct ddp__path){&ddp__tcp_transport, &cpu->p2p, &cpu->tcp};
}

int ddp__cpu_start(struct ddp_comm *c, const struct ddp__exchange *x,
		   struct err *e);
void ddp__cpu_stop(struct ddp_comm *c);

#endif
