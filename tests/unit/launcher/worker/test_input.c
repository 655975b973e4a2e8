/* test_input.c: passes standard input on, from a file system that interrupts
 * and delays reads, and to readers that do not read. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "launcher/config/config.h"
#include "launcher/worker/input.h"
#include "tests/unit/run_case.h"

enum { BYTES = 200000, PIPE = 64 << 10 };

/* Errors of the next reads of standard input; 0: read normally. */
static int errors[8], nerrors, next;

/* Replaces libc's. */
ssize_t read(int fd, void *out, size_t n)
{
	/* standard input is a file here: only a file has an offset */
	if (next < nerrors && lseek(fd, 0, SEEK_CUR) >= 0) {
		errno = errors[next++];
		return -1;
	}
	return syscall(SYS_read, fd, out, n);
}

static uv_loop_t loop;
static struct input in;
static uv_idle_t alive; /* the input's handles do not keep the loop alive */

static void on_idle(uv_idle_t *h)
{
}

static void setup(void)
{
	char name[] = "/tmp/test_input_XXXXXX", bytes[BYTES];
	int fd = mkstemp(name);

	memset(bytes, 'x', sizeof(bytes));
	ck_assert_int_eq(write(fd, bytes, sizeof(bytes)), sizeof(bytes));
	unlink(name);
	lseek(fd, 0, SEEK_SET);
	dup2(fd, STDIN_FILENO);
	close(fd);
	nerrors = next = 0;
	ck_assert_int_eq(uv_loop_init(&loop), 0);
	uv_idle_init(&loop, &alive);
	uv_idle_start(&alive, on_idle);
	input_init(&in, &loop, INPUT_ALL);
}

static void teardown(void)
{
	input_close(&in);
	uv_close((uv_handle_t *)&alive, NULL);
	uv_run(&loop, UV_RUN_DEFAULT);
	ck_assert_int_eq(uv_loop_close(&loop), 0);
}

/* A reader's non-blocking end. */
static int open_reader(uint32_t rank)
{
	struct err e = ERR_INIT;
	int fd;

	ck_assert_int_eq(input_open(&in, rank, &fd, &e), 0);
	ck_assert_int_ge(fd, 0);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	return fd;
}

/* Runs the loop and reads until the reader has `want` bytes, or end of file. */
static size_t take(int fd, size_t want)
{
	char bytes[4096];
	size_t have = 0;
	ssize_t n;

	while (have < want) {
		uv_run(&loop, UV_RUN_NOWAIT);
		n = syscall(SYS_read, fd, bytes, sizeof(bytes));
		if (n == 0)
			break;
		have += n > 0 ? (size_t)n : 0;
	}
	return have;
}

START_TEST(a_read_that_is_interrupted_or_would_block_is_tried_again)
{
	int fd;

	errors[nerrors++] = EINTR;
	errors[nerrors++] = EAGAIN;
	errors[nerrors++] = EINTR;
	fd = open_reader(0);
	ck_assert_uint_eq(take(fd, SIZE_MAX), BYTES);
	ck_assert_int_eq(next, nerrors);
	close(fd);
}
END_TEST

START_TEST(other_readers_continue_when_one_ends)
{
	int lazy = open_reader(0), fd = open_reader(1);

	/* the slow reader's pipe, and the piece that waits for it */
	ck_assert_uint_eq(take(fd, 2 * PIPE), 2 * PIPE);
	for (int i = 0; i < 100; i++)
		uv_run(&loop, UV_RUN_NOWAIT);
	ck_assert_int_lt(syscall(SYS_read, fd, &(char){0}, 1), 0);
	input_gone(&in, 0);
	ck_assert_uint_eq(take(fd, SIZE_MAX), BYTES - 2 * PIPE);
	close(lazy);
	close(fd);
}
END_TEST

/* The number of unread bytes of standard input after some turns of the loop. */
static int unread_bytes(void)
{
	int n = -1;

	for (int i = 0; i < 10; i++)
		uv_run(&loop, UV_RUN_NOWAIT);
	ck_assert_int_eq(ioctl(STDIN_FILENO, FIONREAD, &n), 0);
	return n;
}

START_TEST(a_copy_without_a_local_reader_is_discarded)
{
	static const char bytes[PIPE];
	char got[8];
	int ends[2], fd;

	ck_assert_int_eq(pipe(ends), 0);
	dup2(ends[0], STDIN_FILENO);
	close(ends[0]);
	input_close(&in);
	input_init(&in, &loop, 1);
	ck_assert_int_eq(write(ends[1], bytes, PIPE), PIPE);
	input_unread(&in);
	ck_assert_int_eq(unread_bytes(), PIPE); /* no other node reads it */
	in.is_copy = 1;
	input_unread(&in);
	ck_assert_int_eq(unread_bytes(), 0);
	ck_assert_int_eq(write(ends[1], bytes, PIPE), PIPE);
	ck_assert_int_eq(unread_bytes(), 0);
	/* the next round, with rank 1 here */
	input_end_round(&in);
	ck_assert_int_eq(write(ends[1], "kept", 4), 4);
	fd = open_reader(1);
	input_unread(&in);
	ck_assert_int_eq(unread_bytes(), 4);
	ck_assert_int_eq(syscall(SYS_read, fd, got, sizeof(got)), 4);
	close(fd);
	close(ends[1]);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("input");

	tcase_set_timeout(c, 30);
	tcase_add_checked_fixture(c, setup, teardown);
	tcase_add_test(c,
		a_read_that_is_interrupted_or_would_block_is_tried_again);
	tcase_add_test(c, other_readers_continue_when_one_ends);
	tcase_add_test(c, a_copy_without_a_local_reader_is_discarded);
	return run_case(c);
}
