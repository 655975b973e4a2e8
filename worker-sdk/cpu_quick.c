/* cpu_quick.c: posting at once, and what is to be done until all have. */
#include "worker-sdk/cpu_quick.h"

#include <string.h>

#include "worker-sdk/cpu.h"
#include "worker-sdk/entry.h"
#include "worker-sdk/reduce.h"

/* The sizes that there are, without a call of memcpy. */
static void copy_tiny(void *to, const void *from, size_t size)
{
	if (size == 4)
		memcpy(to, from, 4);
	else if (size == 8)
		memcpy(to, from, 8);
	else if (size)
		memcpy(to, from, size);
}

static void reduce_tiny(struct ddp__shm *s, const struct ddp__call *call,
			void *recv)
{
	for (int i = 0; i < s->n; i++)
		s->sources[i] = ddp__shm_control(s, i)->tiny[s->step & 1];
	ddp__reduce(recv, s->sources, s->n, call->count, call->type, call->op,
		    s->n);
}

static int is_idle(const struct ddp__engine *en)
{
	return !en->threaded && !en->tasks;
}

int ddp__cpu_quick(struct ddp_comm *c, struct ddp__call *call, const void *send,
		   void *recv, struct err *e)
{
	struct ddp__cpu *cpu = c->state;
	struct ddp__shm *s = &cpu->shm;
	size_t size = call->count * ddp_type_size(call->type);
	int rc;

	if (!is_idle(c->world->engine) || s->behind || c->broken.code ||
	    cpu->failed.code || size > DDP__SHM_TINY)
		return 1;
	if (call->kind == DDP__ALL_REDUCE)
		copy_tiny(ddp__shm_control(s, s->me)->tiny[(s->step + 1) & 1],
			  send, size);
	else if (call->kind != DDP__BARRIER)
		return 1;
	ddp__shm_mark(s, call);
	ddp__shm_post(s);
	/* from here on the others need nothing of me */
	s->call = *call;
	ddp__shm_entered(s, call);
	ddp__enter(c, call, e);
	rc = ddp__shm_wait_first(s, e);
	if (rc < 0)
		ddp__engine_fail(c, e);
	else if (size)
		reduce_tiny(s, call, recv);
	return ddp__leave(c, call, rc, e);
}
