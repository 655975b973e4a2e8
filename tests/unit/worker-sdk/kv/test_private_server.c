/* test_private_server.c: starting a server: with too few descriptors, and with
 * blocked signals. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rendezvous/client/server_exec.h"
#include "tests/unit/run_case.h"
#include "worker-sdk/kv/kv.h"

/* Two pipes need four descriptors; _i are free. Then the copies do not fit: of
 * the pipe, of the socket, and of the child's stderr and stdin. */
START_TEST(too_few_descriptors_are_an_error)
{
	struct auth auth = {0};
	struct err e = ERR_INIT;
	struct rlimit old, small;
	int rc, ours = -1, fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	int next = dup(fd);

	ck_assert_int_gt(next, fd);
	close(next);
	ck_assert_int_eq(setenv("DDP_SERVER", "/bin/true", 1), 0);
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
	small = (struct rlimit){
		(rlim_t)(_i < 8 ? next + _i : SERVER_EXEC_COPIES + _i - 8),
		old.rlim_max};
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &small), 0);
	/* no assertions here: Check opens a file */
	rc = ddp__private_server_start(&ours, &fd, 1, "job", 2, &auth, &e);
	setrlimit(RLIMIT_NOFILE, &old);
	ck_assert_int_eq(rc, -EMFILE);
	ck_assert_ptr_nonnull(strstr(e.text, "/bin/true"));
	ck_assert_ptr_nonnull(strstr(e.text, strerror(EMFILE)));
	ck_assert_int_eq(ours, -1);
	ck_assert_int_eq(dup(fd), next); /* all others are closed again */
}
END_TEST

/* The server is a script, which writes its signal mask into a FIFO. */
START_TEST(the_server_inherits_no_signal_mask)
{
	static const char script[] = "#!/bin/sh\ngrep SigBlk "
				     "/proc/self/status >\"$SERVER_SAYS\"\n";
	char dir[] = "/tmp/server.XXXXXX", fifo[64], server[64], says[64] = "";
	struct auth auth = {0};
	struct err e = ERR_INIT;
	sigset_t all;
	FILE *f;
	int rc, ours = -1, fd = open("/dev/null", O_RDWR | O_CLOEXEC);

	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(fifo, sizeof(fifo), "%s/says", dir);
	snprintf(server, sizeof(server), "%s/server", dir);
	ck_assert_int_eq(mkfifo(fifo, 0600), 0);
	f = fopen(server, "we");
	ck_assert_ptr_nonnull(f);
	fputs(script, f);
	ck_assert_int_eq(fclose(f), 0);
	ck_assert_int_eq(chmod(server, 0700), 0);
	ck_assert_int_eq(setenv("DDP_SERVER", server, 1), 0);
	ck_assert_int_eq(setenv("SERVER_SAYS", fifo, 1), 0);
	sigfillset(&all);
	ck_assert_int_eq(sigprocmask(SIG_BLOCK, &all, NULL), 0);
	rc = ddp__private_server_start(&ours, &fd, 1, "job", 2, &auth, &e);
	ck_assert_int_eq(sigprocmask(SIG_UNBLOCK, &all, NULL), 0);
	ck_assert_msg(rc == 0, "%s", e.text);
	f = fopen(fifo, "re");
	ck_assert_ptr_nonnull(f);
	ck_assert_ptr_nonnull(fgets(says, sizeof(says), f));
	ck_assert_str_eq(says, "SigBlk:\t0000000000000000\n");
	fclose(f);
	close(ours);
	close(fd);
	unlink(fifo);
	unlink(server);
	rmdir(dir);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("own_server");

	tcase_add_loop_test(tc, too_few_descriptors_are_an_error, 0, 12);
	tcase_add_test(tc, the_server_inherits_no_signal_mask);
	return run_case(tc);
}
