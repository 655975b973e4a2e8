/* test_sweep.c: which processes count as left behind by workers. */
#include <check.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/worker/sweep.h"
#include "tests/held_exec.h"
#include "tests/unit/emulated.h"
#include "tests/unit/run_case.h"

#define VARIABLE "DDP_SWEEP_TEST="

/* With our pid: another test_sweep on this machine also sweeps all of it. */
static char mark[sizeof(VARIABLE) + 10];
static pid_t runner; /* which forks each test */

/* How sweep.c reads an environment; its first piece is a byte shorter. */
enum { PIECE = 32 << 10, MARK_LEN = sizeof(mark) - 1, NOBODY = 65534 };

/* Starts a shell with this environment and script, and returns when the script
 * has closed descriptor 9. */
static pid_t shell(const char *first, const char *second, const char *script)
{
	char *envp[] = {(char *)first, (char *)second, NULL}, byte;
	char *argv[] = {(char *)"sh", (char *)"-c", (char *)script,
			(char *)script, NULL};
	int ends[2];
	pid_t pid;

	ck_assert_int_eq(pipe(ends), 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ends[0]);
		dup2(ends[1], 9);
		close(ends[1]);
		execve("/bin/sh", argv, envp);
		_exit(1);
	}
	close(ends[1]);
	ck_assert_int_eq(read(ends[0], &byte, 1), 0);
	close(ends[0]);
	return pid;
}

/* A shell that then stops itself. */
static pid_t sleeper(const char *first, const char *second)
{
	return shell(first, second, "exec 9>&-; kill -STOP $$");
}

static int lives(pid_t pid)
{
	int rc = waitpid(pid, NULL, WNOHANG);

	ck_assert_int_ge(rc, 0);
	return rc == 0;
}

static void end(pid_t pid)
{
	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}

static const struct sweep_marks by_name = {.variable = mark};

static int kill_marked(int *in_exec)
{
	return sweep_kill_marked(&by_name, "none", in_exec);
}

START_TEST(a_variable_that_only_ends_with_the_mark_does_not_count)
{
	char before[sizeof(mark) + 2], after[sizeof(mark) + 2];
	pid_t other, ours;
	int in_exec;

	snprintf(before, sizeof(before), "X_%s", mark);
	snprintf(after, sizeof(after), "%s0", mark);
	other = sleeper(before, after);
	ours = sleeper("A=1", mark);
	ck_assert_int_eq(kill_marked(&in_exec), 1);
	ck_assert_int_eq(waitpid(ours, NULL, 0), ours);
	ck_assert(lives(other));
	end(other);
}
END_TEST

START_TEST(the_mark_is_found_wherever_a_long_environment_is_cut)
{
	static char filler[2 * PIECE];
	int in_exec;

	for (int piece = 1; piece <= 2; piece++) {
		for (int before = 0; before <= MARK_LEN + 1; before++) {
			size_t n = (size_t)(piece * PIECE - 1 - before);
			pid_t pid;

			/* n bytes with the NUL; the mark follows */
			memset(filler, 'x', n - 1);
			memcpy(filler, "F=", 2);
			filler[n - 1] = '\0';
			pid = sleeper(filler, mark);
			ck_assert_int_eq(kill_marked(&in_exec), 1);
			ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
		}
	}
}
END_TEST

static ino_t inode_of(int fd)
{
	struct stat st;

	ck_assert_int_eq(fstat(fd, &st), 0);
	return st.st_ino;
}

/* A sleeper without the mark that has fd open. */
static pid_t sleeper_with(int fd)
{
	enum { GIVEN = 20 };
	pid_t pid;

	ck_assert_int_eq(dup2(fd, GIVEN), GIVEN);
	pid = sleeper("A=1", "B=2");
	close(GIVEN);
	return pid;
}

START_TEST(a_writer_to_a_workers_pipe_is_found_without_a_mark)
{
	struct sweep_marks marks = {.variable = mark};
	int ours[2], others[2], in_exec;
	ino_t pipes[3] = {0};
	pid_t writes, reads, other;

	ck_assert_int_eq(pipe2(ours, O_CLOEXEC), 0);
	ck_assert_int_eq(pipe2(others, O_CLOEXEC), 0);
	pipes[1] = inode_of(ours[0]);
	marks.pipes = pipes;
	marks.npipes = 3;
	writes = sleeper_with(ours[1]);
	reads = sleeper_with(ours[0]);
	other = sleeper_with(others[1]);
	ck_assert_int_eq(sweep_kill_marked(&marks, "none", &in_exec), 1);
	ck_assert_int_eq(waitpid(writes, NULL, 0), writes);
	ck_assert(lives(reads) && lives(other));
	end(reads);
	end(other);
	for (int i = 0; i < 2; i++) {
		close(ours[i]);
		close(others[i]);
	}
}
END_TEST

/* Field 22 of the process's stat. Its name has no blanks here. */
static unsigned long long start_of(pid_t pid)
{
	unsigned long long start = 0;
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/stat", (int)pid);
	f = fopen(path, "r");
	ck_assert_ptr_nonnull(f);
	for (int i = 1; i < 22; i++)
		ck_assert_int_eq(fscanf(f, "%*s"), 0);
	ck_assert_int_eq(fscanf(f, "%llu", &start), 1);
	fclose(f);
	return start;
}

/* Such as a service manager that a worker asked to start a process with the
 * worker's stdout. */
START_TEST(earlier_processes_are_not_found_by_a_pipe)
{
	struct sweep_marks marks = {.variable = mark};
	enum { AGAIN = 99 };
	int ends[2], in_exec, status;
	pid_t before, later;
	ino_t inode;

	ck_assert_int_eq(pipe2(ends, O_CLOEXEC), 0);
	inode = inode_of(ends[0]);
	marks.pipes = &inode;
	marks.npipes = 1;
	before = sleeper_with(ends[1]);
	do { /* until a child starts in a later tick of the kernel */
		later = fork();
		if (later == 0)
			_exit(start_of(getpid()) == start_of(before) ? AGAIN :
			      sweep_kill_marked(&marks, "none", &in_exec));
		ck_assert_int_eq(waitpid(later, &status, 0), later);
	} while (WEXITSTATUS(status) == AGAIN);
	ck_assert_int_eq(status, 0);
	ck_assert(lives(before));
	end(before);
	close(ends[0]);
	close(ends[1]);
}
END_TEST

START_TEST(children_that_were_there_first_are_left_alone_until_reaped)
{
	struct sweep s = {.signalled = NULL};
	pid_t first = sleeper("A=1", mark), theirs, ours;

	sweep_note_strangers();
	theirs = sleeper("A=1", "B=2"); /* as if orphaned by the first */
	ours = sleeper("A=1", mark);
	ck_assert_int_eq(sweep_children(&s, NULL, 0, &by_name, SIGKILL), 1);
	ck_assert_int_eq(waitpid(ours, NULL, 0), ours);
	ck_assert(lives(first) && lives(theirs));
	ck_assert_int_eq(sweep_children(&s, NULL, 0, &by_name, SIGKILL), 0);
	/* the kernel may reuse the pid now */
	sweep_reaped(first);
	ck_assert_int_eq(sweep_children(&s, NULL, 0, &by_name, SIGKILL), 1);
	ck_assert_int_eq(waitpid(first, NULL, 0), first);
	end(theirs);
	sweep_release(&s);
}
END_TEST

START_TEST(without_strangers_each_child_is_ours_but_those_excepted)
{
	struct sweep s = {.signalled = NULL};
	pid_t ours, server;

	sweep_note_strangers();
	ours = sleeper("A=1", "B=2");
	server = sleeper("A=1", mark);
	ck_assert_int_eq(sweep_children(&s, &server, 1, &by_name, SIGKILL), 1);
	ck_assert_int_eq(waitpid(ours, NULL, 0), ours);
	ck_assert(lives(server));
	end(server);
	sweep_release(&s);
}
END_TEST

/* From now on children may be orphans of an earlier child. */
static void strangers_come(void)
{
	pid_t first = sleeper("A=1", "B=2");

	sweep_note_strangers();
	end(first);
}

START_TEST(a_child_in_execve_counts_and_is_not_signalled)
{
	struct sweep s = {.signalled = NULL};
	pid_t hung;

	if (emulator_lacks("ptrace"))
		return;
	strangers_come();
	hung = held_exec_start();
	ck_assert_int_gt(hung, 0);
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(sweep_children(&s, NULL, 0, &by_name, SIGKILL),
				 1);
		ck_assert_int_eq(s.in_exec, 1);
		ck_assert_uint_eq(s.n, 0);
	}
	ck_assert_int_eq(held_exec_end(hung), 0);
	ck_assert_int_eq(sweep_children(&s, NULL, 0, &by_name, SIGKILL), 0);
	ck_assert_int_eq(s.in_exec, 0);
	sweep_release(&s);
}
END_TEST

START_TEST(a_child_that_hangs_in_execve_is_left_alone_later)
{
	struct sweep s = {.signalled = NULL};
	pid_t hung, ours;

	if (emulator_lacks("ptrace"))
		return;
	strangers_come();
	ours = sleeper("A=1", mark);
	hung = held_exec_start();
	ck_assert_int_gt(hung, 0);
	for (s.looks = 0; s.looks < SWEEP_LOOKS; s.looks++)
		ck_assert_int_eq(sweep_children(&s, NULL, 0, &by_name, 0), 2);
	ck_assert_int_eq(sweep_children(&s, NULL, 0, &by_name, SIGKILL), 1);
	ck_assert_int_eq(s.in_exec, 0);
	/* the next process in execve has as long */
	ck_assert_int_eq(s.looks, 0);
	end(ours);
	ck_assert_int_eq(sweep_children(&s, NULL, 0, &by_name, SIGKILL), 0);
	ck_assert(lives(hung));
	ck_assert_int_eq(held_exec_end(hung), 0);
	sweep_release(&s);
}
END_TEST

START_TEST(a_child_without_an_environment_is_not_waited_for)
{
	struct sweep s = {.signalled = NULL};
	pid_t bare;

	strangers_come();
	bare = sleeper(NULL, NULL);
	ck_assert_int_eq(sweep_children(&s, NULL, 0, &by_name, SIGKILL), 0);
	ck_assert_int_eq(s.in_exec, 0);
	ck_assert(lives(bare));
	end(bare);
	sweep_release(&s);
}
END_TEST

START_TEST(a_child_that_cannot_be_read_is_not_waited_for)
{
	struct sweep s = {.signalled = NULL};
	int ends[2];
	pid_t secret;
	char byte;

	strangers_come();
	/* root reads everything */
	ck_assert(getuid() != 0 || setuid(NOBODY) == 0);
	ck_assert_int_eq(pipe(ends), 0);
	secret = fork();
	if (secret == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_DUMPABLE, 0);
		close(ends[0]);
		close(ends[1]);
		for (;;)
			pause();
	}
	close(ends[1]);
	ck_assert_int_eq(read(ends[0], &byte, 1), 0);
	close(ends[0]);
	ck_assert_int_eq(sweep_children(&s, NULL, 0, &by_name, SIGKILL), 0);
	ck_assert_int_eq(s.in_exec, 0);
	ck_assert(lives(secret));
	end(secret);
	sweep_release(&s);
}
END_TEST

/* One look in 20 finds no environment, and one in 100 finds the end of an
 * environment that disappears before it is read. */
START_TEST(a_marked_child_counts_at_every_moment_of_its_execve)
{
	enum { LOOKS = 20000 };
	struct sweep s = {.signalled = NULL};
	pid_t ours;

	strangers_come();
	ours = shell("A=1", mark, "exec 9>&-; exec sh -c \"$0\" \"$0\"");
	for (int i = 0; i < LOOKS; i++)
		ck_assert_int_eq(sweep_children(&s, NULL, 0, &by_name, 0), 1);
	end(ours);
	sweep_release(&s);
}
END_TEST

/* ---- by their limit of file locks ---- */

/* A limit as large as those of real jobs. */
static struct sweep_marks by_locks(void)
{
	const struct sweep_marks marks = {
		.variable = mark,
		.locks = sweep_choose_locks((uint64_t)runner << 8)};

	ck_assert_uint_gt(marks.locks, 0);
	return marks;
}

static void set_locks(pid_t pid, uint64_t locks)
{
	const struct rlimit limit = {locks, locks};

	ck_assert_int_eq(prlimit(pid, RLIMIT_LOCKS, &limit, NULL), 0);
}

static pid_t bare_with_locks(uint64_t locks)
{
	pid_t pid = sleeper(NULL, NULL);

	set_locks(pid, locks);
	return pid;
}

START_TEST(the_limit_is_below_ours_and_has_many_values)
{
	uint64_t first = sweep_choose_locks(0), last;

	last = sweep_choose_locks(first - 1);
	ck_assert_uint_gt(first, (uint64_t)1 << 31);
	ck_assert_uint_eq(last - first, first - 1);
	/* as in a worker that is itself a launcher */
	set_locks(0, first);
	ck_assert_uint_lt(sweep_choose_locks(UINT64_MAX), first);
	ck_assert_uint_ge(sweep_choose_locks(0), first / 2);
	/* a user's own limit, too low for a unique value */
	set_locks(0, 1000);
	ck_assert_uint_eq(sweep_choose_locks(1), 0);
}
END_TEST

START_TEST(the_limit_alone_marks_a_process)
{
	const struct sweep_marks marks = by_locks();
	pid_t ours = bare_with_locks(marks.locks), other, none;
	int in_exec;

	other = bare_with_locks(marks.locks - 1);
	none = sleeper(NULL, NULL);
	ck_assert_int_eq(sweep_kill_marked(&marks, "none", &in_exec), 1);
	ck_assert_int_eq(waitpid(ours, NULL, 0), ours);
	ck_assert(lives(other) && lives(none));
	end(other);
	end(none);
}
END_TEST

START_TEST(foreign_children_are_ours_only_with_the_limit)
{
	const struct sweep_marks marks = by_locks();
	struct sweep s = {.signalled = NULL};
	pid_t ours, other;

	strangers_come();
	ours = bare_with_locks(marks.locks);
	other = sleeper(NULL, NULL);
	ck_assert_int_eq(sweep_children(&s, NULL, 0, &marks, SIGKILL), 1);
	ck_assert_int_eq(waitpid(ours, NULL, 0), ours);
	ck_assert_int_eq(sweep_children(&s, NULL, 0, &marks, SIGKILL), 0);
	ck_assert(lives(other));
	end(other);
	sweep_release(&s);
}
END_TEST

/* The sweep need not wait for the end of execve: a process always has limits.
 */
START_TEST(the_limit_is_known_of_a_process_that_hangs_in_execve)
{
	const struct sweep_marks marks = by_locks();
	struct sweep s = {.signalled = NULL};
	int in_exec;
	pid_t hung;

	if (emulator_lacks("ptrace"))
		return;
	strangers_come();
	hung = held_exec_start();
	ck_assert_int_gt(hung, 0);
	ck_assert_int_eq(sweep_children(&s, NULL, 0, &marks, SIGKILL), 0);
	ck_assert_int_eq(s.in_exec, 0);
	ck_assert_int_eq(sweep_kill_marked(&marks, "none", &in_exec), 0);
	ck_assert_int_eq(in_exec, 0);
	set_locks(hung, marks.locks);
	ck_assert_int_eq(sweep_children(&s, NULL, 0, &marks, SIGKILL), 1);
	ck_assert_uint_eq(s.n, 1);
	ck_assert_int_eq(sweep_kill_marked(&marks, "none", &in_exec), 1);
	ck_assert_int_eq(held_exec_end(hung), 0);
	sweep_release(&s);
}
END_TEST

/* Otherwise a zombie would be killed again and again. */
START_TEST(a_zombie_has_no_mark)
{
	const struct sweep_marks marks = by_locks();
	pid_t pid = bare_with_locks(marks.locks);
	siginfo_t info;
	int in_exec;

	kill(pid, SIGKILL);
	ck_assert_int_eq(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	ck_assert_int_eq(sweep_kill_marked(&marks, "none", &in_exec), 0);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}
END_TEST

static void *close_when_alone(void *first)
{
	pthread_join(*(pthread_t *)first, NULL);
	close(9);
	for (;;)
		pause();
	return NULL;
}

/* Closes descriptor 9 when the first thread has ended; another one runs on. */
static _Noreturn void end_first_thread(void)
{
	static pthread_t first;
	pthread_t second;

	first = pthread_self();
	if (pthread_create(&second, NULL, close_when_alone, &first) != 0)
		_exit(1);
	pthread_exit(NULL);
}

START_TEST(a_process_whose_first_thread_has_ended_is_found)
{
	const struct sweep_marks marks = by_locks();
	int ends[2], in_exec;
	pid_t pid;
	char byte;

	ck_assert_int_eq(pipe(ends), 0);
	pid = fork();
	if (pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ends[0]);
		dup2(ends[1], 9);
		close(ends[1]);
		end_first_thread();
	}
	close(ends[1]);
	ck_assert_int_eq(read(ends[0], &byte, 1), 0);
	close(ends[0]);
	set_locks(pid, marks.locks);
	ck_assert_int_eq(sweep_kill_marked(&marks, "none", &in_exec), 1);
	ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
}
END_TEST

START_TEST(killing_all_that_are_marked_counts_those_in_execve)
{
	pid_t hung = held_exec_start();
	int in_exec;

	if (emulator_lacks("ptrace"))
		return;
	ck_assert_int_gt(hung, 0);
	ck_assert_int_eq(kill_marked(&in_exec), 0);
	ck_assert_int_ge(in_exec, 1);
	ck_assert(lives(hung));
	ck_assert_int_eq(held_exec_end(hung), 0);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("sweep");

	runner = getpid();
	snprintf(mark, sizeof(mark), VARIABLE "%010d", (int)runner);
	tcase_set_timeout(c, 60);
	tcase_add_test(c,
			a_variable_that_only_ends_with_the_mark_does_not_count);
	tcase_add_test(c,
		       a_writer_to_a_workers_pipe_is_found_without_a_mark);
	tcase_add_test(c, earlier_processes_are_not_found_by_a_pipe);
	tcase_add_test(c, the_mark_is_found_wherever_a_long_environment_is_cut);
	tcase_add_test(c,
		children_that_were_there_first_are_left_alone_until_reaped);
	tcase_add_test(c,
		without_strangers_each_child_is_ours_but_those_excepted);
	tcase_add_test(c, a_child_in_execve_counts_and_is_not_signalled);
	tcase_add_test(c, a_child_that_hangs_in_execve_is_left_alone_later);
	tcase_add_test(c, a_child_without_an_environment_is_not_waited_for);
	tcase_add_test(c, a_child_that_cannot_be_read_is_not_waited_for);
	tcase_add_test(c, a_marked_child_counts_at_every_moment_of_its_execve);
	tcase_add_test(c, killing_all_that_are_marked_counts_those_in_execve);
	tcase_add_test(c, the_limit_is_below_ours_and_has_many_values);
	tcase_add_test(c, the_limit_alone_marks_a_process);
	tcase_add_test(c,
		foreign_children_are_ours_only_with_the_limit);
	tcase_add_test(c,
		the_limit_is_known_of_a_process_that_hangs_in_execve);
	tcase_add_test(c, a_zombie_has_no_mark);
	tcase_add_test(c, a_process_whose_first_thread_has_ended_is_found);
	return run_case(c);
}
