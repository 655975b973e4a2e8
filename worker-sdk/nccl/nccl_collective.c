/* nccl_collective.c: collectives as NCCL calls, enqueued in a stream. */
#include "worker-sdk/core/call.h"
#include "worker-sdk/nccl/nccl_backend.h"

struct task {
	struct ddp__nccl *n;
	const struct ddp__call *call;
	const char *send;
	char *recv;
	void *stream;
	int type;
	size_t size; /* bytes of count elements */
	void *copy;  /* freed once the call is in its stream */
};

static int task_self_copy(struct task *t, void *to, const void *from,
			  size_t size)
{
	if (to == from || !size)
		return 0;
	return t->n->cuda->copy(to, from, size, DDP__CUDA_COPY_ANY, t->stream)
		       ? DDP__NCCL_CUDA
		       : 0;
}

/* Sends `from` to rank r and receives `to` from it (either may be NULL); does
 * nothing if r is this rank. */
static int task_send_recv(struct task *t, int r, const char *from, char *to)
{
	struct ddp__nccl *n = t->n;
	int rc = 0;

	if (r == n->c->rank)
		return 0;
	if (from)
		rc = n->lib->send(from, t->call->count, t->type, r, n->comm,
				  t->stream);
	if (!rc && to)
		rc = n->lib->recv(to, t->call->count, t->type, r, n->comm,
				  t->stream);
	return rc;
}

/* Sends and receives with ranks a..b-1 as one NCCL group. */
static int task_exchange(struct task *t, const char *all_from, char *all_to,
			 int a, int b)
{
	const struct ddp__nccl_lib *lib = t->n->lib;
	int rc = lib->group_start(), end;

	if (rc)
		return rc;
	for (int r = a; r < b && !rc; r++)
		rc = task_send_recv(
			t, r, all_from ? all_from + (size_t)r * t->size : NULL,
			all_to ? all_to + (size_t)r * t->size : NULL);
	end = lib->group_end();
	return rc ? rc : end;
}

static int task_gather(struct task *t)
{
	struct ddp_comm *c = t->n->c;
	int root = t->call->root, rc;

	if (c->rank != root)
		return task_send_recv(t, root, t->send, NULL);
	rc = task_self_copy(t, t->recv + (size_t)root * t->size, t->send,
			    t->size);
	return rc ? rc : task_exchange(t, NULL, t->recv, 0, c->size);
}

static int task_scatter(struct task *t)
{
	struct ddp_comm *c = t->n->c;
	int root = t->call->root, rc;

	if (c->rank != root)
		return task_send_recv(t, root, NULL, t->recv);
	rc = task_self_copy(t, t->recv, t->send + (size_t)root * t->size,
			    t->size);
	return rc ? rc : task_exchange(t, t->send, NULL, 0, c->size);
}

/* In place, receiving would overwrite data that is still to be sent: sends from
 * a copy, which is allocated and freed in stream order. */
static int task_all_to_all(struct task *t)
{
	struct ddp_comm *c = t->n->c;
	const struct ddp__cuda *cu = t->n->cuda;
	size_t own = (size_t)c->rank * t->size;
	const char *from = t->send;
	int rc;

	if (t->send == t->recv && c->size > 1) {
		size_t all = t->size * (size_t)c->size;

		if (cu->stream_alloc(&t->copy, all, t->stream))
			return DDP__NCCL_CUDA;
		rc = task_self_copy(t, t->copy, t->send, all);
		from = t->copy;
	} else {
		rc = task_self_copy(t, t->recv + own, t->send + own, t->size);
	}
	return rc ? rc : task_exchange(t, from, t->recv, 0, c->size);
}

static char *task_at(const struct task *t, const char *buf, size_t element)
{
	return (char *)buf + element * ddp_type_size(t->call->type);
}

/* Each rank's block is a broadcast. */
static int task_broadcast_block(struct task *t, int r)
{
	const size_t *begin = t->call->counts->recv;
	size_t count = ddp__count_of(begin, r);
	char *to = task_at(t, t->recv, begin[r]);

	if (!count)
		return 0;
	return t->n->lib->broadcast(r == t->n->c->rank ? t->send : to, to,
				    count, t->type, r, t->n->comm, t->stream);
}

/* Each rank's block is a reduction to that rank. */
static int task_reduce_block(struct task *t, int r)
{
	const size_t *begin = t->call->counts->send;
	size_t count = ddp__count_of(begin, r);

	if (!count)
		return 0;
	return t->n->lib->reduce(task_at(t, t->send, begin[r]),
				 r == t->n->c->rank ? t->recv : NULL, count,
				 t->type, ddp__nccl_op(t->call->op), r,
				 t->n->comm, t->stream);
}

static int task_swap_blocks(struct task *t, int r)
{
	const struct ddp__counts *v = t->call->counts;
	size_t sends = ddp__count_of(v->send, r);
	size_t receives = ddp__count_of(v->recv, r);
	const struct ddp__nccl *n = t->n;
	const char *from = task_at(t, t->send, v->send[r]);
	char *to = task_at(t, t->recv, v->recv[r]);
	int rc = 0;

	if (r == n->c->rank)
		return task_self_copy(t, to, from,
				      sends * ddp_type_size(t->call->type));
	if (sends)
		rc = n->lib->send(from, sends, t->type, r, n->comm, t->stream);
	if (!rc && receives)
		rc = n->lib->recv(to, receives, t->type, r, n->comm, t->stream);
	return rc;
}

/* In one NCCL group, so that the ranks' parts run at the same time. */
static int task_with_counts(struct task *t)
{
	const struct ddp__nccl_lib *lib = t->n->lib;
	int rc = lib->group_start(), end;

	if (rc)
		return rc;
	for (int r = 0; r < t->call->counts->n && !rc; r++) {
		if (t->call->kind == DDP__ALL_GATHER_V)
			rc = task_broadcast_block(t, r);
		else if (t->call->kind == DDP__REDUCE_SCATTER_V)
			rc = task_reduce_block(t, r);
		else
			rc = task_swap_blocks(t, r);
	}
	end = lib->group_end();
	return rc ? rc : end;
}

static int task_run(struct task *t)
{
	const struct ddp__nccl_lib *l = t->n->lib;
	const struct ddp__call *k = t->call;
	int op = ddp__nccl_op(k->op);
	void *comm = t->n->comm;

	switch (k->kind) {
	case DDP__ALL_REDUCE:
		return l->all_reduce(t->send, t->recv, k->count, t->type, op,
				     comm, t->stream);
	case DDP__REDUCE:
		return l->reduce(t->send, t->recv, k->count, t->type, op,
				 k->root, comm, t->stream);
	case DDP__REDUCE_SCATTER:
		return l->reduce_scatter(t->send, t->recv, k->count, t->type,
					 op, comm, t->stream);
	case DDP__BROADCAST:
		return l->broadcast(t->send, t->recv, k->count, t->type,
				    k->root, comm, t->stream);
	case DDP__ALL_GATHER:
		return l->all_gather(t->send, t->recv, k->count, t->type, comm,
				     t->stream);
	case DDP__GATHER:
		return task_gather(t);
	case DDP__SCATTER:
		return task_scatter(t);
	case DDP__ALL_TO_ALL:
		return task_all_to_all(t);
	case DDP__ALL_GATHER_V:
	case DDP__REDUCE_SCATTER_V:
	case DDP__ALL_TO_ALL_V:
		return task_with_counts(t);
	default: /* a barrier */
		return l->all_reduce(t->n->token, t->n->token, 1,
				     ddp__nccl_type(DDP_U8),
				     ddp__nccl_op(DDP_MAX), comm, t->stream);
	}
}

int ddp__nccl_enqueue(struct ddp__nccl *n, const struct ddp__call *call,
		      const void *send, void *recv, void *stream,
		      struct err *e)
{
	struct task t = {.n = n,
			 .call = call,
			 .send = send,
			 .recv = recv,
			 .stream = stream,
			 .type = ddp__nccl_type(call->type)};
	char text[DDP__CALL_TEXT];
	int rc;

	if (!call->count && !call->counts && call->kind != DDP__BARRIER)
		return 0;
	t.size = call->count * ddp_type_size(call->type);
	rc = task_run(&t);
	if (rc)
		rc = ddp__nccl_settle(n, n->comm, rc,
				      ddp__call_text(call, text), e);
	if (t.copy && !rc)
		n->cuda->stream_free(t.copy, stream);
	return rc;
}

uint64_t ddp__nccl_host_number(struct ddp__nccl *n, uint64_t number)
{
	if (number <= n->host->calls)
		number = n->host->calls + 1;
	n->host->calls = number;
	return number;
}

/* NCCL would hang, or write past a buffer, where counts do not match: before it
 * sees them, the ranks compare them through host memory. */
int ddp__nccl_compare_counts(struct ddp__nccl *n, const struct ddp__call *call,
			     struct err *e)
{
	struct ddp__call compare = *call;
	struct ddp__counts v;

	if (!call->counts || !n->host->state)
		return 0;
	v = *call->counts;
	v.compare_only = 1;
	compare.counts = &v;
	compare.number = ddp__nccl_host_number(n, call->number);
	return ddp__cpu.run(n->host, &compare, NULL, NULL, e);
}
