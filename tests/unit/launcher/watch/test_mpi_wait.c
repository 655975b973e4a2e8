/* test_mpi_wait.c: looks at stacks in, words out; and the kernel's answer to
 * whether a real process has returned from a call. */
#include <check.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/watch/mpi_wait.h"
#include "tests/unit/run_case.h"

#define SECOND UINT64_C(1000000000)

static struct mpi_wait w;
static struct activity a;
static char words[ACTIVITY_WORDS_MAX];
static uint64_t since, now;

static void look(const char *line, enum mpi_since returned, uint64_t before,
		 uint64_t after)
{
	struct slice text = SLICE_STR(line);
	struct mpi_look l;

	now += 5 * SECOND;
	ck_assert_int_eq(mpi_look_next(&text, &l), 1);
	mpi_wait_add(&w, &l, returned, before, after, now);
}

static int waits(void)
{
	return mpi_wait_words(&w, &a, words, &since);
}

static void does(enum wire_doing doing, const char *what)
{
	a.doing = doing;
	snprintf(a.words, sizeof(a.words), "%s", what);
}

static void begin(void)
{
	w = (struct mpi_wait){.looks = 0};
	now = 100 * SECOND;
	does(RANK_BUSY, "computes (99 % CPU, no input or output)");
}

START_TEST(looks_are_lines_and_others_are_skipped)
{
	struct slice text = SLICE_STR("12 7f01 MPI_Barrier train.c:12\n"
				      "a library is missing\n"
				      "13 0 none -\n14 0 -");
	struct mpi_look l;

	ck_assert_int_eq(mpi_look_next(&text, &l), 1);
	ck_assert(l.pid == 12 && l.returns == 0x7f01);
	ck_assert_str_eq(l.call, "MPI_Barrier");
	ck_assert_str_eq(l.where, "train.c:12");
	ck_assert(mpi_look_is_call(&l) && mpi_look_has_mpi(&l));
	ck_assert_int_eq(mpi_look_next(&text, &l), 1);
	ck_assert(l.pid == 13 && !mpi_look_has_mpi(&l));
	ck_assert_int_eq(mpi_look_next(&text, &l), 0);
}
END_TEST

START_TEST(a_call_that_has_not_returned_at_the_next_look_is_a_wait)
{
	uint64_t first;

	look("12 7f01 MPI_Barrier train.c:12\n", MPI_UNKNOWN, 0, 0);
	first = now;
	ck_assert(!waits());
	ck_assert_str_eq(words, a.words);
	look("12 7f01 MPI_Barrier train.c:12\n", MPI_SAME, 0, 0);
	ck_assert(waits());
	ck_assert_uint_eq(since, first);
	ck_assert_str_eq(words,
			 "stays in MPI_Barrier at train.c:12 (99 % CPU)");
	does(RANK_IDLE, "waits for a socket");
	ck_assert(waits());
	ck_assert_str_eq(words, "stays in MPI_Barrier at train.c:12");
	does(RANK_STOPPED, "is stopped (SIGSTOP)");
	ck_assert(!waits());
	ck_assert_str_eq(words, a.words);
}
END_TEST

START_TEST(a_call_that_has_returned_is_another_one)
{
	for (int i = 0; i < 20; i++) {
		look("12 7f01 MPI_Barrier -\n", MPI_RETURNED, 0, 0);
		ck_assert(!waits() || strncmp(words, "stays", 5) != 0);
	}
	look("12 7f09 MPI_Barrier -\n", MPI_SAME, 0, 0);
	ck_assert(!waits() || strncmp(words, "stays", 5) != 0);
	look("12 7f09 MPI_Barrier -\n", MPI_SAME, 0, 0);
	ck_assert(waits());
	ck_assert_str_eq(words, "stays in MPI_Barrier (99 % CPU)");
	ck_assert_uint_eq(since, now - 5 * SECOND);
	look("12 0 - -\n", MPI_SAME, 0, 0);
	ck_assert(!waits());
}
END_TEST

START_TEST(without_the_kernels_help_several_looks_are_needed)
{
	for (int i = 0; i < MPI_WAIT_LOOKS; i++) {
		ck_assert(!waits());
		look("12 7f01 MPI_Barrier -\n", MPI_UNKNOWN, 0, 0);
	}
	ck_assert(waits());
	ck_assert_str_eq(words, "is in MPI_Barrier (99 % CPU)");
	look("12 7f01 MPI_Recv -\n", MPI_UNKNOWN, 0, 0);
	ck_assert(!waits());
	look("13 7f01 MPI_Recv -\n", MPI_SAME, 0, 0);
	ck_assert(!waits());
}
END_TEST

START_TEST(a_process_that_is_not_woken_between_looks_sleeps)
{
	does(RANK_IDLE, "sleeps (nanosleep)");
	for (uint64_t i = 0; i <= MPI_WAIT_ASLEEP; i++) {
		ck_assert(!waits());
		ck_assert_str_eq(words, a.words);
		look("12 0 - -\n", MPI_UNKNOWN, 5 + 2 * i, 7 + 2 * i);
	}
	ck_assert(!waits());
	ck_assert_str_eq(words, "sleeps (nanosleep) without being woken");
	look("12 0 - -\n", MPI_UNKNOWN, 100, 102);
	ck_assert(!waits());
	ck_assert_str_eq(words, "sleeps (nanosleep)");
	/* a process without MPI is not compared with others */
	for (int i = 0; i < 20; i++)
		look("12 0 none -\n", MPI_UNKNOWN, 102, 102);
	ck_assert(!waits());
	ck_assert_str_eq(words, "sleeps (nanosleep)");
}
END_TEST

START_TEST(looks_are_rare_where_they_find_nothing_or_cost_much)
{
	struct mpi_schedule s = {.ticks = 0};
	int n = 0;

	while (!mpi_schedule_tick(&s))
		n++;
	ck_assert_int_eq(n, MPI_WAIT_TICKS - 1);
	for (int i = 0; i < 10; i++)
		mpi_schedule_set(&s, MPI_FOUND_NONE, 0);
	ck_assert_uint_eq(s.left, MPI_WAIT_TICKS_NONE);
	mpi_schedule_set(&s, MPI_FOUND_BUSY, 0);
	ck_assert_uint_eq(s.left, MPI_WAIT_TICKS_BUSY);
	mpi_schedule_set(&s, MPI_FOUND_WAITS, 0);
	ck_assert_uint_eq(s.left, MPI_WAIT_TICKS);
	mpi_schedule_set(&s, MPI_FOUND_WAITS, 300);
	ck_assert_uint_eq(s.left, 300);
}
END_TEST

/* ---- a real process ---- */

static int gate[2], passed[2];

__attribute__((noinline)) static void place(void)
{
	__asm__ volatile("");
}

static pid_t start(void)
{
	char byte;
	pid_t pid;

	ck_assert(pipe(gate) == 0 && pipe(passed) == 0);
	pid = fork();
	if (pid)
		return pid;
	if (read(gate[0], &byte, 1) != 1)
		_exit(1);
	place();
	if (write(passed[1], "", 1) != 1)
		_exit(1);
	_exit(read(gate[0], &byte, 1) != 1);
}

START_TEST(the_kernel_tells_whether_a_process_was_at_an_address)
{
	pid_t pid = start();
	int fd = call_return_open(pid, (uint64_t)(uintptr_t)place), status;
	char byte;

	if (fd >= 0) {
		ck_assert_int_eq(call_return_read(fd), MPI_SAME);
	} else {
		ck_assert(fd == -EACCES || fd == -EPERM || fd == -ENOSYS ||
			  fd == -ENOSPC || fd == -EOPNOTSUPP ||
			  fd == -ENOENT);
		ck_assert_int_eq(call_return_read(-1), MPI_UNKNOWN);
	}
	ck_assert_int_eq(write(gate[1], "", 1), 1);
	ck_assert_int_eq(read(passed[0], &byte, 1), 1);
	if (fd >= 0) {
		ck_assert_int_eq(call_return_read(fd), MPI_RETURNED);
		close(fd);
	}
	ck_assert_int_eq(write(gate[1], "", 1), 1);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(call_return_open(pid, 0x1000),
			 fd == -ENOSYS ? fd : -ESRCH);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("mpi_wait");

	tcase_add_checked_fixture(c, begin, NULL);
	tcase_add_test(c, looks_are_lines_and_others_are_skipped);
	tcase_add_test(
		c, a_call_that_has_not_returned_at_the_next_look_is_a_wait);
	tcase_add_test(c, a_call_that_has_returned_is_another_one);
	tcase_add_test(c, without_the_kernels_help_several_looks_are_needed);
	tcase_add_test(c, a_process_that_is_not_woken_between_looks_sleeps);
	tcase_add_test(c, looks_are_rare_where_they_find_nothing_or_cost_much);
	tcase_add_test(c, the_kernel_tells_whether_a_process_was_at_an_address);
	return run_case(c);
}
