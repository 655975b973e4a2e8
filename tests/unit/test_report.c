/* test_report.c: the failure page, word by word. */
#include <check.h>
#include <stdlib.h>

#include "base/signal_name.h"
#include "launcher/report.h"

#define RULE40 "----------------------------------------"

static struct buf page = BUF_INIT(1 << 20);

static const char *render(const struct wire_end *end, const char *job)
{
	const struct report r = {.job = job, .end = end, .world_size = 4,
				 .max_restarts = 2, .attempt = 1};

	buf_reset(&page);
	report_put(&page, &r);
	buf_put(&page, "", 1);
	return page.data;
}

static struct wire_end killed(void)
{
	return (struct wire_end){
		.verdict = WIRE_FAILURE, .exit_code = 137,
		.text = SLICE_STR("rank 2 (local rank 0) on h2, pid 4711, was "
				  "killed by signal 9 (SIGKILL)"),
		.rank = 2, .local_rank = 0, .node_rank = 1,
		.host = SLICE_STR("h2"), .pid = 4711, .signal = 9,
		.ran_ms = 5021, .tail = SLICE_STR("one\ntwo\n"),
	};
}

START_TEST(a_killed_worker)
{
	struct wire_end end = killed();

	ck_assert_str_eq(render(&end, "none"),
		"ddprun: job 'none' failed: rank 2 (local rank 0) on h2, pid "
		"4711, was killed by signal 9 (SIGKILL)\n"
		"+- first failure " RULE40 "---------------------"
		"-\n"
		"|  rank         2 of 4 (local rank 0)\n"
		"|  node         1, host h2\n"
		"|  pid          4711\n"
		"|  cause        killed by signal 9 (SIGKILL)\n"
		"|               (not sent by ddprun: often the kernel out of "
		"memory (see dmesg))\n"
		"|  ran for      5.021 s\n"
		"|  attempt      2 of 3\n"
		"|  last lines of its stderr:\n"
		"|    one\n"
		"|    two\n"
		"|  ddprun exits with 137\n"
		"+" RULE40 "--------------------------------------\n");
}
END_TEST

START_TEST(a_code_and_no_output)
{
	struct wire_end end = killed();
	const char *text;

	end.signal = 0;
	end.code = end.exit_code = 3;
	end.tail = SLICE_STR("");
	text = render(&end, "j1");
	ck_assert_ptr_nonnull(strstr(text, "\n|  cause        exited with code "
					   "3\n|  ran for"));
	ck_assert_ptr_nonnull(strstr(text, "\n|  last lines   (nothing on "
					   "stderr)\n"));
	ck_assert_ptr_nonnull(strstr(text, "\n|  ddprun exits with 3\n"));
}
END_TEST

START_TEST(no_worker_is_to_blame)
{
	struct wire_end end = killed();

	end.rank = -1;
	end.text = SLICE_STR("node 1 (h2) was lost: no sign of life for 5 s");
	ck_assert_str_eq(render(&end, "none"),
			 "ddprun: job 'none' failed: node 1 (h2) was lost: no "
			 "sign of life for 5 s\n");
	end.verdict = WIRE_ENDED;
	end.text = SLICE_STR("node 0 (h1) was told to stop by SIGTERM");
	ck_assert_str_eq(render(&end, "x"), "ddprun: job 'x' ended: node 0 (h1)"
			 " was told to stop by SIGTERM\n");
}
END_TEST

START_TEST(escape_codes_are_shown_not_obeyed)
{
	struct wire_end end = killed();
	const char *text;

	end.tail = SLICE("\x1b[31mred\ttab\r\nunfinished\0\x7f", 26);
	text = render(&end, "none");
	ck_assert_ptr_nonnull(strstr(text, "|    \\x1b[31mred\ttab\n"
				     "|    unfinished\\x00\\x7f\n"));
}
END_TEST

START_TEST(names_of_signals)
{
	char name[SIGNAL_NAME_MAX];

	ck_assert_str_eq(signal_name(9, name), "SIGKILL");
	ck_assert_str_eq(signal_name(11, name), "SIGSEGV");
	ck_assert_str_eq(signal_name(40, name), "signal 40");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("report");
	TCase *c = tcase_create("report");
	SRunner *r;
	int failed;

	tcase_set_timeout(c, 20);
	tcase_add_test(c, a_killed_worker);
	tcase_add_test(c, a_code_and_no_output);
	tcase_add_test(c, no_worker_is_to_blame);
	tcase_add_test(c, escape_codes_are_shown_not_obeyed);
	tcase_add_test(c, names_of_signals);
	suite_add_tcase(s, c);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	buf_release(&page);
	return failed;
}
