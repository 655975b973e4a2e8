/* test_page.c: the agent's side of a dump: the child that writes a page is this
 * program itself, which does what --last tells it. */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/inspect/page.h"
#include "tests/unit/run_case.h"

enum { WRITES = 1, HANGS, FLOODS, FAILS, DIES, MANY = 9 };

static uv_loop_t loop;
static uv_signal_t child;
static struct pages pages;
static struct {
	uint32_t number;
	char text[300], page[64];
	size_t len;
} told[MANY];
static unsigned ntold;

static void on_page(void *owner, const struct wire_page *m)
{
	ck_assert_ptr_eq(owner, &told);
	ck_assert_uint_lt(ntold, MANY);
	told[ntold].number = m->number;
	told[ntold].len = m->page.len;
	snprintf(told[ntold].text, sizeof(told->text), "%.*s",
		 SLICE_FMT(m->text));
	snprintf(told[ntold].page, sizeof(told->page), "%.*s",
		 SLICE_FMT(m->page));
	ntold++;
}

static void on_child(uv_signal_t *s, int number)
{
	int status;
	pid_t pid;

	/* one that was killed when all were closed is no page's any more */
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		ck_assert(pages_reaped(&pages, pid, status) || !pages.n);
}

static void start(void)
{
	ck_assert_int_eq(uv_loop_init(&loop), 0);
	ck_assert_int_eq(uv_signal_init(&loop, &child), 0);
	ck_assert_int_eq(uv_signal_start(&child, on_child, SIGCHLD), 0);
	pages_init(&pages, &loop, on_page, &told);
	ntold = 0;
}

static void stop(void)
{
	uv_close((uv_handle_t *)&child, NULL);
	uv_run(&loop, UV_RUN_DEFAULT);
	ck_assert_int_eq(uv_loop_close(&loop), 0);
}

static void ask(uint32_t what, uint32_t timeout_ms)
{
	const struct wire_look look = {.number = 100 + what, .last = what,
				       .json = 1, .timeout_ms = timeout_ms};

	pages_start(&pages, &look);
}

static void until_told(unsigned n)
{
	while (ntold < n)
		uv_run(&loop, UV_RUN_ONCE);
}

START_TEST(a_page_is_told_when_it_is_whole)
{
	start();
	ask(WRITES, 60000);
	until_told(1);
	ck_assert_uint_eq(told[0].number, 100 + WRITES);
	ck_assert_str_eq(told[0].page, "a page, --json\n");
	ck_assert_str_eq(told[0].text, "");
	stop();
}
END_TEST

START_TEST(who_fails_says_why_and_who_dies_is_told)
{
	start();
	ask(FAILS, 60000);
	until_told(1);
	ck_assert_uint_eq(told[0].len, 0);
	ck_assert_str_eq(told[0].text, "no such thing");
	ask(DIES, 60000);
	until_told(2);
	ck_assert_str_eq(told[1].page, "half");
	ck_assert_ptr_nonnull(strstr(told[1].text, "SIGTERM"));
	stop();
}
END_TEST

static void on_page_close(void *owner, const struct wire_page *m)
{
	on_page(owner, m);
	/* as where the connection fails on which the page was to go */
	pages_close(&pages);
}

START_TEST(all_pages_may_be_closed_when_one_is_told)
{
	start();
	pages.on_page = on_page_close;
	ask(WRITES, 60000);
	ask(HANGS, 60000);
	until_told(1);
	ck_assert_str_eq(told[0].page, "a page, --json\n");
	ck_assert_uint_eq(pages.n, 0);
	/* the one that hangs was killed; nobody reaps for it any more */
	uv_signal_stop(&child);
	stop();
	ck_assert_uint_eq(ntold, 1);
	while (wait(NULL) > 0)
		continue;
}
END_TEST

START_TEST(who_hangs_is_ended_with_what_it_wrote)
{
	start();
	ask(HANGS, 300);
	until_told(1);
	ck_assert_ptr_nonnull(strstr(told[0].text, "within 0.3 s"));
	stop();
}
END_TEST

START_TEST(what_is_too_long_is_cut)
{
	start();
	ask(FLOODS, 60000);
	until_told(1);
	ck_assert_uint_eq(told[0].len, WIRE_PAGE_MAX);
	ck_assert_ptr_nonnull(strstr(told[0].text, "cut at 1 MiB"));
	stop();
}
END_TEST

START_TEST(several_at_once_and_not_too_many)
{
	start();
	for (int i = 0; i < MANY; i++)
		ask(HANGS, 60000);
	ck_assert_uint_eq(ntold, 1);
	ck_assert_ptr_nonnull(strstr(told[0].text, "under way"));
	ck_assert_uint_eq(told[0].len, 0);
	pages_close(&pages);
	/* they were killed, and nobody hears of them */
	for (int i = 0; i < MANY - 1; i++)
		ck_assert_int_gt(waitpid(-1, NULL, 0), 0);
	ck_assert_int_eq(pages_reaped(&pages, getpid(), 0), 0);
	stop();
	ck_assert_uint_eq(ntold, 1);
}
END_TEST

static int be_writer(int argc, char **argv)
{
	char space[4096];

	memset(space, 'x', sizeof(space));
	switch (atoi(strchr(argv[3], '=') + 1)) {
	case WRITES:
		printf("a page, %s\n", argv[argc - 1]);
		return 0;
	case HANGS:
		for (;;)
			pause();
	case FLOODS:
		for (;;)
			fwrite(space, 1, sizeof(space), stdout);
	case FAILS:
		fprintf(stderr, "no such thing\n");
		return 1;
	}
	printf("half");
	fflush(stdout);
	return raise(SIGTERM);
}

static int run_tests(void)
{
	TCase *c = tcase_create("page");

	tcase_set_timeout(c, 60);
	tcase_add_test(c, a_page_is_told_when_it_is_whole);
	tcase_add_test(c, who_fails_says_why_and_who_dies_is_told);
	tcase_add_test(c, all_pages_may_be_closed_when_one_is_told);
	tcase_add_test(c, who_hangs_is_ended_with_what_it_wrote);
	tcase_add_test(c, what_is_too_long_is_cut);
	tcase_add_test(c, several_at_once_and_not_too_many);
	return run_case(c);
}

int main(int argc, char **argv)
{
	if (argc > 3 && strcmp(argv[1], "dump") == 0)
		return be_writer(argc, argv);
	return run_tests();
}
