/* test_report.c: the failure page, word by word. */
#include <check.h>
#include <cjson/cJSON.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "launcher/failure/report.h"
#include "tests/unit/run_case.h"

#define INDENT "|               "
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
		"|               (not sent by ddprun; often the kernel, out of "
		"memory: see dmesg)\n"
		"|  ran for      5.021 s\n"
		"|  attempt      2 of 3\n"
		"|  last lines of its stderr:\n"
		"|    one\n"
		"|    two\n"
		"|  ddprun exits with 137\n"
		"+" RULE40 "--------------------------------------\n");
}
END_TEST

START_TEST(a_stack_is_shown_apart_from_the_cause)
{
	struct wire_end end = killed();
	const char *text;

	end.signal = SIGSEGV;
	end.why = SLICE_STR("null pointer (address 0x0) in f at w.c:3 (w.py:7)"
			    "\nno core file: ulimit -c is 0\n"
			    "#0 f at w.c:3 (w)\n#1 main at w.c:9 (w)\n"
			    "#py0 <module> at /w/w.py:7");
	text = render(&end, "j");
	ck_assert_ptr_nonnull(strstr(
		text, INDENT "null pointer (address 0x0) in f at w.c:3 "
			     "(w.py:7)\n" INDENT
			     "no core file: ulimit -c is 0\n" INDENT "(a bad"));
	ck_assert_ptr_nonnull(strstr(text, "\n|  its stack when it died:\n"
					   "|    #0 f at w.c:3 (w)\n"
					   "|    #1 main at w.c:9 (w)\n"
					   "|    #py0 <module> at /w/w.py:7\n"
					   "|  last lines of"));
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

START_TEST(no_worker_failed)
{
	struct wire_end end = killed();

	end.rank = -1;
	end.text = SLICE_STR("node 1 (h2) was lost: no sign of life for 5 s");
	ck_assert_str_eq(render(&end, "none"),
			 "ddprun: job 'none' failed: node 1 (h2) was lost: no "
			 "sign of life for 5 s\n");
	end.verdict = WIRE_ENDED;
	end.text = SLICE_STR("node 0 (h1) received SIGTERM");
	ck_assert_str_eq(render(&end, "x"), "ddprun: job 'x' ended: node 0 (h1)"
			 " received SIGTERM\n");
}
END_TEST

START_TEST(control_characters_are_escaped)
{
	struct wire_end end = killed();
	const char *text;

	end.tail = SLICE("\xc2\x9b" "2Ja\xc3\xbc\xc2", 8);
	text = render(&end, "none");
	ck_assert_ptr_nonnull(strstr(text, "|    \\u009b2Ja\xc3\xbc\xc2\n"));
	end.tail = SLICE("\x1b[31mred\ttab\r\nunfinished\0\x7f", 26);
	text = render(&end, "none");
	ck_assert_ptr_nonnull(strstr(text, "|    \\x1b[31mred\ttab\n"
				     "|    unfinished\\x00\\x7f\n"));
}
END_TEST

/* ---- With all facts ---- */

static struct report full(const struct wire_end *end,
			  const struct error_file *error)
{
	return (struct report){
		.job = "j", .end = end, .world_size = 4, .max_restarts = 0,
		.host = "h2", .first_is_here = 1, .error = error,
		.now_ms = 1795262974123,
	};
}

static const char *put(const struct report *r)
{
	buf_reset(&page);
	report_put(&page, r);
	buf_put(&page, "", 1);
	ck_assert_int_eq(page.failed, 0);
	return page.data;
}

static void expect_in(const char *text, const char *part)
{
	ck_assert_msg(strstr(text, part) != NULL, "no '%s' in:\n%s", part,
		      text);
}

static int lines_of(const char *text)
{
	int n = 0;

	for (; *text; text++)
		n += *text == '\n';
	return n;
}

START_TEST(shows_what_kernel_and_worker_reported)
{
	struct wire_end end = killed();
	struct error_file error = {"ValueError: boom\nat step 3",
				   "Traceback:\n  1\n  2\n  3\n"
				   "ValueError: boom\n", 5};
	struct report r = full(&end, &error);
	const char *text;

	end.why = SLICE_STR("killed by the kernel: out of memory in cgroup "
			    "/slurm/uid_1000/job_4711/step_0 (limit 512 MiB)");
	end.last = SLICE_STR("all_reduce #1532 (f32 x 11181642, sum), entered "
			     "0.8 s earlier");
	end.max_rss_kib = 524288;
	end.log = SLICE_STR("/logs/none_x/attempt_0/0/stderr.log");
	text = put(&r);
	expect_in(text, "|  cause        killed by signal 9 (SIGKILL)\n"
		  INDENT "killed by the kernel: out of memory in cgroup\n"
		  INDENT "/slurm/uid_1000/job_4711/step_0 (limit 512 MiB)\n"
		  "|  last call    all_reduce #1532 (f32 x 11181642, sum), "
		  "entered 0.8 s earlier\n"
		  "|  peak memory  512 MiB\n");
	ck_assert_ptr_null(strstr(text, "see dmesg"));
	expect_in(text, "|  error        ValueError: boom\n"
		  "|               at step 3\n"
		  "|  the end of its traceback:\n|      1\n");
	expect_in(text, "|  full stderr  /logs/none_x/attempt_0/0/stderr.log"
		  "\n");
	/* through libraries: longer than the last lines of stderr */
	error.callstack = (char *)
		"Traceback (most recent call last):\n"
		"  File \"/w/train.py\", line 9, in <module>\n"
		"    main()\n"
		"  File \"/w/train.py\", line 7, in main\n"
		"    model(x)\n"
		"    ^^^^^^^^\n"
		"  File \"/v/site-packages/nn.py\", line 3, in f\n"
		"    raise ValueError\n"
		"ValueError: boom\n";
	end.tail = SLICE_STR("    raise ValueError\nValueError: boom\n");
	expect_in(put(&r),
		  "|  its Python stack, the program's own frames first:\n"
		  "|    main (/w/train.py:7): model(x)\n"
		  "|    <module> (/w/train.py:9): main()\n"
		  "|    f (/v/site-packages/nn.py:3): raise ValueError\n");
	end.tail = SLICE_STR(error.callstack);
	ck_assert_ptr_null(strstr(put(&r), "its Python stack"));
	error.callstack = (char *)"Traceback:\n  1\n";
	/* Python printed the same to stderr */
	end.tail = SLICE_STR("Traceback:\nValueError: boom\n");
	text = put(&r);
	ck_assert_ptr_null(strstr(text, "the end of its traceback"));
	expect_in(text, "|    ValueError: boom\n");
}
END_TEST

static void fill(struct report_worker *w, uint32_t n, enum report_fate fate)
{
	for (uint32_t i = 0; i < n; i++)
		w[i] = (struct report_worker){
			.fate = fate, .rank = i, .local_rank = i,
			.pid = 100 + i, .code = 1, .after_ms = 35 + i,
		};
}

START_TEST(shows_what_became_of_the_other_workers)
{
	struct wire_end end = killed();
	struct report r = full(&end, NULL);
	static struct report_worker w[200];
	char last[] = "barrier #3, entered 2.0 s earlier, failed";
	const char *text;

	fill(w, 200, REPORT_STOPPED);
	w[0].fate = REPORT_FIRST;
	w[1].fate = w[2].fate = REPORT_VICTIM;
	w[2].code = 0;
	w[2].signal = 6;
	w[2].last = last;
	w[3].fate = REPORT_KILLED;
	w[4].fate = REPORT_DONE;
	r.workers = w;
	r.nworkers = 7;
	text = put(&r);
	expect_in(text, "\n+- on this node -");
	expect_in(text, "|  victims      rank 1 (local rank 1), pid 101: "
		  "exited with code 1, 36 ms later\n"
		  INDENT "rank 2 (local rank 2), pid 102: "
		  "killed by signal 6 (SIGABRT), 37 ms later\n"
		  INDENT "barrier #3, entered 2.0 s earlier, failed\n"
		  "|  killed       rank 3 (local rank 3), pid 103: "
		  "ignored the signal to stop\n"
		  "|  stopped      2 workers, by ddprun\n"
		  "|  had ended    1 worker, with code 0\n+");
	/* the first failure was on another node */
	r.first_is_here = 0;
	w[1].after_ms = -4;
	text = put(&r);
	expect_in(text, "pid 101: exited with code 1, 4 ms before this node "
			"learned of it");
	expect_in(text, "37 ms after this node learned of it");
}
END_TEST

START_TEST(the_page_does_not_grow_with_the_workers)
{
	static char tail[8 << 10];
	struct wire_end end = killed();
	struct error_file error = {"a\nb\nc\nd\ne\nf",
				   "1\n2\n3\n4\n5\n6\n7\n8\n", 0};
	struct report r = full(&end, &error);
	static struct report_worker w[60];
	static struct attempt attempts[13];
	static char did[] = "node 1 (h2) was lost";
	size_t n = 0;

	for (int i = 0; i < 20; i++)
		n += (size_t)sprintf(tail + n, "line %d\n", i);
	end.tail = SLICE(tail, n);
	end.why = SLICE_STR("something");
	end.max_rss_kib = 1;
	end.log = SLICE_STR("/a/log");
	fill(w, 60, REPORT_VICTIM);
	r.workers = w;
	r.nworkers = 60;
	expect_in(put(&r), "\n|               and 56 more\n");
	fill(w, 30, REPORT_KILLED);
	expect_in(put(&r), "\n|               and 28 more\n");
	for (int i = 0; i < 13; i++)
		attempts[i] = (struct attempt){.attempt = (uint32_t)i,
					       .ended_ms = 1795262974123,
					       .rank = -1, .text = did};
	r.attempts = attempts;
	r.nattempts = 13;
	expect_in(put(&r), "+- attempts -");
	expect_in(put(&r), "\n|  (3 before these)\n"
		  "|  attempt 4    2026-11-21 12:09:34 UTC, node 1 (h2) was "
		  "lost\n");
	expect_in(put(&r), "|  attempt 13   2026");
	ck_assert_int_le(lines_of(put(&r)), 56);
	/* and where no worker was restarted, without an error file */
	r.nattempts = 1;
	ck_assert_ptr_null(strstr(put(&r), "+- attempts -"));
	r.error = NULL;
	end.why = SLICE_STR("");
	ck_assert_int_le(lines_of(put(&r)), 45);
}
END_TEST

START_TEST(shows_victims_of_a_lost_node)
{
	struct wire_end end = killed();
	struct report r = full(&end, NULL);
	struct report_worker w[2];

	end.rank = -1;
	end.text = SLICE_STR("node 1 (h2) was lost");
	fill(w, 2, REPORT_STOPPED);
	r.workers = w;
	r.nworkers = 2;
	r.first_is_here = 0;
	ck_assert_str_eq(put(&r), "ddprun: job 'j' failed: node 1 (h2) was "
			 "lost\n");
	w[1].fate = REPORT_VICTIM;
	expect_in(put(&r), "\n|  victims      rank 1 (local rank 1), pid 101: "
		  "exited with code 1, 36 ms after this node learned of it\n");
}
END_TEST

START_TEST(hints)
{
	static const struct {
		int code, signal;
		const char *text;
	} all[] = {
		{127, 0, "(127 is how a shell reports a missing program)"},
		{126, 0, "(126 is how a shell reports a program that"},
		{137, 0, "(137 is how a shell reports SIGKILL, often out of"},
		{139, 0, "(139 is how a shell reports SIGSEGV)"},
		{0, SIGBUS, "in /dev/shm)"},
		{0, SIGXCPU, "(the CPU time limit (ulimit -t))"},
		{0, SIGILL, "another one?)"},
	};
	struct wire_end end = killed();
	struct report r = full(&end, NULL);

	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++) {
		end.code = all[i].code;
		end.signal = all[i].signal;
		expect_in(put(&r), all[i].text);
	}
	end.signal = 0;
	end.code = 1;
	expect_in(put(&r), "exited with code 1\n|  ran for");
}
END_TEST

/* ---- JSON ---- */

static cJSON *json_of(const struct report *r)
{
	struct err e = ERR_INIT;
	cJSON *all;

	buf_reset(&page);
	ck_assert_int_eq(report_put_json(&page, r, &e), 0);
	buf_put(&page, "", 1);
	all = cJSON_Parse(page.data);
	ck_assert_ptr_nonnull(all);
	return all;
}

static const char *text_in(const cJSON *o, const char *name)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(o, name);

	ck_assert_msg(cJSON_IsString(item), "%s is no text", name);
	return item->valuestring;
}

static double number_in(const cJSON *o, const char *name)
{
	const cJSON *item = cJSON_GetObjectItemCaseSensitive(o, name);

	ck_assert_msg(cJSON_IsNumber(item), "%s is no number", name);
	return item->valuedouble;
}

START_TEST(the_same_as_json)
{
	struct wire_end end = killed();
	struct error_file error = {"boom", "a\nb\n", 77};
	struct report r = full(&end, &error);
	char did[] = "rank 1 did", lost[] = "h2 was lost", h1[] = "h1";
	struct attempt attempts[2] = {
		{.attempt = 0, .ended_ms = 3456, .rank = 1, .local_rank = 1,
		 .pid = 47, .signal = 9, .ran_ms = 2500, .host = h1,
		 .text = did},
		{.attempt = 1, .ended_ms = 1795262974123, .rank = -1,
		 .text = lost}};
	const struct report_slow slow = {1, 0, 3, 345, "rank 3 slows"};
	const cJSON *item;
	struct report_worker w[2];
	cJSON *all, *first, *worker;

	end.error = SLICE_STR("{\"message\":\"boom\",\"timestamp\":77}");
	end.tail = SLICE("a \xff z\nb\0c", 9);
	end.why = SLICE_STR("why \"it\" died");
	end.max_rss_kib = 123456;
	end.last = SLICE_STR("barrier #3");
	end.core = 1;
	fill(w, 2, REPORT_VICTIM);
	w[0].fate = REPORT_FIRST;
	r.workers = w;
	r.nworkers = 2;
	r.attempts = attempts;
	r.nattempts = 2;
	r.slow = &slow;
	all = json_of(&r);
	ck_assert_str_eq(text_in(all, "verdict"), "failure");
	ck_assert_str_eq(text_in(all, "time"), "2026-11-21T12:09:34.123Z");
	ck_assert_double_eq(number_in(all, "timestamp"), 1795262974);
	ck_assert_double_eq(number_in(all, "exit_code"), 137);
	first = cJSON_GetObjectItem(all, "first_failure");
	ck_assert_double_eq(number_in(first, "exitcode"), -9);
	ck_assert_str_eq(text_in(first, "signal"), "SIGKILL");
	ck_assert_str_eq(text_in(first, "why"), "why \"it\" died");
	ck_assert_str_eq(text_in(first, "message"), "boom");
	ck_assert_double_eq(number_in(first, "timestamp"), 77);
	ck_assert_double_eq(number_in(first, "max_rss_kib"), 123456);
	ck_assert(cJSON_IsTrue(cJSON_GetObjectItem(first, "core_dumped")));
	ck_assert(cJSON_IsNull(cJSON_GetObjectItem(first, "stderr_file")));
	ck_assert_str_eq(text_in(cJSON_GetObjectItem(first, "error_file_data"),
				 "message"), "boom");
	ck_assert_str_eq(cJSON_GetArrayItem(cJSON_GetObjectItem(first,
			 "last_lines"), 0)->valuestring, "a \xef\xbf\xbd z");
	ck_assert_str_eq(cJSON_GetArrayItem(cJSON_GetObjectItem(first,
			 "last_lines"), 1)->valuestring, "b\xef\xbf\xbd" "c");
	ck_assert_str_eq(text_in(first, "last_call"), "barrier #3");
	worker = cJSON_GetArrayItem(cJSON_GetObjectItem(all, "workers"), 1);
	ck_assert(cJSON_IsNull(cJSON_GetObjectItem(worker, "last_call")));
	ck_assert_str_eq(text_in(worker, "fate"), "victim");
	ck_assert_double_eq(number_in(worker, "exitcode"), 1);
	ck_assert_str_eq(text_in(cJSON_GetArrayItem(cJSON_GetObjectItem(all,
			 "earlier_attempts"), 0), "text"), "rank 1 did");
	ck_assert_int_eq(cJSON_GetArraySize(cJSON_GetObjectItem(all,
			 "earlier_attempts")), 1);
	item = cJSON_GetArrayItem(cJSON_GetObjectItem(all, "attempts"), 0);
	ck_assert_double_eq(number_in(item, "attempt"), 0);
	ck_assert_str_eq(text_in(item, "time"), "1970-01-01T00:00:03.456Z");
	ck_assert_double_eq(number_in(item, "timestamp"), 3);
	ck_assert_double_eq(number_in(item, "rank"), 1);
	ck_assert_str_eq(text_in(item, "host"), "h1");
	ck_assert_double_eq(number_in(item, "pid"), 47);
	ck_assert_double_eq(number_in(item, "exitcode"), -9);
	ck_assert_str_eq(text_in(item, "signal"), "SIGKILL");
	ck_assert_double_eq(number_in(item, "ran_seconds"), 2.5);
	ck_assert_str_eq(text_in(item, "text"), "rank 1 did");
	item = cJSON_GetArrayItem(cJSON_GetObjectItem(all, "attempts"), 1);
	ck_assert(cJSON_IsNull(cJSON_GetObjectItem(item, "rank")));
	ck_assert(cJSON_IsNull(cJSON_GetObjectItem(item, "exitcode")));
	ck_assert_str_eq(text_in(item, "text"), "h2 was lost");
	item = cJSON_GetObjectItem(all, "slow");
	ck_assert_double_eq(number_in(item, "rank"), 3);
	ck_assert_double_eq(number_in(item, "waited_percent"), 34.5);
	ck_assert_str_eq(text_in(item, "text"), "rank 3 slows");
	cJSON_Delete(all);
	end.rank = -1;
	r.slow = NULL;
	all = json_of(&r);
	ck_assert(cJSON_IsNull(cJSON_GetObjectItem(all, "slow")));
	ck_assert(cJSON_IsNull(cJSON_GetObjectItem(all, "first_failure")));
	cJSON_Delete(all);
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

START_TEST(a_signal_without_a_cause_has_its_usual_one)
{
	struct wire_end end = killed();

	end.signal = SIGTERM;
	ck_assert_ptr_nonnull(strstr(render(&end, "none"),
				     "|               (not sent by ddprun)\n"));
	end.signal = SIGSEGV;
	ck_assert_ptr_nonnull(strstr(render(&end, "none"), "a bad memory"));
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("report");
	int failed;

	tcase_set_timeout(c, 20);
	tcase_add_test(c, a_signal_without_a_cause_has_its_usual_one);
	tcase_add_test(c, a_killed_worker);
	tcase_add_test(c, a_stack_is_shown_apart_from_the_cause);
	tcase_add_test(c, a_code_and_no_output);
	tcase_add_test(c, no_worker_failed);
	tcase_add_test(c, control_characters_are_escaped);
	tcase_add_test(c, shows_what_kernel_and_worker_reported);
	tcase_add_test(c, shows_what_became_of_the_other_workers);
	tcase_add_test(c, the_page_does_not_grow_with_the_workers);
	tcase_add_test(c, shows_victims_of_a_lost_node);
	tcase_add_test(c, hints);
	tcase_add_test(c, the_same_as_json);
	tcase_add_test(c, names_of_signals);
	failed = run_case(c);
	buf_release(&page);
	return failed;
}
