/* test_reap.c: the order in which ended children are reported. */
#include <check.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/worker/spawn.h"
#include "tests/unit/run_case.h"

enum { CHILDREN = 300 };

static struct {
	pid_t pid;
	int status;
	long max_rss_kib;
} seen[CHILDREN + 1];
static int nseen;

static void see(void *arg, pid_t pid, int status, const struct rusage *usage)
{
	ck_assert_int_le(nseen, CHILDREN);
	seen[nseen].pid = pid;
	seen[nseen].max_rss_kib = usage->ru_maxrss;
	seen[nseen++].status = status;
}

/* Starts a child that has ended but is not reaped. */
static pid_t make_dead(int code, int signal_)
{
	siginfo_t info;
	pid_t pid = fork();

	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		if (signal_)
			raise(signal_);
		_exit(code);
	}
	ck_assert_int_eq(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	return pid;
}

START_TEST(killed_children_come_before_exited_ones)
{
	pid_t exited = make_dead(3, 0), killed = make_dead(0, SIGKILL);

	nseen = 0;
	reap_children(see, NULL);
	ck_assert_int_eq(nseen, 2);
	ck_assert_int_eq(seen[0].pid, killed);
	ck_assert_int_eq(WTERMSIG(seen[0].status), SIGKILL);
	ck_assert_int_eq(seen[1].pid, exited);
	ck_assert_int_eq(WEXITSTATUS(seen[1].status), 3);
}
END_TEST

START_TEST(each_has_its_own_peak_of_memory)
{
	enum { MIB = 1 << 20, BIG = 64 };
	siginfo_t info;
	pid_t small = make_dead(0, 0), big = fork();

	if (big == 0) {
		char *p = malloc((size_t)BIG * MIB);

		for (size_t i = 0; p && i < (size_t)BIG * MIB; i += 512)
			((volatile char *)p)[i] = 1;
		_exit(0);
	}
	ck_assert_int_eq(waitid(P_PID, (id_t)big, &info, WEXITED | WNOWAIT), 0);
	nseen = 0;
	reap_children(see, NULL);
	ck_assert_int_eq(nseen, 2);
	for (int i = 0; i < 2; i++) {
		if (seen[i].pid == big)
			ck_assert_int_ge(seen[i].max_rss_kib, BIG << 10);
		else
			ck_assert_int_eq(seen[i].pid, small);
	}
}
END_TEST

START_TEST(all_ended_children_and_no_running_one)
{
	pid_t running;

	nseen = 0;
	reap_children(see, NULL);
	ck_assert_int_eq(nseen, 0);
	running = fork();
	if (running == 0) {
		pause();
		_exit(0);
	}
	for (int i = 0; i < CHILDREN; i++)
		make_dead(0, 0);
	reap_children(see, NULL);
	ck_assert_int_eq(nseen, CHILDREN);
	kill(running, SIGKILL);
	waitpid(running, NULL, 0);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("reap");

	tcase_set_timeout(c, 30);
	tcase_add_test(c, killed_children_come_before_exited_ones);
	tcase_add_test(c, each_has_its_own_peak_of_memory);
	tcase_add_test(c, all_ended_children_and_no_running_one);
	return run_case(c);
}
