/* c_roles.c: adds up ones in the world and in the group of this rank's role,
 * and prints both sums. */
#include <stdint.h>
#include <stdio.h>

#include "tests/programs/sdk/ranks.h"
#include "worker-sdk/ddp.h"

int main(void)
{
	ddp_comm *world, *group;
	int32_t all = 1, own = 1;

	must(ddp_init(&world, NULL), "init");
	rank = ddp_rank(world);
	must(ddp_comm_split_by_role(world, &group), "split");
	must(ddp_all_reduce(group, &own, &own, 1, DDP_I32, DDP_SUM), "own");
	must(ddp_all_reduce(world, &all, &all, 1, DDP_I32, DDP_SUM), "all");
	printf("%s: rank %d of %d, %d of all %d\n", ddp_role(world),
	       ddp_rank(group), ddp_world_size(group), (int)own, (int)all);
	ddp_comm_free(group);
	ddp_finalize(world);
	return 0;
}
