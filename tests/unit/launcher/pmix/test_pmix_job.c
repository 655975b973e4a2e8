/* test_pmix_job.c: what nodes learn about each other, and its texts. */
#include <check.h>
#include <stdio.h>
#include <string.h>

#include "launcher/pmix/pmix_job.h"
#include "tests/unit/run_case.h"

enum { NODES = 3 };

static const struct {
	uint32_t nproc;
	const char *host, *name;
} nodes[NODES] = {{2, "a", "first"}, {1, "b", "other"}, {3, "a", "third"}};

/* As node 1. */
static struct pmix_job a_job(void)
{
	struct pmix_job j = {.base_rank = 2, .nproc = 1, .world_size = 6,
			     .node_rank = 1, .nnodes = NODES, .restarts = 4,
			     .folder = "/f", .name = "other"};

	return j;
}

static int learn(struct pmix_job *j, uint32_t torn, struct err *e)
{
	struct buf parts[NODES];
	struct slice all[NODES];
	int rc;

	for (uint32_t i = 0; i < NODES; i++) {
		struct pmix_job one = {.nproc = nodes[i].nproc};

		snprintf(one.name, sizeof(one.name), "%s", nodes[i].name);
		buf_init(&parts[i], 100);
		pmix_job_put_node(&parts[i], &one, nodes[i].host);
		all[i] = SLICE(parts[i].data, parts[i].len);
		/* the name of the world is read from the first one only */
		if (i == torn)
			all[i].len -= strlen(nodes[i].name) + 5;
	}
	rc = pmix_job_learn(j, all, e);
	for (uint32_t i = 0; i < NODES; i++)
		buf_release(&parts[i]);
	return rc;
}

static void is_text(struct buf *b, const char *text)
{
	buf_put_u8(b, 0);
	ck_assert_str_eq(b->data, text);
	buf_release(b);
}

START_TEST(a_program_has_a_first_rank_and_a_size)
{
	uint32_t apps[] = {0, 0, 1, 1, 1, 2}, first, size;
	static const uint32_t want[6][2] = {{0, 2}, {0, 2}, {2, 3},
					    {2, 3}, {2, 3}, {5, 1}};
	struct pmix_job j = {.world_size = 6};

	for (uint32_t rank = 0; rank < 6; rank++) {
		j.apps = NULL;
		ck_assert_uint_eq(pmix_job_app(&j, rank, &first, &size), 0);
		ck_assert_uint_eq(first, 0);
		ck_assert_uint_eq(size, 6);
		j.apps = apps;
		ck_assert_uint_eq(pmix_job_app(&j, rank, &first, &size),
				  apps[rank]);
		ck_assert_uint_eq(first, want[rank][0]);
		ck_assert_uint_eq(size, want[rank][1]);
	}
}
END_TEST

START_TEST(all_nodes_learn_the_same_and_take_node_0s_name)
{
	struct pmix_job j = a_job();
	struct buf b = BUF_INIT(100);
	char name[16];

	ck_assert_int_eq(learn(&j, NODES, NULL), 0);
	ck_assert_str_eq(j.name, "first");
	/* two ddpruns on one host are two nodes */
	ck_assert_str_eq(j.nodes, "a,b,a-node2");
	pmix_job_put_procs(&j, &b);
	is_text(&b, "0,1;2;3,4,5");
	pmix_job_put_peers(&j, 2, &b);
	is_text(&b, "3,4,5");
	ck_assert_uint_eq(pmix_job_node_of(&j, 0), 0);
	ck_assert_uint_eq(pmix_job_node_of(&j, 2), 1);
	ck_assert_uint_eq(pmix_job_node_of(&j, 5), 2);
	ck_assert_uint_eq(pmix_job_node_of(&j, 6), NODES);
	ck_assert_int_eq(pmix_job_node_name(&j, 0, name, sizeof(name)), 1);
	ck_assert_str_eq(name, "a");
	ck_assert_int_eq(pmix_job_node_name(&j, 2, name, sizeof(name)), 1);
	ck_assert_str_eq(name, "a-node2");
	ck_assert_int_eq(pmix_job_node_name(&j, 2, name, 7), 0);
	pmix_job_release(&j);
}
END_TEST

START_TEST(a_torn_part_names_its_node)
{
	struct pmix_job j = a_job();
	struct err e = ERR_INIT;

	ck_assert_int_eq(learn(&j, 2, &e), ERR_PROTOCOL);
	ck_assert_ptr_nonnull(strstr(e.text, "node 2's part"));
	pmix_job_release(&j);
}
END_TEST

/* One of 4 billion ranks would keep the helper busy for a minute, and then
 * write behind its table of ranks. */
START_TEST(a_node_with_more_or_fewer_ranks_than_the_world_is_refused)
{
	static const struct {
		uint32_t ranks[NODES], world, base, nproc;
		const char *text;
	} cases[] = {
		{{2, 1, UINT32_MAX}, 6, 2, 1, "node 2 has 4294967295 ranks"},
		{{UINT32_MAX, 1, 6}, 6, 2, 1, "node 0 has 4294967295 ranks"},
		{{2, 1, 4}, 6, 2, 1, "node 2 has 4 ranks"},
		{{2, 1, 0}, 6, 2, 1, "node 2 has 0 ranks"},
		{{2, 1, 2}, 6, 2, 1, "the world's 6 ranks"},
		{{1, 1, 4}, 6, 2, 1, "ranks 2 to 2 on node 1"},
		{{2, 2, 2}, 6, 2, 1, "ranks 2 to 2 on node 1"},
		{{2, 1, 3}, 6, 2, 1, NULL},
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(*cases); i++) {
		struct pmix_job j = {
			.base_rank = cases[i].base, .nproc = cases[i].nproc,
			.world_size = cases[i].world, .node_rank = 1,
			.nnodes = NODES};
		struct slice all[NODES];
		struct buf parts[NODES];
		struct err e = ERR_INIT;
		int rc;

		for (uint32_t n = 0; n < NODES; n++) {
			struct pmix_job one = {.nproc = cases[i].ranks[n],
					       .name = "j"};

			buf_init(&parts[n], 100);
			pmix_job_put_node(&parts[n], &one, "h");
			all[n] = SLICE(parts[n].data, parts[n].len);
		}
		rc = pmix_job_learn(&j, all, &e);
		ck_assert_int_eq(rc, cases[i].text ? ERR_PROTOCOL : 0);
		if (cases[i].text)
			ck_assert_ptr_nonnull(strstr(e.text, cases[i].text));
		for (uint32_t n = 0; n < NODES; n++)
			buf_release(&parts[n]);
		pmix_job_release(&j);
	}
}
END_TEST

START_TEST(a_job_arrives_as_it_was_sent)
{
	struct pmix_job j = a_job(), other;
	struct buf b = BUF_INIT(1000);
	struct err e = ERR_INIT;

	ck_assert_int_eq(learn(&j, NODES, NULL), 0);
	pmix_job_put(&b, &j);
	ck_assert_int_eq(pmix_job_get(&other, SLICE(b.data, b.len), &e), 0);
	ck_assert_str_eq(other.name, "first");
	ck_assert_str_eq(other.folder, "/f");
	ck_assert_str_eq(other.nodes, j.nodes);
	ck_assert_uint_eq(other.base_rank, 2);
	ck_assert_uint_eq(other.nproc, 1);
	ck_assert_uint_eq(other.world_size, 6);
	ck_assert_uint_eq(other.node_rank, 1);
	ck_assert_uint_eq(other.restarts, 4);
	ck_assert_uint_eq(other.nnodes, NODES);
	ck_assert_mem_eq(other.ranks, j.ranks, NODES * sizeof(*j.ranks));
	pmix_job_release(&other);
	for (size_t n = 0; n < b.len; n++)
		ck_assert_int_eq(pmix_job_get(&other, SLICE(b.data, n), &e),
				 ERR_PROTOCOL);
	buf_release(&b);
	pmix_job_release(&j);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("pmix_job");

	tcase_add_test(c, a_program_has_a_first_rank_and_a_size);
	tcase_add_test(c, all_nodes_learn_the_same_and_take_node_0s_name);
	tcase_add_test(c, a_torn_part_names_its_node);
	tcase_add_test(c,
		a_node_with_more_or_fewer_ranks_than_the_world_is_refused);
	tcase_add_test(c, a_job_arrives_as_it_was_sent);
	return run_case(c);
}
