/* test_logdir.c: the workers' folders and files. */
#include <check.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/log.h"
#include "launcher/output/logdir.h"
#include "tests/unit/run_case.h"

static char base[] = "/tmp/test_logdir_XXXXXX";
enum { NPROC = 12 };

static char dir[64], warned[4096];
static struct logdir d;
static struct output_options o;
static const char *job;

static void hear(void *arg, const char *line, unsigned long len)
{
	size_t n = strlen(warned);

	snprintf(warned + n, sizeof(warned) - n, "%.*s", (int)len, line);
}

static void setup(void)
{
	ck_assert_ptr_nonnull(mkdtemp(base));
	setenv("TMPDIR", base, 1);
	snprintf(dir, sizeof(dir), "%s/deep/logs", base);
	warned[0] = '\0';
	log_init("test");
	log_set_sink(hear, NULL);
	job = "none";
	o = (struct output_options){.log_dir = dir, .redirects = "3",
				    .tee = "0"};
}

static void teardown(void)
{
	logdir_release(&d);
	logdir_remove(base);
}

static int is_dir(const char *path)
{
	struct stat st;

	return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static unsigned folders;

static void on_folder(void *arg)
{
	ck_assert_ptr_eq(arg, &d);
	folders++;
}

static void begin(uint32_t attempt, uint32_t round, const char *name)
{
	const char *last;

	folders = 0;
	logdir_begin(&d, attempt, round, on_folder, &d);
	/* the node can renew its lease after each folder */
	ck_assert_uint_eq(folders, NPROC);
	last = strrchr(logdir_attempt(&d), '/');
	ck_assert_ptr_nonnull(last);
	ck_assert_str_eq(last + 1, name);
	ck_assert(is_dir(logdir_attempt(&d)));
}

START_TEST(the_layout_is_torchruns)
{
	char path[LOGDIR_PATH_MAX], want[LOGDIR_PATH_MAX];
	struct err e = ERR_INIT;
	int fd;

	ck_assert_int_eq(logdir_init(&d, &o, job, NPROC, &e), 0);
	begin(0, 1, "attempt_0");
	ck_assert(!strncmp(d.run, dir, strlen(dir)));
	ck_assert(!strncmp(d.run + strlen(dir), "/none_", 6));
	snprintf(want, sizeof(want), "%.4000s/11/error.json", d.attempt);
	ck_assert_str_eq(logdir_error_file(&d, 11, path), want);
	fd = logdir_open(&d, 11, 1).fd;
	ck_assert_int_ge(fd, 0);
	ck_assert(fcntl(fd, F_GETFL) & O_APPEND);
	ck_assert(fcntl(fd, F_GETFD) & FD_CLOEXEC);
	close(fd);
	snprintf(want, sizeof(want), "%.4000s/11/stderr.log", d.attempt);
	ck_assert_str_eq(logdir_stream(&d, 11, 1, path), want);
	ck_assert_int_eq(access(want, F_OK), 0);
	fd = logdir_open_filtered(&d, 0).fd;
	ck_assert_int_ge(fd, 0);
	close(fd);
	ck_assert_str_eq(logdir_private(&d), "");
}
END_TEST

START_TEST(no_round_overwrites_another)
{
	struct err e = ERR_INIT;

	ck_assert_int_eq(logdir_init(&d, &o, job, NPROC, &e), 0);
	begin(0, 1, "attempt_0");
	begin(0, 2, "attempt_0_round_2");
	begin(1, 3, "attempt_1");
	begin(1, 4, "attempt_1_round_4");
	ck_assert_str_eq(warned, "");
}
END_TEST

START_TEST(a_jobs_name_is_made_safe)
{
	static const struct {
		const char *job, *name;
	} rows[] = {
		{"a/b c\t", "a_b_c__"},
		{"..", "_._"},
		{"j\xc3\xb6" "b-1", "j\xc3\xb6" "b-1_"},
	};
	struct err e = ERR_INIT;

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		job = rows[i].job;
		ck_assert_int_eq(logdir_init(&d, &o, job, NPROC, &e), 0);
		ck_assert_msg(!strncmp(strrchr(d.run, '/') + 1, rows[i].name,
				       strlen(rows[i].name)), "%s", d.run);
	}
}
END_TEST

START_TEST(without_a_folder_errors_have_a_private_one)
{
	char path[LOGDIR_PATH_MAX], run[LOGDIR_PATH_MAX];
	struct err e = ERR_INIT;
	struct stat st;
	int fd;

	o.log_dir = NULL;
	o.redirects = "0";
	ck_assert_int_eq(logdir_init(&d, &o, job, NPROC, &e), 0);
	ck_assert_str_eq(logdir_private(&d), d.run);
	snprintf(run, sizeof(run), "%s", d.run);
	ck_assert_int_eq(stat(run, &st), 0);
	ck_assert_int_eq(st.st_mode & 0777, 0700);
	logdir_begin(&d, 0, 1, on_folder, &d);
	ck_assert_str_eq(logdir_attempt(&d), "");
	ck_assert_str_eq(logdir_stream(&d, 0, 1, path), "");
	fd = open(logdir_error_file(&d, 3, path), O_CREAT | O_WRONLY, 0600);
	ck_assert_int_ge(fd, 0);
	close(fd);
	logdir_begin(&d, 0, 2, on_folder, &d);
	/* an earlier round's file does not count as this round's */
	ck_assert_int_lt(access(logdir_error_file(&d, 3, path), F_OK), 0);
	logdir_release(&d);
	ck_assert(!is_dir(run));
}
END_TEST

START_TEST(files_without_a_folder_are_kept_and_named)
{
	char run[LOGDIR_PATH_MAX];
	struct err e = ERR_INIT;

	o.log_dir = NULL;
	ck_assert_int_eq(logdir_init(&d, &o, job, NPROC, &e), 0);
	snprintf(run, sizeof(run), "%s", d.run);
	ck_assert_ptr_nonnull(strstr(run, "/torchelastic_"));
	ck_assert_ptr_nonnull(strstr(warned, run));
	logdir_release(&d);
	ck_assert(is_dir(run));
}
END_TEST

START_TEST(dev_null_creates_no_files)
{
	char path[LOGDIR_PATH_MAX];
	struct err e = ERR_INIT;

	o.log_dir = "/dev/null";
	ck_assert_int_eq(logdir_init(&d, &o, job, NPROC, &e), 0);
	logdir_begin(&d, 0, 1, on_folder, &d);
	ck_assert_str_eq(logdir_attempt(&d), "");
	ck_assert_str_eq(logdir_error_file(&d, 0, path), "");
	ck_assert_str_eq(logdir_stream(&d, 0, 1, path), "");
	ck_assert_int_lt(logdir_open(&d, 0, 0).fd, 0);
	ck_assert_str_eq(warned, "");
}
END_TEST

START_TEST(an_impossible_folder_is_named)
{
	char path[128];
	struct err e = ERR_INIT;

	snprintf(path, sizeof(path), "%s/file", base);
	close(open(path, O_CREAT | O_WRONLY, 0600));
	strcat(path, "/logs");
	o.log_dir = path;
	ck_assert_int_lt(logdir_init(&d, &o, job, NPROC, &e), 0);
	ck_assert_ptr_nonnull(strstr(e.text, path));
	ck_assert_ptr_nonnull(strstr(e.text, "Not a directory"));
}
END_TEST

START_TEST(a_later_failure_prints_one_warning)
{
	struct err e = ERR_INIT;

	ck_assert_int_eq(logdir_init(&d, &o, job, NPROC, &e), 0);
	begin(0, 1, "attempt_0");
	logdir_remove(d.run); /* as if a user had removed it */
	ck_assert_int_lt(logdir_open(&d, 0, 0).fd, 0);
	ck_assert_int_lt(logdir_open(&d, 0, 1).fd, 0);
	logdir_begin(&d, 1, 2, on_folder, &d);
	ck_assert_str_eq(logdir_attempt(&d), "");
	ck_assert_ptr_nonnull(strstr(warned, "attempt_0/0/stdout.log"));
	ck_assert_ptr_eq(strchr(warned, '\n'), strrchr(warned, '\n'));
}
END_TEST

START_TEST(the_last_lines_of_a_file_are_found)
{
	struct err e = ERR_INIT;
	struct tail t;
	int fd;

	ck_assert_int_eq(logdir_init(&d, &o, job, NPROC, &e), 0);
	begin(0, 1, "attempt_0");
	fd = logdir_open(&d, 2, 1).fd;
	for (int i = 0; i < 100000; i++)
		dprintf(fd, "line %d\n", i);
	dprintf(fd, "no end");
	close(fd);
	tail_init(&t, TAIL_BYTES);
	logdir_tail(&d, 2, &t);
	ck_assert_int_eq(t.lines, TAIL_LINES);
	ck_assert(!strncmp(t.text.data, "line 99937\n", 11));
	ck_assert(!strncmp(t.text.data + t.text.len - 7, "no end\n", 7));
	tail_clear(&t);
	logdir_tail(&d, 3, &t);
	ck_assert_int_eq(t.lines, 0);
	fd = logdir_open(&d, 3, 0).fd;
	dprintf(fd, "of stdout\n");
	close(fd);
	logdir_tail(&d, 3, &t);
	ck_assert_int_eq(t.lines, 0);
	ck_assert_int_eq(logdir_read_tail(&d, 3, 0, &t), 0);
	ck_assert_int_eq(t.lines, 1);
	ck_assert(!strncmp(t.text.data, "of stdout\n", 10));
	tail_release(&t);
}
END_TEST

START_TEST(a_relative_tmpdir_is_found_from_anywhere)
{
	char path[LOGDIR_PATH_MAX], there[64];
	struct err e = ERR_INIT;

	o.log_dir = NULL;
	o.redirects = o.tee = "0";
	ck_assert_int_eq(chdir(base), 0);
	ck_assert_int_eq(mkdir("t", 0700), 0);
	setenv("TMPDIR", "t", 1);
	ck_assert_int_eq(logdir_init(&d, &o, job, NPROC, &e), 0);
	snprintf(there, sizeof(there), "%s/t/ddprun_", base);
	ck_assert_int_eq(chdir("/"), 0);
	logdir_error_file(&d, 0, path);
	ck_assert_msg(!strncmp(path, there, strlen(there)), "%s", path);
	ck_assert(is_dir(logdir_private(&d)));
}
END_TEST

START_TEST(a_remaining_private_folder_is_reported)
{
	struct rlimit limit;
	struct err e = ERR_INIT;
	char path[LOGDIR_PATH_MAX];
	rlim_t was;
	int lowest;

	o.log_dir = NULL;
	o.redirects = o.tee = "0";
	ck_assert_int_eq(logdir_init(&d, &o, job, NPROC, &e), 0);
	snprintf(path, sizeof(path), "%s", logdir_private(&d));
	lowest = dup(0);
	close(lowest);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &limit), 0);
	was = limit.rlim_cur;
	limit.rlim_cur = (rlim_t)lowest;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	logdir_release(&d);
	limit.rlim_cur = was;
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &limit), 0);
	ck_assert_ptr_nonnull(strstr(warned, "cannot remove"));
	ck_assert_ptr_nonnull(strstr(warned, path));
	ck_assert_int_eq(logdir_remove(path), 0);
	ck_assert(!is_dir(path));
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("all");

	tcase_set_timeout(tc, 60);
	tcase_add_checked_fixture(tc, setup, teardown);
	tcase_add_test(tc, the_layout_is_torchruns);
	tcase_add_test(tc, no_round_overwrites_another);
	tcase_add_test(tc, a_jobs_name_is_made_safe);
	tcase_add_test(tc, without_a_folder_errors_have_a_private_one);
	tcase_add_test(tc, files_without_a_folder_are_kept_and_named);
	tcase_add_test(tc, dev_null_creates_no_files);
	tcase_add_test(tc, an_impossible_folder_is_named);
	tcase_add_test(tc, a_later_failure_prints_one_warning);
	tcase_add_test(tc, the_last_lines_of_a_file_are_found);
	tcase_add_test(tc, a_relative_tmpdir_is_found_from_anywhere);
	tcase_add_test(tc, a_remaining_private_folder_is_reported);
	return run_case(tc);
}
