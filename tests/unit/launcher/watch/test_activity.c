/* test_activity.c: readings of a worker in, what it does out, on a clock that
 * the test sets. */
#include <check.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/watch/activity.h"
#include "launcher/watch/watch.h"
#include "tests/unit/emulated.h"
#include "tests/unit/run_case.h"

#define TICK UINT64_C(1000000000)

static struct activity a;
static struct activity_sample now;

static void begin(void)
{
	now = (struct activity_sample){.ns = 100 * TICK,
				       .step = -1,
				       .state = 'S',
				       .cpu_ms = 2000,
				       .processes = 7};
	activity_init(&a, TICK, now.ns);
	activity_add(&a, &now);
}

/* n ticks, in each of which the counters grow by that much. */
static void ticks(int n, uint64_t cpu_ms, uint64_t io, uint64_t faults,
		  uint64_t calls)
{
	for (int i = 0; i < n; i++) {
		now.ns += TICK;
		now.cpu_ms += cpu_ms;
		now.io_bytes += io;
		now.faults += faults;
		now.calls += calls;
		if (calls)
			now.call_ns = now.ns - TICK / 2;
		activity_add(&a, &now);
	}
}

static uint64_t quiet_s(void)
{
	return activity_quiet_ms(&a, now.ns) / 1000;
}

START_TEST(a_worker_that_does_nothing_is_idle)
{
	snprintf(now.sleeps_in, sizeof(now.sleeps_in), "hrtimer_nanosleep");
	ticks(20, 0, 10, 0, 0);
	ck_assert_int_eq(a.doing, RANK_IDLE);
	ck_assert_str_eq(a.words, "sleeps (nanosleep)");
	ck_assert_uint_eq(quiet_s(), 20);
}
END_TEST

START_TEST(a_worker_that_falls_asleep_is_idle_from_then_on)
{
	ticks(20, 0, 8192, 0, 0);
	ck_assert_int_eq(a.doing, RANK_LOADS);
	ck_assert_uint_eq(quiet_s(), 0);
	ticks(10, 0, 0, 0, 0);
	ck_assert_int_eq(a.doing, RANK_IDLE);
	ck_assert_uint_eq(quiet_s(), 10);
	ck_assert_uint_eq((now.ns - a.since_ns) / TICK, 10);
}
END_TEST

START_TEST(a_worker_that_has_only_started_and_sleeps_says_so)
{
	now.cpu_ms = 100;
	activity_init(&a, TICK, now.ns);
	activity_add(&a, &now);
	snprintf(now.sleeps_in, sizeof(now.sleeps_in), "hrtimer_nanosleep");
	ticks(20, 0, 10, 0, 0);
	ck_assert_int_eq(a.doing, RANK_STARTS);
	ck_assert_str_eq(a.words, "sleeps (nanosleep)");
}
END_TEST

START_TEST(a_handler_of_a_fault_counts_as_stopped)
{
	now.handles = SIGSEGV; /* it waits there */
	ticks(2, 0, 0, 0, 0);
	ck_assert_int_ne(a.doing, RANK_STOPPED);
	ticks(2, 0, 0, 0, 0);
	ck_assert_int_eq(a.doing, RANK_STOPPED);
	ck_assert_str_eq(a.words, "is in its handler of signal 11 (SIGSEGV)");
	now.handles = 0; /* seen between two faults */
	ticks(1, 1000, 0, 0, 0);
	ck_assert_int_eq(a.doing, RANK_STOPPED);
	ck_assert_str_eq(a.words, "is in its handler of signal 11 (SIGSEGV)");
	ticks(5, 1000, 0, 0, 0);
	ck_assert_int_eq(a.doing, RANK_STOPPED);
	ticks(1, 1000, 0, 0, 1); /* it has left the handler */
	ticks(2, 1000, 0, 0, 0);
	ck_assert_int_eq(a.doing, RANK_BUSY);
}
END_TEST

START_TEST(a_fault_that_is_handled_now_and_then_is_no_hang)
{
	for (int i = 0; i < 100; i++) {
		now.handles = i % 10 ? 0 : SIGSEGV;
		ticks(1, 1000, 0, 0, 0);
		ck_assert_int_ne(a.doing, RANK_STOPPED);
	}
}
END_TEST

START_TEST(a_signal_that_stops_it_says_more_than_its_handler)
{
	now.handles = SIGSEGV;
	now.state = 'T';
	ticks(5, 0, 0, 0, 0);
	ck_assert_str_eq(a.words, "is stopped (SIGSTOP)");
}
END_TEST

START_TEST(a_frozen_cgroup_counts_as_stopped)
{
	strcpy(now.sleeps_in, "__refrigerator"); /* cgroup version 1 */
	now.state = 'D';
	ticks(3, 0, 0, 0, 0);
	ck_assert_int_eq(a.doing, RANK_STOPPED);
	ck_assert_str_eq(a.words, "is frozen (the freezer of its cgroup)");
	strcpy(now.sleeps_in, "do_freezer_trap"); /* version 2 */
	now.state = 'S';
	ticks(3, 0, 0, 0, 0);
	ck_assert_int_eq(a.doing, RANK_STOPPED);
	ck_assert_str_eq(a.words, "is frozen (the freezer of its cgroup)");
}
END_TEST

static void sample_child(void (*child)(void), struct activity_sample *s)
{
	static const struct recorder none = {.head = NULL};
	struct sampler_call c;
	siginfo_t stopped;
	pid_t pid = fork();

	if (pid == 0) {
		child();
		_exit(0);
	}
	ck_assert_int_eq(waitid(P_PID, (id_t)pid, &stopped, WSTOPPED), 0);
	sampler_read(&none, 0, pid, -1, NULL, s, &c);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

static void child_on_fault(int number)
{
	raise(SIGSTOP);
}

static void child_faults(void)
{
	signal(SIGSEGV, child_on_fault);
	raise(SIGSEGV); /* a null pointer would be UBSan's to report */
}

static void child_blocks_all(void)
{
	sigset_t all;

	sigfillset(&all);
	sigprocmask(SIG_BLOCK, &all, NULL);
	raise(SIGSTOP);
}

static void child_has_children(int number)
{
	siginfo_t dead;
	pid_t pid = fork();

	if (pid == 0) {
		signal(number, SIG_DFL); /* Check's */
		raise(number);
	}
	waitid(P_PID, (id_t)pid, &dead, WEXITED | WNOWAIT);
	raise(SIGSTOP);
}

static void child_of_killed(void)
{
	child_has_children(SIGKILL);
}

static void child_of_ended(void)
{
	child_has_children(SIGTERM);
}

static void child_of_failed(void)
{
	siginfo_t dead;
	pid_t pid = fork();

	if (pid == 0)
		_exit(7);
	waitid(P_PID, (id_t)pid, &dead, WEXITED | WNOWAIT);
	raise(SIGSTOP);
}

START_TEST(a_child_that_exited_with_an_error_and_is_not_reaped_is_seen)
{
	struct activity_sample s;

	sample_child(child_of_failed, &s);
	ck_assert_int_gt(s.failed_pid, 0);
	ck_assert_int_eq(s.failed_code, 7);
	ck_assert_str_eq(s.failed_name, "test_activity");
	ck_assert_int_eq(s.dead_pid, 0);
}
END_TEST

START_TEST(a_killed_child_that_is_not_reaped_is_seen)
{
	struct activity_sample s;

	sample_child(child_of_killed, &s);
	ck_assert_int_gt(s.dead_pid, 0);
	ck_assert_int_eq(s.dead_signal, SIGKILL);
	ck_assert_str_eq(s.dead_name, "test_activity");
	/* programs end their own children like that */
	sample_child(child_of_ended, &s);
	ck_assert_int_eq(s.dead_pid, 0);
}
END_TEST

START_TEST(a_process_in_the_handler_of_a_fault_is_seen_there)
{
	struct activity_sample s;

	if (emulator_lacks("the masks of signals in /proc"))
		return;
	sample_child(child_faults, &s);
	ck_assert_int_eq(s.handles, SIGSEGV);
	sample_child(child_blocks_all, &s);
	ck_assert_int_eq(s.handles, 0);
}
END_TEST

START_TEST(the_entry_to_the_kernel_is_no_place_to_wait_for)
{
	snprintf(now.sleeps_in, sizeof(now.sleeps_in), "do_syscall_64");
	ticks(20, 0, 10, 0, 0);
	ck_assert_str_eq(a.words, "sleeps");
}
END_TEST

START_TEST(the_kernels_functions_have_words)
{
	static const char *const names[][2] = {
		{"anon_pipe_write", "waits for the reader of a full pipe"},
		{"pipe_write", "waits for the reader of a full pipe"},
		{"anon_pipe_read", "waits for a pipe"},
		{"wait_for_partner", "waits for the other end of a FIFO"},
		{"locks_lock_inode", "waits for the lock of a file (flock)"},
		{"futex_do_wait",
		 "waits for a lock or another thread (futex)"},
		{"__do_semtimedop", "waits for a semaphore (semop)"},
		{"fcntl_setlk", "waits for the lock of a file (fcntl)"},
		{"a_new_place", "waits for a_new_place"},
	};
	const char *name = names[_i][0];

	snprintf(now.sleeps_in, sizeof(now.sleeps_in), "%s", name);
	ticks(20, 0, 10, 0, 0);
	ck_assert_str_eq(a.words, names[_i][1]);
}
END_TEST

/* It is in the kernel, but for no device. */
START_TEST(a_parent_in_vfork_waits_for_its_child)
{
	snprintf(now.sleeps_in, sizeof(now.sleeps_in), "kernel_clone");
	now.state = 'D';
	ticks(20, 0, 10, 0, 0);
	ck_assert_str_eq(a.words, "waits for a child that runs no program yet "
				  "(vfork)");
}
END_TEST

START_TEST(a_worker_that_has_done_nothing_yet_only_starts)
{
	now.cpu_ms = 3;
	activity_init(&a, TICK, now.ns);
	activity_add(&a, &now);
	ticks(60, 0, 0, 0, 0);
	ck_assert_int_eq(a.doing, RANK_STARTS);
	ck_assert_str_eq(a.words, "sleeps");
}
END_TEST

START_TEST(input_new_memory_and_children_are_work)
{
	ticks(8, 10, 1 << 20, 0, 0);
	ck_assert_int_eq(a.doing, RANK_LOADS);
	ck_assert_uint_eq(quiet_s(), 0);
	ticks(8, 0, 0, 0, 0);
	ck_assert_int_eq(a.doing, RANK_IDLE);
	ticks(8, 10, 0, 100, 0);
	ck_assert_int_eq(a.doing, RANK_LOADS);
	ticks(8, 0, 0, 0, 0);
	now.processes += 40;
	ticks(1, 0, 0, 0, 0);
	ck_assert_int_eq(a.doing, RANK_LOADS);
}
END_TEST

START_TEST(a_worker_that_has_ended_did_what_it_did_before)
{
	snprintf(now.sleeps_in, sizeof(now.sleeps_in), "hrtimer_nanosleep");
	ticks(8, 0, 0, 0, 0);
	now = (struct activity_sample){.ns = now.ns, .step = -1};
	ticks(1, 0, 0, 0, 0);
	ck_assert_int_eq(a.doing, RANK_IDLE);
	ck_assert_str_eq(a.words, "sleeps (nanosleep)");
}
END_TEST

START_TEST(what_it_reads_has_a_rate_and_a_sum)
{
	ticks(4, 10, 1 << 20, 0, 1);
	ticks(8, 200, 500000000, 0, 0);
	ck_assert_str_eq(a.words, "reads 500 MB/s, 4.0 GB so far (20 % CPU)");
	ticks(1, 0, 0, 0, 1);
	ticks(8, 10, 1000, 0, 0);
	ck_assert_str_eq(a.words, "reads 1.0 kB/s, 8.0 kB so far (1 % CPU)");
	now.reaped += 100; /* a child that has ended read that */
	ticks(1, 10, 1000, 0, 0);
	ck_assert_str_eq(a.words, "starts processes (1 % CPU)");
}
END_TEST

static void write_ticks(int n, uint64_t bytes)
{
	for (int i = 0; i < n; i++) {
		now.written += bytes;
		ticks(1, 300, bytes, 0, 0);
	}
}

START_TEST(a_checkpoint_is_known_by_its_rate)
{
	now.calls = 7;
	now.call_ns = now.ns;
	write_ticks(6, 150000000);
	ck_assert_int_eq(a.doing, RANK_WORKS);
	ck_assert_str_eq(a.words, "works (30 % CPU)");
	ticks(9, 1000, 0, 0, 0); /* it prepares its next part */
	ck_assert_int_eq(a.doing, RANK_WORKS);
	ticks(20, 1000, 0, 0, 0);
	ck_assert_int_eq(a.doing, RANK_BUSY);
	write_ticks(6, 400000); /* a log */
	ck_assert_ptr_nonnull(strstr(a.words, "writes 400 kB/s, "));
}
END_TEST

START_TEST(cpu_time_alone_is_computing)
{
	ticks(40, 1000, 0, 0, 0);
	ck_assert_int_eq(a.doing, RANK_BUSY);
	ck_assert_str_eq(a.words, "computes (100 % CPU, no input or output)");
	ck_assert_uint_eq(quiet_s(), 40);
}
END_TEST

START_TEST(a_tick_of_the_kernels_clock_is_no_computing)
{
	activity_init(&a, TICK / 4, now.ns);
	for (int i = 0; i < 8; i++) {
		now.ns += TICK / 4;
		now.cpu_ms += i == 7 ? 45 : 0;
		activity_add(&a, &now);
	}
	ck_assert_int_eq(a.doing, RANK_IDLE);
	now.ns += TICK / 4;
	now.cpu_ms += 45;
	activity_add(&a, &now);
	ck_assert_int_eq(a.doing, RANK_BUSY);
}
END_TEST

START_TEST(counters_that_shrink_with_a_child_are_no_work)
{
	ticks(8, 0, 1 << 20, 0, 0);
	now.io_bytes = now.cpu_ms = 0;
	ticks(8, 0, 0, 0, 0);
	ck_assert_int_eq(a.doing, RANK_STARTS);
}
END_TEST

START_TEST(calls_are_progress_and_a_call_that_lasts_is_not)
{
	ticks(20, 500, 0, 0, 1000);
	ck_assert_uint_eq(quiet_s(), 0);
	now.in_call = 1;
	ticks(20, 1000, 0, 0, 0);
	ck_assert_int_eq(a.doing, RANK_CALLS);
	ck_assert_uint_eq(quiet_s(), 20);
}
END_TEST

START_TEST(a_stop_counts_more_than_a_call)
{
	now.in_call = 1;
	now.state = 'T';
	ticks(3, 0, 0, 0, 0);
	ck_assert_int_eq(a.doing, RANK_STOPPED);
	ck_assert_str_eq(a.words, "is stopped (SIGSTOP)");
}
END_TEST

START_TEST(steps_have_a_rate)
{
	for (int i = 0; i < 20; i++) {
		now.step = 10 * i;
		ticks(1, 100, 0, 0, 0);
	}
	ck_assert_uint_eq(a.step_us, 100000);
	ck_assert_uint_eq(quiet_s(), 0);
	ticks(9, 0, 0, 0, 0);
	ck_assert_uint_eq(quiet_s(), 9);
}
END_TEST

START_TEST(a_host_that_was_stopped_has_not_been_idle)
{
	ticks(3, 1000, 0, 0, 0);
	now.ns += 3600 * TICK;
	ticks(1, 0, 0, 0, 0);
	ck_assert_uint_eq(quiet_s(), 3);
}
END_TEST

START_TEST(a_late_look_is_no_progress_unless_a_call_has_come)
{
	ticks(1, 0, 0, 0, 1);
	now.in_call = 1;
	ticks(5, 0, 0, 0, 0);
	ck_assert_uint_eq(quiet_s(), 5);
	now.ns += 20 * TICK;
	ticks(1, 0, 0, 0, 0);
	ck_assert_int_eq(a.doing, RANK_CALLS);
	ck_assert_str_eq(a.words, "waits in that call");
	ck_assert_uint_eq(quiet_s(), 5);
	ticks(2, 0, 0, 0, 0);
	ck_assert_uint_eq(quiet_s(), 7);
	now.ns += 20 * TICK;
	ticks(1, 0, 0, 0, 1);
	ck_assert_uint_eq(quiet_s(), 0);
}
END_TEST

START_TEST(each_state_has_its_words)
{
	now.state = 'D';
	ticks(6, 0, 0, 0, 0);
	ck_assert_str_eq(a.words, "waits for a disk or a file server");
	now.syncs = 1;
	ticks(1, 0, 0, 0, 0);
	ck_assert_int_eq(a.doing, RANK_WORKS);
	ck_assert_str_eq(a.words, "flushes to a disk");
	now.syncs = 0;
	now.state = 'T';
	ticks(1, 0, 0, 0, 0);
	ck_assert_str_eq(a.words, "is stopped (SIGSTOP)");
	now.state = 'S';
	now.written += 10 << 20;
	ticks(1, 10, 10 << 20, 0, 0);
	ck_assert_str_eq(a.words, "works (0 % CPU)");
	ticks(19, 1000, 0, 0, 0);
	ck_assert_str_eq(a.words,
			 "computes (100 % CPU, no input or output)");
}
END_TEST

START_TEST(it_has_done_the_same_since_it_began)
{
	ticks(6, 0, 0, 0, 0);
	now.state = 'D';
	ticks(4, 0, 0, 0, 0);
	ck_assert_int_eq(a.doing, RANK_BLOCKED);
	ck_assert_uint_eq(now.ns - a.since_ns, 3 * TICK);
	ck_assert_uint_eq(activity_quiet_ms(&a, a.progress_ns), 0);
}
END_TEST

START_TEST(seen_once_to_want_a_cpu_is_not_computing)
{
	now.calls = 1;
	now.call_ns = now.ns;
	ticks(6, 0, 0, 0, 0);
	now.state = 'R';
	ticks(2, 0, 0, 0, 0);
	now.state = 'S';
	ticks(1, 0, 0, 0, 0);
	ck_assert_int_eq(a.doing, RANK_IDLE);
	now.state = 'R';
	ticks(4, 0, 0, 0, 0);
	ck_assert_int_eq(a.doing, RANK_BUSY);
}
END_TEST

START_TEST(its_state_before_its_last_call_does_not_count)
{
	/* on a busy host, it waited for a CPU; now it sleeps */
	now.state = 'R';
	ticks(3, 10, 0, 0, 1);
	now.state = 'S';
	ticks(1, 0, 0, 0, 0);
	ck_assert_int_eq(a.doing, RANK_IDLE);
	begin();
	ticks(3, 1000, 0, 0, 1);
	ticks(2, 0, 0, 0, 0);
	ck_assert_int_eq(a.doing, RANK_IDLE);
}
END_TEST

START_TEST(the_first_step_may_be_0)
{
	now.step = 0;
	activity_init(&a, TICK, now.ns);
	activity_add(&a, &now);
	now.step = 1;
	ticks(1, 0, 0, 0, 0);
	ck_assert_uint_eq(a.step_us, TICK / 1000);
}
END_TEST

START_TEST(a_call_from_the_future_is_progress_of_now)
{
	now.calls++;
	now.call_ns = UINT64_MAX;
	ticks(1, 0, 0, 0, 0);
	ck_assert_uint_eq(quiet_s(), 0);
	ticks(9, 0, 0, 0, 0);
	ck_assert_uint_eq(quiet_s(), 9);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("activity");
	TCase *c = tcase_create("activity");

	tcase_add_checked_fixture(c, begin, NULL);
	tcase_add_test(c, a_worker_that_does_nothing_is_idle);
	tcase_add_test(c, a_handler_of_a_fault_counts_as_stopped);
	tcase_add_test(c, a_frozen_cgroup_counts_as_stopped);
	tcase_add_test(c, a_fault_that_is_handled_now_and_then_is_no_hang);
	tcase_add_test(c, a_signal_that_stops_it_says_more_than_its_handler);
	tcase_add_test(c, a_process_in_the_handler_of_a_fault_is_seen_there);
	tcase_add_test(c, a_killed_child_that_is_not_reaped_is_seen);
	tcase_add_test(
		c, a_child_that_exited_with_an_error_and_is_not_reaped_is_seen);
	tcase_add_test(c, a_worker_that_falls_asleep_is_idle_from_then_on);
	tcase_add_test(c, a_worker_that_has_only_started_and_sleeps_says_so);
	tcase_add_test(c, the_entry_to_the_kernel_is_no_place_to_wait_for);
	tcase_add_loop_test(c, the_kernels_functions_have_words, 0, 9);
	tcase_add_test(c, a_parent_in_vfork_waits_for_its_child);
	tcase_add_test(c, a_worker_that_has_done_nothing_yet_only_starts);
	tcase_add_test(c, input_new_memory_and_children_are_work);
	tcase_add_test(c, a_worker_that_has_ended_did_what_it_did_before);
	tcase_add_test(c, what_it_reads_has_a_rate_and_a_sum);
	tcase_add_test(c, a_checkpoint_is_known_by_its_rate);
	tcase_add_test(c, cpu_time_alone_is_computing);
	tcase_add_test(c, a_tick_of_the_kernels_clock_is_no_computing);
	tcase_add_test(c, counters_that_shrink_with_a_child_are_no_work);
	tcase_add_test(c, calls_are_progress_and_a_call_that_lasts_is_not);
	tcase_add_test(c, a_stop_counts_more_than_a_call);
	tcase_add_test(c, steps_have_a_rate);
	tcase_add_test(c, a_host_that_was_stopped_has_not_been_idle);
	tcase_add_test(c, a_late_look_is_no_progress_unless_a_call_has_come);
	tcase_add_test(c, each_state_has_its_words);
	tcase_add_test(c, it_has_done_the_same_since_it_began);
	tcase_add_test(c, seen_once_to_want_a_cpu_is_not_computing);
	tcase_add_test(c, its_state_before_its_last_call_does_not_count);
	tcase_add_test(c, the_first_step_may_be_0);
	tcase_add_test(c, a_call_from_the_future_is_progress_of_now);
	suite_add_tcase(s, c);
	return run_suite(s);
}
