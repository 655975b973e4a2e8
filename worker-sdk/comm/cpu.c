/* cpu.c: the backend for CPU memory. If no other operation is under way, a call
 * runs in the calling thread; otherwise it goes through the engine's queues. */
#include "worker-sdk/comm/cpu.h"

#include "worker-sdk/comm/request.h"

static struct ddp__engine *cpu_engine(const struct ddp_comm *c)
{
	return c->world->engine;
}

/* Call with the engine's lock held: 0, or the reason why this communicator no
 * longer works. */
static int cpu_check(const struct ddp_comm *c, struct err *e)
{
	const struct ddp__cpu *cpu = c->state;

	if (__builtin_expect(!cpu->failed.code, 1))
		return 0;
	*e = cpu->failed;
	return e->code;
}

static int cpu_queue_and_wait(struct ddp_comm *c, const struct ddp__call *call,
			      const void *send, void *recv, struct err *e)
{
	struct ddp__engine *en = cpu_engine(c);
	struct ddp__task t;
	int rc = ddp__engine_add(en, &t, c, call, send, recv, e);

	if (rc)
		return rc;
	ddp__engine_wait(en, &t, -1);
	return t.state == DDP__FAILED ? cpu_check(c, e) : 0;
}

static int cpu_run(struct ddp_comm *c, const struct ddp__call *call,
		   const void *send, void *recv, struct err *e)
{
	struct ddp__engine *en = cpu_engine(c);
	int rc;

	ddp__engine_lock(en);
	rc = cpu_check(c, e);
	if (!rc && !en->tasks)
		rc = ddp__engine_run(c, call, send, recv, e);
	if (!rc)
		rc = cpu_queue_and_wait(c, call, send, recv, e);
	ddp__engine_unlock(en);
	return rc < 0 ? rc : 0;
}

static int cpu_begin(struct ddp_request *r, struct err *e)
{
	struct ddp__engine *en = cpu_engine(r->comm);
	int rc;

	ddp__engine_lock(en);
	rc = cpu_check(r->comm, e);
	if (!rc)
		rc = ddp__engine_add(en, (void *)r->op, r->comm, &r->call,
				     r->send, r->recv, e);
	/* do the work now that needs no other rank */
	if (!rc && !en->threaded)
		ddp__engine_move(en);
	ddp__engine_unlock(en);
	return rc;
}

static int cpu_wait(struct ddp_request *r, int timeout_ms, struct err *e)
{
	struct ddp__engine *en = cpu_engine(r->comm);
	struct ddp__task *t = (void *)r->op;
	int rc;

	ddp__engine_lock(en);
	if (!ddp__task_has_ended(t))
		ddp__engine_wait(en, t, timeout_ms);
	rc = t->state == DDP__DONE ? 1 : 0;
	if (t->state == DDP__FAILED)
		rc = cpu_check(r->comm, e);
	ddp__engine_unlock(en);
	return rc;
}

static int cpu_test(struct ddp_request *r, struct err *e)
{
	const struct ddp__task *t = (void *)r->op;

	/* the progress thread advances the task; do not disturb it */
	if (cpu_engine(r->comm)->threaded && !ddp__task_has_ended(t))
		return 0;
	return cpu_wait(r, 0, e);
}

/* A request is still under way only if its communicator is about to be
 * freed. */
static void cpu_release(struct ddp_request *r)
{
	struct ddp__engine *en = cpu_engine(r->comm);
	struct ddp__task *t = (void *)r->op;

	if (!t->queue)
		return; /* it was never begun */
	ddp__engine_lock(en);
	if (!ddp__task_has_ended(t))
		ddp__engine_forget(r->comm);
	ddp__engine_unlock(en);
}

static int cpu_gather(struct ddp_comm *c, const struct ddp__call *call,
		      const void *mine, void *all, size_t size, struct err *e)
{
	return cpu_run(c, call, mine, all, e);
}

static void cpu_abort(struct ddp_comm *c, const struct err *why)
{
	struct ddp__engine *en = cpu_engine(c);

	ddp__engine_lock(en);
	ddp__engine_fail(c, why);
	ddp__engine_unlock(en);
}

static int cpu_progress(struct ddp_comm *world, int cpu, struct err *e)
{
	return ddp__progress_run(cpu_engine(world), cpu, e);
}

static void cpu_set_timeout(struct ddp_comm *c, int timeout_ms)
{
	struct ddp__engine *en = cpu_engine(c);
	struct ddp__cpu *cpu = c->state;

	ddp__engine_lock(en);
	cpu->local.transport->set_timeout(&cpu->local, timeout_ms);
	cpu->remote.transport->set_timeout(&cpu->remote, timeout_ms);
	ddp__engine_forgive(en);
	ddp__engine_unlock(en);
}

const struct ddp__backend ddp__cpu = {
	.name = "cpu",
	.op_size = sizeof(struct ddp__task),
	.start = ddp__cpu_start,
	.stop = ddp__cpu_stop,
	.abort = cpu_abort,
	.run = cpu_run,
	.begin = cpu_begin,
	.test = cpu_test,
	.wait = cpu_wait,
	.release = cpu_release,
	.gather = cpu_gather,
	.set_timeout = cpu_set_timeout,
	.progress = cpu_progress,
};
