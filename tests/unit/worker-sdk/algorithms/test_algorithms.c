/* test_algorithms.c: the result of each collective among hosts' leaders, over
 * tcp, with hosts that have unequal shares. */
#include "tests/unit/run_case.h"
#include "tests/unit/worker-sdk/tcp/tcp_group.h"

/* A run of calls by one host of a job. */
struct run {
	struct ddp__tcp t;
	size_t count; /* elements per block, if there are blocks */
	size_t begin[HOSTS_MAX + 1], bytes[HOSTS_MAX + 1];
	int32_t *v, *w;
	struct ddp__call call;
	struct ddp__schedule op;
	struct err e;
};

static void next_call(struct run *r, enum ddp__kind kind)
{
	r->call.kind = kind;
	r->call.type = DDP_I32;
	r->call.op = DDP_SUM;
	r->call.count = r->count;
	r->call.number++;
}

/* Host h has count + h elements, host 1 none. */
static int start_run(struct run *r, size_t count)
{
	size_t all = 0;
	int n = r->t.n;

	r->count = count;
	for (int h = 0; h <= n; h++) {
		r->begin[h] = all;
		r->bytes[h] = all * 4;
		if (h < n)
			all += h == 1 ? 0 : count + (size_t)h;
	}
	r->v = malloc(all * 4 + 4);
	r->w = malloc(all * 4 * (size_t)n + 4);
	return r->v && r->w;
}

static int32_t value(int host, size_t i)
{
	return (int32_t)((size_t)(host + 1) * (i % 1000 + 1));
}

static void fill(struct run *r, size_t n)
{
	for (size_t i = 0; i < n; i++)
		r->v[i] = value(r->t.me, i);
}

static int is_sum(const struct run *r, size_t from, size_t to)
{
	int n = r->t.n;

	for (size_t i = from; i < to; i++)
		if (r->v[i] != n * (n + 1) / 2 * (int32_t)(i % 1000 + 1))
			return 0;
	return 1;
}

static int all_reduce_right(struct run *r)
{
	fill(r, r->count);
	next_call(r, DDP__ALL_REDUCE);
	ddp__schedule_all_reduce(&r->op, tcp_path(&r->t), &r->call, r->v,
				 r->count, 1);
	return !ddp__schedule_run(&r->op, &r->e) && is_sum(r, 0, r->count);
}

static int reduce_right(struct run *r)
{
	int root = r->t.n - 1;

	fill(r, r->count);
	next_call(r, DDP__REDUCE);
	ddp__schedule_reduce(&r->op, tcp_path(&r->t), &r->call, r->v, r->count,
			     root, 1);
	return !ddp__schedule_run(&r->op, &r->e) &&
	       (r->t.me != root || is_sum(r, 0, r->count));
}

static int reduce_scatter_right(struct run *r)
{
	fill(r, r->begin[r->t.n]);
	next_call(r, DDP__REDUCE_SCATTER);
	ddp__schedule_reduce_scatter(&r->op, tcp_path(&r->t), &r->call, r->v,
				     r->begin, 1);
	return !ddp__schedule_run(&r->op, &r->e) &&
	       is_sum(r, r->begin[r->t.me], r->begin[r->t.me + 1]);
}

static int is_gathered(const struct run *r, const int32_t *all)
{
	for (int h = 0; h < r->t.n; h++)
		for (size_t i = r->begin[h]; i < r->begin[h + 1]; i++)
			if (all[i] != value(h, i))
				return 0;
	return 1;
}

static int all_gather_right(struct run *r)
{
	fill(r, r->begin[r->t.n]);
	next_call(r, DDP__ALL_GATHER);
	ddp__schedule_all_gather(&r->op, tcp_path(&r->t), &r->call, r->v,
				 r->bytes);
	return !ddp__schedule_run(&r->op, &r->e) && is_gathered(r, r->v);
}

static int gather_right(struct run *r)
{
	int root = r->t.n / 2;

	fill(r, r->begin[r->t.n]);
	next_call(r, DDP__GATHER);
	ddp__schedule_gather(&r->op, tcp_path(&r->t), &r->call,
			     r->v + r->begin[r->t.me],
			     r->t.me == root ? r->v : NULL, r->bytes, root);
	return !ddp__schedule_run(&r->op, &r->e) &&
	       (r->t.me != root || is_gathered(r, r->v));
}

static int scatter_right(struct run *r)
{
	int root = r->t.n / 2, me = r->t.me;
	size_t own = r->begin[me + 1] - r->begin[me];

	fill(r, r->begin[r->t.n]);
	next_call(r, DDP__SCATTER);
	ddp__schedule_scatter(&r->op, tcp_path(&r->t), &r->call,
			      me == root ? r->v : NULL, r->w, r->bytes, root);
	if (ddp__schedule_run(&r->op, &r->e))
		return 0;
	for (size_t i = 0; me != root && i < own; i++)
		if (r->w[i] != value(root, r->begin[me] + i))
			return 0;
	return 1;
}

static int broadcast_right(struct run *r)
{
	fill(r, r->count);
	next_call(r, DDP__BROADCAST);
	ddp__schedule_broadcast(&r->op, tcp_path(&r->t), &r->call, r->v,
				r->count * 4, 1);
	if (ddp__schedule_run(&r->op, &r->e))
		return 0;
	for (size_t i = 0; i < r->count; i++)
		if (r->v[i] != value(1, i))
			return 0;
	return 1;
}

/* Each host sends host h the block that gather has for h: the receive blocks
 * are as large as this host's. */
static int all_to_all_right(struct run *r)
{
	int me = r->t.me;
	size_t own = r->begin[me + 1] - r->begin[me], to[HOSTS_MAX + 1];

	for (int h = 0; h <= r->t.n; h++)
		to[h] = (size_t)h * own * 4;
	fill(r, r->begin[r->t.n]);
	next_call(r, DDP__ALL_TO_ALL);
	ddp__schedule_all_to_all(&r->op, tcp_path(&r->t), &r->call, r->v,
				 r->bytes, r->w, to);
	if (ddp__schedule_run(&r->op, &r->e))
		return 0;
	for (int h = 0; h < r->t.n; h++)
		for (size_t i = 0; h != me && i < own; i++)
			if (r->w[(size_t)h * own + i] !=
			    value(h, r->begin[me] + i))
				return 0;
	return 1;
}

static int barrier_right(struct run *r)
{
	next_call(r, DDP__BARRIER);
	ddp__schedule_barrier(&r->op, tcp_path(&r->t), &r->call);
	return !ddp__schedule_run(&r->op, &r->e);
}

static int all_sizes(int me, void *arg)
{
	static const size_t sizes[] = {0, 1, 5, 1000, 5000, 100003, 900000};
	static int (*const right[])(struct run * r) = {
		all_reduce_right, reduce_right,	    reduce_scatter_right,
		all_gather_right, gather_right,	    scatter_right,
		broadcast_right,  all_to_all_right, barrier_right};
	struct run r = {.e = ERR_INIT};

	if (join(&r.t, arg, me))
		return 1;
	for (int i = 0; i < 7; i++) {
		if (!start_run(&r, sizes[i]))
			return 2;
		for (int k = 0; k < 9; k++)
			if (!right[k](&r)) {
				fprintf(stderr, "host %d: %zu, %d: %s\n", me,
					sizes[i], k, r.e.text);
				return 10 * (k + 1) + i;
			}
		free(r.v);
		free(r.w);
	}
	ddp__tcp_close(&r.t);
	return 0;
}

/* n hosts with that many sockets per pair */
START_TEST(collectives)
{
	static const int hosts[] = {2, 3, 4, 5, 7};
	static const int rails[] = {1, 3, 1, 2, 1};
	struct group g = make(hosts[_i]);

	g.rails = rails[_i];
	run_forked(g.n, all_sizes, &g);
	done_with(&g);
}
END_TEST

/* Two operations on two groups of the same hosts, advanced in turn. */
static int two_at_once(int me, void *arg)
{
	enum { COUNT = 500000 };
	struct group *g = arg;
	struct ddp__call call = {DDP__ALL_REDUCE, DDP_I32, DDP_SUM, 0,
				 COUNT,		  1};
	struct err e = ERR_INIT;
	struct ddp__tcp t[2];
	struct ddp__schedule op[2];
	int32_t *v[2];
	int ended[2] = {0, 0};

	for (int i = 0; i < 2; i++) {
		if (join(&t[i], &g[i], me))
			return 1;
		v[i] = malloc(COUNT * sizeof(int32_t));
		for (int k = 0; k < COUNT; k++)
			v[i][k] = k * (i + 1);
		ddp__schedule_all_reduce(&op[i], tcp_path(&t[i]), &call, v[i],
					 COUNT, 1);
	}
	while (!ended[0] || !ended[1])
		for (int i = me & 1, k = 0; k < 2; i ^= 1, k++) {
			int rc = ended[i] ? 1
					  : ddp__schedule_advance(&op[i], &e);

			if (rc < 0)
				return 2;
			ended[i] = rc;
		}
	for (int i = 0; i < 2; i++) {
		for (int k = 0; k < COUNT; k++)
			if (v[i][k] != 3 * k * (i + 1))
				return 3;
		ddp__schedule_release(&op[i]);
		ddp__tcp_close(&t[i]);
		free(v[i]);
	}
	return 0;
}

START_TEST(operations_of_two_groups_progress_in_turn)
{
	struct group g[2] = {make(3), make(3)};

	run_forked(3, two_at_once, g);
	done_with(&g[0]);
	done_with(&g[1]);
}
END_TEST

/* Sums that depend on their order; with two NaNs the result even depends on
 * which one is first. The few bytes of more than four hosts are added by
 * doubling, by both hosts of each pair. */
static int same_bits(int me, void *arg)
{
	enum { COUNT = 100 };
	struct group *g = arg;
	struct ddp__call call = {DDP__ALL_REDUCE, DDP_F32, DDP_SUM, 0,
				 COUNT,		  1};
	struct ddp__call gather = {DDP__ALL_GATHER, DDP_F32, DDP_SUM, 0,
				   COUNT,	    2};
	size_t bytes[HOSTS_MAX + 1];
	float all[HOSTS_MAX][COUNT], *mine = all[me];
	struct err e = ERR_INIT;
	struct ddp__schedule op;
	struct ddp__tcp t;

	if (join(&t, g, me))
		return 1;
	for (int k = 0; k < COUNT; k++) {
		uint32_t nan = 0x7fc00001u + (uint32_t)me;

		mine[k] = 1.0f / (float)(3 * k + 7 + me * me);
		if (k % 3 == 0)
			memcpy(&mine[k], &nan, sizeof(nan));
	}
	ddp__schedule_all_reduce(&op, tcp_path(&t), &call, mine, COUNT, 1);
	if (ddp__schedule_run(&op, &e))
		return 2;
	ddp__schedule_release(&op);
	for (int h = 0; h <= g->n; h++)
		bytes[h] = (size_t)h * sizeof(all[0]);
	ddp__schedule_all_gather(&op, tcp_path(&t), &gather, all, bytes);
	if (ddp__schedule_run(&op, &e))
		return 3;
	ddp__schedule_release(&op);
	ddp__tcp_close(&t);
	for (int h = 0; h < g->n; h++)
		if (memcmp(all[h], all[0], sizeof(all[0])))
			return 10 + h;
	return 0;
}

START_TEST(sums_of_many_hosts_are_the_same_bits_on_all)
{
	run_group(5 + _i, same_bits);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("algorithms");

	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, collectives, 0, 5);
	tcase_add_test(tc, operations_of_two_groups_progress_in_turn);
	tcase_add_loop_test(tc, sums_of_many_hosts_are_the_same_bits_on_all, 0,
			    3);
	return run_case(tc);
}
