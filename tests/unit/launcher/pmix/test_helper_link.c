/* test_helper_link.c: the link to a helper, which is this program, started
 * again. The sockets take, and give, what the test lets them. */
/* replaces: send recv */
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/file.h"
#include "launcher/pmix/helper_link.h"
#include "launcher/pmix/pmix_helper.h"
#include "tests/unit/run_case.h"

enum { LONG = 2 << 20 }; /* more than a socket holds */

/* ---- the helper ---- */

static int helper_says(const char *text, size_t n)
{
	return file_write_all(STDIN_FILENO, text, n) < 0;
}

/* What $HELPER says; it ends at the end of its input. */
static int helper(void)
{
	static const char frame[] = "\11\0\0\0\11\0\0\0\0\0\0\0\0";
	const char *does = getenv("HELPER");
	static char bytes[64 << 10];
	ssize_t n;

	if (strcmp(does, "exits") == 0)
		return 3;
	if (strcmp(does, "dies") == 0)
		return raise(SIGKILL);
	if (strcmp(does, "breaks the rules") == 0 && helper_says(frame + 1, 13))
		return 1;
	if (strcmp(does, "speaks") == 0 && helper_says(frame, 13))
		return 1;
	while ((n = read(STDIN_FILENO, bytes, sizeof(bytes))) > 0)
		if (strcmp(does, "answers") == 0 &&
		    helper_says(bytes, (size_t)n))
			return 1;
	return strcmp(does, "speaks at its end") == 0 ? helper_says(frame, 13)
						      : 0;
}

/* ---- the sockets ---- */

ssize_t __real_send(int fd, const void *p, size_t n, int flags);
ssize_t __wrap_send(int fd, const void *p, size_t n, int flags);
ssize_t __real_recv(int fd, void *p, size_t n, int flags);
ssize_t __wrap_recv(int fd, void *p, size_t n, int flags);

static size_t most = SIZE_MAX; /* bytes that one call moves */
static int send_error, recv_error;

ssize_t __wrap_send(int fd, const void *p, size_t n, int flags)
{
	if (send_error) {
		errno = send_error;
		return -1;
	}
	return __real_send(fd, p, n < most ? n : most, flags);
}

ssize_t __wrap_recv(int fd, void *p, size_t n, int flags)
{
	if (recv_error) {
		errno = recv_error;
		return -1;
	}
	return __real_recv(fd, p, n < most ? n : most, flags);
}

/* ---- its owner ---- */

static uv_loop_t loop;
static struct helper_link l;
static int frames, failed, closed;
static struct err why;
static struct buf last = BUF_INIT(2 * LONG); /* data of the last frame */

static void on_frame(struct helper_link *from, const struct pmix_frame *f)
{
	ck_assert_ptr_eq(from->owner, &loop);
	frames++;
	buf_reset(&last);
	buf_put(&last, f->data.data, f->data.len);
}

static void on_failed(struct helper_link *from, const struct err *e)
{
	ck_assert_ptr_eq(from->owner, &loop);
	failed++;
	why = *e;
}

static void on_closed(struct helper_link *from)
{
	ck_assert_ptr_eq(from->owner, &loop);
	closed++;
}

static const struct helper_link_events events = {on_frame, on_failed,
						 on_closed};

static void begin(const char *does)
{
	struct err e = ERR_INIT;

	setenv("HELPER", does, 1);
	ck_assert_int_eq(uv_loop_init(&loop), 0);
	ck_assert_msg(helper_link_start(&l, &loop, &events, &loop, &e) == 0,
		      "%s", e.text);
	ck_assert_int_gt(l.pid, 0);
}

/* Its process, descriptor and handles are gone. */
static void end(void)
{
	helper_link_close(&l);
	helper_link_close(&l);
	uv_run(&loop, UV_RUN_DEFAULT);
	ck_assert_int_eq(closed, 1);
	ck_assert_int_eq(waitpid(-1, NULL, 0), -1);
	ck_assert_int_eq(errno, ECHILD);
	ck_assert_int_eq(close(l.fd), -1);
	ck_assert_int_eq(uv_loop_close(&loop), 0);
	buf_release(&last);
}

static void say(size_t n)
{
	char *data = malloc(n + 1);

	memset(data, 'x', n);
	data[n / 2] = 'y';
	helper_link_send(&l, &(struct pmix_frame){HELPER_DATA, 5, 7,
						  SLICE(data, n)});
	free(data);
}

/* The data of the last frame is that of say(n). */
static void expect_data(size_t n)
{
	ck_assert_uint_eq(last.len, n);
	for (size_t i = 0; i < n; i++)
		if (last.data[i] != (i == n / 2 ? 'y' : 'x'))
			ck_abort_msg("byte %zu of %zu differs", i, n);
}

static void await_frames(int n)
{
	while (frames < n && !failed)
		uv_run(&loop, UV_RUN_ONCE);
	ck_assert_msg(!failed, "%s", why.text);
}

static void await_its_end(void)
{
	siginfo_t how;

	ck_assert_int_eq(waitid(P_PID, (id_t)l.pid, &how, WEXITED | WNOWAIT),
			 0);
}

/* Bytes of the helper can be read, or its end. */
static void await_bytes(void)
{
	struct pollfd p = {l.fd, POLLIN, 0};

	ck_assert_int_eq(poll(&p, 1, -1), 1);
}

START_TEST(frames_arrive_whole)
{
	static const struct {
		size_t most, size;
	} cases[] = {{SIZE_MAX, 0}, {SIZE_MAX, LONG}, {1, 20}, {7, 200}};

	begin("answers");
	most = cases[_i].most;
	say(cases[_i].size);
	say(3);
	say(cases[_i].size);
	await_frames(3);
	expect_data(cases[_i].size);
	end();
	ck_assert_int_eq(frames, 3);
	ck_assert_int_eq(failed, 0);
}

START_TEST(frames_that_have_arrived_can_be_read_at_once)
{
	begin("speaks");
	await_bytes();
	helper_link_poll(&l);
	ck_assert_int_eq(frames, 1);
	helper_link_poll(&l);
	ck_assert_int_eq(frames, 1);
	end();
}

START_TEST(frames_after_the_end_are_dropped)
{
	begin("speaks at its end");
	end();
	helper_link_poll(&l);
	say(3);
	ck_assert_int_eq(frames, 0);
	ck_assert_int_eq(failed, 0);
	ck_assert_uint_eq(l.out.len, 0);
}

START_TEST(a_frame_that_breaks_the_rules_is_a_failure)
{
	begin("breaks the rules");
	while (!failed)
		uv_run(&loop, UV_RUN_ONCE);
	ck_assert_int_eq(why.code, ERR_PROTOCOL);
	end();
	ck_assert_int_eq(frames, 0);
	ck_assert_int_eq(failed, 1);
}

START_TEST(how_it_ended_is_known_before_it_is_reaped)
{
	int status = -1;

	begin("listens");
	ck_assert_int_eq(helper_link_is_dead(&l, &status), 0);
	ck_assert_int_eq(status, -1);
	kill(l.pid, SIGKILL);
	await_its_end();
	ck_assert_int_eq(helper_link_is_dead(&l, &status), 1);
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
	helper_link_close(&l);
	ck_assert_int_eq(helper_link_is_dead(&l, &status), 0);
	end();
}

START_TEST(its_end_is_no_failure)
{
	int status = -1;

	begin(_i ? "exits" : "dies");
	uv_run(&loop, UV_RUN_DEFAULT); /* nothing is left to watch */
	ck_assert_int_eq(l.is_at_end, 1);
	ck_assert_int_eq(closed, 0);
	await_its_end();
	ck_assert_int_eq(helper_link_is_dead(&l, &status), 1);
	ck_assert_int_eq(status, _i ? 3 << 8 : SIGKILL);
	helper_link_poll(&l);
	say(3);
	uv_run(&loop, UV_RUN_NOWAIT);
	ck_assert_int_eq(failed, 0);
	if (_i) { /* its owner has reaped it */
		ck_assert_int_eq(waitpid(l.pid, NULL, 0), l.pid);
		l.pid = 0;
		ck_assert_int_eq(helper_link_is_dead(&l, &status), 0);
	}
	end();
}

START_TEST(a_socket_that_fails_is_a_failure_unless_the_helper_ended)
{
	static const struct {
		int send, recv;
		const char *text;
	} cases[] = {
		{EPIPE, 0, NULL},
		{ECONNRESET, 0, NULL},
		{EIO, 0, "cannot write to MPI's helper: Input/output error"},
		{0, ECONNRESET, NULL},
		{0, EIO, "cannot read from MPI's helper: Input/output error"},
	};

	begin("speaks");
	await_bytes();
	send_error = cases[_i].send;
	recv_error = cases[_i].recv;
	if (send_error)
		say(3);
	else
		uv_run(&loop, UV_RUN_ONCE);
	ck_assert_int_eq(failed, cases[_i].text != NULL);
	if (failed)
		ck_assert_str_eq(why.text, cases[_i].text);
	ck_assert_uint_eq(l.out.len, 0);
	send_error = recv_error = 0;
	end();
	ck_assert_int_eq(failed, cases[_i].text != NULL);
}

/* No byte is lost because a call is interrupted, or has to wait. */
START_TEST(a_call_that_would_block_is_repeated)
{
	begin("answers");
	send_error = _i ? EINTR : EAGAIN;
	say(3);
	send_error = 0;
	recv_error = _i ? EINTR : EAGAIN;
	uv_run(&loop, UV_RUN_ONCE);
	helper_link_poll(&l);
	recv_error = 0;
	await_frames(1);
	ck_assert_uint_eq(last.len, 3);
	end();
}

START_TEST(without_descriptors_it_is_not_started)
{
	struct err e = ERR_INIT;
	struct rlimit all, none;
	int rc;

	ck_assert_int_eq(uv_loop_init(&loop), 0);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &all), 0);
	none = (struct rlimit){3, all.rlim_max};
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &none), 0);
	rc = helper_link_start(&l, &loop, &events, &loop, &e);
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &all), 0);
	ck_assert_int_eq(rc, -EMFILE);
	ck_assert_str_eq(e.text, "cannot create a pair of sockets for MPI's "
				 "helper: Too many open files");
}

int main(int argc, char **argv)
{
	TCase *c;

	/* Whatever its words are: it must not run the tests again. */
	if (getenv("HELPER"))
		return argc > 1 && strcmp(argv[1], PMIX_HELPER_COMMAND) == 0
			       ? helper()
			       : 97;
	c = tcase_create("helper_link");
	tcase_set_timeout(c, 30);
	tcase_add_loop_test(c, frames_arrive_whole, 0, 4);
	tcase_add_test(c, frames_that_have_arrived_can_be_read_at_once);
	tcase_add_test(c, frames_after_the_end_are_dropped);
	tcase_add_test(c, a_frame_that_breaks_the_rules_is_a_failure);
	tcase_add_test(c, how_it_ended_is_known_before_it_is_reaped);
	tcase_add_loop_test(c, its_end_is_no_failure, 0, 2);
	tcase_add_loop_test(
		c, a_socket_that_fails_is_a_failure_unless_the_helper_ended, 0,
		5);
	tcase_add_loop_test(c, a_call_that_would_block_is_repeated, 0, 2);
	tcase_add_test(c, without_descriptors_it_is_not_started);
	return run_case(c);
}
