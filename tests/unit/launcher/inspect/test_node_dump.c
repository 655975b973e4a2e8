/* test_node_dump.c: the agent side of a dump. The child that writes it is
 * this program, which does what --last selects. */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/inspect/node_dump.h"
#include "tests/unit/run_case.h"

enum { WRITES = 1, HANGS, FLOODS, FAILS, DIES, MANY = 9 };

static uv_loop_t loop;
static uv_signal_t child;
static struct node_dumps dumps;
static struct {
	uint32_t number;
	char text[300], page[64];
	size_t len;
} done[MANY];
static unsigned ndone;

static void on_done(void *owner, const struct wire_dump_reply *m)
{
	ck_assert_ptr_eq(owner, &done);
	ck_assert_uint_lt(ndone, MANY);
	done[ndone].number = m->number;
	done[ndone].len = m->page.len;
	snprintf(done[ndone].text, sizeof(done->text), "%.*s",
		 SLICE_FMT(m->text));
	snprintf(done[ndone].page, sizeof(done->page), "%.*s",
		 SLICE_FMT(m->page));
	ndone++;
}

static void on_child(uv_signal_t *s, int number)
{
	int status;
	pid_t pid;

	/* a child that was killed by a close belongs to no dump */
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0)
		ck_assert(node_dumps_reaped(&dumps, pid, status) || !dumps.n);
}

static void start(void)
{
	ck_assert_int_eq(uv_loop_init(&loop), 0);
	ck_assert_int_eq(uv_signal_init(&loop, &child), 0);
	ck_assert_int_eq(uv_signal_start(&child, on_child, SIGCHLD), 0);
	node_dumps_init(&dumps, &loop, on_done, &done);
	ndone = 0;
}

static void stop(void)
{
	uv_close((uv_handle_t *)&child, NULL);
	uv_run(&loop, UV_RUN_DEFAULT);
	ck_assert_int_eq(uv_loop_close(&loop), 0);
}

static void ask(uint32_t what, uint32_t timeout_ms)
{
	const struct wire_dump_request look = {.number = 100 + what,
					       .last = what,
					       .json = 1,
					       .timeout_ms = timeout_ms};

	node_dumps_start(&dumps, &look);
}

static void until_done(unsigned n)
{
	while (ndone < n)
		uv_run(&loop, UV_RUN_ONCE);
}

START_TEST(a_dump_is_done_when_it_is_complete)
{
	start();
	ask(WRITES, 60000);
	until_done(1);
	ck_assert_uint_eq(done[0].number, 100 + WRITES);
	ck_assert_str_eq(done[0].page, "a page, --json\n");
	ck_assert_str_eq(done[0].text, "");
	stop();
}
END_TEST

START_TEST(a_child_that_fails_or_dies_is_reported)
{
	start();
	ask(FAILS, 60000);
	until_done(1);
	ck_assert_uint_eq(done[0].len, 0);
	ck_assert_str_eq(done[0].text, "no such thing");
	ask(DIES, 60000);
	until_done(2);
	ck_assert_str_eq(done[1].page, "half");
	ck_assert_ptr_nonnull(strstr(done[1].text, "SIGTERM"));
	stop();
}
END_TEST

static void on_done_close(void *owner, const struct wire_dump_reply *m)
{
	on_done(owner, m);
	/* as when the connection for the dump fails */
	node_dumps_close(&dumps);
}

START_TEST(all_dumps_may_be_closed_when_one_is_done)
{
	start();
	dumps.on_done = on_done_close;
	ask(WRITES, 60000);
	ask(HANGS, 60000);
	until_done(1);
	ck_assert_str_eq(done[0].page, "a page, --json\n");
	ck_assert_uint_eq(dumps.n, 0);
	/* the child that hangs was killed, and its exit is not handled */
	uv_signal_stop(&child);
	stop();
	ck_assert_uint_eq(ndone, 1);
	while (wait(NULL) > 0)
		continue;
}
END_TEST

START_TEST(a_child_that_hangs_is_killed_and_its_output_kept)
{
	start();
	ask(HANGS, 300);
	until_done(1);
	ck_assert_ptr_nonnull(strstr(done[0].text, "within 0.3 s"));
	stop();
}
END_TEST

START_TEST(a_dump_that_is_too_long_is_cut)
{
	start();
	ask(FLOODS, 60000);
	until_done(1);
	ck_assert_uint_eq(done[0].len, WIRE_DUMP_REPLY_MAX);
	ck_assert_ptr_nonnull(strstr(done[0].text, "truncated at 1 MiB"));
	stop();
}
END_TEST

START_TEST(several_dumps_run_at_once_up_to_a_limit)
{
	start();
	for (int i = 0; i < MANY; i++)
		ask(HANGS, 60000);
	ck_assert_uint_eq(ndone, 1);
	ck_assert_ptr_nonnull(strstr(done[0].text, "in progress"));
	ck_assert_uint_eq(done[0].len, 0);
	node_dumps_close(&dumps);
	/* they were killed, and their dumps dropped */
	for (int i = 0; i < MANY - 1; i++)
		ck_assert_int_gt(waitpid(-1, NULL, 0), 0);
	ck_assert_int_eq(node_dumps_reaped(&dumps, getpid(), 0), 0);
	stop();
	ck_assert_uint_eq(ndone, 1);
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
	TCase *c = tcase_create("node_dump");

	tcase_set_timeout(c, 60);
	tcase_add_test(c, a_dump_is_done_when_it_is_complete);
	tcase_add_test(c, a_child_that_fails_or_dies_is_reported);
	tcase_add_test(c, all_dumps_may_be_closed_when_one_is_done);
	tcase_add_test(c, a_child_that_hangs_is_killed_and_its_output_kept);
	tcase_add_test(c, a_dump_that_is_too_long_is_cut);
	tcase_add_test(c, several_dumps_run_at_once_up_to_a_limit);
	return run_case(c);
}

int main(int argc, char **argv)
{
	if (argc > 3 && strcmp(argv[1], "dump") == 0)
		return be_writer(argc, argv);
	return run_tests();
}
