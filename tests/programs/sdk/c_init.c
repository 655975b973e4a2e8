/* c_init.c: prints the world that ddp_init finds in the environment, or "CODE:
 * TEXT", and then exits with 1.
 *
 * c_init [BACKEND] */
#include <stdio.h>

#include "worker-sdk/ddp.h"

int main(int argc, char **argv)
{
	struct ddp_options options = {argc > 1 ? argv[1] : NULL, 0};
	ddp_comm *c;
	int rc = ddp_init(&c, &options);

	if (rc) {
		printf("%d: %s\n", rc, ddp_last_error());
		return 1;
	}
	printf("rank %d of %d, local %d of %d, node %d of %d, attempt %d, "
	       "backend %s, leader %d\n",
	       ddp_rank(c), ddp_world_size(c), ddp_local_rank(c),
	       ddp_local_world_size(c), ddp_node_rank(c), ddp_nodes(c),
	       ddp_attempt(c), ddp_backend(c), ddp_host_leader(c));
	if (*ddp_warning(c))
		printf("warning: %s\n", ddp_warning(c));
	ddp_finalize(c);
	return 0;
}
