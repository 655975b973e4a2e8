/* abort.c: ending all that is under way, after a failure. */
#include "worker-sdk/comm/call_guard.h"
#include "worker-sdk/core/last_error.h"

int ddp_abort(ddp_comm *c, const char *why)
{
	struct err *e = ddp__last_error(), aborted = ERR_INIT;
	char name[DDP__NAME_MAX];
	int rc = ddp__check_comm(c, "ddp_abort", e);

	if (rc)
		return rc;
	for (struct ddp_comm *at = c->world->comms; at; at = at->next) {
		/* what it calls itself in a world is its rank there */
		at->peers.name(at, at->rank, name);
		err_set(&aborted, ERR_ABORTED, "%s called ddp_abort%s%.800s",
			name, why && why[0] ? ": " : "", why ? why : "");
		if (at->state)
			at->backend->abort(at, &aborted);
		if (!at->broken.code)
			at->broken = aborted;
	}
	return 0;
}
