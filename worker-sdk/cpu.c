/* cpu.c: the backend for memory of the CPU: shared memory among the ranks of a
 * host, TCP among the hosts' leaders, one after the other. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "worker-sdk/comm.h"
#include "worker-sdk/cpu.h"
#include "worker-sdk/reduce.h"
#include "worker-sdk/request.h"
#include "worker-sdk/shm_collective.h"
#include "worker-sdk/tcp_collective.h"

/* What one collective works with. */
struct task {
	struct ddp__cpu *cpu;
	const struct ddp__host *host; /* mine */
	const struct ddp__call *call;
	int world_size;
	int shared;  /* others are on my host */
	int spread;  /* there are other hosts */
	int leading; /* I am my host's leader */
	struct err *e;
};

static struct task begin(struct ddp_comm *c, const struct ddp__call *call,
			 struct err *e)
{
	struct ddp__cpu *cpu = c->state;
	const struct ddp__host *h =
		&c->topology.hosts[c->topology.host_of[c->rank]];

	return (struct task){.cpu = cpu,
			     .host = h,
			     .call = call,
			     .world_size = c->size,
			     .shared = h->n > 1,
			     .spread = c->topology.nhosts > 1,
			     .leading = h->ranks[0] == c->rank,
			     .e = e};
}

/* Whoever waits for me, here or on another host, hears of the error. */
static int end(struct task *t, int rc)
{
	if (!rc)
		return 0;
	if (t->shared)
		ddp__shm_abort(&t->cpu->shm, t->e);
	if (t->spread && t->leading)
		ddp__tcp_abort(&t->cpu->tcp, t->e);
	return rc;
}

static int share(struct task *t, void *buf, size_t size)
{
	struct ddp__shm_op op;

	ddp__shm_broadcast(&op, &t->cpu->shm, t->call, 0, buf, size, buf, 0,
			   t->leading ? 0 : size);
	return ddp__shm_run(&op, t->e);
}

static int cpu_all_reduce(struct ddp_comm *c, const struct ddp__call *call,
			  const void *send, void *recv, struct err *e)
{
	struct task t = begin(c, call, e);
	size_t size = call->count * ddp_type_size(call->type);
	struct ddp__shm_op op;
	int rc = 0;

	if (t.shared) {
		ddp__shm_reduce(&op, &t.cpu->shm, call, send, recv, call->count,
				t.spread ? 0 : DDP__ALL,
				t.spread ? 1 : t.world_size);
		rc = ddp__shm_run(&op, e);
	} else if (send != recv && size) {
		memcpy(recv, send, size);
	}
	if (!rc && t.spread && t.leading) {
		struct ddp__tcp_op between;

		ddp__tcp_all_reduce(&between, &t.cpu->tcp, call, recv,
				    call->count, t.world_size);
		rc = ddp__tcp_run(&between, e);
	}
	if (!rc && t.spread && t.shared)
		rc = share(&t, recv, size);
	return end(&t, rc);
}

static int cpu_broadcast(struct ddp_comm *c, const struct ddp__call *call,
			 void *buf, struct err *e)
{
	struct task t = begin(c, call, e);
	size_t size = call->count * ddp_type_size(call->type);
	int root_host = c->topology.host_of[call->root];
	int here = root_host == c->topology.host_of[c->rank];
	struct ddp__shm_op op;
	int rc = 0;

	/* On the root's host all have it before the leader passes it on. */
	if (t.shared && here) {
		ddp__shm_broadcast(&op, &t.cpu->shm, call,
				   c->topology.index_of[call->root], buf, size,
				   buf, 0, c->rank == call->root ? 0 : size);
		rc = ddp__shm_run(&op, e);
	}
	if (!rc && t.spread && t.leading) {
		struct ddp__tcp_op between;

		ddp__tcp_broadcast(&between, &t.cpu->tcp, call, buf, size,
				   root_host);
		rc = ddp__tcp_run(&between, e);
	}
	if (!rc && t.shared && !here)
		rc = share(&t, buf, size);
	return end(&t, rc);
}

/* Blocks of `size` bytes from host order, in tmp, to rank order, in buf; or
 * back. They differ only where hosts' ranks interleave. */
static void reorder(const struct ddp__topology *t, char *buf, char *tmp,
		    size_t size, int back)
{
	for (int i = 0; i < t->world_size; i++) {
		char *a = buf + (size_t)t->order[i] * size;
		char *b = tmp + (size_t)i * size;

		memcpy(back ? b : a, back ? a : b, size);
	}
}

/* begin[h]: where host h's ranks' blocks of `size` begin, in host order. */
static size_t *host_ranges(const struct ddp__topology *t, size_t size,
			   struct err *e)
{
	size_t *begins = malloc(((size_t)t->nhosts + 1) * sizeof(*begins));

	if (!begins) {
		err_set(e, -ENOMEM, "no memory for %d hosts", t->nhosts);
		return NULL;
	}
	for (int h = 0; h < t->nhosts; h++)
		begins[h] = (size_t)t->hosts[h].first * size;
	begins[t->nhosts] = (size_t)t->world_size * size;
	return begins;
}

static int gather_hosts(struct ddp_comm *c, struct task *t, char *recv,
			size_t size)
{
	const struct ddp__topology *topo = &c->topology;
	size_t *begins = host_ranges(topo, size, t->e);
	size_t all = size * (size_t)topo->world_size;
	struct ddp__tcp_op op;
	char *tmp = NULL;
	int rc = t->e->code;

	if (!begins)
		return rc;
	if (!topo->in_order) {
		tmp = malloc(all ? all : 1);
		if (!tmp) {
			rc = err_set(t->e, -ENOMEM, "no memory for %zu bytes",
				     all);
			goto out;
		}
		reorder(topo, recv, tmp, size, 1);
	}
	ddp__tcp_all_gather(&op, &t->cpu->tcp, t->call, tmp ? tmp : recv,
			    begins);
	rc = ddp__tcp_run(&op, t->e);
	if (!rc && tmp)
		reorder(topo, recv, tmp, size, 0);
out:
	free(tmp);
	free(begins);
	return rc;
}

static int cpu_all_gather(struct ddp_comm *c, const struct ddp__call *call,
			  const void *send, void *recv, struct err *e)
{
	struct task t = begin(c, call, e);
	size_t size = call->count * ddp_type_size(call->type);
	char *own = (char *)recv + (size_t)c->rank * size;
	struct ddp__shm_op op;
	int rc = 0;

	if (t.shared) {
		ddp__shm_gather(&op, &t.cpu->shm, call, send, size, recv,
				t.host->ranks, t.spread ? 0 : DDP__ALL);
		rc = ddp__shm_run(&op, e);
	} else if (own != send && size) {
		memcpy(own, send, size);
	}
	if (!rc && t.spread && t.leading)
		rc = gather_hosts(c, &t, recv, size);
	if (!rc && t.spread && t.shared)
		rc = share(&t, recv, size * (size_t)t.world_size);
	return end(&t, rc);
}

/* With other hosts: the leader reduces all of it for its host, the leaders
 * exchange, and each rank of the host takes its part. */
static int scatter_hosts(struct ddp_comm *c, struct task *t, const char *send,
			 char *recv)
{
	const struct ddp__topology *topo = &c->topology;
	const struct ddp__call *call = t->call;
	size_t elem = ddp_type_size(call->type), count = call->count;
	size_t size = count * elem, all = size * (size_t)topo->world_size;
	size_t *begins = host_ranges(topo, count, t->e);
	char *sum = NULL, *tmp = NULL, *mine = NULL;
	struct ddp__shm_op op;
	int rc = t->e->code;

	if (!begins)
		return rc;
	if (t->leading) {
		sum = malloc(all ? all : 1);
		tmp = topo->in_order ? sum : malloc(all ? all : 1);
	}
	rc = 0;
	if (t->leading && (!sum || !tmp)) {
		rc = err_set(t->e, -ENOMEM, "no memory for %zu bytes", all);
	} else if (t->shared) {
		ddp__shm_reduce(&op, &t->cpu->shm, call, send, sum,
				count * (size_t)topo->world_size, 0, 1);
		rc = ddp__shm_run(&op, t->e);
	} else {
		memcpy(sum, send, all);
	}
	if (!rc && t->leading) {
		struct ddp__tcp_op between;

		if (tmp != sum)
			reorder(topo, sum, tmp, size, 1);
		ddp__tcp_reduce_scatter(&between, &t->cpu->tcp, call, tmp,
					begins, t->world_size);
		rc = ddp__tcp_run(&between, t->e);
		mine = tmp + (size_t)t->host->first * size;
	}
	if (!rc && t->shared) {
		ddp__shm_broadcast(&op, &t->cpu->shm, call, 0, mine,
				   size * (size_t)t->host->n, recv,
				   size * (size_t)topo->index_of[c->rank],
				   size);
		rc = ddp__shm_run(&op, t->e);
	} else if (!rc) {
		memcpy(recv, mine, size);
	}
	if (tmp != sum)
		free(tmp);
	free(sum);
	free(begins);
	return rc;
}

static int cpu_reduce_scatter(struct ddp_comm *c, const struct ddp__call *call,
			      const void *send, void *recv, struct err *e)
{
	struct task t = begin(c, call, e);
	struct ddp__shm_op op;

	if (t.spread)
		return end(&t, scatter_hosts(c, &t, send, recv));
	ddp__shm_reduce_scatter(&op, &t.cpu->shm, call, send, recv, call->count,
				t.world_size);
	return end(&t, ddp__shm_run(&op, e));
}

static int meet_here(struct task *t)
{
	struct ddp__shm_op op;

	if (!t->shared)
		return 0;
	ddp__shm_barrier(&op, &t->cpu->shm, t->call);
	return ddp__shm_run(&op, t->e);
}

static int cpu_barrier(struct ddp_comm *c, const struct ddp__call *call,
		       struct err *e)
{
	struct task t = begin(c, call, e);
	int rc = meet_here(&t);

	if (!rc && t.spread && t.leading) {
		struct ddp__tcp_op op;

		ddp__tcp_barrier(&op, &t.cpu->tcp, call);
		rc = ddp__tcp_run(&op, e);
	}
	if (!rc && t.spread)
		rc = meet_here(&t);
	return end(&t, rc);
}

static int cpu_run(struct ddp_comm *c, const struct ddp__call *call,
		   const void *send, void *recv, struct err *e)
{
	switch (call->kind) {
	case DDP__ALL_REDUCE:
		return cpu_all_reduce(c, call, send, recv, e);
	case DDP__BROADCAST:
		return cpu_broadcast(c, call, recv, e);
	case DDP__ALL_GATHER:
		return cpu_all_gather(c, call, send, recv, e);
	case DDP__REDUCE_SCATTER:
		return cpu_reduce_scatter(c, call, send, recv, e);
	case DDP__BARRIER:
		return cpu_barrier(c, call, e);
	default:
		return err_set(e, ERR_INTERNAL, "cpu: no call %d",
			       (int)call->kind);
	}
}

/* Begun and done at once. */
struct cpu_op {
	int rc;
};

static int cpu_begin(struct ddp_request *r, struct err *e)
{
	struct cpu_op *op = (void *)r->op;

	op->rc = cpu_run(r->comm, &r->call, r->send, r->recv, e);
	return op->rc;
}

static int cpu_test(struct ddp_request *r, struct err *e)
{
	return 1;
}

static int cpu_wait(struct ddp_request *r, int timeout_ms, struct err *e)
{
	return 1;
}

static int cpu_gather(struct ddp_comm *c, const struct ddp__call *call,
		      const void *mine, void *all, size_t size, struct err *e)
{
	return cpu_all_gather(c, call, mine, all, e);
}

static void cpu_abort(struct ddp_comm *c, const struct err *why)
{
	struct ddp__cpu *cpu = c->state;

	ddp__shm_abort(&cpu->shm, why);
	ddp__tcp_abort(&cpu->tcp, why);
}

const struct ddp__backend ddp__cpu = {
	.name = "cpu",
	.op_size = sizeof(struct cpu_op),
	.start = ddp__cpu_start,
	.stop = ddp__cpu_stop,
	.abort = cpu_abort,
	.run = cpu_run,
	.begin = cpu_begin,
	.test = cpu_test,
	.wait = cpu_wait,
	.gather = cpu_gather,
};
