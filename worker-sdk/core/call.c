/* call.c: unpacks and names calls like the flight recorder, which records
 * them. */
#include "worker-sdk/core/call.h"

#include <assert.h>

#include "rendezvous/wire.h"

static_assert((int)DDP__KINDS == (int)FLIGHT_KINDS &&
		      (int)DDP__BARRIER == (int)FLIGHT_BARRIER &&
		      (int)DDP__SEND == (int)FLIGHT_SEND &&
		      (int)DDP__REDUCER == (int)FLIGHT_REDUCER &&
		      (int)DDP__PROGRESS == (int)FLIGHT_PROGRESS &&
		      (int)DDP__WAIT_EVENT == (int)FLIGHT_WAIT_EVENT,
	      "base/flight_recorder.h names what call.h numbers");
static_assert((int)DDP_TYPES == (int)FLIGHT_TYPES &&
		      (int)DDP_OPS == (int)FLIGHT_OPS,
	      "and what ddp.h does");
static_assert((int)DDP__CALL_TEXT >= (int)FLIGHT_CALL_MAX, "its texts fit");
static_assert((int)FLIGHT_ROOT_MOST >= (int)WIRE_WORLD_MAX,
	      "each rank of a world can be named");

static struct flight_call call_to_flight(const struct ddp__call *c)
{
	return (struct flight_call){
		.kind = c->kind, .type = c->type, .op = c->op, .root = c->root,
		.count = c->count, .number = c->number, .group = c->group,
	};
}

void ddp__call_unpack(struct ddp__call *c, uint64_t word, uint64_t number)
{
	struct flight_call f;

	flight_unpack(&f, word, number);
	*c = (struct ddp__call){.kind = (enum ddp__kind)f.kind,
				.type = (enum ddp_type)f.type,
				.op = (enum ddp_op)f.op, .root = f.root,
				.count = f.count, .number = number};
}

char *ddp__call_text(const struct ddp__call *c, char *out)
{
	struct flight_call f = call_to_flight(c);

	return flight_call_text(&f, out);
}
