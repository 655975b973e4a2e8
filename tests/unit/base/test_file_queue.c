/* test_file_queue.c: jobs in order, and a server that does not answer: the open
 * of a FIFO waits for a reader. tests/e2e/file_server.bats stops a real one. */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "base/file_queue.h"
#include "base/file_wait.h"
#include "tests/unit/emulated.h"
#include "tests/unit/run_case.h"

static char dir[] = "/tmp/test_file_queue.XXXXXX";
static struct file_queue *q;

static void begin(void)
{
	ck_assert_ptr_nonnull(mkdtemp(dir));
	ck_assert_int_eq(chdir(dir), 0);
	q = file_queue_new(FILE_QUEUE_MAX);
	ck_assert_ptr_nonnull(q);
}

static void end(void)
{
	static const char *const names[] = {"file", "other", "fifo", "folder"};

	file_queue_free(q);
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		remove(names[i]);
	rmdir(dir);
}

static int job_mkdir(const char *path, struct slice text)
{
	return mkdir(path, 0700) < 0 ? -errno : 0;
}

static int job_write(const char *path, struct slice text)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600);
	int rc = fd < 0 ? -errno : file_write_all(fd, text.data, text.len);

	return file_close(fd, rc);
}

/* Its thread has the descriptors up to 2, this folder's, and no others. */
static int job_count_files(const char *path, struct slice text)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n - 2; /* . and .. */
}

static void read_file(const char *path, struct buf *out)
{
	FILE *f = fopen(path, "re");
	int c;

	ck_assert_ptr_nonnull(f);
	while ((c = getc(f)) != EOF)
		buf_put_u8(out, (uint8_t)c);
	fclose(f);
	buf_put_u8(out, '\0');
}

/* The server: opens of "fifo" do not return before server_continues. */
static void server_stops(void)
{
	ck_assert_int_eq(mkfifo("fifo", 0600), 0);
	ck_assert_int_eq(file_queue_do(q, job_write, "fifo", SLICE_STR("x")),
			 -ETIMEDOUT);
}

static void server_continues(void)
{
	int fd = open("fifo", O_RDWR | O_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(file_queue_wait(q, 30000), 0);
	close(fd);
}

START_TEST(a_job_that_is_done_gives_its_result)
{
	ck_assert_int_eq(file_queue_do(q, job_mkdir, "folder", SLICE_STR("")),
			 0);
	ck_assert_int_eq(file_queue_do(q, job_mkdir, "folder", SLICE_STR("")),
			 -EEXIST);
	ck_assert_int_eq(file_queue_do(q, job_write, "no/file", SLICE_STR("")),
			 -ENOENT);
	ck_assert_int_eq(access("folder", F_OK), 0);
}
END_TEST

START_TEST(the_thread_has_no_descriptors_of_the_process)
{
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	if (emulator_lacks("the same open files"))
		return;
	ck_assert_int_ge(fd, 3);
	ck_assert_int_eq(file_queue_do(q, job_count_files, "", SLICE_STR("")),
			 4);
	ck_assert_int_ge(fcntl(fd, F_GETFD), 0);
	close(fd);
}
END_TEST

START_TEST(text_is_appended_in_order_after_a_stop)
{
	struct file_queue_file *a = file_queue_begin(q, "file");
	struct file_queue_file *b = file_queue_begin(q, "other");
	struct buf text = BUF_INIT(1 << 20);
	struct file_queue_state s;
	char line[32];
	size_t at = 0;
	int n = 0;

	server_stops();
	for (int i = 0; i < 5000; i++) {
		snprintf(line, sizeof(line), "%d\n", i);
		ck_assert_int_eq(file_queue_append(a, SLICE_STR(line)), 0);
		ck_assert_int_eq(file_queue_append(b, SLICE_STR("b\n")), 0);
	}
	file_queue_end(a);
	file_queue_end(b);
	file_queue_look(q, &s);
	ck_assert_str_eq(s.path, "fifo");
	ck_assert_uint_gt(s.waiting, 2);
	ck_assert_uint_lt(s.waiting, 20); /* lines of a file share a job */
	ck_assert_int_eq(access("file", F_OK), -1);
	server_continues();
	read_file("file", &text);
	for (; sscanf(text.data + at, "%d", &n) == 1; at += strlen(line)) {
		snprintf(line, sizeof(line), "%d\n", n);
		ck_assert(strncmp(text.data + at, line, strlen(line)) == 0);
		ck_assert(at || n == 0);
	}
	ck_assert_int_eq(n, 4999);
	buf_reset(&text);
	read_file("other", &text);
	ck_assert_uint_eq(text.len, 10001);
	file_queue_look(q, &s);
	ck_assert_uint_eq(s.lost + s.bytes + s.waiting, 0);
	buf_release(&text);
}
END_TEST

START_TEST(a_server_that_has_stopped_is_waited_for_once)
{
	uint64_t began;

	server_stops();
	began = clock_ms();
	for (int i = 0; i < 100; i++)
		ck_assert_int_eq(file_queue_do(q, job_write, "file",
					       SLICE_STR("y")), -ETIMEDOUT);
	ck_assert_uint_lt(clock_ms() - began, FILE_WAIT_MS);
	ck_assert_int_eq(file_queue_holds_up(q, 0), 0);
	ck_assert_int_eq(file_queue_wait(q, 10), -ETIMEDOUT);
	server_continues();
	ck_assert_int_eq(access("file", F_OK), 0);
}
END_TEST

static void add_bytes(void *arg, const char *path, uint64_t bytes)
{
	uint64_t *sum = arg;

	*sum += strcmp(path, "file") == 0 ? bytes : 1000000;
}

START_TEST(what_does_not_fit_is_lost_counted_and_marked)
{
	struct buf text = BUF_INIT(1 << 20);
	struct file_queue_file *f, *other;
	struct file_queue_state s;
	char kib[1025] = "";
	uint64_t lost = 0;

	file_queue_free(q);
	q = file_queue_new(64 << 10);
	memset(kib, 'k', 1023);
	kib[1023] = '\n';
	f = file_queue_begin(q, "file");
	other = file_queue_begin(q, "other");
	server_stops();
	for (int i = 0; i < 100; i++)
		(void)file_queue_append(f, SLICE_STR(kib));
	ck_assert_int_eq(file_queue_append(f, SLICE_STR(kib)), -ENOBUFS);
	file_queue_each_lost(q, add_bytes, &lost);
	file_queue_look(q, &s);
	ck_assert_uint_eq(s.lost, lost);
	/* half is free for other files */
	ck_assert_uint_gt(lost, 68 << 10);
	ck_assert_uint_lt(lost, 85 << 10);
	ck_assert_int_eq(file_queue_append(other, SLICE_STR(kib)), 0);
	file_queue_end(other);
	server_continues();
	ck_assert_int_eq(file_queue_append(f, SLICE_STR("after\n")), 0);
	ck_assert_int_eq(file_queue_wait(q, 30000), 0);
	file_queue_end(f);
	read_file("file", &text);
	snprintf(kib, sizeof(kib), "k\n\n[ddprun: %u bytes are lost: the file "
		 "system did not answer]\nafter\n", (unsigned)lost);
	ck_assert_ptr_nonnull(strstr(text.data, kib));
	ck_assert_uint_eq(text.len - 1 - strlen(kib) + 2 + lost, 101 << 10);
	buf_release(&text);
}
END_TEST

START_TEST(an_error_that_no_caller_got_is_kept)
{
	struct file_queue_file *f = file_queue_begin(q, "no/file");
	struct file_queue_state s;

	ck_assert_int_eq(file_queue_append(f, SLICE_STR("x")), 0);
	file_queue_end(f);
	ck_assert_int_eq(file_queue_wait(q, 30000), 0);
	file_queue_look(q, &s);
	ck_assert_int_eq(s.failed, -ENOENT);
	ck_assert_str_eq(s.failed_path, "no/file");
}
END_TEST

START_TEST(a_queue_that_has_not_finished_can_be_left)
{
	uint64_t bytes = 0;

	server_stops();
	file_queue_each_waiting(q, add_bytes, &bytes);
	ck_assert_uint_eq(bytes, 1000000);
	file_queue_free(q);
	q = NULL;
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("file_queue");

	tcase_set_timeout(c, 60);
	tcase_add_checked_fixture(c, begin, end);
	tcase_add_test(c, a_job_that_is_done_gives_its_result);
	tcase_add_test(c, the_thread_has_no_descriptors_of_the_process);
	tcase_add_test(c, text_is_appended_in_order_after_a_stop);
	tcase_add_test(c, a_server_that_has_stopped_is_waited_for_once);
	tcase_add_test(c, what_does_not_fit_is_lost_counted_and_marked);
	tcase_add_test(c, an_error_that_no_caller_got_is_kept);
	tcase_add_test(c, a_queue_that_has_not_finished_can_be_left);
	return run_case(c);
}
