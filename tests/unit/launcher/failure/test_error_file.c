/* test_error_file.c: reading, parsing and forwarding torchrun's error files.
 * libddp's must parse in the same way. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "launcher/failure/report.h"
#include "tests/unit/run_case.h"
#include "worker-sdk/ddp.h"

#define NESTED "{\"message\": {\"message\": \"ValueError: boom\\nand more\", " \
	"\"extraInfo\": {\"py_callstack\": \"Traceback\\n  File x\\n\", "     \
	"\"timestamp\": \"1795262974\"}}}"

static char dir[] = "/tmp/test_error_file.XXXXXX";
static char path[100];

static void setup(void)
{
	strcpy(dir + sizeof(dir) - 7, "XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/error.json", dir);
}

static void teardown(void)
{
	remove(path);
	/* fails where a temporary file was left behind */
	ck_assert_int_eq(remove(dir), 0);
}

static void put_file(const char *text, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(file_write_all(fd, text, size), 0);
	close(fd);
}

/* Returns what error_file_read does; *text, if any, is the caller's. */
static int get(char **text, struct err *e)
{
	struct buf json = BUF_INIT(ERROR_FILE_MAX + 4096);
	int rc = error_file_read(path, &json, e);

	buf_put(&json, "", 1);
	if (text && rc == 1)
		*text = strdup(json.data);
	else
		ck_assert_uint_eq(json.len, rc == 1 ? json.len : 1);
	buf_release(&json);
	return rc;
}

START_TEST(torchs_record)
{
	struct error_file f;
	struct err e = ERR_INIT;
	char *text = NULL;

	put_file(NESTED, strlen(NESTED));
	ck_assert_int_eq(get(&text, &e), 1);
	ck_assert_str_eq(text, NESTED);
	ck_assert_int_eq(error_file_parse(&f, SLICE_STR(text), &e), 0);
	ck_assert_str_eq(f.message, "ValueError: boom\nand more");
	ck_assert_str_eq(f.callstack, "Traceback\n  File x\n");
	ck_assert_int_eq(f.timestamp, 1795262974);
	error_file_release(&f);
	free(text);
}
END_TEST

START_TEST(the_flat_form)
{
	struct error_file f;
	struct err e = ERR_INIT;

	ck_assert_int_eq(error_file_parse(&f, SLICE_STR("{\"message\": \"out of"
					  " luck\", \"timestamp\": 17}"), &e),
			 0);
	ck_assert_str_eq(f.message, "out of luck");
	ck_assert_ptr_null(f.callstack);
	ck_assert_int_eq(f.timestamp, 17);
	error_file_release(&f);
}
END_TEST

START_TEST(odd_values_do_no_harm)
{
	static const char *const texts[] = {
		"{\"message\": {}}",
		"{\"message\": {\"message\": 7, \"extraInfo\": 8}}",
		("{\"message\": {\"message\": \"x\", \"extraInfo\": "
		 "{\"timestamp\": 1e300, \"py_callstack\": []}}}"),
		"{\"message\": \"x\", \"timestamp\": -1}",
		"{\"message\": \"x\", \"timestamp\": \"soon\"}",
	};
	struct error_file f;
	struct err e = ERR_INIT;

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		ck_assert_int_eq(error_file_parse(&f, SLICE_STR(texts[i]), &e),
				 0);
		ck_assert_int_eq(f.timestamp, 0);
		ck_assert_ptr_null(f.callstack);
		error_file_release(&f);
	}
}
END_TEST

START_TEST(a_missing_file_is_no_error)
{
	struct buf json = BUF_INIT(100);
	struct err e = ERR_INIT;

	ck_assert_int_eq(get(NULL, &e), 0);
	ck_assert_int_eq(error_file_read("", &json, &e), 0);
}
END_TEST

static void expect_bad(const char *text, size_t size, const char *why)
{
	struct err e = ERR_INIT;

	put_file(text, size);
	ck_assert_int_eq(get(NULL, &e), ERR_DATA);
	ck_assert_msg(strstr(e.text, why) != NULL, "%s", e.text);
	ck_assert_ptr_nonnull(strstr(e.text, path));
}

START_TEST(the_error_says_what_is_wrong)
{
	char *big = calloc(1, ERROR_FILE_MAX + 1);

	expect_bad("", 0, "is empty");
	expect_bad(NESTED, strlen(NESTED) - 2, "is truncated or not JSON");
	expect_bad("Killed\n", 7, "is truncated or not JSON");
	expect_bad("\0\0\0", 3, "is truncated or not JSON");
	expect_bad("[1, 2]", 6, "has no \"message\"");
	expect_bad("{\"message\": 3}", 14, "has no \"message\"");
	expect_bad(big, ERROR_FILE_MAX + 1, "more than the");
	free(big);
}
END_TEST

START_TEST(a_fifo_or_a_folder_is_refused_without_blocking)
{
	struct err e = ERR_INIT;

	ck_assert_int_eq(mkfifo(path, 0600), 0);
	ck_assert_int_eq(get(NULL, &e), ERR_DATA);
	ck_assert_ptr_nonnull(strstr(e.text, "is not a regular file"));
	remove(path);
	ck_assert_int_eq(mkdir(path, 0700), 0);
	ck_assert_int_eq(get(NULL, &e), ERR_DATA);
}
END_TEST

/* ---- For the launcher that started us ---- */

START_TEST(forwards_the_file_with_the_exit_code)
{
	struct err e = ERR_INIT;
	char *text = NULL;

	ck_assert_int_eq(error_file_forward(path, SLICE_STR(NESTED),
					    SLICE_STR("not used"), -9, 5, &e),
			 0);
	ck_assert_int_eq(get(&text, &e), 1);
	ck_assert_ptr_nonnull(strstr(text, "\"errorCode\":-9"));
	ck_assert_ptr_nonnull(strstr(text, "ValueError: boom"));
	ck_assert_ptr_nonnull(strstr(text, "1795262974"));
	free(text);
}
END_TEST

START_TEST(makes_a_file_if_the_worker_wrote_none)
{
	struct error_file f;
	struct err e = ERR_INIT;
	char *text = NULL;

	put_file("an old one", 10);
	ck_assert_int_eq(error_file_forward(path, SLICE_STR(""),
					    SLICE("rank \"3\" died, not", 13),
					    3, 1234, &e), 0);
	ck_assert_int_eq(get(&text, &e), 1);
	ck_assert_int_eq(error_file_parse(&f, SLICE_STR(text), &e), 0);
	ck_assert_str_eq(f.message, "rank \"3\" died");
	ck_assert_int_eq(f.timestamp, 1234);
	ck_assert_ptr_nonnull(strstr(text, "\"errorCode\":3"));
	error_file_release(&f);
	free(text);
}
END_TEST

START_TEST(forwards_utf8_whatever_the_worker_wrote)
{
	static const char theirs[] = "{\"message\": \"caf\xe9\"}";
	struct err e = ERR_INIT;
	char *text = NULL;

	put_file("an old one", 10);
	ck_assert_int_eq(error_file_forward(path, SLICE_STR(""),
					    SLICE_STR("bad \xff byte, "
						      "\xc3\xa9"),
					    3, 1234, &e), 0);
	ck_assert_int_eq(get(&text, &e), 1);
	ck_assert_ptr_nonnull(strstr(text, "bad \xef\xbf\xbd byte, "
					   "\xc3\xa9"));
	ck_assert_ptr_null(strchr(text, '\xff'));
	free(text);
	ck_assert_int_eq(error_file_forward(path, SLICE_STR(theirs),
					    SLICE_STR(""), 3, 1234, &e), 0);
	ck_assert_int_eq(get(&text, &e), 1);
	ck_assert_ptr_nonnull(strstr(text, "caf\xef\xbf\xbd"));
	free(text);
}
END_TEST

/* as root it could replace /dev/null */
START_TEST(replaces_only_regular_files)
{
	struct err e = ERR_INIT;
	struct stat st;
	char text[256];
	ssize_t n;
	int fd;

	remove(path);
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	ck_assert_int_eq(error_file_forward(path, SLICE_STR(""),
					    SLICE_STR("x"), 1, 1, &e), -ENXIO);
	fd = open(path, O_RDONLY | O_NONBLOCK);
	ck_assert_int_eq(error_file_forward(path, SLICE_STR(""),
					    SLICE_STR("why"), 1, 1, &e), 0);
	n = read(fd, text, sizeof(text) - 1);
	ck_assert_int_gt(n, 0);
	text[n] = '\0';
	ck_assert_ptr_nonnull(strstr(text, "\"why\""));
	close(fd);
	ck_assert_int_eq(lstat(path, &st), 0);
	ck_assert(S_ISFIFO(st.st_mode));
	remove(path);
	ck_assert_int_eq(symlink("/dev/null", path), 0);
	ck_assert_int_eq(error_file_forward(path, SLICE_STR(""),
					    SLICE_STR("why"), 1, 1, &e), 0);
	ck_assert_int_eq(lstat(path, &st), 0);
	ck_assert(S_ISLNK(st.st_mode));
	remove(path);
}
END_TEST

START_TEST(a_place_that_cannot_be_written)
{
	struct err e = ERR_INIT;

	ck_assert_int_eq(error_file_forward("/nowhere/error.json",
					    SLICE_STR(""), SLICE_STR("x"), 1,
					    1, &e), -ENOENT);
	ck_assert_ptr_nonnull(strstr(e.text, "/nowhere/error.json"));
}
END_TEST

/* ---- libddp's ---- */

static char *recorded(const char *message)
{
	struct error_file f;
	struct err e = ERR_INIT;
	char *text = NULL, *got;

	remove(path);
	setenv("TORCHELASTIC_ERROR_FILE", path, 1);
	ck_assert_int_eq(ddp_record_error(message), 0);
	ck_assert_int_eq(get(&text, &e), 1);
	ck_assert_int_eq(error_file_parse(&f, SLICE_STR(text), &e), 0);
	ck_assert_int_ge(f.timestamp, 1700000000);
	got = strdup(f.message);
	error_file_release(&f);
	free(text);
	return got;
}

START_TEST(ddp_record_error_takes_any_text)
{
	static const char *const texts[][2] = {
		{"no MNIST: \"x\" \\ y", "no MNIST: \"x\" \\ y"},
		{"a\nb\tc\x01\x1b[31m\x7f", "a\nb\tc\x01\x1b[31m\x7f"},
		{"gr\xc3\xbc\xc3\x9f \xff", "gr\xc3\xbc\xc3\x9f \xef\xbf\xbd"},
		{"", ""},
	};
	char *got;

	for (size_t i = 0; i < sizeof(texts) / sizeof(*texts); i++) {
		got = recorded(texts[i][0]);
		ck_assert_str_eq(got, texts[i][1]);
		free(got);
	}
	got = recorded(NULL);
	ck_assert_str_eq(got, "");
	free(got);
}
END_TEST

START_TEST(ddp_record_error_bounds_a_long_text)
{
	static const char fills[] = {'x', '\x01', '\xff', '"', '\xc3'};
	size_t size = 200 << 10;
	char *text = malloc(size + 1), *got;

	text[size] = '\0';
	for (size_t i = 0; i < sizeof(fills); i++) {
		memset(text, fills[i], size);
		got = recorded(text);
		ck_assert_uint_ge(strlen(got), 8 << 10);
		free(got);
	}
	free(text);
}
END_TEST

START_TEST(the_first_message_stays)
{
	struct err e = ERR_INIT;
	char *text = NULL;

	setenv("TORCHELASTIC_ERROR_FILE", path, 1);
	ck_assert_int_eq(ddp_record_error("the first"), 0);
	ck_assert_int_eq(ddp_record_error("the second"), 0);
	ck_assert_int_eq(get(&text, &e), 1);
	ck_assert_ptr_nonnull(strstr(text, "the first"));
	ck_assert_ptr_null(strstr(text, "the second"));
	free(text);
}
END_TEST

START_TEST(without_the_variable_nothing_is_written)
{
	unsetenv("TORCHELASTIC_ERROR_FILE");
	ck_assert_int_eq(ddp_record_error("x"), 0);
	setenv("TORCHELASTIC_ERROR_FILE", "", 1);
	ck_assert_int_eq(ddp_record_error("x"), 0);
	setenv("TORCHELASTIC_ERROR_FILE", "/nowhere/error.json", 1);
	ck_assert_int_eq(ddp_record_error("x"), -ENOENT);
	ck_assert_str_eq(ddp_last_error(), "");
}
END_TEST

START_TEST(one_of_many_writers_wins_and_the_file_is_whole)
{
	enum { WRITERS = 8 };
	struct err e = ERR_INIT;
	char name[32], *text = NULL;
	int status;

	setenv("TORCHELASTIC_ERROR_FILE", path, 1);
	for (int i = 0; i < WRITERS; i++) {
		if (fork() == 0) {
			snprintf(name, sizeof(name), "writer %d", i);
			_exit(ddp_record_error(name) != 0);
		}
	}
	for (int i = 0; i < WRITERS; i++) {
		ck_assert_int_gt(wait(&status), 0);
		ck_assert_int_eq(status, 0);
	}
	ck_assert_int_eq(get(&text, &e), 1);
	ck_assert_ptr_nonnull(strstr(text, "writer "));
	free(text);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("error_file");

	tcase_set_timeout(c, 30);
	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c, torchs_record);
	tcase_add_test(c, the_flat_form);
	tcase_add_test(c, odd_values_do_no_harm);
	tcase_add_test(c, a_missing_file_is_no_error);
	tcase_add_test(c, the_error_says_what_is_wrong);
	tcase_add_test(c, a_fifo_or_a_folder_is_refused_without_blocking);
	tcase_add_test(c, forwards_the_file_with_the_exit_code);
	tcase_add_test(c, makes_a_file_if_the_worker_wrote_none);
	tcase_add_test(c, forwards_utf8_whatever_the_worker_wrote);
	tcase_add_test(c, a_place_that_cannot_be_written);
	tcase_add_test(c, replaces_only_regular_files);
	tcase_add_test(c, ddp_record_error_takes_any_text);
	tcase_add_test(c, ddp_record_error_bounds_a_long_text);
	tcase_add_test(c, the_first_message_stays);
	tcase_add_test(c, without_the_variable_nothing_is_written);
	tcase_add_test(c, one_of_many_writers_wins_and_the_file_is_whole);
	return run_case(c);
}
