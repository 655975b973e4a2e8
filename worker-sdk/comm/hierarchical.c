/* hierarchical.c: the collectives of the cpu backend, stage by stage. A
 * leader's own memory holds blocks in host order: the ranks of host 0, of host
 * 1, ... */
#include "worker-sdk/comm/hierarchical_internal.h"

/* ---- this rank's place */

static int stage_is_root(const struct ddp__cpu_op *op)
{
	return op->c->rank == op->call->root;
}

static int stage_root_host(const struct ddp__cpu_op *op)
{
	return topology_of(op)->host_of[op->call->root];
}

static int stage_root_index(const struct ddp__cpu_op *op)
{
	return topology_of(op)->index_of[op->call->root];
}

static int stage_is_on_root_host(const struct ddp__cpu_op *op)
{
	return stage_root_host(op) == topology_of(op)->host_of[op->c->rank];
}

static int stage_is_root_leader(const struct ddp__cpu_op *op)
{
	return is_leading(op) && stage_is_on_root_host(op);
}

/* ---- sizes and memory */

static size_t stage_world_size(const struct ddp__cpu_op *op)
{
	return (size_t)op->c->size;
}

/* Offset of this host's blocks, in host order. */
static size_t stage_own_offset(const struct ddp__cpu_op *op)
{
	return (size_t)ddp__my_host(op->c)->first * op->size;
}

/* Elements of a segment; *at: its offset in bytes. */
static size_t stage_segment(const struct ddp__cpu_op *op, size_t k, size_t *at)
{
	size_t left = op->call->count - k * op->each;

	*at = k * op->each * ddp_type_size(op->call->type);
	return left < op->each ? left : op->each;
}

/* begin[h]: offset of the blocks of host h's ranks, each of `size`. */
static int stage_allocate_ranges(size_t **begin, const struct ddp__cpu_op *op,
				 size_t size, struct err *e)
{
	const struct ddp__topology *t = topology_of(op);

	*begin = malloc(((size_t)t->nhosts + 1) * sizeof(**begin));
	if (!*begin)
		return err_no_memory(e, "%d hosts", t->nhosts);
	for (int h = 0; h < t->nhosts; h++)
		(*begin)[h] = (size_t)t->hosts[h].first * size;
	(*begin)[t->nhosts] = (size_t)t->world_size * size;
	return 0;
}

/* Copies blocks from rank order to host order. */
static void stage_order_by_host(const struct ddp__cpu_op *op, char *to,
				const char *from)
{
	const struct ddp__topology *t = topology_of(op);

	for (int i = 0; i < t->world_size; i++)
		stage_copy(to + (size_t)i * op->size,
			   from + (size_t)t->order[i] * op->size, op->size);
}

static void stage_order_by_rank(const struct ddp__cpu_op *op, char *to,
				const char *from)
{
	const struct ddp__topology *t = topology_of(op);

	for (int i = 0; i < t->world_size; i++)
		stage_copy(to + (size_t)t->order[i] * op->size,
			   from + (size_t)i * op->size, op->size);
}

/* Gathers every rank's size bytes into the leader's recv, block i at
 * place[i]. */
static int stage_gather_locally(struct ddp__cpu_op *op, const void *send,
				size_t size, char *recv, const int *place)
{
	const struct ddp__path *p = local_of(op);

	if (!is_shared(op)) {
		stage_copy(recv + (place ? (size_t)place[0] * size : 0), send,
			   size);
		return 0;
	}
	p->transport->native.gather(&op->local, p->collectives, op->call, send,
				    size, recv, place, 0);
	return 1;
}

/* ---- all_reduce: reduce to each leader, among the leaders, and broadcast */

static int stage_all_reduce_in(struct ddp__cpu_op *op, size_t k, struct err *e)
{
	size_t at, n = stage_segment(op, k, &at);

	return local_reduce(op, op->send + at, op->recv + at, n);
}

static int stage_all_reduce_between(struct ddp__cpu_op *op, size_t k,
				    struct err *e)
{
	size_t at, n = stage_segment(op, k, &at);

	ddp__schedule_all_reduce(&op->remote, remote_of(op), op->call,
				 op->recv + at, n, op->c->size);
	return 0;
}

static int stage_all_reduce_out(struct ddp__cpu_op *op, size_t k, struct err *e)
{
	size_t at, n = stage_segment(op, k, &at);

	return stage_pass_on(op, op->recv + at, op->recv + at,
			     stage_bytes(op, n));
}

/* ---- reduce: to each leader, to the root's leader, to the root */

/* Where this leader reduces its host's data. */
static char *stage_sum(const struct ddp__cpu_op *op)
{
	return stage_is_root(op) ? op->recv : op->work;
}

static int stage_reduce_start(struct ddp__cpu_op *op, struct err *e)
{
	if (!is_leading(op) || stage_is_root(op))
		return 0;
	return stage_allocate(&op->work, op->size, e);
}

static int stage_reduce_in(struct ddp__cpu_op *op, size_t k, struct err *e)
{
	size_t at, n = stage_segment(op, k, &at);
	char *sum = is_leading(op) ? stage_sum(op) + at : NULL;

	return local_reduce(op, op->send + at, sum, n);
}

static int stage_reduce_between(struct ddp__cpu_op *op, size_t k, struct err *e)
{
	size_t at, n = stage_segment(op, k, &at);

	ddp__schedule_reduce(&op->remote, remote_of(op), op->call,
			     stage_sum(op) + at, n, stage_root_host(op),
			     op->c->size);
	return 0;
}

/* Moves the result from the leader of the root's host to the root. */
static int stage_send_to_root(struct ddp__cpu_op *op, const char *from,
			      char *to, size_t size)
{
	if (!stage_is_on_root_host(op) || stage_root_index(op) == 0)
		return 0;
	return local_broadcast(op, 0, from, size, to,
			       stage_is_root(op) ? size : 0);
}

static int stage_reduce_out(struct ddp__cpu_op *op, size_t k, struct err *e)
{
	size_t at, n = stage_segment(op, k, &at);

	return stage_send_to_root(op, op->work + at, op->recv + at,
				  stage_bytes(op, n));
}

/* ---- broadcast: first within the root's host, then to the other hosts */

static int stage_broadcast_in(struct ddp__cpu_op *op, size_t k, struct err *e)
{
	size_t at, n = stage_segment(op, k, &at);

	if (!stage_is_on_root_host(op))
		return 0;
	return local_broadcast(op, stage_root_index(op), op->recv + at,
			       stage_bytes(op, n), op->recv + at,
			       stage_is_root(op) ? 0 : stage_bytes(op, n));
}

static int stage_broadcast_between(struct ddp__cpu_op *op, size_t k,
				   struct err *e)
{
	size_t at, n = stage_segment(op, k, &at);

	ddp__schedule_broadcast(&op->remote, remote_of(op), op->call,
				op->recv + at, stage_bytes(op, n),
				stage_root_host(op));
	return 0;
}

static int stage_broadcast_out(struct ddp__cpu_op *op, size_t k, struct err *e)
{
	size_t at, n = stage_segment(op, k, &at);

	if (stage_is_on_root_host(op))
		return 0;
	return stage_pass_on(op, op->recv + at, op->recv + at,
			     stage_bytes(op, n));
}

/* ---- all_gather: in the leader's recv, in host order between hosts */

static int stage_all_gather_start(struct ddp__cpu_op *op, struct err *e)
{
	int rc = is_leading(op)
			 ? stage_allocate_ranges(&op->begin, op, op->size, e)
			 : 0;

	if (rc || !is_leading(op) || topology_of(op)->in_order)
		return rc;
	return stage_allocate(&op->work, stage_world_size(op) * op->size, e);
}

static int stage_all_gather_in(struct ddp__cpu_op *op, size_t k, struct err *e)
{
	return stage_gather_locally(op, op->send, op->size, op->recv,
				    ddp__my_host(op->c)->ranks);
}

static int stage_all_gather_between(struct ddp__cpu_op *op, size_t k,
				    struct err *e)
{
	if (op->work)
		stage_order_by_host(op, op->work, op->recv);
	ddp__schedule_all_gather(&op->remote, remote_of(op), op->call,
				 op->work ? op->work : op->recv, op->begin);
	return 0;
}

static int stage_all_gather_out(struct ddp__cpu_op *op, size_t k, struct err *e)
{
	if (op->work)
		stage_order_by_rank(op, op->recv, op->work);
	return stage_pass_on(op, op->recv, op->recv,
			     stage_world_size(op) * op->size);
}

/* ---- gather: in `all` on the root's leader, in `work` on the others */

static char *stage_own_blocks(const struct ddp__cpu_op *op)
{
	return stage_is_on_root_host(op) ? op->all + stage_own_offset(op)
					 : op->work;
}

static int stage_gather_start(struct ddp__cpu_op *op, struct err *e)
{
	size_t all = stage_world_size(op) * op->size;
	int rc = 0;

	if (stage_is_root_leader(op) || stage_is_root(op))
		rc = stage_allocate(&op->all, all, e);
	if (!rc && is_leading(op) && !stage_is_on_root_host(op))
		rc = stage_allocate(&op->work, here_of(op) * op->size, e);
	if (!rc && is_leading(op))
		rc = stage_allocate_ranges(&op->begin, op, op->size, e);
	return rc;
}

static int stage_gather_in(struct ddp__cpu_op *op, size_t k, struct err *e)
{
	char *to = is_leading(op) ? stage_own_blocks(op) : NULL;

	return stage_gather_locally(op, op->send, op->size, to, NULL);
}

static int stage_gather_between(struct ddp__cpu_op *op, size_t k, struct err *e)
{
	ddp__schedule_gather(&op->remote, remote_of(op), op->call,
			     stage_own_blocks(op), op->all, op->begin,
			     stage_root_host(op));
	return 0;
}

static int stage_gather_out(struct ddp__cpu_op *op, size_t k, struct err *e)
{
	return stage_send_to_root(op, op->all, op->all,
				  stage_world_size(op) * op->size);
}

static void stage_gather_end(struct ddp__cpu_op *op)
{
	if (stage_is_root(op))
		stage_order_by_rank(op, op->recv, op->all);
}

/* ---- scatter: the reverse of gather */

static int stage_scatter_start(struct ddp__cpu_op *op, struct err *e)
{
	int rc = stage_gather_start(op, e);

	if (!rc && stage_is_root(op))
		stage_order_by_host(op, op->all, op->send);
	return rc;
}

static int stage_scatter_in(struct ddp__cpu_op *op, size_t k, struct err *e)
{
	size_t all = stage_world_size(op) * op->size;

	if (!stage_is_on_root_host(op) || stage_root_index(op) == 0)
		return 0;
	return local_broadcast(op, stage_root_index(op), op->all, all, op->all,
			       is_leading(op) ? all : 0);
}

static int stage_scatter_between(struct ddp__cpu_op *op, size_t k,
				 struct err *e)
{
	ddp__schedule_scatter(&op->remote, remote_of(op), op->call, op->all,
			      stage_own_blocks(op), op->begin,
			      stage_root_host(op));
	return 0;
}

/* Sends each rank of the host its block from the leader. */
static int stage_deal_locally(struct ddp__cpu_op *op, const char *blocks,
			      size_t size)
{
	const struct ddp__path *p = local_of(op);

	if (!is_shared(op)) {
		stage_copy(op->recv, blocks, size);
		return 0;
	}
	p->transport->native.scatter(&op->local, p->collectives, op->call, 0,
				     blocks, size, op->recv, NULL);
	return 1;
}

static int stage_scatter_out(struct ddp__cpu_op *op, size_t k, struct err *e)
{
	return stage_deal_locally(
		op, is_leading(op) ? stage_own_blocks(op) : NULL, op->size);
}

/* ---- reduce_scatter: each leader reduces the whole buffer of its host */

static int stage_reduce_scatter_start(struct ddp__cpu_op *op, struct err *e)
{
	size_t all = stage_world_size(op) * op->size;
	int rc;

	if (!is_leading(op))
		return 0;
	rc = stage_allocate_ranges(&op->begin, op, op->call->count, e);
	if (!rc)
		rc = stage_allocate(&op->work, all, e);
	if (!rc && !topology_of(op)->in_order)
		rc = stage_allocate(&op->all, all, e);
	return rc;
}

static int stage_reduce_scatter_in(struct ddp__cpu_op *op, size_t k,
				   struct err *e)
{
	return local_reduce(op, op->send, op->work,
			    op->call->count * stage_world_size(op));
}

static int stage_reduce_scatter_between(struct ddp__cpu_op *op, size_t k,
					struct err *e)
{
	if (op->all)
		stage_order_by_host(op, op->all, op->work);
	ddp__schedule_reduce_scatter(&op->remote, remote_of(op), op->call,
				     op->all ? op->all : op->work, op->begin,
				     op->c->size);
	return 0;
}

static int stage_reduce_scatter_out(struct ddp__cpu_op *op, size_t k,
				    struct err *e)
{
	char *all = op->all ? op->all : op->work;

	return stage_deal_locally(op, all ? all + stage_own_offset(op) : NULL,
				  op->size);
}

/* ---- all_to_all: each leader gathers all data that its host sends, and
 * receives all data that is sent to its host */

static int stage_all_to_all_start(struct ddp__cpu_op *op, struct err *e)
{
	size_t row = stage_world_size(op) * op->size, all = here_of(op) * row;
	int rc;

	if (!is_leading(op))
		return 0;
	rc = stage_allocate_ranges(&op->begin, op, here_of(op) * op->size, e);
	if (!rc)
		rc = stage_allocate(&op->work, all, e);
	if (!rc)
		rc = stage_allocate(&op->all, all, e);
	if (!rc)
		rc = stage_allocate(&op->third, all, e);
	return rc;
}

static int stage_all_to_all_in(struct ddp__cpu_op *op, size_t k, struct err *e)
{
	size_t row = stage_world_size(op) * op->size;

	return stage_gather_locally(op, op->send, row, op->work, NULL);
}

/* work: [my rank i][to rank r]. all: [to rank in host order][my rank i]. */
static int stage_all_to_all_between(struct ddp__cpu_op *op, size_t k,
				    struct err *e)
{
	const struct ddp__topology *t = topology_of(op);
	size_t size = op->size, here = here_of(op),
	       world = stage_world_size(op);
	char *to = op->all;

	for (size_t j = 0; j < world; j++)
		for (size_t i = 0; i < here; i++, to += size)
			stage_copy(to,
				   op->work +
					   (i * world + (size_t)t->order[j]) *
						   size,
				   size);
	ddp__schedule_all_to_all(&op->remote, remote_of(op), op->call, op->all,
				 op->begin, op->third, op->begin);
	return 0;
}

/* third: from each host [to my rank i][from its rank j]; this host's own blocks
 * are still in all. work becomes [to my rank i][from rank r]. */
static int stage_all_to_all_out(struct ddp__cpu_op *op, size_t k, struct err *e)
{
	const struct ddp__topology *t = topology_of(op);
	size_t size = op->size, here = here_of(op),
	       world = stage_world_size(op);
	const struct ddp__host *own = ddp__my_host(op->c);

	for (int h = 0; h < t->nhosts && is_leading(op); h++) {
		const struct ddp__host *host = &t->hosts[h];
		size_t n = (size_t)host->n;
		const char *from =
			(host == own ? op->all : op->third) + op->begin[h];

		for (size_t i = 0; i < here; i++)
			for (size_t j = 0; j < n; j++, from += size)
				stage_copy(op->work + (i * world +
						       (size_t)host->ranks[j]) *
							      size,
					   from, size);
	}
	return stage_deal_locally(op, op->work, world * size);
}

/* ---- barrier */

static int stage_barrier_in(struct ddp__cpu_op *op, size_t k, struct err *e)
{
	const struct ddp__path *p = local_of(op);

	if (!is_shared(op))
		return 0;
	p->transport->native.barrier(&op->local, p->collectives, op->call);
	return 1;
}

static int stage_barrier_between(struct ddp__cpu_op *op, size_t k,
				 struct err *e)
{
	ddp__schedule_barrier(&op->remote, remote_of(op), op->call);
	return 0;
}

/* ---- the table */

static const struct ddp__stages kinds[DDP__KINDS] = {
	[DDP__ALL_REDUCE] = {1, NULL, stage_all_reduce_in,
			     stage_all_reduce_between, stage_all_reduce_out,
			     NULL},
	[DDP__SHOULD_STOP] = {1, NULL, stage_all_reduce_in,
			      stage_all_reduce_between, stage_all_reduce_out,
			      NULL},
	[DDP__REDUCE] = {1, stage_reduce_start, stage_reduce_in,
			 stage_reduce_between, stage_reduce_out, NULL},
	[DDP__BROADCAST] = {1, NULL, stage_broadcast_in,
			    stage_broadcast_between, stage_broadcast_out, NULL},
	[DDP__ALL_GATHER] = {0, stage_all_gather_start, stage_all_gather_in,
			     stage_all_gather_between, stage_all_gather_out,
			     NULL},
	[DDP__GATHER] = {0, stage_gather_start, stage_gather_in,
			 stage_gather_between, stage_gather_out,
			 stage_gather_end},
	[DDP__SCATTER] = {0, stage_scatter_start, stage_scatter_in,
			  stage_scatter_between, stage_scatter_out, NULL},
	[DDP__REDUCE_SCATTER] = {0, stage_reduce_scatter_start,
				 stage_reduce_scatter_in,
				 stage_reduce_scatter_between,
				 stage_reduce_scatter_out, NULL},
	[DDP__ALL_TO_ALL] = {0, stage_all_to_all_start, stage_all_to_all_in,
			     stage_all_to_all_between, stage_all_to_all_out,
			     NULL},
	[DDP__BARRIER] = {0, NULL, stage_barrier_in, stage_barrier_between,
			  stage_barrier_in, NULL},
};

const struct ddp__stages *ddp__stages(enum ddp__kind kind)
{
	switch (kind) {
	case DDP__ALL_GATHER_V:
		return &ddp__stages_all_gather_v;
	case DDP__REDUCE_SCATTER_V:
		return &ddp__stages_reduce_scatter_v;
	case DDP__ALL_TO_ALL_V:
		return &ddp__stages_all_to_all_v;
	default:
		break;
	}
	/* a world and a group are made by gathering */
	return kinds[kind].in ? &kinds[kind] : &kinds[DDP__ALL_GATHER];
}
