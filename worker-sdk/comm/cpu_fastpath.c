/* cpu_fastpath.c: posts at once, and does the rest while the other ranks
 * arrive. All work before the post adds to every rank's latency. */
#include "worker-sdk/comm/cpu_fastpath.h"

#include <string.h>

#include "worker-sdk/comm/call_guard.h"
#include "worker-sdk/comm/cpu.h"
#include "worker-sdk/math/reduce.h"

/* Copies the usual sizes without a call of memcpy. */
static inline void fastpath_copy(void *to, const void *from, size_t size)
{
	if (size == 4)
		memcpy(to, from, 4);
	else if (size == 8)
		memcpy(to, from, 8);
	else if (size)
		memcpy(to, from, size);
}

/* Gives the same result as ddp__reduce. For the usual few floats of two ranks,
 * calling that would take longer than all the rest. */
static void fastpath_add_floats(char *to, const unsigned char *a,
				const unsigned char *b, size_t count)
{
	for (size_t i = 0; i < 4 * count; i += 4) {
		float x, y;

		memcpy(&x, a + i, 4);
		memcpy(&y, b + i, 4);
		x += y;
		memcpy(to + i, &x, 4);
	}
}

static void fastpath_reduce(struct ddp__shm *s, const struct ddp__call *call,
			    void *recv)
{
	int half = s->step & 1;

	if (s->n == 2 && call->type == DDP_F32 && call->op == DDP_SUM) {
		fastpath_add_floats(recv, ddp__shm_control(s, 0)->tiny[half],
				    ddp__shm_control(s, 1)->tiny[half],
				    call->count);
		return;
	}
	for (int i = 0; i < s->n; i++)
		s->sources[i] = ddp__shm_control(s, i)->tiny[half];
	ddp__reduce(recv, s->sources, s->n, call->count, call->type, call->op,
		    s->n);
}

/* Waits for the other ranks, as any collective does. */
static int fastpath_wait(struct ddp_comm *c, struct ddp__shm *s,
			 const struct ddp__call *call, struct err *e)
{
	int rc;

	s->call = *call;
	rc = ddp__shm_wait_first(s, e);
	if (rc < 0)
		ddp__engine_fail_in_wait(c, e);
	return rc;
}

/* A wait of a few looks, less than a microsecond, is not worth the clock that
 * counts it. */
static inline int fastpath_leave(struct ddp_comm *c, const struct ddp__shm *s,
				 const struct ddp__call *call, int rc,
				 struct err *e)
{
	return s->has_waited ? ddp__leave_blocking(c, call, rc, e)
			 : ddp__leave(c, call, rc, e);
}

/* Through a cell (shm_cell.c). The root writes the cell before its
 * bookkeeping. */
static int fastpath_broadcast(struct ddp_comm *c, struct ddp__shm *s,
			      struct ddp__call *call, size_t size,
			      const void *send, void *recv, struct err *e)
{
	int rc = 0;

	s->has_waited = 0;
	ddp__shm_cell_begin(s, call);
	if (call->root == s->me)
		ddp__shm_cell_give(s, call, send, size);
	ddp__enter(c, call, e);
	if (call->root != s->me)
		rc = ddp__shm_cell_wait(s, call, call->root, e);
	if (rc < 0)
		ddp__engine_fail_in_wait(c, e);
	else if (call->root != s->me)
		fastpath_copy(recv, ddp__shm_cell(s, call->root)->data, size);
	else if (recv != send)
		fastpath_copy(recv, send, size);
	return fastpath_leave(c, s, call, rc, e);
}

/* A barrier or an all_reduce. */
static int fastpath_meet(struct ddp_comm *c, struct ddp__shm *s,
			 struct ddp__call *call, size_t size, const void *send,
			 void *recv, struct err *e)
{
	uint64_t word = ddp__call_pack(call);
	int half = (s->step + 1) & 1, rc;

	s->has_waited = 0;
	if (size)
		fastpath_copy(ddp__shm_control(s, s->me)->tiny[half], send,
			      size);
	ddp__shm_say(s, call, word);
	ddp__shm_post(s);
	/* from here on the other ranks need nothing from this one */
	ddp__shm_entered(s, word, call->number);
	ddp__enter(c, call, e);
	rc = fastpath_wait(c, s, call, e);
	if (!rc && size)
		fastpath_reduce(s, call, recv);
	return fastpath_leave(c, s, call, rc, e);
}

int ddp__cpu_fastpath(struct ddp_comm *c, struct ddp__call *call, size_t size,
		   const void *send, void *recv, struct err *e)
{
	const struct ddp__engine *en = c->world->engine;
	struct ddp__cpu *cpu = c->state;
	struct ddp__shm *s = &cpu->shm;

	if (en->threaded || en->tasks || c->broken.code || cpu->failed.code)
		return 1;
	if (call->kind == DDP__BROADCAST)
		return ddp__shm_cell_is_next(s)
			       ? fastpath_broadcast(c, s, call, size, send,
						    recv, e)
			       : 1;
	return s->awaits ? 1 : fastpath_meet(c, s, call, size, send, recv, e);
}
