/* test_stragglers.c: finds the ranks that have not reached the call that others
 * wait in. */
#include <check.h>
#include <stdlib.h>

#include "launcher/inspect/stragglers.h"
#include "tests/unit/run_case.h"

static struct dump_node nodes[2];
static struct buf items[2], out;

static void start(void)
{
	static char h1[] = "h1", h2[] = "h2";

	nodes[0] = (struct dump_node){.node_rank = 0, .host = h1};
	nodes[1] = (struct dump_node){.node_rank = 1, .host = h2};
	for (int i = 0; i < 2; i++) {
		buf_release(&items[i]);
		buf_init(&items[i], 1 << 20);
	}
	buf_release(&out);
	buf_init(&out, 1 << 20);
}

static void add(int node, const struct wire_call *c)
{
	wire_put_call_item(&items[node], c);
	nodes[node].calls.count++;
	nodes[node].calls.bytes = SLICE(items[node].data, items[node].len);
}

/* All that came to the call with the highest number wait in it. */
static void call(int node, uint32_t rank, uint32_t comm, uint64_t number,
		 const char *words)
{
	add(node, &(struct wire_call){
			  .rank = rank, .comm = comm, .number = number,
			  .words = SLICE_STR(words), .place = rank,
			  .waits = WIRE_CALL_WAITS,
		  });
}

/* A rank that is in no collective, but sleeps in a message. */
static void message(int node, uint32_t rank, enum wire_call_kind kind,
		    uint32_t peer, const char *words)
{
	add(node, &(struct wire_call){.rank = rank, .place = rank});
	add(node, &(struct wire_call){
			  .rank = rank, .place = rank, .number = 1,
			  .kind = (uint8_t)kind, .peer = peer,
			  .words = SLICE_STR(words),
			  .waits = WIRE_CALL_SLEEPS,
		  });
}

static const char *text(void)
{
	ck_assert_int_eq(stragglers_put(&out, nodes, 2), 0);
	buf_put(&out, "", 1);
	return out.data;
}

START_TEST(no_line_without_stragglers)
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

/* What is seen of a job that makes progress. */
START_TEST(no_line_if_nobody_waits_for_long)
{
	start();
	add(0, &(struct wire_call){.rank = 0, .number = 7,
				   .words = SLICE_STR("barrier #6")});
	add(1, &(struct wire_call){.rank = 1, .number = 6,
				   .words = SLICE_STR("barrier #5")});
	ck_assert_str_eq(text(), "");
}
END_TEST

START_TEST(shows_a_cycle_of_messages)
{
	start();
	message(0, 0, WIRE_CALL_RECV, 3, "recv from 3");
	message(0, 1, WIRE_CALL_RECV, 0, "recv from 0");
	message(1, 2, WIRE_CALL_RECV, 1, "recv from 1");
	message(1, 3, WIRE_CALL_SEND, 0, "send to 0");
	/* rank 0 receives from 3, so that message is under way */
	ck_assert_str_eq(text(), "");
	start();
	message(0, 0, WIRE_CALL_RECV, 3, "recv from 3");
	message(0, 1, WIRE_CALL_RECV, 0, "recv from 0");
	message(1, 2, WIRE_CALL_RECV, 1, "recv from 1");
	message(1, 3, WIRE_CALL_RECV, 0, "recv from 0");
	ck_assert_str_eq(
		text(),
		"deadlock: 2 ranks wait for each other\n"
		"  rank 0 (h1) waits for rank 3 in recv from 3\n"
		"  rank 3 (h2) waits for rank 0 in recv from 0\n");
}
END_TEST

START_TEST(shows_a_cycle_of_three)
{
	start();
	message(0, 4, WIRE_CALL_SEND, 6, "send to 6");
	message(0, 5, WIRE_CALL_SEND, 4, "send to 4");
	message(1, 6, WIRE_CALL_RECV, 5, "recv from 5");
	ck_assert_str_eq(text(),
			 "deadlock: 3 ranks wait for each other\n"
			 "  rank 4 (h1) waits for rank 6 in send to 6\n"
			 "  rank 6 (h2) waits for rank 5 in recv from 5\n"
			 "  rank 5 (h1) waits for rank 4 in send to 4\n");
}
END_TEST

/* Rank 0 is in a collective that rank 1 comes to after its message. */
START_TEST(shows_a_cycle_of_a_message_and_a_collective)
{
	start();
	add(0, &(struct wire_call){.rank = 0, .number = 3,
				   .words = SLICE_STR("barrier #2"),
				   .waits = WIRE_CALL_SLEEPS});
	add(1, &(struct wire_call){.rank = 1, .number = 2, .place = 1});
	add(1, &(struct wire_call){.rank = 1, .number = 1, .place = 1,
				   .kind = WIRE_CALL_RECV, .peer = 0,
				   .words = SLICE_STR("recv from 0"),
				   .waits = WIRE_CALL_SLEEPS});
	ck_assert_str_eq(
		text(),
		"deadlock: 2 ranks wait for each other\n"
		"  rank 0 (h1) waits for rank 1 in barrier #2\n"
		"  rank 1 (h2) waits for rank 0 in recv from 0\n"
		"1 of 2 ranks have reached barrier #2; missing: rank 1 (h2)\n");
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

	tcase_add_test(c, no_line_without_stragglers);
	tcase_add_test(c, names_the_stragglers_of_each_communicator);
	tcase_add_test(c, no_line_if_nobody_waits_for_long);
	tcase_add_test(c, shows_a_cycle_of_messages);
	tcase_add_test(c, shows_a_cycle_of_three);
	tcase_add_test(c, shows_a_cycle_of_a_message_and_a_collective);
	tcase_add_test(c, counts_many_stragglers);
	tcase_add_test(c, reads_a_truncated_list_up_to_its_end);
	return run_case(c);
}
