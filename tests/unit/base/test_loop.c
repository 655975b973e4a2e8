/* test_loop.c: an event loop without descriptors is an error. */
#include <check.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/loop.h"
#include "tests/unit/run_case.h"

/* In a process of its own, which may abort and has libuv's first loop. Exits
 * with 0 if there is a loop, with 1 if it has no descriptor for it. */
static void init_with(int nfree)
{
	const struct rlimit limit = {64, 64};
	int rc, fd, last = -1;
	uv_loop_t loop;

	setrlimit(RLIMIT_NOFILE, &limit);
	while ((fd = open("/dev/null", O_RDONLY)) >= 0)
		last = fd;
	for (int i = 0; i < nfree; i++)
		close(last - i);
	rc = loop_init(&loop);
	_exit(rc == 0 ? 0 : rc == UV_EMFILE ? 1 : 2);
}

START_TEST(a_loop_without_descriptors_is_an_error_and_no_abort)
{
	int status, ends[2] = {0, 0};

	for (int nfree = 0; nfree < 12; nfree++) {
		pid_t pid = fork();

		if (pid == 0)
			init_with(nfree);
		ck_assert_int_eq(waitpid(pid, &status, 0), pid);
		ck_assert_msg(WIFEXITED(status) && WEXITSTATUS(status) < 2,
			      "%d free: status %x", nfree, (unsigned)status);
		ends[WEXITSTATUS(status)]++;
	}
	ck_assert_int_gt(ends[0], 0);
	ck_assert_int_gt(ends[1], 3);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("loop");

	tcase_set_timeout(c, 30);
	tcase_add_test(c, a_loop_without_descriptors_is_an_error_and_no_abort);
	return run_case(c);
}
