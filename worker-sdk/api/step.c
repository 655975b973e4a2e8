/* step.c: ddp_step, which the launcher reads in the flight recorder. */
#include "base/flight_recorder.h"
#include "worker-sdk/comm/call_guard.h"
#include "worker-sdk/comm/comm.h"
#include "worker-sdk/core/last_error.h"

int ddp_step(ddp_comm *c, int64_t step)
{
	struct err *e = ddp__last_error();
	int rc = ddp__check_comm(c, "ddp_step", e);

	if (rc)
		return rc;
	if (step < 0)
		return err_set(e, ERR_ARGUMENT,
			       "ddp_step: the step is %lld, "
			       "less than 0",
			       (long long)step);
	flight_step(c->world->flight, (uint64_t)step);
	return 0;
}
