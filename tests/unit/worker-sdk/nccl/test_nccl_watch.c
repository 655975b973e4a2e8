/* test_nccl_watch.c: waits that end at their deadline. */
/* replaces: malloc */
/* replaces: calloc */
#include "tests/unit/run_case.h"
#include "tests/unit/worker-sdk/nccl/nccl_tables.h"

static struct err e;

START_TEST(a_call_that_nccl_does_not_end_has_a_deadline)
{
	struct ddp__nccl *n = test_nccl(0, 1);

	async_state = DDP__NCCL_IN_PROGRESS;
	test_world.timeout_ms = 1;
	ck_assert_int_eq(ddp__nccl_settle(n, n, DDP__NCCL_IN_PROGRESS, "it",
					  &e), ERR_TIMEOUT);
	ck_assert_ptr_nonnull(strstr(e.text, "it: not done after 0.0 s"));
	test_nccl_close(n);
}
END_TEST

START_TEST(a_deadline_without_memory_names_no_rank)
{
	struct ddp__nccl *n = test_nccl(0, 2);
	struct ddp__watch w;

	test_world.timeout_ms = 0;
	ddp__watch_init(&w, n->c, "it");
	allocations_left = 0;
	ck_assert_int_eq(ddp__watch_pause(&w, &e), ERR_TIMEOUT);
	ck_assert_str_eq(e.text + strlen(e.text) - 2, " s");
	test_nccl_close(n);
}
END_TEST

static int get_after_the_end(struct ddp__kv *kv, struct slice key,
			     int timeout_ms, struct slice *value,
			     struct err *err)
{
	return err_set(err, ERR_ABORTED, "the round is over");
}

START_TEST(a_deadline_after_the_round_names_no_rank)
{
	struct ddp__nccl *n = test_nccl(0, 2);
	const struct ddp__kv_ops *own = test_world.kv->ops;
	struct ddp__kv_ops ops = *own;
	struct ddp__watch w;

	test_world.timeout_ms = 0;
	ddp__watch_init(&w, n->c, "it");
	ops.get = get_after_the_end;
	test_world.kv->ops = &ops;
	ck_assert_int_eq(ddp__watch_pause(&w, &e), ERR_TIMEOUT);
	ck_assert_str_eq(e.text + strlen(e.text) - 2, " s");
	test_world.kv->ops = own;
	test_nccl_close(n);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("nccl_watch");

	tcase_add_test(c, a_call_that_nccl_does_not_end_has_a_deadline);
	tcase_add_test(c, a_deadline_without_memory_names_no_rank);
	tcase_add_test(c, a_deadline_after_the_round_names_no_rank);
	return run_case(c) != 0;
}
