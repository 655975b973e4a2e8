/* progress.c: the public call that starts a thread to move operations on. */
#include "worker-sdk/entry.h"
#include "worker-sdk/last_error.h"

int ddp_progress_start(ddp_comm *world, int cpu)
{
	static const struct ddp__call call = {.kind = DDP__INIT};
	struct err *e = ddp__last_error();
	int rc = ddp__occupy(world, &call, e);

	if (rc)
		return rc;
	if (world->name[0])
		rc = err_set(e, ERR_ARGUMENT,
			     "ddp_progress_start: that is group %s: give the "
			     "world", world->name);
	else if (world->state && world->backend->progress)
		rc = world->backend->progress(world, cpu, e);
	ddp__vacate(world);
	return rc;
}
