/* c_nccl.c: what a rank without a GPU can do with NCCL.
 *
 *   c_nccl can            exits with 0 if libnccl is found here
 *   c_nccl init [BACKEND] ddp_init; prints the backend and why not nccl
 *   c_nccl id             two ids, in hexadecimal
 *   c_nccl misuse         what the NCCL calls say to bad arguments
 */
#include <stdio.h>
#include <string.h>

#include "worker-sdk/ddp.h"

static int fail(int rc)
{
	printf("%d: %s\n", rc, ddp_last_error());
	return 1;
}

static int print_id(ddp_comm *c)
{
	unsigned char id[128];
	int rc = ddp_nccl_unique_id(c, id, sizeof(id));

	if (rc)
		return fail(rc);
	printf("id ");
	for (size_t i = 0; i < sizeof(id); i++)
		printf("%02x", id[i]);
	printf("\n");
	return 0;
}

static void say(const char *what, int rc)
{
	printf("%s: %d: %s\n", what, rc, rc ? ddp_last_error() : "");
}

static int misuse(ddp_comm *c)
{
	char id[128];
	void *p;

	say("NULL", ddp_nccl_unique_id(NULL, id, sizeof(id)));
	say("no id", ddp_nccl_unique_id(c, NULL, sizeof(id)));
	say("short", ddp_nccl_unique_id(c, id, 127));
	say("memory of NULL", ddp_nccl_alloc(NULL, 1, &p));
	say("memory on cpu", ddp_nccl_alloc(c, 1, &p));
	say("registered of NULL", ddp_nccl_register(NULL, id, 1));
	say("registered on cpu", ddp_nccl_register(c, id, 1));
	ddp_nccl_deregister(NULL, id);
	ddp_nccl_deregister(c, NULL);
	ddp_nccl_deregister(c, id);
	ddp_nccl_free(c, NULL);
	ddp_nccl_free(NULL, id);
	ddp_nccl_free(c, id);
	say("event of NULL", ddp_wait_event(NULL, id));
	say("no event", ddp_wait_event(c, NULL));
	say("event on cpu", ddp_wait_event(c, id));
	say("stream of NULL", ddp_set_stream(NULL, NULL));
	say("stream on cpu", ddp_set_stream(c, id));
	printf("comm on cpu: %d\n", ddp_nccl_comm(c) != NULL);
	printf("comm of NULL: %d\n", ddp_nccl_comm(NULL) != NULL);
	return 0;
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "init";
	struct ddp_options o = {.backend = "cpu"};
	ddp_comm *world;
	int rc;

	if (!strcmp(what, "init"))
		o.backend = argc > 2 ? argv[2] : NULL;
	rc = ddp_init(&world, &o);
	if (rc)
		return fail(rc);
	rc = 0;
	if (!strcmp(what, "init"))
		printf("backend %s: %s\n", ddp_backend(world),
		       ddp_last_error());
	else if (!strcmp(what, "misuse"))
		rc = misuse(world);
	else
		rc = print_id(world);
	if (!rc && !strcmp(what, "id"))
		rc = print_id(world);
	ddp_finalize(world);
	return rc;
}
