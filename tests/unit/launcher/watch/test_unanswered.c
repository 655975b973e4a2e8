/* test_unanswered.c: real connections to a port of this host whose queue is
 * full, so that they have no answer. */
#include <check.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "launcher/watch/unanswered.h"
#include "tests/unit/run_case.h"

enum { TRIES = 16 };

static struct sockaddr_in port;
static int listener, fds[TRIES], n;
static char want[UNANSWERED_WORDS_MAX], words[UNANSWERED_WORDS_MAX];

static void fill(void)
{
	socklen_t len = sizeof(port);

	n = 0;
	port = (struct sockaddr_in){.sin_family = AF_INET};
	port.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	ck_assert_int_eq(bind(listener, (void *)&port, sizeof(port)), 0);
	ck_assert_int_eq(listen(listener, 0), 0);
	ck_assert_int_eq(getsockname(listener, (void *)&port, &len), 0);
	snprintf(want, sizeof(want),
		 ", connecting to 127.0.0.1:%u without an answer",
		 (unsigned)ntohs(port.sin_port));
}

static void empty(void)
{
	close(listener);
	while (n > 0)
		close(fds[--n]);
}

/* One more connection, which does not wait for its answer. */
static void begin_connect(void)
{
	int fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC,
			0);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_lt(n, TRIES);
	fds[n++] = fd;
	if (connect(fd, (void *)&port, sizeof(port)) < 0)
		ck_assert_int_eq(errno, EINPROGRESS);
}

/* Begins connections until one has no answer. */
static void begin_unanswered(void)
{
	do {
		struct unanswered u = {.net = 0};

		begin_connect();
		unanswered_words(&u, getpid(), words);
	} while (!*words);
}

START_TEST(a_process_that_connects_nowhere_has_no_words)
{
	struct unanswered u = {.net = 0};

	strcpy(words, "old");
	ck_assert_str_eq(unanswered_words(&u, getpid(), words), "");
}
END_TEST

START_TEST(a_connection_without_an_answer_is_named)
{
	begin_unanswered();
	ck_assert_str_eq(words, want);
}
END_TEST

START_TEST(a_namespace_is_read_once_for_all_that_are_looked_at_together)
{
	struct unanswered u = {.net = 0};

	unanswered_words(&u, getpid(), words);
	ck_assert_str_eq(words, "");
	begin_unanswered();
	ck_assert_str_eq(unanswered_words(&u, getpid(), words), "");
	u = (struct unanswered){.net = 0};
	ck_assert_str_eq(unanswered_words(&u, getpid(), words), want);
}
END_TEST

START_TEST(a_process_that_is_gone_has_no_words)
{
	struct unanswered u = {.net = 0};

	begin_unanswered();
	ck_assert_str_eq(unanswered_words(&u, 0x7fffffff, words), "");
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("unanswered");

	tcase_add_checked_fixture(c, fill, empty);
	tcase_add_test(c, a_process_that_connects_nowhere_has_no_words);
	tcase_add_test(c, a_connection_without_an_answer_is_named);
	tcase_add_test(
		c,
		a_namespace_is_read_once_for_all_that_are_looked_at_together);
	tcase_add_test(c, a_process_that_is_gone_has_no_words);
	return run_case(c);
}
