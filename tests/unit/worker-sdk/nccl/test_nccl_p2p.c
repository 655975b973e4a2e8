/* test_nccl_p2p.c: messages whose calls of CUDA, NCCL, the store or the system
 * fail, one after the other. */
/* replaces: malloc */
/* replaces: calloc */
/* replaces: pthread_create */
#include <pthread.h>

#include "tests/unit/run_case.h"
#include "tests/unit/worker-sdk/nccl/nccl_tables.h"
#include "worker-sdk/comm/request.h"

enum { CALLS_MAX = 40, OLD = 21805 };

static struct err e;
static const struct ddp__call send_call = {
	.kind = DDP__SEND, .type = DDP_F32, .count = 10, .root = 1};
static const struct ddp__call recv_call = {
	.kind = DDP__RECV, .type = DDP_F32, .count = 10, .root = 0};

/* How pthread_create works: as it does, not at all, such that the new thread
 * has ended when it returns, or such that the test runs it later. */
static enum { THREADS, NO_THREADS, ENDED_THREADS, LATER_THREADS } threads;
static void *(*later)(void *);
static void *later_arg;

int __real_pthread_create(pthread_t *t, const pthread_attr_t *a,
			  void *(*run)(void *), void *arg);
int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a,
			  void *(*run)(void *), void *arg);

static void *nothing(void *arg)
{
	return arg;
}

int __wrap_pthread_create(pthread_t *t, const pthread_attr_t *a,
			  void *(*run)(void *), void *arg)
{
	if (threads == NO_THREADS)
		return EAGAIN;
	if (threads == ENDED_THREADS)
		run(arg);
	later = run;
	later_arg = arg;
	if (threads != THREADS)
		run = nothing;
	return __real_pthread_create(t, a, run, arg);
}

/* Begins a message, and advances it until it is posted or fails. */
static int message(struct ddp__nccl *n, struct ddp__nccl_op *op)
{
	int rc = ddp__nccl_post(n, op, &e);

	while (!rc && !op->posted)
		rc = ddp__nccl_push(n, &e);
	ddp__nccl_unpost(n, op);
	return rc;
}

/* With the Nth call failing, for each N, until none does: the last one
 * succeeds, all before it are errors with a text. */
static void each_failure(int *left, int version)
{
	int rc = -1;

	table_nccl.version = version;
	for (int k = 0; rc; k++) {
		struct ddp__nccl_op op = {.call = &send_call};
		struct ddp__nccl *n = test_nccl(0, 2);

		ck_assert_int_lt(k, CALLS_MAX);
		e = (struct err)ERR_INIT;
		*left = k;
		rc = message(n, &op);
		*left = -1;
		ck_assert_int_eq(rc, e.code);
		ck_assert(!rc || e.text[0]);
		test_nccl_close(n);
	}
}

START_TEST(each_call_of_a_message_that_fails_is_an_error)
{
	each_failure(&table_calls_left, 22809);
}
END_TEST

START_TEST(each_call_in_a_thread_that_fails_is_an_error)
{
	threads = ENDED_THREADS;
	each_failure(&table_calls_left, OLD);
}
END_TEST

START_TEST(a_message_without_memory_is_an_error)
{
	each_failure(&allocations_left, 22809);
	each_failure(&allocations_left, OLD);
}
END_TEST

START_TEST(a_message_without_a_thread_is_an_error)
{
	struct ddp__nccl_op op = {.call = &send_call};
	struct ddp__nccl *n = test_nccl(0, 2);

	threads = NO_THREADS;
	table_nccl.version = OLD;
	ck_assert_int_eq(message(n, &op), -EAGAIN);
	ck_assert_ptr_nonnull(strstr(e.text, "pthread_create: "));
	test_nccl_close(n);
}
END_TEST

START_TEST(a_receiver_asks_for_the_sender_s_id_now_and_then)
{
	struct slice key = SLICE_STR("ddp/0/nccl//message/0/1");
	struct ddp__nccl_op op = {.call = &recv_call};
	struct ddp__nccl *n = test_nccl(1, 2);
	struct ddp__kv *kv = test_world.kv;
	int rc = 0;

	ck_assert_int_eq(ddp__nccl_post(n, &op, &e), 0);
	for (int i = 0; i < 1000; i++)
		ck_assert_int_eq(ddp__nccl_push(n, &e), 0);
	ck_assert(!op.posted);
	ck_assert_int_ge(kv->ops->set(kv, key, SLICE_STR("short"), &e), 0);
	while (!rc)
		rc = ddp__nccl_push(n, &e);
	ck_assert_int_eq(rc, ERR_PROTOCOL);
	ck_assert_ptr_nonnull(strstr(e.text, "message/0/1 is not an NCCL id"));
	ddp__nccl_unpost(n, &op);
	test_nccl_close(n);
}
END_TEST

/* The error is that of the message which waits. */
START_TEST(a_message_that_fails_later_ends_the_communicator)
{
	struct slice key = SLICE_STR("ddp/0/nccl//message/0/1");
	struct ddp__nccl *n = test_nccl(1, 2);
	struct ddp_request *r;
	struct ddp_comm *c = n->c;

	c->backend = &ddp__nccl;
	c->state = n;
	r = ddp__request_new(c, &recv_call, NULL, NULL);
	ck_assert_ptr_nonnull(r);
	ck_assert_int_eq(c->backend->begin(r, &e), 0);
	ck_assert_int_eq(c->backend->test(r, &e), 0);
	ck_assert_int_ge(test_world.kv->ops->set(test_world.kv, key,
						 SLICE_STR("short"), &e), 0);
	ck_assert_int_eq(c->backend->wait(r, -1, &e), ERR_PROTOCOL);
	ck_assert_int_eq(n->dead, 1);
	ck_assert_int_eq(c->backend->test(r, &e), ERR_ABORTED);
	ddp__request_free(r);
	c->state = NULL;
	test_nccl_close(n);
}
END_TEST

/* Its thread has ended, and nobody has asked for its result. */
START_TEST(a_communicator_whose_thread_has_ended_is_aborted)
{
	struct ddp__nccl_op op = {.call = &send_call};
	struct ddp__nccl *n = test_nccl(0, 2);

	threads = LATER_THREADS;
	table_nccl.version = OLD;
	ck_assert_int_eq(ddp__nccl_post(n, &op, &e), 0);
	ck_assert_int_eq(ddp__nccl_push(n, &e), 0);
	ck_assert(!op.posted);
	later(later_arg);
	threads = THREADS;
	ddp__nccl_unpost(n, &op);
	test_nccl_close(n);
	ck_assert_int_eq(aborted, 1);
}
END_TEST

/* ---- nccl_abort.c ---- */

static void abort_two(int version)
{
	struct ddp__aborts a;

	aborted = 0;
	table_nccl.version = version;
	ddp__aborts_begin(&a, &table_nccl);
	ddp__aborts_add(&a, &a);
	ddp__aborts_add(&a, &a);
	ddp__aborts_end(&a);
}

START_TEST(communicators_that_cannot_be_aborted_are_left)
{
	abort_two(22809);
	ck_assert_int_eq(aborted, 2);
	abort_two(OLD);
	ck_assert_int_eq(aborted, 2);
	allocations_left = 0;
	abort_two(OLD);
	ck_assert_int_eq(aborted, 1);
	threads = NO_THREADS;
	abort_two(OLD);
	ck_assert_int_eq(aborted, 0);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("nccl_p2p");

	tcase_set_timeout(c, 60);
	tcase_add_test(c, each_call_of_a_message_that_fails_is_an_error);
	tcase_add_test(c, each_call_in_a_thread_that_fails_is_an_error);
	tcase_add_test(c, a_message_without_memory_is_an_error);
	tcase_add_test(c, a_message_without_a_thread_is_an_error);
	tcase_add_test(c, a_receiver_asks_for_the_sender_s_id_now_and_then);
	tcase_add_test(c, a_message_that_fails_later_ends_the_communicator);
	tcase_add_test(c, a_communicator_whose_thread_has_ended_is_aborted);
	tcase_add_test(c, communicators_that_cannot_be_aborted_are_left);
	return run_case(c) != 0;
}
