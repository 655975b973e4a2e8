/* test_template_link.c: the agent's end of the link to a template process. */
/* replaces: poll */
#include <check.h>
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launcher/preload/preload.h"
#include "tests/unit/run_case.h"

static struct template t;
static int other; /* the process's end */
static int poll_error, polls;

int __real_poll(struct pollfd *p, nfds_t n, int ms);
int __wrap_poll(struct pollfd *p, nfds_t n, int ms);

int __wrap_poll(struct pollfd *p, nfds_t n, int ms)
{
	polls++;
	if (!poll_error)
		return __real_poll(p, n, ms);
	errno = poll_error;
	return -1;
}

static void set_up(void)
{
	int ends[2];

	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK |
				    SOCK_CLOEXEC, 0, ends), 0);
	t = (struct template){.link = ends[0]};
	other = ends[1];
	poll_error = polls = 0;
}

static void tear_down(void)
{
	close(t.link);
	close(other);
}

static void fill_link(void)
{
	char some[4096] = {0};

	while (send(t.link, some, sizeof(some), MSG_NOSIGNAL) > 0)
		continue;
	ck_assert_int_eq(errno, EAGAIN);
}

START_TEST(a_check_is_one_message)
{
	static const char want[] = "\6\0\0\0check";
	char got[64];

	ck_assert_int_eq(template_check(&t), 0);
	ck_assert_int_eq(read(other, got, sizeof(got)), sizeof(want));
	ck_assert_int_eq(memcmp(got, want, sizeof(want)), 0);
	ck_assert_int_eq(polls, 0);
}
END_TEST

START_TEST(a_poll_that_fails_is_an_error)
{
	fill_link();
	poll_error = ENOMEM;
	ck_assert_int_eq(template_check(&t), -ENOMEM);
	ck_assert_int_eq(polls, 1);
}
END_TEST

START_TEST(a_process_that_never_reads_is_a_timeout)
{
	fill_link();
	ck_assert_int_eq(template_check(&t), -ETIMEDOUT);
	ck_assert_int_gt(polls, 0);
}
END_TEST

START_TEST(a_process_that_is_gone_is_an_error)
{
	close(other);
	other = -1;
	ck_assert_int_eq(template_check(&t), -EPIPE);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("template_link");

	tcase_add_checked_fixture(c, set_up, tear_down);
	tcase_set_timeout(c, 30);
	tcase_add_test(c, a_check_is_one_message);
	tcase_add_test(c, a_poll_that_fails_is_an_error);
	tcase_add_test(c, a_process_that_never_reads_is_a_timeout);
	tcase_add_test(c, a_process_that_is_gone_is_an_error);
	return run_case(c);
}
