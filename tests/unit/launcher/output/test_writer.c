/* test_writer.c: the launcher's own outputs if nothing can be polled. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/output/writer.h"
#include "tests/unit/run_case.h"

enum { LINES = 20000, LINE = 50 };

static int refuses;

/* Replaces libc's: fails as if fs.epoll.max_user_watches were reached. */
int epoll_ctl(int epoll, int op, int fd, struct epoll_event *event)
{
	if (!refuses)
		return (int)syscall(SYS_epoll_ctl, epoll, op, fd, event);
	errno = ENOSPC;
	return -1;
}

/* Reads to the end in a child, which exits with 0 if it got everything. */
static pid_t read_all(int in, int out)
{
	pid_t pid = fork();
	char bytes[4096];
	ssize_t n, all = 0;

	if (pid)
		return pid;
	close(out);
	while ((n = read(in, bytes, sizeof(bytes))) > 0)
		all += n;
	_exit(all != LINES * LINE);
}

static void write_all(int ends[2], int flags)
{
	pid_t reader = read_all(ends[0], ends[1]);
	char line[LINE];
	uv_loop_t loop;
	struct writer w;
	int status;

	close(ends[0]);
	fcntl(ends[1], F_SETFL, flags);
	memset(line, 'x', LINE - 1);
	line[LINE - 1] = '\n';
	ck_assert_int_eq(uv_loop_init(&loop), 0);
	refuses = 1;
	ck_assert_int_eq(writer_init(&w, &loop, ends[1]), 0);
	refuses = 0;
	for (int i = 0; i < LINES; i++)
		writer_put(&w, line, LINE);
	writer_flush(&w);
	ck_assert_uint_eq(writer_pending(&w), 0);
	writer_close(&w);
	uv_run(&loop, UV_RUN_DEFAULT);
	ck_assert_int_eq(uv_loop_close(&loop), 0);
	writer_release(&w);
	close(ends[1]);
	ck_assert_int_eq(waitpid(reader, &status, 0), reader);
	ck_assert_int_eq(status, 0);
}

START_TEST(a_pipe_that_cannot_be_polled_has_all_of_it)
{
	int ends[2];

	ck_assert_int_eq(pipe(ends), 0);
	write_all(ends, 0);
	ck_assert_int_eq(pipe(ends), 0);
	write_all(ends, O_NONBLOCK);
}
END_TEST

START_TEST(a_socket_that_cannot_be_polled_has_all_of_it)
{
	int ends[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
	write_all(ends, 0);
}
END_TEST

START_TEST(a_line_after_raw_bytes_begins_on_its_own_line)
{
	const char want[] = "prompt> \n[1] line\nno\nmore\nown\n";
	char got[sizeof(want)] = "";
	int ends[2];
	uv_loop_t loop;
	struct writer w;

	ck_assert_int_eq(pipe(ends), 0);
	ck_assert_int_eq(uv_loop_init(&loop), 0);
	ck_assert_int_eq(writer_init(&w, &loop, ends[1]), 0);
	writer_put_raw(&w, SLICE_STR("prompt> "));
	writer_put_line(&w, SLICE_STR("[1] "), "", SLICE_STR("line"), "\n");
	writer_put_raw(&w, SLICE_STR("no"));
	writer_put_raw(&w, SLICE_STR("\nmore\n"));
	writer_put(&w, "own\n", 4);
	writer_flush(&w);
	ck_assert_int_eq(read(ends[0], got, sizeof(got)), sizeof(want) - 1);
	ck_assert_str_eq(got, want);
	writer_close(&w);
	uv_run(&loop, UV_RUN_DEFAULT);
	ck_assert_int_eq(uv_loop_close(&loop), 0);
	writer_release(&w);
	close(ends[0]);
	close(ends[1]);
}
END_TEST

START_TEST(colors_depend_on_the_terminal_and_on_the_user)
{
	ck_assert(writer_wants_color(NULL, "xterm"));
	ck_assert(writer_wants_color("", "screen"));
	ck_assert(!writer_wants_color("0", "xterm"));
	ck_assert(!writer_wants_color(NULL, NULL));
	ck_assert(!writer_wants_color(NULL, ""));
	ck_assert(!writer_wants_color(NULL, "dumb"));
	ck_assert(!writer_wants_color(NULL, "vt102"));
	ck_assert(writer_wants_color(NULL, "vt220"));
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("writer");

	tcase_set_timeout(c, 30);
	tcase_add_test(c, colors_depend_on_the_terminal_and_on_the_user);
	tcase_add_test(c, a_line_after_raw_bytes_begins_on_its_own_line);
	tcase_add_test(c, a_pipe_that_cannot_be_polled_has_all_of_it);
	tcase_add_test(c, a_socket_that_cannot_be_polled_has_all_of_it);
	return run_case(c);
}
