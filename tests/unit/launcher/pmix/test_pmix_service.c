/* test_pmix_service.c: the start of a round's PMIx, its fences, and what ends
 * it. */
/* replaces: helper_link_start helper_link_send helper_link_poll */
/* replaces: helper_link_is_dead helper_link_close pmi_exchange_start */
/* replaces: pmi_exchange_begin pmi_exchange_close */
/* replaces: node_mail_start node_mail_send node_mail_close */
#include <signal.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "tests/unit/launcher/pmix/pmix_round.h"

/* ---- the start ---- */

START_TEST(the_workers_get_the_variables_of_the_helper)
{
	const struct sent *f;
	struct pmix_job j;
	struct stat st;
	uint32_t n;

	begin(1);
	f = next_sent(HELPER_BEGIN, 0);
	ck_assert_int_eq(
		pmix_job_get(&j, SLICE(f->data.data, f->data.len), NULL), 0);
	ck_assert_str_eq(j.name, s->job.name);
	ck_assert_str_eq(j.folder, folder);
	ck_assert_str_eq(j.nodes, "h0");
	ck_assert_uint_eq(j.ranks[0], 2);
	pmix_job_release(&j);
	ck_assert_int_eq(stat(folder, &st), 0);
	ck_assert_uint_eq(st.st_mode & 0777, 0700);
	ck_assert_int_eq(ready, 0);
	say_ready();
	ck_assert_int_eq(ready, 1);
	ck_assert_str_eq(pmix_service_vars(s, 0, &n)[0], "PMIX_RANK=0");
	ck_assert_str_eq(pmix_service_vars(s, 1, &n)[0], "PMIX_RANK=1");
	ck_assert_uint_eq(n, 1);
	ck_assert_int_eq(failed, 0);
	end();
}

START_TEST(nodes_meet_before_their_helpers_start)
{
	const struct sent *f = sent;
	struct pmix_job j;

	begin_ready(2);
	f = &sent[1];
	ck_assert_int_eq(
		pmix_job_get(&j, SLICE(f->data.data, f->data.len), NULL), 0);
	ck_assert_str_eq(j.nodes, "h7,h0");
	ck_assert_uint_eq(j.ranks[0], 3);
	ck_assert_uint_eq(j.ranks[1], 2);
	pmix_job_release(&j);
	ck_assert_uint_eq(s->mail.node_rank, 1);
	end();
}

START_TEST(a_map_of_nodes_that_is_torn_is_refused)
{
	struct slice parts[2] = {{"", 0}, {"", 0}};

	begin(2);
	next_sent(PART, 0);
	exchange_events->on_done(&s->exchange, parts);
	ck_assert_int_eq(failed, 1);
	no_more_sent();
	end();
}

START_TEST(a_helper_says_why_it_does_not_serve)
{
	begin(1);
	say(HELPER_FAILED, 0, 0, "PMIx_server_init: no");
	expect_failure("PMIx_server_init: no");
	say(HELPER_FAILED, 0, 0, "once more");
	expect_failure("PMIx_server_init: no");
	end();
}

START_TEST(variables_that_are_torn_are_refused)
{
	begin(1);
	say(HELPER_READY, 0, 0, "x");
	expect_failure("the variables of PMIx are malformed");
	ck_assert_int_eq(ready, 0);
	end();
}

/* What cannot be started: nothing is left, and the caller has the reason. */
static void expect_no_start(uint32_t nnodes, const char *text)
{
	struct err e = begin(nnodes);

	ck_assert_ptr_null(s);
	ck_assert_str_eq(e.text, text);
	ck_assert_int_eq(failed, 0);
}

START_TEST(without_a_helper_nothing_starts)
{
	helper_fails = 1;
	expect_no_start(1, "no helper");
	ck_assert_int_eq(helper_closed, 0);
	uv_run(&loop, UV_RUN_DEFAULT);
	ck_assert(!folder_exists());
	ck_assert_int_eq(uv_loop_close(&loop), 0);
}

START_TEST(without_the_other_nodes_nothing_starts)
{
	exchange_fails = _i == 0;
	mail_fails = _i == 1;
	expect_no_start(2, _i ? "no mail" : "no exchange");
	ck_assert_int_eq(helper_closed, 1);
	ck_assert_int_eq(exchange_closed, _i == 1);
	ck_assert_int_eq(mail_closed, 0);
	ck_assert_int_eq(rmdir(folder), 0);
}

START_TEST(a_failure_during_the_start_is_returned_to_the_caller)
{
	sending_fails = 1;
	expect_no_start(1, "no memory for a frame");
	ck_assert_int_eq(helper_closed, 1);
	ck_assert_int_eq(rmdir(folder), 0);
}

START_TEST(every_part_is_closed_before_the_folder_goes)
{
	begin_ready(2);
	both_connect();
	say(HELPER_FENCE, 4, 0, "ab");
	pmix_service_close(s);
	uv_run(&loop, UV_RUN_DEFAULT);
	ck_assert(folder_exists());
	close_helper();
	ck_assert(folder_exists());
	close_exchange();
	ck_assert(folder_exists());
	close_mail();
	ck_assert(!folder_exists());
}

/* ---- the folder ---- */

START_TEST(the_folder_is_in_memory_if_it_can_be)
{
	struct pmix_job j = a_job(1);
	struct err e = ERR_INIT;
	char place[] = "/dev/shm/test_pmix_XXXXXX", want[300];

	ck_assert_ptr_nonnull(mkdtemp(place));
	snprintf(j.folder, sizeof(j.folder), "%s", _i == 0 ? place : "/proc");
	s = pmix_service_new(&loop, &j, &exchange, &events, &loop, &e);
	ck_assert_ptr_nonnull(s);
	snprintf(want, sizeof(want), "%s/ddprun_pmix_%d_%s",
		 _i == 0 ? place : "/dev/shm", (int)getpid(), j.name);
	ck_assert_str_eq(folder, want);
	end();
	rmdir(place);
}

START_TEST(the_folder_is_in_tmpdir_if_there_is_no_other)
{
	char taken[300], place[] = "/tmp/test_pmix_XXXXXX", want[600];
	struct pmix_job j = a_job(1);
	struct err e;

	ck_assert_ptr_nonnull(mkdtemp(place));
	snprintf(taken, sizeof(taken), "/dev/shm/ddprun_pmix_%d_%s",
		 (int)getpid(), j.name);
	ck_assert_int_eq(mkdir(taken, 0700), 0);
	setenv("TMPDIR", place, 1);
	begin(1);
	ck_assert_ptr_nonnull(s);
	snprintf(want, sizeof(want), "%s/ddprun_pmix_%d_%s", place,
		 (int)getpid(), j.name);
	ck_assert_str_eq(folder, want);
	end();
	rmdir(place);
	/* not there either */
	ck_assert_int_eq(uv_loop_init(&loop), 0);
	e = begin(1);
	ck_assert_ptr_null(s);
	snprintf(want, sizeof(want), "cannot create the folder '%s"
		 "/ddprun_pmix_%d_%s' for PMIx: No such file or directory "
		 "(set TMPDIR)", place, (int)getpid(), j.name);
	ck_assert_str_eq(e.text, want);
	uv_run(&loop, UV_RUN_DEFAULT);
	ck_assert_int_eq(rmdir(taken), 0); /* it was left alone */
}

/* ---- fences ---- */

START_TEST(a_fence_on_one_node_is_answered)
{
	begin_ready(1);
	both_connect();
	say(HELPER_FENCE, 7, 0, "abc");
	expect_data(next_sent(HELPER_FENCED, 7), PMIX_ABI_SUCCESS, "abc");
	say(HELPER_FENCE, 8, 0, "");
	expect_data(next_sent(HELPER_FENCED, 8), PMIX_ABI_SUCCESS, "");
	no_more_sent();
	end();
}

/* This node's part, and that of node 0, whose ended rank is named. */
static void exchange_parts(const char *other, int32_t ended, int state)
{
	const struct sent *mine = next_sent(PART, 0);
	struct buf b = BUF_INIT(1000);
	struct slice parts[2];

	no_more_sent();
	buf_put_u32(&b, ended >= 0);
	if (ended >= 0) {
		buf_put_u32(&b, (uint32_t)ended);
		buf_put_u8(&b, (uint8_t)state);
	}
	buf_put(&b, other, strlen(other));
	parts[0] = SLICE(b.data, b.len);
	parts[1] = SLICE(mine->data.data, mine->data.len);
	exchange_events->on_done(&s->exchange, parts);
	buf_release(&b);
}

START_TEST(a_fence_of_two_nodes_has_the_data_of_both)
{
	begin_ready(2);
	both_connect();
	say(HELPER_FENCE, 4, 0, "ab");
	say(HELPER_FENCE, 5, 0, "next"); /* waits until the first is over */
	exchange_parts("cd", -1, 0);
	expect_data(next_sent(HELPER_FENCED, 4), PMIX_ABI_SUCCESS, "cdab");
	exchange_parts("", -1, 0);
	expect_data(next_sent(HELPER_FENCED, 5), PMIX_ABI_SUCCESS, "next");
	no_more_sent();
	say(HELPER_FENCE, 6, 0, "");
	next_sent(PART, 0);
	end();
}

START_TEST(a_fence_waits_for_the_ranks_that_have_not_called_mpi_init)
{
	begin_ready(2);
	say(HELPER_CONNECTED, 3, 0, "");
	say(HELPER_FENCE, 4, 0, "ab");
	no_more_sent();
	pmix_service_ended(s, 1, 0);
	exchange_parts("", -1, 0);
	expect_failure("rank 4 ended without MPI_Init, but rank 3 waits for "
		       "all ranks in an MPI call (MPI_Init, for example); in a "
		       "program in which only some ranks use MPI, start ddprun "
		       "with --mpi none");
	end();
}

START_TEST(a_rank_that_ended_on_another_node_ends_the_wait)
{
	begin_ready(2);
	both_connect();
	say(HELPER_FENCE, 4, 0, "ab");
	exchange_parts("", 2, ATTENDANCE_IN);
	ck_assert_int_eq(failed, 1);
	ck_assert_ptr_nonnull(strstr(why, "rank 2 ended without MPI_Finalize"));
	no_more_sent();
	end();
}

START_TEST(ranks_that_never_use_mpi_meet_once)
{
	begin_ready(2);
	pmix_service_ended(s, 0, 0);
	no_more_sent();
	pmix_service_ended(s, 1, 0);
	exchange_parts("", 0, ATTENDANCE_NEW);
	no_more_sent();
	say(HELPER_FINALIZED, 99, 0, ""); /* no exchange begins again */
	no_more_sent();
	ck_assert_int_eq(failed, 0);
	end();
}

START_TEST(ranks_that_called_mpi_finalize_need_no_exchange)
{
	begin_ready(2);
	both_connect();
	say(HELPER_FINALIZED, 3, 0, "");
	say(HELPER_FINALIZED, 4, 0, "");
	say(HELPER_CONNECTED, 3, 0, ""); /* too late */
	pmix_service_ended(s, 0, 0);
	pmix_service_ended(s, 1, 0);
	no_more_sent();
	end();
}

START_TEST(a_rank_that_failed_ends_nothing)
{
	begin_ready(2);
	both_connect();
	say(HELPER_FENCE, 4, 0, "ab");
	exchange_parts("", -1, 0);
	next_sent(HELPER_FENCED, 4);
	pmix_service_ended(s, 0, 1);
	pmix_service_ended(s, 1, 1);
	no_more_sent();
	end();
}

START_TEST(a_part_that_is_torn_is_refused)
{
	struct slice parts[2] = {{"\1", 1}, {"", 0}};

	begin_ready(2);
	both_connect();
	say(HELPER_FENCE, 4, 0, "ab");
	next_sent(PART, 0);
	exchange_events->on_done(&s->exchange, parts);
	expect_failure("node 0's part of an exchange of PMIx is malformed");
	say(HELPER_FENCE, 5, 0, "ab"); /* it has failed */
	no_more_sent();
	end();
}

START_TEST(too_much_data_before_a_fence_is_refused)
{
	struct pmix_frame f = {.type = HELPER_FENCE, .id = 4};
	char *data = calloc(1, PMI_EXCHANGE_VALUE_MAX + 1);

	begin_ready(1);
	both_connect();
	f.data = SLICE(data, PMI_EXCHANGE_VALUE_MAX + 1);
	s->helper.events->on_frame(&s->helper, &f);
	expect_failure("the ranks of this node put more than 67108864 bytes "
		       "before a fence of PMIx");
	no_more_sent();
	free(data);
	end();
}

START_TEST(an_exchange_that_fails_is_a_failure)
{
	struct err e = {.text = "the server refused"};

	begin_ready(2);
	exchange_events->on_failed(&s->exchange, &e);
	expect_failure("the server refused");
	end();
}

/* ---- what ends a round ---- */

START_TEST(an_abort_ends_the_round_after_a_moment)
{
	char text[100];
	int code = 0;

	begin_ready(2);
	say(HELPER_ABORT, 2, 9, "on another node");
	say(HELPER_ABORT, 5, 9, "of no node");
	say(HELPER_ABORT, 4, 3, "out of luck");
	ck_assert_int_eq(aborted[1], 0);
	while (!aborted[1])
		uv_run(&loop, UV_RUN_ONCE);
	ck_assert_int_eq(aborted[0], 0);
	ck_assert_int_eq(pmix_service_aborted(s, 0, &code, text, 100), 0);
	ck_assert_int_eq(pmix_service_aborted(s, 1, &code, text, 100), 1);
	ck_assert_int_eq(code, 3);
	ck_assert_str_eq(text, "it called MPI_Abort with 3: out of luck");
	end();
}

START_TEST(the_last_frames_of_a_rank_are_taken_when_it_ends)
{
	char text[100];
	int code;

	begin_ready(1);
	at_poll = (struct pmix_frame){HELPER_ABORT, 1, 3, SLICE("", 0)};
	pmix_service_ended(s, 1, 1);
	ck_assert_int_eq(pmix_service_aborted(s, 1, &code, text, 100), 1);
	end();
}

START_TEST(a_refused_request_is_logged_once)
{
	int log = memfd_create("log", 0), err = dup(STDERR_FILENO);
	char text[1000] = "";

	begin_ready(1);
	dup2(log, STDERR_FILENO);
	say(HELPER_REFUSED, 1, 0, "MPI_Comm_spawn");
	say(HELPER_REFUSED, 0, 0, "MPI_Comm_spawn");
	dup2(err, STDERR_FILENO);
	ck_assert_int_gt(pread(log, text, sizeof(text) - 1, 0), 0);
	ck_assert_ptr_nonnull(strstr(text, "rank 1 asked PMIx for something "
					   "that ddprun refuses: "
					   "MPI_Comm_spawn\n"));
	ck_assert_ptr_eq(strchr(text, '\n'), strrchr(text, '\n'));
	end();
}

START_TEST(a_helper_that_ended_is_named)
{
	begin_ready(1);
	ck_assert_str_eq(pmix_service_lost(s), "");
	helper_status = _i ? 3 << 8 : SIGKILL;
	ck_assert_str_eq(pmix_service_lost(s),
			 _i ? "the process that served PMIx on this node (pid "
			      "4711) exited with code 3"
			    : "the process that served PMIx on this node (pid "
			      "4711) was killed by SIGKILL");
	helper_status = SIGTERM;
	ck_assert_ptr_null(strstr(pmix_service_lost(s), "SIGTERM"));
	end();
}

START_TEST(a_helper_is_needed_until_every_rank_has_left)
{
	begin_ready(1);
	both_connect();
	say(HELPER_FINALIZED, 0, 0, "");
	helper_status = SIGKILL;
	if (_i == 0)
		pmix_service_ended(s, 1, 0);
	ck_assert_int_eq(*pmix_service_lost(s) == '\0', _i == 0);
	end();
}

START_TEST(a_helper_that_is_reaped_before_the_workers_start_is_a_failure)
{
	begin(1);
	ck_assert_int_eq(pmix_service_pid(s), HELPER_PID);
	ck_assert_int_eq(pmix_service_reaped(s, 12, SIGKILL), 0);
	ck_assert_int_eq(pmix_service_reaped(NULL, HELPER_PID, SIGKILL), 0);
	ck_assert_int_eq(failed, 0);
	ck_assert_int_eq(pmix_service_reaped(s, HELPER_PID,
					     _i ? SIGALRM : SIGKILL), 1);
	expect_failure(_i ? "the PMIx server of libpmix.so.2 on this node did "
			    "not start within 15 s (try again, or update that "
			    "library; --mpi none starts worlds of one)"
			  : "the process that served PMIx on this node (pid "
			    "4711) was killed by SIGKILL");
	ck_assert_int_eq(pmix_service_pid(s), 0);
	ck_assert_int_eq(pmix_service_reaped(s, 0, 0), 0);
	end();
}

START_TEST(a_helper_that_is_reaped_later_is_only_noted)
{
	begin_ready(1);
	ck_assert_int_eq(pmix_service_reaped(s, HELPER_PID, SIGALRM), 1);
	ck_assert_int_eq(failed, 0);
	ck_assert_str_eq(pmix_service_lost(s),
			 "the process that served PMIx on this node (pid 4711) "
			 "was killed by SIGALRM");
	end();
}

START_TEST(a_helper_says_why_it_ends_before_it_is_reaped)
{
	begin(1);
	at_poll = (struct pmix_frame){HELPER_FAILED, 0, 0,
				      SLICE_STR("no memory")};
	ck_assert_int_eq(pmix_service_reaped(s, HELPER_PID, 1 << 8), 1);
	expect_failure("no memory");
	end();
}

START_TEST(a_round_without_pmix_has_nothing_to_close)
{
	pmix_service_close(NULL);
	ck_assert_int_eq(pmix_service_pid(NULL), 0);
}

static TCase *start_case(void)
{
	TCase *c = tcase_create("start");

	tcase_add_checked_fixture(c, set_up, NULL);
	tcase_add_test(c, the_workers_get_the_variables_of_the_helper);
	tcase_add_test(c, nodes_meet_before_their_helpers_start);
	tcase_add_test(c, a_map_of_nodes_that_is_torn_is_refused);
	tcase_add_test(c, a_helper_says_why_it_does_not_serve);
	tcase_add_test(c, variables_that_are_torn_are_refused);
	tcase_add_test(c, without_a_helper_nothing_starts);
	tcase_add_loop_test(c, without_the_other_nodes_nothing_starts, 0, 2);
	tcase_add_test(c, a_failure_during_the_start_is_returned_to_the_caller);
	tcase_add_test(c, every_part_is_closed_before_the_folder_goes);
	tcase_add_loop_test(c, the_folder_is_in_memory_if_it_can_be, 0, 2);
	tcase_add_test(c, the_folder_is_in_tmpdir_if_there_is_no_other);
	return c;
}

static TCase *fence_case(void)
{
	TCase *c = tcase_create("fence");

	tcase_add_checked_fixture(c, set_up, NULL);
	tcase_add_test(c, a_fence_on_one_node_is_answered);
	tcase_add_test(c, a_fence_of_two_nodes_has_the_data_of_both);
	tcase_add_test(
		c, a_fence_waits_for_the_ranks_that_have_not_called_mpi_init);
	tcase_add_test(c, a_rank_that_ended_on_another_node_ends_the_wait);
	tcase_add_test(c, ranks_that_never_use_mpi_meet_once);
	tcase_add_test(c, ranks_that_called_mpi_finalize_need_no_exchange);
	tcase_add_test(c, a_rank_that_failed_ends_nothing);
	tcase_add_test(c, a_part_that_is_torn_is_refused);
	tcase_add_test(c, too_much_data_before_a_fence_is_refused);
	tcase_add_test(c, an_exchange_that_fails_is_a_failure);
	return c;
}

static TCase *end_case(void)
{
	TCase *c = tcase_create("end");

	tcase_add_checked_fixture(c, set_up, NULL);
	tcase_add_test(c, an_abort_ends_the_round_after_a_moment);
	tcase_add_test(c, the_last_frames_of_a_rank_are_taken_when_it_ends);
	tcase_add_test(c, a_refused_request_is_logged_once);
	tcase_add_loop_test(c, a_helper_that_ended_is_named, 0, 2);
	tcase_add_loop_test(c, a_helper_is_needed_until_every_rank_has_left, 0,
			    2);
	tcase_add_loop_test(
		c,
		a_helper_that_is_reaped_before_the_workers_start_is_a_failure,
		0, 2);
	tcase_add_test(c, a_helper_that_is_reaped_later_is_only_noted);
	tcase_add_test(c, a_helper_says_why_it_ends_before_it_is_reaped);
	tcase_add_test(c, a_round_without_pmix_has_nothing_to_close);
	return c;
}

int main(int argc, char **argv)
{
	Suite *all = suite_create("unit");

	/* A helper is this program again (/proc/self/exe): without this, a test
	 * that starts one by mistake would start ever more of them. */
	if (argc > 1 && !strcmp(argv[1], "--pmix-helper"))
		return 97;
	suite_add_tcase(all, start_case());
	suite_add_tcase(all, fence_case());
	suite_add_tcase(all, end_case());
	return run_suite(all);
}
