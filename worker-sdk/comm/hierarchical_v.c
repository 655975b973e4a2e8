/* hierarchical_v.c: all_gather and reduce_scatter with a count for each rank,
 * stage by stage, and what they share with all_to_all. Segment 0 compares the
 * counts, segment 1 moves the data: a leader sends data to other hosts only
 * once it knows that all counts that concern it match. */
#include "worker-sdk/comm/hierarchical_internal.h"

size_t *ddp__numbers_new(struct ddp__cpu_op *op, size_t n)
{
	struct ddp__cpu_counts *s = op->counts;
	size_t *p = calloc(n, sizeof(*p));

	s->has_failed |= !p;
	s->owned[s->n++] = p;
	return p;
}

int ddp__numbers_check(const struct ddp__cpu_op *op, struct err *e)
{
	return op->counts->has_failed
		       ? err_no_memory(e, "the counts of %d ranks", op->c->size)
		       : 0;
}

size_t *ddp__ranges_new(struct ddp__cpu_op *op, size_t each)
{
	int n = topology_of(op)->nhosts;
	size_t *ranges = ddp__numbers_new(op, (size_t)n + 1);

	if (!ranges)
		return NULL;
	for (int h = 0; h <= n; h++)
		ranges[h] = (size_t)h * each;
	return ranges;
}

void ddp__counts_release(struct ddp__cpu_op *op)
{
	struct ddp__cpu_counts *s = op->counts;

	while (s && s->n)
		free(s->owned[--s->n]);
	free(s);
	op->counts = NULL;
}

int ddp__counts_start(struct ddp__cpu_op *op, struct err *e)
{
	op->counts = calloc(1, sizeof(*op->counts));
	if (!op->counts)
		return err_no_memory(e, "counts");
	op->counts->deal = ddp__numbers_new(op, 2 * (here_of(op) + 1));
	return ddp__numbers_check(op, e);
}

int ddp__deal_blocks(struct ddp__cpu_op *op, const char *blocks,
		     size_t (*size_of)(const struct ddp__cpu_op *op, int i))
{
	const struct ddp__path *p = local_of(op);
	size_t here = here_of(op), *send = op->counts->deal;
	size_t *recv = send + here + 1, own = size_of(op, my_index(op));

	if (!is_shared(op)) {
		stage_copy(op->recv, blocks, own * elem_of(op));
		return 0;
	}
	for (size_t i = 0; i < here; i++) {
		send[i + 1] = is_leading(op) ? send[i] + size_of(op, (int)i)
					     : 0;
		recv[i + 1] = own;
	}
	p->transport->native.all_to_all_v(&op->local, p->collectives, op->call,
					  elem_of(op), blocks, send, op->recv,
					  recv);
	return 1;
}

/* ---- the same counts on all ranks */

/* data_ranges: of the hosts' blocks in host order, in elements times unit. */
static int same_counts_start(struct ddp__cpu_op *op, size_t unit, struct err *e)
{
	const struct ddp__topology *t = topology_of(op);
	const struct ddp__counts *v = counts_of(op);
	struct ddp__cpu_counts *s;
	int rc = ddp__counts_start(op, e);

	if (rc || !is_leading(op))
		return rc;
	s = op->counts;
	s->digests = ddp__numbers_new(op, (size_t)t->nhosts);
	s->digest_ranges = ddp__ranges_new(op, sizeof(*s->digests));
	s->data_ranges = ddp__ranges_new(op, 0);
	rc = ddp__numbers_check(op, e);
	for (int h = 0; h < t->nhosts && !rc && !v->compare_only; h++) {
		size_t *end = &s->data_ranges[h + 1];

		*end = end[-1];
		for (int j = 0; j < t->hosts[h].n; j++)
			*end += ddp__count_of(v->recv, t->hosts[h].ranks[j]) *
				unit;
	}
	return rc;
}

/* Compares within the host. */
static int same_counts_in(struct ddp__cpu_op *op)
{
	const struct ddp__path *p = local_of(op);

	if (!is_shared(op))
		return 0;
	p->transport->native.all_gather_v(&op->local, p->collectives, op->call,
					  counts_of(op), 0, NULL, NULL,
					  ddp__my_host(op->c)->ranks);
	return 1;
}

/* Exchanges digests. */
static int same_counts_between(struct ddp__cpu_op *op)
{
	struct ddp__cpu_counts *s = op->counts;
	int own = topology_of(op)->host_of[op->c->rank];

	s->digests[own] = counts_of(op)->digest;
	ddp__schedule_all_gather(&op->remote, remote_of(op), op->call,
				 s->digests, s->digest_ranges);
	return 0;
}

/* 0: all digests are the same. 1: they are not, as all leaders see, and instead
 * of the data the leaders exchange their counts. */
static int same_counts_exchange(struct ddp__cpu_op *op, struct err *e)
{
	const struct ddp__topology *t = topology_of(op);
	const struct ddp__counts *v = counts_of(op);
	struct ddp__cpu_counts *s = op->counts;
	size_t row = (size_t)v->n + 1;
	int own = t->host_of[op->c->rank], h = 0, rc;

	while (h < t->nhosts && s->digests[h] == v->digest)
		h++;
	if (h == t->nhosts)
		return 0;
	s->numbers = ddp__numbers_new(op, row * (size_t)t->nhosts);
	s->number_ranges = ddp__ranges_new(op, row * sizeof(size_t));
	rc = ddp__numbers_check(op, e);
	if (rc)
		return rc;
	memcpy(s->numbers + (size_t)own * row, v->recv, row * sizeof(size_t));
	ddp__schedule_all_gather(&op->remote, remote_of(op), op->call,
				 s->numbers, s->number_ranges);
	return 1;
}

/* The leaders have exchanged their counts: the error, the same on all. */
static int same_counts_differ(struct ddp__cpu_op *op, struct err *e)
{
	const struct ddp__topology *t = topology_of(op);
	const struct ddp__cpu_counts *s = op->counts;
	size_t row = (size_t)counts_of(op)->n + 1;
	int h = 1;

	while (h < t->nhosts - 1 && s->digests[h] == s->digests[0])
		h++;
	return ddp__counts_differ(op->call, &op->c->peers,
				  t->hosts[0].ranks[0], s->numbers,
				  t->hosts[h].ranks[0],
				  s->numbers + (size_t)h * row,
				  counts_of(op)->n, e);
}

/* Copies blocks from rank order to host order, or back. */
static void all_gather_v_order(const struct ddp__cpu_op *op, char *by_host,
			 char *by_rank, int to_ranks)
{
	const struct ddp__topology *t = topology_of(op);
	const size_t *begin = counts_of(op)->recv;

	for (int i = 0; i < t->world_size; i++) {
		int r = t->order[i];
		size_t size = stage_bytes(op, ddp__count_of(begin, r));
		char *block = by_rank + stage_bytes(op, begin[r]);

		if (to_ranks)
			stage_copy(block, by_host, size);
		else
			stage_copy(by_host, block, size);
		by_host += size;
	}
}

static size_t all_gather_v_bytes(const struct ddp__cpu_op *op)
{
	return counts_of(op)->recv[op->c->size] * elem_of(op);
}

/* ---- all_gather_v: in the leader's recv, in host order between hosts */

static int all_gather_v_start(struct ddp__cpu_op *op, struct err *e)
{
	int rc = same_counts_start(op, elem_of(op), e);

	if (rc || !is_leading(op) || topology_of(op)->in_order || !elem_of(op))
		return rc;
	return stage_allocate(&op->work, all_gather_v_bytes(op), e);
}

static int all_gather_v_in(struct ddp__cpu_op *op, size_t k, struct err *e)
{
	const struct ddp__path *p = local_of(op);
	const struct ddp__counts *v = counts_of(op);
	size_t elem = elem_of(op);
	int me = op->c->rank;

	if (k == 0)
		return same_counts_in(op);
	if (!elem)
		return 0;
	if (!is_shared(op)) {
		stage_copy(op->recv + v->recv[me] * elem, op->send,
			   ddp__count_of(v->recv, me) * elem);
		return 0;
	}
	p->transport->native.all_gather_v(&op->local, p->collectives, op->call,
					  v, elem, op->send,
					  is_leading(op) ? op->recv : NULL,
					  ddp__my_host(op->c)->ranks);
	return 1;
}

static int all_gather_v_between(struct ddp__cpu_op *op, size_t k, struct err *e)
{
	int rc = k == 0 ? same_counts_between(op) : same_counts_exchange(op, e);

	if (k == 0 || rc)
		return rc < 0 ? rc : 0;
	if (op->work)
		all_gather_v_order(op, op->work, op->recv, 0);
	ddp__schedule_all_gather(&op->remote, remote_of(op), op->call,
				 op->work ? op->work : op->recv,
				 op->counts->data_ranges);
	return 0;
}

static int all_gather_v_out(struct ddp__cpu_op *op, size_t k, struct err *e)
{
	if (k == 0)
		return 0;
	if (op->counts->numbers)
		return same_counts_differ(op, e);
	if (op->work)
		all_gather_v_order(op, op->work, op->recv, 1);
	return stage_pass_on(op, op->recv, op->recv, all_gather_v_bytes(op));
}

/* ---- reduce_scatter_v: each leader reduces the whole buffer of its host */

static int reduce_scatter_v_start(struct ddp__cpu_op *op, struct err *e)
{
	int rc = same_counts_start(op, 1, e);

	if (rc || !is_leading(op) || !elem_of(op))
		return rc;
	rc = stage_allocate(&op->work, all_gather_v_bytes(op), e);
	if (!rc && !topology_of(op)->in_order)
		rc = stage_allocate(&op->all, all_gather_v_bytes(op), e);
	return rc;
}

static int reduce_scatter_v_in(struct ddp__cpu_op *op, size_t k, struct err *e)
{
	if (k == 0)
		return same_counts_in(op);
	if (!elem_of(op))
		return 0;
	return local_reduce(op, op->send, op->work,
			    counts_of(op)->recv[op->c->size]);
}

static int reduce_scatter_v_between(struct ddp__cpu_op *op, size_t k,
				    struct err *e)
{
	int rc = k == 0 ? same_counts_between(op) : same_counts_exchange(op, e);

	if (k == 0 || rc)
		return rc < 0 ? rc : 0;
	if (op->all)
		all_gather_v_order(op, op->all, op->work, 0);
	ddp__schedule_reduce_scatter(&op->remote, remote_of(op), op->call,
				     op->all ? op->all : op->work,
				     op->counts->data_ranges, op->c->size);
	return 0;
}

static size_t reduce_scatter_v_size(const struct ddp__cpu_op *op, int i)
{
	return ddp__count_of(counts_of(op)->recv,
			     ddp__my_host(op->c)->ranks[i]);
}

static int reduce_scatter_v_out(struct ddp__cpu_op *op, size_t k, struct err *e)
{
	int own = topology_of(op)->host_of[op->c->rank];
	char *all = op->all ? op->all : op->work;

	if (k == 0)
		return 0;
	if (op->counts->numbers)
		return same_counts_differ(op, e);
	return ddp__deal_blocks(
		op,
		all ? all + stage_bytes(op, op->counts->data_ranges[own])
		    : NULL,
		reduce_scatter_v_size);
}

/* ---- the stages */

const struct ddp__stages ddp__stages_all_gather_v = {
	0, all_gather_v_start, all_gather_v_in, all_gather_v_between,
	all_gather_v_out, NULL, 1, ddp__counts_release};

const struct ddp__stages ddp__stages_reduce_scatter_v = {
	0, reduce_scatter_v_start, reduce_scatter_v_in,
	reduce_scatter_v_between, reduce_scatter_v_out, NULL, 1,
	ddp__counts_release};
