/* c_cycle.c: ranks that wait for each other with messages: each receives from
 * the next, and none sends. `c_cycle N` leaves the ranks from N on out of it:
 * they wait for nobody. Prints "rank R waits" first. After DDP_TIMEOUT rank 0
 * fails, and the others stay. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "worker-sdk/ddp.h"

int main(int argc, char **argv)
{
	int n = argc > 1 ? atoi(argv[1]) : 2, rank;
	ddp_comm *world;
	float data[4];

	if (ddp_init(&world, NULL)) {
		fprintf(stderr, "%s\n", ddp_last_error());
		return 1;
	}
	rank = ddp_rank(world);
	printf("rank %d waits\n", rank);
	fflush(stdout);
	if (rank < n && ddp_recv(world, data, 4, DDP_F32, (rank + 1) % n)) {
		fprintf(stderr, "%s\n", ddp_last_error());
		if (rank == 0)
			return 1;
	}
	for (;;)
		pause();
}
