/* test_descriptor_waits.c: what a process waits for, where only its descriptor
 * tells. */
#include <check.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/watch/watch.h"
#include "tests/unit/run_case.h"

/* Reads what a child does that reads fd, once it sleeps. */
static void sample_reader(int fd, struct activity_sample *s)
{
	static const struct recorder none = {.head = NULL};
	struct sampler_call call;
	pid_t pid = fork();
	char c;

	if (pid == 0) {
		ck_assert_int_eq(read(fd, &c, 1), 1);
		_exit(0);
	}
	do { /* it may be on its way into the call */
		sched_yield();
		sampler_read(&none, 0, pid, -1, NULL, s, &call);
	} while (s->state != 'S');
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void expect_words(const struct activity_sample *s, const char *words)
{
	struct activity a;
	struct activity_sample now = *s;

	if (!*s->sleeps_in) /* the kernel hides it */
		return;
	activity_init(&a, UINT64_C(1000000000), now.ns);
	for (int i = 0; i < 20; i++) {
		now.ns += UINT64_C(1000000000);
		activity_add(&a, &now);
	}
	ck_assert_ptr_nonnull(strstr(a.words, words));
}

START_TEST(a_reader_of_inotify_waits_for_a_change)
{
	struct activity_sample s;
	int fd = inotify_init1(IN_CLOEXEC);

	ck_assert_int_ge(fd, 0);
	sample_reader(fd, &s);
	expect_words(&s, "waits for a change in a folder (inotify)");
	close(fd);
}
END_TEST

START_TEST(a_reader_of_a_terminal_waits_for_input)
{
	int master = posix_openpt(O_RDWR | O_NOCTTY | O_CLOEXEC), fd;
	struct activity_sample s;

	ck_assert_int_ge(master, 0);
	ck_assert_int_eq(grantpt(master), 0);
	ck_assert_int_eq(unlockpt(master), 0);
	fd = open(ptsname(master), O_RDWR | O_NOCTTY | O_CLOEXEC);
	ck_assert_int_ge(fd, 0);
	sample_reader(fd, &s);
	expect_words(&s, "waits for input from a terminal");
	close(fd);
	close(master);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("descriptor_waits");

	tcase_add_test(c, a_reader_of_inotify_waits_for_a_change);
	tcase_add_test(c, a_reader_of_a_terminal_waits_for_input);
	return run_case(c);
}
