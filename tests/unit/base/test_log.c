/* test_log.c: errors are written once, and log lines are whole. Also checks
 * mt19937 against its published numbers. */
#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/error.h"
#include "base/log.h"
#include "base/mt19937.h"
#include "tests/unit/emulated.h"
#include "tests/unit/run_case.h"

static char seen[8192];
static unsigned long lines;

static void keep(void *arg, const char *line, unsigned long len)
{
	ck_assert_ptr_eq(arg, &lines);
	ck_assert_uint_gt(len, 0);
	ck_assert_int_eq(line[len - 1], '\n');
	snprintf(seen, sizeof(seen), "%.*s", (int)len, line);
	lines++;
}

static void begin(const char *level, const char *other)
{
	level ? setenv("DDP_LOG", level, 1) : unsetenv("DDP_LOG");
	other ? setenv("LOGLEVEL", other, 1) : unsetenv("LOGLEVEL");
	log_init("program");
	log_set_sink(keep, &lines);
}

START_TEST(lines_are_whole_and_marked)
{
	begin(NULL, NULL);
	log_info("rank %d of %d", 1, 2);
	ck_assert_str_eq(seen, "program: rank 1 of 2\n");
	log_warn("look");
	ck_assert_str_eq(seen, "program: warning: look\n");
	log_error("no");
	ck_assert_str_eq(seen, "program: no\n");
	ck_assert_uint_eq(lines, 3);
}
END_TEST

START_TEST(lines_below_the_level_are_dropped)
{
	begin("error", "debug");
	log_warn("look");
	log_info("x");
	log_debug("x");
	ck_assert_uint_eq(lines, 0);
	log_error("no");
	ck_assert_uint_eq(lines, 1);
	begin(NULL, "DEBUG");
	ck_assert(log_enabled(LOG_DEBUG));
	log_debug("x");
	ck_assert_str_eq(seen, "program: debug: x\n");
}
END_TEST

START_TEST(an_unknown_level_means_info)
{
	begin("loud", NULL);
	ck_assert(log_enabled(LOG_INFO));
	ck_assert(!log_enabled(LOG_DEBUG));
}
END_TEST

START_TEST(a_very_long_line_is_cut_and_still_a_line)
{
	char text[20000];

	begin(NULL, NULL);
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	log_info("%s", text);
	ck_assert_uint_eq(lines, 1);
	ck_assert_uint_gt(strlen(seen), 1000);
	ck_assert_int_eq(seen[strlen(seen) - 1], '\n');
}
END_TEST

START_TEST(what_a_terminal_would_obey_is_replaced)
{
	begin(NULL, NULL);
	log_info("host '%s'", "a\033[31m\r\177\a\302\233b\tc\303\274");
	ck_assert_str_eq(seen, "program: host 'a?[31m??\077??b\tc\303\274'\n");
}
END_TEST

/* Runs crash in a child that reports crashes; what it wrote to stderr is in
 * seen. Returns how it ended. */
static int crash_in_child(void (*crash)(void))
{
	int ends[2], status;
	ssize_t n;
	pid_t pid;

	ck_assert_int_eq(pipe(ends), 0);
	pid = fork();
	if (pid == 0) {
		const struct rlimit none = {0, 0};

		setrlimit(RLIMIT_CORE, &none);
		dup2(ends[1], STDERR_FILENO);
		signal(SIGABRT, SIG_DFL);
		signal(SIGSEGV, SIG_DFL);
		log_init("program");
		log_report_crashes();
		crash();
		_exit(0);
	}
	close(ends[1]);
	n = read(ends[0], seen, sizeof(seen) - 1);
	seen[n > 0 ? n : 0] = '\0';
	close(ends[0]);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	return status;
}

static void abort_without_files(void)
{
	errno = EMFILE;
	abort();
}

static void abort_without_cause(void)
{
	errno = 0;
	abort();
}

static void segfault(void)
{
	errno = EMFILE;
	raise(SIGSEGV);
}

static void is_killed(void)
{
	if (fork() == 0) {
		kill(getppid(), SIGABRT);
		_exit(0);
	}
	pause();
}

START_TEST(a_crash_is_reported_in_a_line_with_host_process_and_cause)
{
	static const struct {
		void (*crash)(void);
		int signal;
		const char *text;
	} rows[] = {
		{abort_without_files, SIGABRT,
		 ") aborted: too many open files; raise the limit (ulimit -n)"
		 "\n"},
		{abort_without_cause, SIGABRT, ") aborted: this is a bug; "},
		{segfault, SIGSEGV, ") crashed with SIGSEGV: this is a bug; "},
	};
	char host[256], start[300];

	if (emulator_lacks("silent crashes"))
		return;
	ck_assert_int_eq(gethostname(host, sizeof(host)), 0);
	snprintf(start, sizeof(start), "program: error: program on %s (pid ",
		 host);
	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		int status = crash_in_child(rows[i].crash);

		ck_assert(WIFSIGNALED(status));
		ck_assert_int_eq(WTERMSIG(status), rows[i].signal);
		ck_assert_msg(!strncmp(seen, start, strlen(start)), "%s", seen);
		ck_assert_msg(strstr(seen, rows[i].text) != NULL, "%s", seen);
		ck_assert_ptr_eq(strchr(seen, '\n'), seen + strlen(seen) - 1);
	}
}
END_TEST

START_TEST(a_signal_that_another_process_sent_is_no_crash)
{
	int status = crash_in_child(is_killed);

	if (emulator_lacks("silent crashes"))
		return;
	ck_assert(WIFSIGNALED(status));
	ck_assert_int_eq(WTERMSIG(status), SIGABRT);
	ck_assert_str_eq(seen, "");
}
END_TEST

START_TEST(an_error_is_set_once_and_returned)
{
	struct err e = ERR_INIT;
	char text[3 * ERR_TEXT_MAX];

	ck_assert_str_eq(e.text, "");
	ck_assert_int_eq(err_set(&e, -ENOENT, "%s: %s", "h1", "gone"), -ENOENT);
	ck_assert_int_eq(e.code, -ENOENT);
	ck_assert_str_eq(e.text, "h1: gone");
	ck_assert_int_eq(err_set(NULL, ERR_USAGE, "x"), ERR_USAGE);
	memset(text, 'x', sizeof(text) - 1);
	text[sizeof(text) - 1] = 0;
	err_set(&e, ERR_DATA, "%s", text);
	ck_assert_uint_eq(strlen(e.text), ERR_TEXT_MAX - 1);
}
END_TEST

START_TEST(every_code_has_a_name)
{
	static const int ours[] = {
#define X(name, code, text) ERR_##name,
		ERR_LIST(X)
#undef X
	};

	for (size_t i = 0; i < sizeof(ours) / sizeof(ours[0]); i++) {
		ck_assert_int_lt(ours[i], -20000);
		ck_assert_str_ne(err_name(ours[i]), err_name(-123456));
	}
	ck_assert_ptr_nonnull(strstr(err_name(-ETIMEDOUT),
				     strerror(ETIMEDOUT)));
	ck_assert_ptr_nonnull(err_name(0));
}
END_TEST

START_TEST(mt19937_gives_the_published_numbers)
{
	/* Matsumoto and Nishimura's default seed; C++11's check value */
	static const uint32_t first[] = {3499211612u, 581869302u, 3890346734u};
	struct mt19937 g;
	uint32_t last = 0;

	mt19937_seed(&g, 5489);
	for (int i = 0; i < 3; i++)
		ck_assert_uint_eq(mt19937_next(&g), first[i]);
	for (int i = 3; i < 10000; i++)
		last = mt19937_next(&g);
	ck_assert_uint_eq(last, 4123659995u);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("log");

	tcase_set_timeout(c, 10);
	tcase_add_test(c, lines_are_whole_and_marked);
	tcase_add_test(c, lines_below_the_level_are_dropped);
	tcase_add_test(c, an_unknown_level_means_info);
	tcase_add_test(c, a_very_long_line_is_cut_and_still_a_line);
	tcase_add_test(c, what_a_terminal_would_obey_is_replaced);
	tcase_add_test(c,
		a_crash_is_reported_in_a_line_with_host_process_and_cause);
	tcase_add_test(c, a_signal_that_another_process_sent_is_no_crash);
	tcase_add_test(c, an_error_is_set_once_and_returned);
	tcase_add_test(c, every_code_has_a_name);
	tcase_add_test(c, mt19937_gives_the_published_numbers);
	return run_case(c);
}
