/* abort.c: ending all that is under way, after a failure. */
#include "worker-sdk/entry.h"
#include "worker-sdk/last_error.h"

int ddp_abort(ddp_comm *c, const char *why)
{
	static const struct ddp__call call = {.kind = DDP__INIT};
	struct err *e = ddp__last_error(), aborted = ERR_INIT;
	char name[DDP__NAME_MAX];

	if (!c || c->magic != DDP__ALIVE || c->world->forks != ddp__forks)
		return ddp__refuse(c, &call, e);
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
