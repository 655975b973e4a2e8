/* hierarchical_all_to_all_v.c: all_to_all with a count for each pair of ranks.
 * Each leader gathers all data that its host sends, and receives all data that
 * is sent to its host. */
#include "worker-sdk/comm/hierarchical_internal.h"

/* The offsets of the blocks that rank i of this host sends; receives. */
static const size_t *row_sent(const struct ddp__cpu_op *op, int i)
{
	return op->counts->rows + 2 * ((size_t)op->c->size + 1) * (size_t)i;
}

static const size_t *row_received(const struct ddp__cpu_op *op, int i)
{
	return row_sent(op, i) + op->c->size + 1;
}

static size_t received_size(const struct ddp__cpu_op *op, int i)
{
	return row_received(op, i)[op->c->size];
}

static int all_to_all_v_start(struct ddp__cpu_op *op, struct err *e)
{
	size_t numbers = (size_t)op->c->size + 1, here = here_of(op), *row;
	const struct ddp__counts *v = counts_of(op);
	struct ddp__cpu_counts *s;
	int rc = ddp__counts_start(op, e);

	if (rc)
		return rc;
	s = op->counts;
	s->rows = ddp__numbers_new(op, 2 * numbers * here);
	if (is_leading(op)) {
		s->counts_out = ddp__numbers_new(op, numbers * here);
		s->counts_in = ddp__numbers_new(op, numbers * here);
		s->count_ranges = ddp__ranges_new(op, 0);
		s->from = ddp__ranges_new(op, 0);
		s->to = ddp__ranges_new(op, 0);
	}
	rc = ddp__numbers_check(op, e);
	if (rc)
		return rc;
	row = s->rows + 2 * numbers * (size_t)my_index(op);
	memcpy(row, v->send, numbers * sizeof(*row));
	memcpy(row + numbers, v->recv, numbers * sizeof(*row));
	return 0;
}

/* The ranks of this host exchange their counts: all of them have to know how
 * much each sends to the leader. */
static int all_to_all_v_gather_rows(struct ddp__cpu_op *op)
{
	const struct ddp__path *p = local_of(op);
	size_t size = 2 * ((size_t)op->c->size + 1) * sizeof(size_t);

	if (!is_shared(op))
		return 0;
	p->transport->native.gather(&op->local, p->collectives, op->call,
				    row_sent(op, my_index(op)), size,
				    op->counts->rows, NULL, DDP__ALL);
	return 1;
}

static int all_to_all_v_in(struct ddp__cpu_op *op, size_t k, struct err *e)
{
	const struct ddp__path *p = local_of(op);
	size_t here = here_of(op), *send = op->counts->deal, sent = 0, got = 0;
	size_t *recv = send + here + 1, elem = elem_of(op);
	int n = op->c->size, me = my_index(op);

	if (k == 0)
		return all_to_all_v_gather_rows(op);
	if (!is_shared(op) || !elem)
		return 0;
	for (int i = 0; i < (int)here; i++) {
		sent += row_sent(op, i)[n];
		got += received_size(op, i);
		send[i + 1] = row_sent(op, me)[n];
		recv[i + 1] = is_leading(op) ? sent : 0;
	}
	if (is_leading(op) &&
	    stage_allocate(&op->work, (sent > got ? sent : got) * elem, e))
		return e->code;
	p->transport->native.all_to_all_v(&op->local, p->collectives, op->call,
					  elem, op->send, send, op->work, recv);
	return 1;
}

/* The hosts exchange the counts of their ranks. */
static void all_to_all_v_exchange(struct ddp__cpu_op *op)
{
	const struct ddp__topology *t = topology_of(op);
	struct ddp__cpu_counts *s = op->counts;
	int here = (int)here_of(op), own = t->host_of[op->c->rank];
	size_t *to = s->counts_out, *ranges = s->count_ranges, at;

	for (int j = 0; j < op->c->size; j++)
		for (int i = 0; i < here; i++)
			*to++ = ddp__count_of(row_sent(op, i), t->order[j]);
	for (int h = 0; h < t->nhosts; h++)
		ranges[h + 1] = ranges[h] + sizeof(size_t) * (size_t)here *
						    (size_t)t->hosts[h].n;
	at = ranges[own] / sizeof(size_t);
	memcpy(s->counts_in + at, s->counts_out + at,
	       ranges[own + 1] - ranges[own]);
	ddp__schedule_all_to_all(&op->remote, remote_of(op), op->call,
				 s->counts_out, ranges, s->counts_in, ranges);
}

/* Compares the counts that are sent to ranks of this host with those that they
 * expect. */
static int all_to_all_v_check(const struct ddp__cpu_op *op, struct err *e)
{
	const struct ddp__topology *t = topology_of(op);
	const struct ddp__host *own = ddp__my_host(op->c);
	const size_t *sent = op->counts->counts_in;

	for (int h = 0; h < t->nhosts; h++)
		for (int i = 0; i < own->n; i++)
			for (int j = 0; j < t->hosts[h].n; j++, sent++) {
				int from = t->hosts[h].ranks[j];
				size_t expected = ddp__count_of(
					row_received(op, i), from);

				if (*sent != expected)
					return ddp__counts_mismatch(
						op->call, &op->c->peers, from,
						*sent, own->ranks[i], expected,
						e);
			}
	return 0;
}

/* The ranges of the data to and from each host. */
static void all_to_all_v_ranges(struct ddp__cpu_op *op)
{
	const struct ddp__topology *t = topology_of(op);
	struct ddp__cpu_counts *s = op->counts;
	size_t elem = elem_of(op);

	for (int h = 0; h < t->nhosts; h++) {
		s->from[h + 1] = s->from[h];
		s->to[h + 1] = s->to[h];
		for (int i = 0; i < (int)here_of(op); i++)
			for (int j = 0; j < t->hosts[h].n; j++) {
				int r = t->hosts[h].ranks[j];

				s->from[h + 1] +=
					ddp__count_of(row_sent(op, i), r) *
					elem;
				s->to[h + 1] +=
					ddp__count_of(row_received(op, i), r) *
					elem;
			}
	}
}

/* all: [to rank in host order][my rank i], from work: [my rank i][to rank]. */
static void all_to_all_v_pack(struct ddp__cpu_op *op)
{
	const struct ddp__topology *t = topology_of(op);
	const char *from = op->work ? op->work : op->send;
	size_t elem = elem_of(op);
	char *to = op->all;

	for (int j = 0; j < op->c->size && elem; j++) {
		const char *rows = from;

		for (int i = 0; i < (int)here_of(op); i++) {
			const size_t *row = row_sent(op, i);
			size_t size = ddp__count_of(row, t->order[j]) * elem;

			stage_copy(to, rows + row[t->order[j]] * elem, size);
			to += size;
			rows += row[op->c->size] * elem;
		}
	}
}

/* out: [to my rank i][from rank], from third: from each host [to my rank
 * i][from its rank j]; this host's own blocks are still in all. */
static void all_to_all_v_unpack(struct ddp__cpu_op *op, char *out)
{
	const struct ddp__topology *t = topology_of(op);
	const struct ddp__host *own = ddp__my_host(op->c);
	size_t elem = elem_of(op);

	for (int h = 0; h < t->nhosts && elem; h++) {
		const struct ddp__host *host = &t->hosts[h];
		const char *from = host == own ? op->all + op->counts->from[h]
					       : op->third + op->counts->to[h];
		char *rows = out;

		for (int i = 0; i < own->n; i++) {
			const size_t *row = row_received(op, i);

			for (int j = 0; j < host->n; j++) {
				int r = host->ranks[j];
				size_t size = ddp__count_of(row, r) * elem;

				stage_copy(rows + row[r] * elem, from, size);
				from += size;
			}
			rows += row[op->c->size] * elem;
		}
	}
}

static int all_to_all_v_between(struct ddp__cpu_op *op, size_t k, struct err *e)
{
	const struct ddp__cpu_counts *s = op->counts;
	int nhosts = topology_of(op)->nhosts, rc;

	if (k == 0) {
		all_to_all_v_exchange(op);
		return 0;
	}
	rc = all_to_all_v_check(op, e);
	if (rc)
		return rc;
	all_to_all_v_ranges(op);
	rc = stage_allocate(&op->all, s->from[nhosts], e);
	if (!rc)
		rc = stage_allocate(&op->third, s->to[nhosts], e);
	if (rc)
		return rc;
	all_to_all_v_pack(op);
	ddp__schedule_all_to_all(&op->remote, remote_of(op), op->call, op->all,
				 s->from, op->third, s->to);
	return 0;
}

static int all_to_all_v_out(struct ddp__cpu_op *op, size_t k, struct err *e)
{
	char *out = is_shared(op) ? op->work : op->recv;

	if (k == 0)
		return 0;
	if (is_leading(op))
		all_to_all_v_unpack(op, out);
	return ddp__deal_blocks(op, out, received_size);
}

const struct ddp__stages ddp__stages_all_to_all_v = {
	0, all_to_all_v_start, all_to_all_v_in, all_to_all_v_between,
	all_to_all_v_out, NULL, 1, ddp__counts_release};
