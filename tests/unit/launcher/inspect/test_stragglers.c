/* test_stragglers.c: finds the ranks that have not reached the call that others
 * wait in. */
#include <check.h>
#include <stdlib.h>

#include "launcher/inspect/stragglers.h"
#include "tests/unit/run_case.h"

static struct dump_node nodes[2];
static struct dump_query query;
static struct buf items[2], out;

static void start(void)
{
	static char h1[] = "h1", h2[] = "h2";

	nodes[0] = (struct dump_node){.node_rank = 0, .host = h1};
	nodes[1] = (struct dump_node){.node_rank = 1, .host = h2};
	query = (struct dump_query){.nodes = nodes, .n = 2};
	for (int i = 0; i < 2; i++) {
		buf_release(&items[i]);
		buf_init(&items[i], 1 << 20);
	}
	buf_release(&out);
	buf_init(&out, 1 << 20);
}

static void call(int node, uint32_t rank, uint32_t comm, uint64_t number,
		 const char *words)
{
	const struct wire_call c = {rank, comm, number, SLICE_STR(words)};

	wire_put_call_item(&items[node], &c);
	nodes[node].calls.count++;
	nodes[node].calls.bytes = SLICE(items[node].data, items[node].len);
}

static const char *text(void)
{
	ck_assert_int_eq(stragglers_put(&out, &query), 0);
	buf_put(&out, "", 1);
	return out.data;
}

START_TEST(no_line_if_nobody_is_behind)
{
	start();
	ck_assert_str_eq(text(), "");
	start();
	call(0, 0, 0, 7, "barrier #6");
	call(1, 1, 0, 7, "barrier #6");
	call(1, 1, 9, 2, "barrier #1 of 0.1");
	ck_assert_str_eq(text(), "");
}
END_TEST

START_TEST(names_the_stragglers_of_each_communicator)
{
	start();
	call(0, 0, 0, 7, "barrier #6");
	call(0, 1, 0, 0, "");
	call(0, 1, 9, 2, "broadcast #1 of 0.1");
	call(1, 3, 0, 6, "barrier #5");
	call(1, 3, 9, 3, "broadcast #2 of 0.1");
	call(1, 2, 0, 7, "barrier #6");
	ck_assert_str_eq(text(), "2 of 4 ranks have reached barrier #6; "
				 "missing: rank 3 (h2), rank 1 (h1)\n"
				 "1 of 2 ranks have reached broadcast #2 of "
				 "0.1; missing: rank 1 (h1)\n");
}
END_TEST

START_TEST(counts_many_stragglers)
{
	start();
	call(0, 0, 0, 2, "barrier #1");
	for (uint32_t i = 1; i < 30; i++)
		call(1, i, 0, 1, "ddp_init");
	ck_assert_ptr_nonnull(strstr(text(), "1 of 30 ranks have reached "));
	ck_assert_ptr_nonnull(strstr(out.data, "rank 16 (h2) and 13 more\n"));
}
END_TEST

START_TEST(reads_a_truncated_list_up_to_its_end)
{
	start();
	call(0, 0, 0, 2, "barrier #1");
	call(1, 1, 0, 1, "ddp_init");
	call(1, 2, 0, 1, "ddp_init");
	nodes[1].calls.bytes.len -= 3;
	ck_assert_str_eq(
		text(),
		"1 of 2 ranks have reached barrier #1; missing: rank 1 (h2)\n");
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("stragglers");

	tcase_add_test(c, no_line_if_nobody_is_behind);
	tcase_add_test(c, names_the_stragglers_of_each_communicator);
	tcase_add_test(c, counts_many_stragglers);
	tcase_add_test(c, reads_a_truncated_list_up_to_its_end);
	return run_case(c);
}
