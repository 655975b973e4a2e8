/* test_socket_holder.c: real sockets of real processes: this one's, a child's,
 * a grandchild's and a thread's child's. */
#include <check.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "launcher/worker/socket_owner.h"
#include "tests/unit/run_case.h"

static uint64_t inode_of(int fd)
{
	struct stat st;

	ck_assert_int_eq(fstat(fd, &st), 0);
	return st.st_ino;
}

static int in(uint64_t inode, pid_t pid)
{
	struct socket_search s;

	socket_search_init(&s, inode);
	return socket_search_in(&s, pid);
}

static pid_t under(uint64_t inode)
{
	struct socket_search s;

	socket_search_init(&s, inode);
	return socket_search_under(&s, getpid());
}

START_TEST(the_holder_of_a_socket_is_found)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	uint64_t inode = inode_of(fd);

	ck_assert_int_eq(in(inode, getpid()), 1);
	ck_assert_int_eq(in(inode, getppid()), 0);
	ck_assert_int_eq(in(inode + 1, getpid()), 0);
	/* it is not under itself */
	ck_assert_int_eq(under(inode), 0);
	close(fd);
	ck_assert_int_eq(in(inode, getpid()), 0);
}
END_TEST

struct told {
	pid_t pid;
	uint64_t inode;
};

/* Forks depth generations; the last opens a socket, reports it, and lives until
 * its pipe is closed. */
static void descend(int depth, int say, int live)
{
	struct told t;
	char byte;
	pid_t pid = fork();

	if (pid)
		return;
	if (depth > 1) {
		descend(depth - 1, say, live);
	} else {
		t.pid = getpid();
		t.inode = inode_of(socket(AF_INET, SOCK_STREAM, 0));
		if (write(say, &t, sizeof(t)) != sizeof(t))
			_exit(1);
	}
	if (read(live, &byte, 1) < 0)
		_exit(1);
	while (wait(NULL) > 0)
		;
	_exit(0);
}

struct family {
	int depth, say[2], live[2];
	struct told told;
};

static void begin(struct family *f)
{
	ck_assert_int_eq(pipe2(f->say, O_CLOEXEC), 0);
	ck_assert_int_eq(socketpair(AF_UNIX, SOCK_STREAM, 0, f->live), 0);
	descend(f->depth, f->say[1], f->live[1]);
	ck_assert_int_eq(read(f->say[0], &f->told, sizeof(f->told)),
			 sizeof(f->told));
}

static void end(struct family *f)
{
	shutdown(f->live[0], SHUT_RDWR);
	while (wait(NULL) > 0)
		;
	close(f->live[0]);
	close(f->live[1]);
	close(f->say[0]);
	close(f->say[1]);
}

START_TEST(a_descendant_is_found)
{
	for (int depth = 1; depth <= 3; depth++) {
		struct family f = {.depth = depth};

		begin(&f);
		ck_assert_int_eq(under(f.told.inode), f.told.pid);
		end(&f);
		ck_assert_int_eq(under(f.told.inode), 0);
	}
}
END_TEST

START_TEST(a_descendant_of_the_ninth_generation_is_not_looked_for)
{
	for (int depth = 8; depth <= 9; depth++) {
		struct family f = {.depth = depth};

		begin(&f);
		ck_assert_int_eq(under(f.told.inode),
				 depth == 8 ? f.told.pid : 0);
		end(&f);
	}
}
END_TEST

static pthread_barrier_t forked, looked;

static void *fork_and_stay(void *arg)
{
	begin(arg);
	pthread_barrier_wait(&forked);
	pthread_barrier_wait(&looked);
	return NULL;
}

/* Its parent is this process, but it is in that thread's list. */
START_TEST(a_threads_child_is_found)
{
	struct family f = {.depth = 1};
	pthread_t thread;

	pthread_barrier_init(&forked, NULL, 2);
	pthread_barrier_init(&looked, NULL, 2);
	ck_assert_int_eq(pthread_create(&thread, NULL, fork_and_stay, &f), 0);
	pthread_barrier_wait(&forked);
	ck_assert_int_eq(under(f.told.inode), f.told.pid);
	pthread_barrier_wait(&looked);
	pthread_join(thread, NULL);
	end(&f);
}
END_TEST

START_TEST(it_examines_a_bounded_number_of_processes)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), high;
	struct socket_search s;

	high = fcntl(fd, F_DUPFD, 200);
	close(fd);
	for (fd = 100; fd < 150; fd++)
		ck_assert_int_eq(dup2(1, fd), fd);
	socket_search_init(&s, inode_of(high));
	s.looks = 50;
	ck_assert_int_eq(socket_search_in(&s, getpid()), 0);
	ck_assert_int_eq(s.looks, 0);
	ck_assert_int_eq(socket_search_under(&s, getpid()), 0);
	s.looks = 1000;
	ck_assert_int_eq(socket_search_in(&s, getpid()), 1);
	ck_assert_int_gt(s.looks, 0);
}
END_TEST

START_TEST(a_gone_or_invisible_process_has_no_sockets)
{
	pid_t pid = fork();

	if (pid == 0)
		_exit(0);
	waitpid(pid, NULL, 0);
	ck_assert_int_eq(in(1, pid), 0);
	ck_assert_int_eq(in(1, -1), 0);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("socket_holder");

	tcase_set_timeout(c, 60);
	tcase_add_test(c, the_holder_of_a_socket_is_found);
	tcase_add_test(c, a_descendant_is_found);
	tcase_add_test(c,
		       a_descendant_of_the_ninth_generation_is_not_looked_for);
	tcase_add_test(c, a_threads_child_is_found);
	tcase_add_test(c, it_examines_a_bounded_number_of_processes);
	tcase_add_test(c, a_gone_or_invisible_process_has_no_sockets);
	return run_case(c);
}
