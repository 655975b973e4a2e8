/* topology.h: which ranks share a host. Pure: compares the host ids that it is
 * given. Hosts are numbered by their lowest rank, their leader. */
#ifndef SDK_TOPOLOGY_H
#define SDK_TOPOLOGY_H

#include "base/buf.h"

struct ddp__host {
	int *ranks; /* in order; the first is the leader */
	int n;
	int first; /* number of ranks on earlier hosts */
};

struct ddp__topology {
	int world_size, nhosts;
	struct ddp__host *hosts;
	int *host_of;  /* host number of each rank */
	int *index_of; /* index of each rank within its host */
	int *order;    /* all ranks, host by host */
	int in_order;  /* order[i] == i, as usual */
};

/* ids[world_size]: each rank's host. 0 or -ENOMEM; the caller releases t. */
int ddp__topology_init(struct ddp__topology *t, const struct slice *ids,
		       int world_size);
void ddp__topology_release(struct ddp__topology *t);

#endif
