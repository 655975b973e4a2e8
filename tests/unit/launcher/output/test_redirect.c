/* test_redirect.c: the descriptors that this process holds of a worker's
 * stream. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>

#include "launcher/output/redirect.h"
#include "tests/unit/run_case.h"

/* Returns a new descriptor. */
static int open_one(void)
{
	int fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	return fd;
}

static int is_closed(int fd)
{
	return fcntl(fd, F_GETFD) < 0 && errno == EBADF;
}

START_TEST(all_that_is_open_is_closed_once)
{
	const int child = open_one(), pipe = open_one(), file = open_one();
	struct redirect o = {.child = child, .pipe = pipe, .file = file};
	int later;

	redirect_close(&o);
	ck_assert(is_closed(child) && is_closed(pipe) && is_closed(file));
	later = open_one();
	redirect_close(&o);
	ck_assert(!is_closed(later) && !is_closed(0));
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("redirect");

	tcase_add_test(c, all_that_is_open_is_closed_once);
	return run_case(c);
}
