/* cpu.h: the cpu backend's state in a communicator, and how it begins and ends
 * (cpu_start.c). Its calls are cpu.c, on engine.h. */
#ifndef SDK_CPU_H
#define SDK_CPU_H

#include "worker-sdk/comm/engine.h"
#include "worker-sdk/shm/shm.h"
#include "worker-sdk/tcp/tcp.h"
#include "worker-sdk/tcp/tcp_p2p.h"

struct ddp__exchange;

struct ddp__cpu {
	struct ddp__shm shm; /* where the host has more than one rank */
	struct ddp__tcp tcp; /* on leaders, where there is more than one host */
	struct ddp__tcp_p2p p2p; /* where there is more than one host */
	/* behind the engine's lock */
	struct ddp__queue collectives;
	struct ddp__queue *messages; /* to each rank, then from each; or NULL */
	int armed;	   /* peers ring this rank's bell in shm */
	struct err failed; /* code 0, or the first error there was */
	uint64_t id;	   /* the same on all ranks, and random */
};

int ddp__cpu_start(struct ddp_comm *c, const struct ddp__exchange *x,
		   struct err *e);
void ddp__cpu_stop(struct ddp_comm *c);

#endif
