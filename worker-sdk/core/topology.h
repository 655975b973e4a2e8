/* topology.h: which ranks share a host. Pure: compares names of hosts that it
 * is given. Hosts are numbered by their lowest rank, which is their leader. */
#ifndef SDK_TOPOLOGY_H
#define SDK_TOPOLOGY_H

#include "base/buf.h"

struct ddp__host {
	int *ranks; /* in order; the first is the leader */
	int n;
	int first; /* how many ranks the hosts before this one have */
};

struct ddp__topology {
	int world_size, nhosts;
	struct ddp__host *hosts;
	int *host_of;  /* of each rank */
	int *index_of; /* of each rank within its host */
	int *order;    /* all ranks, host by host */
	int in_order;  /* order[i] == i: so it is almost always */
};

/* ids: of each rank's host. 0, or -ENOMEM; the caller releases it. */
int ddp__topology_init(struct ddp__topology *t, const struct slice *ids,
		       int world_size);
void ddp__topology_release(struct ddp__topology *t);

#endif
