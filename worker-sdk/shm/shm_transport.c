/* shm_transport.c: shm's row of algorithms/transport.h: messages and
 * collectives through the memory that the ranks of a host share. */
#include <poll.h>

#include "worker-sdk/algorithms/transport.h"
#include "worker-sdk/shm/shm_collective.h"
#include "worker-sdk/shm/shm_p2p.h"

static void shm_forget(const struct ddp__path *p)
{
	struct ddp__shm *s = p->messages;

	s->msgs = NULL;
}

static void shm_abort(const struct ddp__path *p, const struct err *why)
{
	ddp__shm_abort(p->collectives, why);
	shm_forget(p);
}

static void shm_set_timeout(const struct ddp__path *p, int timeout_ms)
{
	struct ddp__shm *s = p->collectives;

	s->timeout_ms = timeout_ms;
}

static void shm_disarm(const struct ddp__path *p)
{
	struct ddp__shm *s = p->collectives;

	if (s->armed)
		ddp__shm_disarm(s);
	s->armed = 0;
}

static int shm_poll_max(const struct ddp__path *p, int is_message)
{
	return 1;
}

/* Arms the doorbell: from now on peers ring it. Data that arrived before is
 * found by one more check. */
static int shm_poll(const struct ddp__path *p, int is_message,
		    struct pollfd *out, int max, int *ms)
{
	struct ddp__shm *s = p->collectives;
	struct err e = ERR_INIT;
	int bell = ddp__shm_doorbell(s, &e);

	if (bell < 0) {
		*ms = *ms ? 1 : 0;
		return 0;
	}
	shm_disarm(p);
	s->armed = 1;
	if (ddp__shm_arm(s))
		*ms = 0;
	*out = (struct pollfd){bell, POLLIN, 0};
	return 1;
}

static uint64_t shm_msg_moved(const void *msg)
{
	const struct ddp__shm_msg *m = msg;

	return m->got + ((uint64_t)m->state << 56);
}

static uint64_t shm_moved(const void *endpoint)
{
	const struct ddp__shm *s = endpoint;

	return s->step;
}

const struct ddp__transport ddp__shm_transport = {
	.name = "shm",
	.abort = shm_abort,
	.forget = shm_forget,
	.set_timeout = shm_set_timeout,
	.poll_max = shm_poll_max,
	.poll = shm_poll,
	.disarm = shm_disarm,
	.message = {.send = ddp__shm_send,
		    .recv = ddp__shm_recv,
		    .advance = ddp__shm_msg_advance,
		    .wait = ddp__shm_msg_run,
		    .moved = shm_msg_moved,
		    .either_moved = ddp__shm_msg_either_moved,
		    .check = ddp__shm_msg_check},
	.native = {.reduce = ddp__shm_reduce,
		   .reduce_scatter = ddp__shm_reduce_scatter,
		   .broadcast = ddp__shm_broadcast,
		   .gather = ddp__shm_gather,
		   .scatter = ddp__shm_scatter,
		   .all_to_all = ddp__shm_all_to_all,
		   .all_gather_v = ddp__shm_all_gather_v,
		   .reduce_scatter_v = ddp__shm_reduce_scatter_v,
		   .all_to_all_v = ddp__shm_all_to_all_v,
		   .barrier = ddp__shm_barrier,
		   .advance = ddp__shm_advance,
		   .wait = ddp__shm_run,
		   .check = ddp__shm_check,
		   .moved = shm_moved,
		   .awaited = ddp__shm_awaited,
		   .set_away = ddp__shm_set_away},
};
