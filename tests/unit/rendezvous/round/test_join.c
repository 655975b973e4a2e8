/* test_join.c: joining a job without processes: the ranks, the refusals and
 * their texts, and what a node leaves behind that goes early. */
#include "tests/unit/rendezvous/round/rounds.h"
#include "tests/unit/run_case.h"

/* ---- ranks ---- */

START_TEST(one_node_starts_at_once)
{
	struct wire_start m;

	ck_assert_int_eq(join(0, 1, (struct how){.nproc = 4}), 0);
	ck_assert_int_eq(starts, 1);
	ck_assert_int_eq(states, 0);
	ck_assert_int_eq(job_state(j), JOB_RUNNING);
	m = start_of(0);
	ck_assert_uint_eq(m.round, 0);
	ck_assert_uint_eq(m.attempt, 0);
	ck_assert_uint_eq(m.nnodes, 1);
	ck_assert_uint_eq(m.world_size, 4);
	ck_assert_uint_eq(m.master_port, 40000);
	ck_assert(!memcmp(m.master_addr.data, "10.0.0.0", 8));
}
END_TEST

START_TEST(base_ranks_are_prefix_sums_of_different_nproc)
{
	struct wire_start m;

	join(0, 3, (struct how){.nproc = 3});
	ck_assert_int_eq(states, 1);
	join(1, 3, (struct how){.nproc = 1});
	ck_assert_int_eq(states, 1);
	join(2, 3, (struct how){.nproc = 4});
	ck_assert_int_eq(starts, 1);
	has_rank(0, 0, 0);
	has_rank(1, 1, 3);
	has_rank(2, 2, 4);
	m = start_of(2);
	ck_assert_uint_eq(m.nnodes, 3);
	ck_assert_uint_eq(m.world_size, 8);
}
END_TEST

static size_t size_of_start(int nnodes)
{
	struct buf b = BUF_INIT(4096);
	struct wire_start m;
	size_t size;

	for (int i = 0; i < nnodes; i++)
		join_plain(i, (uint32_t)nnodes);
	m = start_of(0);
	wire_put_start(&b, WIRE_START, WIRE_NOTICE, 0, &m);
	size = b.len;
	buf_release(&b);
	return size;
}

START_TEST(a_start_is_as_short_in_a_large_job)
{
	size_t small = size_of_start(2);

	end();
	begin();
	ck_assert_uint_eq(size_of_start(NODES), small);
}
END_TEST

/* The nodes in the order in which they join, and in that of their ranks. */
static const struct {
	const char *title;
	struct {
		int node;
		struct how how;
	} joins[4];
	struct {
		int node;
		uint32_t base;
	} ranks[4];
} orders[] = {
	{"explicit ranks first, then the host of the server",
	 {{1, {.nproc = 2}},
	  {2, {.rank = 1 + 0}},
	  {3, {.hosts_server = 1}},
	  {0, {.rank = 1 + 3}}},
	 {{2, 0}, {3, 1}, {1, 2}, {0, 4}}},
	{"by numeric address",
	 {{0, {.addr = "fd77::1"}},
	  {1, {.addr = "10.0.0.10"}},
	  {2, {.addr = "10.0.0.9"}},
	  {3, {.addr = "9.255.0.1"}}},
	 {{3, 0}, {2, 1}, {1, 2}, {0, 3}}},
	{"of one address, by joining",
	 {{2, {.addr = "127.0.0.1"}},
	  {1, {.addr = "127.0.0.1"}},
	  {0, {.addr = "127.0.0.1"}},
	  {3, {.addr = "127.0.0.1"}}},
	 {{2, 0}, {1, 1}, {0, 2}, {3, 3}}},
};

START_TEST(nodes_have_ranks_in_a_fixed_order)
{
	for (int i = 0; i < 4; i++)
		ck_assert_msg(join(orders[_i].joins[i].node, 4,
				   orders[_i].joins[i].how) == 0,
			      "%s: %s", orders[_i].title, e.text);
	for (uint32_t rank = 0; rank < 4; rank++)
		has_rank(orders[_i].ranks[rank].node, rank,
			 orders[_i].ranks[rank].base);
}
END_TEST

/* ---- refusals ---- */

START_TEST(a_node_rank_is_given_once)
{
	join(1, 2, (struct how){.rank = 1 + 1});
	ck_assert_int_eq(join(2, 2, (struct how){.rank = 1 + 1}), ERR_REFUSED);
	ck_assert_str_eq(e.text,
			 "--node-rank 1 of job 'none' at h0:29400 is taken by "
			 "h1: give h2 another, or leave --node-rank out");
	ck_assert_int_eq(job_state(j), JOB_GATHERING);
	ck_assert_int_eq(join(2, 2, (struct how){.rank = 1 + 2}),
			 ERR_ARGUMENT);
	ck_assert_str_eq(e.text, "--node-rank 2 of h2 does not exist in a job "
				 "of 2 nodes: use 0 to 1");
	ck_assert_int_eq(join(2, 2, (struct how){.rank = 1 + 0}), 0);
	ck_assert_int_eq(starts, 1);
}
END_TEST

START_TEST(another_size_or_restarts_than_the_others_is_refused)
{
	join_plain(1, 3);
	ck_assert_int_eq(join_plain(2, 2), ERR_REFUSED);
	ck_assert_str_eq(
		e.text,
		"h2 has --nnodes 2, but h1 has 3 in job 'none' at h0:29400: "
		"give both the same value, or one of them its own --rdzv-id");
	ck_assert_int_eq(join(2, 3, (struct how){.min = 2}), ERR_REFUSED);
	ck_assert_ptr_nonnull(
		strstr(e.text, "h2 has --nnodes 2:3, but h1 has 3"));
	ck_assert_int_eq(join(2, 3, (struct how){.restarts = 1}), ERR_REFUSED);
	ck_assert_ptr_nonnull(
		strstr(e.text, "h2 has --max-restarts 1, but h1 has 0"));
	/* when the first node is gone, its options no longer bind */
	lost(1, "its connection closed");
	ck_assert_int_eq(join(2, 1, (struct how){.restarts = 1}), 0);
	ck_assert_int_eq(starts, 1);
}
END_TEST

/* Options as JOIN has them: "name value", each behind a ';'. */
static struct slice alike(const char *texts)
{
	static struct buf b = BUF_INIT(WIRE_ALIKE_MAX * 2);

	buf_reset(&b);
	while (*texts) {
		size_t n = strcspn(texts, ";"), name = strcspn(texts, " ;");
		const struct wire_option o = {
			SLICE(texts, name),
			SLICE(texts + name + (name < n),
			      n - name - (name < n))};

		wire_put_option(&b, &o);
		texts += n + (texts[n] == ';');
	}
	return SLICE(b.data, b.len);
}

/* What the first node gives, the second, and how it is refused; NULL: not. */
static const struct {
	const char *first, *second, *text;
} options[] = {
	{"--env tf;--mpi none", "--env tf;--mpi none", NULL},
	{"--env tf", "--env", "h2 has no --env, but h1 has --env tf in job "
			      "'none' at h0:29400: give all nodes the same, "
			      "or this one its own --rdzv-id"},
	{"--env", "--env jax,tf", "h2 has --env jax,tf, but h1 has no --env"},
	{"--mpi none;roles a=0 b=1-2", "--mpi none;roles a=0-1 b=2",
	 "h2 has roles a=0-1 b=2, but h1 has roles a=0 b=1-2 in job"},
	/* a node that leaves a name out does not know it */
	{"--env tf;--mpi pmi", "--env tf", NULL},
	{"--env tf", "--env tf;--mpi pmi", NULL},
	{"", "--env tf", NULL},
};

START_TEST(options_that_differ_are_refused_by_name)
{
	const char *text = options[_i].text;

	join(1, 3, (struct how){.alike = alike(options[_i].first)});
	ck_assert_int_eq(join(2, 3, (struct how){
				.alike = alike(options[_i].second)}),
			 text ? ERR_REFUSED : 0);
	if (!text)
		return;
	ck_assert_msg(!strncmp(e.text, text, strlen(text)), "%s", e.text);
	ck_assert_int_eq(join(3, 3, (struct how){
				.alike = alike(options[_i].first)}), 0);
	/* when all have left, these options no longer bind */
	lost(1, "its connection closed");
	lost(3, "its connection closed");
	ck_assert_int_eq(join(4, 3, (struct how){
				.alike = alike(options[_i].second)}), 0);
	ck_assert_int_eq(join(5, 3, (struct how){
				.alike = alike(options[_i].second)}), 0);
}
END_TEST

START_TEST(a_long_option_is_cut_where_it_is_refused)
{
	char text[2000] = "roles ", *end = text + 6;

	memset(end, 'x', sizeof(text) - 7);
	join(1, 3, (struct how){.alike = alike(text)});
	text[sizeof(text) - 2] = 'y';
	ck_assert_int_eq(join(2, 3, (struct how){.alike = alike(text)}),
			 ERR_REFUSED);
	ck_assert_ptr_nonnull(strstr(e.text, "x..., but h1 has roles xxx"));
	ck_assert_ptr_nonnull(strstr(e.text, "its own --rdzv-id"));
}
END_TEST

START_TEST(senseless_joins_are_refused)
{
	static const struct {
		uint32_t nnodes;
		struct how how;
		const char *text; /* NULL: any */
	} rows[] = {
		{0, {0}, NULL},
		{WIRE_NODES_MAX + 1, {0}, NULL},
		{2,
		 {.min = 3},
		 "--nnodes 3:2 of h1: the minimum must be from 1 to the "
		 "maximum"},
		{2,
		 {.lease = 99},
		 "a heartbeat timeout of 0.099 s on h1: it must be from 0.1 s "
		 "to a day"},
		{2, {.lease = 86400001}, NULL},
		{2, {.role = "a\nb"}, NULL},
		{2, {.nproc = 65537}, NULL},
		{2, {.rank = -4}, NULL},
		{2, {.addr = "a\033[2Jb"}, NULL},
		{2, {.alike = {"torn", 4}}, NULL},
		{2, {.alike = {"\1\0\0\0n\2\0\0\0v", 10}}, NULL},
		{2, {.alike = {"\1\0\0\0n\1\0\0\0\n", 10}}, NULL},
		{2, {.alike = {"\0\0\0\0\1\0\0\0v", 9}}, NULL},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		ck_assert_int_eq(join(1, rows[i].nnodes, rows[i].how),
				 ERR_ARGUMENT);
		if (rows[i].text)
			ck_assert_str_eq(e.text, rows[i].text);
	}
}
END_TEST

START_TEST(too_many_workers_are_refused)
{
	ck_assert_int_eq(join(1, 3, (struct how){.nproc = 65536}), 0);
	ck_assert_int_eq(join(2, 3, (struct how){.nproc = 65536}), 0);
	ck_assert_int_eq(join(3, 3, (struct how){.nproc = 1}), ERR_REFUSED);
	ck_assert_ptr_nonnull(strstr(e.text, "131073 workers"));
}
END_TEST

START_TEST(a_node_joins_once)
{
	join_plain(1, 3);
	ck_assert_int_eq(join_plain(1, 3), ERR_REFUSED);
	ck_assert_int_eq(join(2, 3, (struct how){.id = "h1"}), ERR_REFUSED);
	ck_assert_ptr_nonnull(strstr(e.text, "is in job 'none' already"));
}
END_TEST

/* ---- gathering ---- */

START_TEST(a_node_that_leaves_a_gathering_frees_its_place)
{
	join(1, 3, (struct how){.rank = 1 + 2});
	ck_assert_str_eq(state_text(), "1 of 3: node 0, node 1");
	join(2, 3, (struct how){.rank = 1 + 0});
	ck_assert_str_eq(state_text(), "2 of 3: node 1");
	lost(1, "its connection closed");
	ck_assert_int_eq(states, 1);
	ck_assert_int_eq(ends, 0);
	ck_assert_str_eq(state_text(), "1 of 3: node 1, node 2");
	ck_assert_int_eq(join(3, 3, (struct how){.rank = 1 + 2}), 0);
	leave(3, 2);
	ck_assert_int_eq(ends, 0);
	ck_assert_str_eq(state_text(), "1 of 3: node 1, node 2");
	lost(3, "its connection closed");
	ck_assert_int_eq(join_plain(4, 3), 0);
	ck_assert_str_eq(state_text(), "2 of 3: ");
	ck_assert_int_eq(join(5, 3, (struct how){.rank = 1 + 2}), 0);
	ck_assert_int_eq(starts, 1);
	has_rank(4, 1, 1);
	ck_assert(!job_is_empty(j));
}
END_TEST

/* Its connection may close much later, when others have joined. */
START_TEST(a_new_gathering_forgets_a_node_that_left)
{
	join(0, 8, (struct how){.rank = 1 + 7});
	leave(0, 2);
	ck_assert_str_eq(state_text(), "0 of 8: ");
	join(1, 1, (struct how){.rank = 1 + 0});
	ck_assert_int_eq(starts, 1);
	lost(0, "its connection closed");
	ck_assert_int_eq(ends, 0);
	ck_assert_int_eq(job_state(j), JOB_RUNNING);
	has_rank(1, 0, 0);
}
END_TEST

static void add_all(TCase *c)
{
	tcase_add_test(c, one_node_starts_at_once);
	tcase_add_test(c, base_ranks_are_prefix_sums_of_different_nproc);
	tcase_add_test(c, a_start_is_as_short_in_a_large_job);
	tcase_add_loop_test(c, nodes_have_ranks_in_a_fixed_order, 0,
			    sizeof(orders) / sizeof(*orders));
	tcase_add_test(c, a_node_rank_is_given_once);
	tcase_add_test(c, another_size_or_restarts_than_the_others_is_refused);
	tcase_add_loop_test(c, options_that_differ_are_refused_by_name, 0,
			    sizeof(options) / sizeof(*options));
	tcase_add_test(c, a_long_option_is_cut_where_it_is_refused);
	tcase_add_test(c, senseless_joins_are_refused);
	tcase_add_test(c, too_many_workers_are_refused);
	tcase_add_test(c, a_node_joins_once);
	tcase_add_test(c, a_node_that_leaves_a_gathering_frees_its_place);
	tcase_add_test(c, a_new_gathering_forgets_a_node_that_left);
}

int main(void)
{
	TCase *c = tcase_create("join");

	tcase_set_timeout(c, 30);
	tcase_add_checked_fixture(c, begin, end);
	add_all(c);
	return run_case(c);
}
