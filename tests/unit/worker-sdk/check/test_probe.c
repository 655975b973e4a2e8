/* test_probe.c: the probes' processes, and what they find on this host. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/run_case.h"
#include "worker-sdk/check/probe.h"

static struct findings found;

static const struct finding *get(const char *name)
{
	const struct finding *f = findings_get(&found, name);

	ck_assert_msg(f != NULL, "no finding '%s'", name);
	return f;
}

static void run(const struct probe_options *o)
{
	found.n = 0;
	probes_run(&found, o);
}

START_TEST(probes_find_the_parts_of_any_host)
{
	run(&(struct probe_options){.nodes = 1, .folders = "."});
	ck_assert_int_eq(get("open files")->compare, FINDING_AS_HIGH);
	ck_assert_double_gt(get("memory")->value, 0);
	ck_assert_double_gt(get("CPU speed")->value, 0);
	ck_assert_str_eq(get("ddprun")->text, DDP_VERSION);
	ck_assert_double_gt(get("folder .")->value, 0);
}
END_TEST

START_TEST(a_folder_that_is_not_there_is_a_failure)
{
	run(&(struct probe_options){.nodes = 1, .folders = "/no/such,."});
	ck_assert_int_eq(get("folder /no/such")->verdict, FINDING_FAILURE);
	ck_assert_ptr_nonnull(strstr(get("folder /no/such")->wrong,
				     "No such file or directory"));
	ck_assert_int_lt(get("folder .")->verdict, FINDING_FAILURE);
}
END_TEST

START_TEST(a_folder_that_takes_no_large_file_is_a_failure)
{
	const struct probe_options o = {.nodes = 1};
	const struct rlimit limit = {1 << 20, 1 << 20};

	signal(SIGXFSZ, SIG_IGN);
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	found.n = 0;
	probe_folder_speed(&found, &(struct probe_call){&o, "."});
	ck_assert_int_eq(get("folder ., write")->verdict, FINDING_FAILURE);
	ck_assert_str_eq(get("folder ., write")->wrong,
			 ".: cannot write 64 MiB there: File too large");
	ck_assert_int_eq(get("folder ., read")->verdict, FINDING_OK);
}
END_TEST

START_TEST(a_command_that_fails_is_quoted)
{
	run(&(struct probe_options){
		.nodes = 1, .command = "echo a; echo 'no licence'; exit 3"});
	ck_assert_int_eq(get("site's check")->verdict, FINDING_FAILURE);
	ck_assert_ptr_nonnull(strstr(get("site's check")->wrong,
				     "exited with code 3: no licence"));
	run(&(struct probe_options){.nodes = 1, .command = "kill -9 $$"});
	ck_assert_ptr_nonnull(strstr(get("site's check")->wrong,
				     "killed by signal 9"));
	run(&(struct probe_options){.nodes = 1, .command = "true"});
	ck_assert_int_eq(get("site's check")->verdict, FINDING_OK);
}
END_TEST

START_TEST(a_command_that_writes_much_is_cut)
{
	run(&(struct probe_options){
		.nodes = 1,
		.command = "head -c 1000000 /dev/zero; echo; printf 'end'; "
			   "exit 1"});
	ck_assert_ptr_nonnull(strstr(get("site's check")->wrong, "1: end"));
}
END_TEST

/* The fifo has no writer: the command and its child wait for ever. */
START_TEST(a_probe_that_hangs_is_ended_with_its_children)
{
	char fifo[] = "/tmp/test_probe.XXXXXX", command[128];
	int fd = mkstemp(fifo);

	ck_assert_int_ge(fd, 0);
	close(fd);
	unlink(fifo);
	ck_assert_int_eq(mkfifo(fifo, 0600), 0);
	snprintf(command, sizeof(command), "cat %s; true", fifo);
	run(&(struct probe_options){
		.nodes = 1, .command = command, .time_ms = 2000});
	ck_assert_int_eq(get("site's check")->verdict, FINDING_FAILURE);
	ck_assert_ptr_nonnull(strstr(get("site's check")->wrong,
				     "no answer for 2 s"));
	ck_assert_int_lt(get("open files")->verdict, FINDING_FAILURE);
	unlink(fifo);
}
END_TEST

START_TEST(bytes_are_written_for_people)
{
	char text[PROBE_BYTES_MAX];

	ck_assert_str_eq(probe_bytes_text(0, text), "0 bytes");
	ck_assert_str_eq(probe_bytes_text(1536, text), "1.5 KiB");
	ck_assert_str_eq(probe_bytes_text((uint64_t)64 << 20, text), "64 MiB");
	ck_assert_str_eq(probe_bytes_text(UINT64_MAX, text), "16384 PiB");
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("probe");

	tcase_set_timeout(c, 60);
	tcase_add_test(c, probes_find_the_parts_of_any_host);
	tcase_add_test(c, a_folder_that_is_not_there_is_a_failure);
	tcase_add_test(c, a_folder_that_takes_no_large_file_is_a_failure);
	tcase_add_test(c, a_command_that_fails_is_quoted);
	tcase_add_test(c, a_command_that_writes_much_is_cut);
	tcase_add_test(c, a_probe_that_hangs_is_ended_with_its_children);
	tcase_add_test(c, bytes_are_written_for_people);
	return run_case(c) ? EXIT_FAILURE : EXIT_SUCCESS;
}
