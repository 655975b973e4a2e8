/* test_pmix_host.c: what libpmix's server asks becomes frames for the agent,
 * and its frames become answers. The library is the test's. */
/* replaces: pmix_library_load pmix_host_register */
#include <check.h>
#include <signal.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launcher/pmix/pmix_host.h"
#include "tests/unit/run_case.h"

enum { WORLD = 3 };

static const struct pmix_abi_module *module;
static int agent; /* its end of the pair */
static const struct pmix_job job = {.name = "world", .world_size = WORLD};

int __wrap_pmix_library_load(struct pmix_library *l, struct err *e);
int __wrap_pmix_host_register(struct pmix_host *h,
			      const struct pmix_abi_module *m,
			      struct buf *vars, struct err *e);

int __wrap_pmix_library_load(struct pmix_library *l, struct err *e)
{
	return 0;
}

int __wrap_pmix_host_register(struct pmix_host *h,
			      const struct pmix_abi_module *m,
			      struct buf *vars, struct err *e)
{
	module = m;
	return 0;
}

static void begin(void)
{
	struct err e = ERR_INIT;
	int fds[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	agent = fds[1];
	ck_assert_int_eq(pmix_host_load(fds[0], &e), 0);
	ck_assert_int_eq(pmix_host_begin(&job, NULL, &e), 0);
}

/* The next frame for the agent; returns its id. */
static uint32_t expect(uint8_t type, int32_t code, const char *data)
{
	struct err e = ERR_INIT;
	struct pmix_frame f;
	char bytes[200];
	size_t n = PMIX_FRAME_HEAD + strlen(data);

	ck_assert_int_eq(recv(agent, bytes, n, MSG_WAITALL), (ssize_t)n);
	ck_assert_int_eq(pmix_frame_cut(SLICE(bytes, n), &f, &e), (long)n);
	ck_assert_uint_eq(f.type, type);
	ck_assert_int_eq(f.code, code);
	ck_assert(memcmp(f.data.data, data, strlen(data)) == 0);
	return f.id;
}

static void expect_nothing(void)
{
	char byte;

	ck_assert_int_eq(recv(agent, &byte, 1, MSG_DONTWAIT), -1);
}

static struct {
	int n, status;
	char data[20];
} answers[2];

static void on_answer(int status, const char *data, size_t n, void *arg,
		      pmix_abi_release *release, void *release_arg)
{
	int i = *(int *)arg;

	ck_assert_uint_lt(n, sizeof(answers[i].data));
	answers[i].n++;
	answers[i].status = status;
	if (n)
		memcpy(answers[i].data, data, n);
	release(release_arg);
}

static void answer(uint8_t type, uint32_t id, int32_t code, const char *data)
{
	pmix_host_handle(&(struct pmix_frame){type, id, code,
					      SLICE_STR(data)});
}

static void expect_answer(int i, int n, int status, const char *data)
{
	ck_assert_int_eq(answers[i].n, n);
	ck_assert_int_eq(answers[i].status, status);
	ck_assert_str_eq(answers[i].data, data);
}

static int which[2] = {0, 1};
static const struct pmix_abi_proc all = {.rank = PMIX_ABI_RANK_WILDCARD};

START_TEST(a_fence_is_answered_once_with_the_data_of_all)
{
	char mine[] = "abc";
	uint32_t id;

	begin();
	ck_assert_int_eq(module->fence_nb(&all, 1, NULL, 0, mine, 3,
					  on_answer, &which[0]),
			 PMIX_ABI_SUCCESS);
	id = expect(HELPER_FENCE, 0, "abc");
	answer(HELPER_FENCED, id + 1, PMIX_ABI_SUCCESS, "another's");
	expect_answer(0, 0, 0, "");
	answer(HELPER_FENCED, id, PMIX_ABI_SUCCESS, "abcdef");
	expect_answer(0, 1, PMIX_ABI_SUCCESS, "abcdef");
	answer(HELPER_FENCED, id, PMIX_ABI_SUCCESS, "again");
	expect_answer(0, 1, PMIX_ABI_SUCCESS, "abcdef");
	expect_nothing();
}
END_TEST

/* _i: which is answered first. */
START_TEST(requests_for_the_data_of_ranks_are_answered_in_any_order)
{
	struct pmix_abi_proc proc = {.rank = 7};
	uint32_t ids[2];

	begin();
	for (int i = 0; i < 2; i++, proc.rank++) {
		ck_assert_int_eq(module->direct_modex(&proc, NULL, 0,
						      on_answer, &which[i]),
				 PMIX_ABI_SUCCESS);
		ids[i] = expect(HELPER_WANT, 7 + i, "");
	}
	ck_assert_uint_ne(ids[0], ids[1]);
	answer(HELPER_FOUND, ids[_i], PMIX_ABI_SUCCESS, "first");
	expect_answer(_i, 1, PMIX_ABI_SUCCESS, "first");
	expect_answer(!_i, 0, 0, "");
	/* without data, and without the bytes that came along */
	answer(HELPER_FOUND, ids[!_i], PMIX_ABI_ERROR, "ignored");
	expect_answer(!_i, 1, PMIX_ABI_ERROR, "");
	expect_answer(_i, 1, PMIX_ABI_SUCCESS, "first");
}
END_TEST

START_TEST(a_fence_of_some_ranks_is_refused)
{
	const struct pmix_abi_proc some[2] = {{.rank = 1}, {.rank = 2}};
	const struct pmix_abi_proc each[WORLD] = {{.rank = 0}};

	begin();
	ck_assert_int_eq(module->fence_nb(some, 2, NULL, 0, NULL, 0, on_answer,
					  &which[0]),
			 PMIX_ABI_ERR_NOT_SUPPORTED);
	ck_assert_uint_eq(expect(HELPER_REFUSED, 0, "a fence of some ranks "
				 "only, on several nodes"), 1);
	expect_nothing();
	ck_assert_int_eq(module->fence_nb(each, WORLD, NULL, 0, NULL, 0,
					  on_answer, &which[0]),
			 PMIX_ABI_SUCCESS);
	answer(HELPER_FENCED, expect(HELPER_FENCE, 0, ""), PMIX_ABI_SUCCESS,
	       "");
	expect_answer(0, 1, PMIX_ABI_SUCCESS, "");
}
END_TEST

static int done_with = 1;

static void on_done(int status, void *arg)
{
	done_with = status;
}

START_TEST(the_agent_learns_what_a_rank_did)
{
	const struct pmix_abi_proc proc = {.rank = 2};

	begin();
	module->client_connected(&proc, NULL, on_done, NULL);
	ck_assert_uint_eq(expect(HELPER_CONNECTED, 0, ""), 2);
	ck_assert_int_eq(done_with, PMIX_ABI_SUCCESS);
	done_with = 1;
	module->client_finalized(&proc, NULL, on_done, NULL);
	ck_assert_uint_eq(expect(HELPER_FINALIZED, 0, ""), 2);
	ck_assert_int_eq(done_with, PMIX_ABI_SUCCESS);
	done_with = 1;
	module->abort(&proc, NULL, 5, "why", NULL, 0, on_done, NULL);
	ck_assert_uint_eq(expect(HELPER_ABORT, 5, "why"), 2);
	ck_assert_int_eq(done_with, PMIX_ABI_SUCCESS);
	module->abort(&proc, NULL, 6, "N/A", NULL, 0, NULL, NULL);
	ck_assert_uint_eq(expect(HELPER_ABORT, 6, ""), 2);
	expect_nothing();
}
END_TEST

/* The process that reads from the agent sees the end of its input. */
START_TEST(a_message_that_cannot_be_sent_is_the_end)
{
	const struct pmix_abi_proc proc = {.rank = 2};

	begin();
	ck_assert_int_eq(shutdown(agent, SHUT_RD), 0);
	module->client_connected(&proc, NULL, NULL, NULL);
	ck_assert_int_eq(recv(agent, &(char){0}, 1, 0), 0);
	ck_assert_int_eq(send(agent, "x", 1, MSG_NOSIGNAL), -1);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("pmix_host");

	signal(SIGPIPE, SIG_IGN); /* as in the helper */
	tcase_set_timeout(c, 60);
	tcase_add_test(c, a_fence_is_answered_once_with_the_data_of_all);
	tcase_add_loop_test(
		c, requests_for_the_data_of_ranks_are_answered_in_any_order, 0,
		2);
	tcase_add_test(c, a_fence_of_some_ranks_is_refused);
	tcase_add_test(c, the_agent_learns_what_a_rank_did);
	tcase_add_test(c, a_message_that_cannot_be_sent_is_the_end);
	return run_case(c);
}
