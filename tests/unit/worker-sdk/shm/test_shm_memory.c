/* test_shm_memory.c: the cost of a segment before it is used, and what happens
 * if the kernel has no memory for it. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <sys/mount.h>
#include <sys/stat.h>

#include "tests/unit/refuse.h"
#include "tests/unit/run_case.h"
#include "tests/unit/worker-sdk/shm/shm_ranks.h"

enum { LEFT_OUT = 77 };

static const char overcommit[] = "/proc/sys/vm/overcommit_memory";

static size_t bytes_of(int fd)
{
	struct stat st;

	return fstat(fd, &st) ? 0 : (size_t)st.st_blocks * 512;
}

/* Makes this process see `mode` as the machine's vm.overcommit_memory. */
static int pretend(const char *mode)
{
	char path[] = "/tmp/test_shm_memory.XXXXXX";
	int fd = mkstemp(path), rc = LEFT_OUT;

	if (fd < 0 || write(fd, mode, 1) != 1)
		return 30;
	if ((!unshare(CLONE_NEWNS) || !unshare(CLONE_NEWUSER | CLONE_NEWNS)) &&
	    !mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
	    !mount(path, overcommit, NULL, MS_BIND, NULL))
		rc = 0;
	close(fd);
	unlink(path);
	return rc;
}

/* Runs body in a process of its own; prints a note if this machine has no mount
 * namespaces. */
static void run_pretending(int (*body)(int me, void *arg), struct group *g)
{
	int status;
	pid_t pid;

	fflush(NULL);
	pid = fork();
	if (pid == 0)
		_exit(body(0, g));
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	if (WIFEXITED(status) && WEXITSTATUS(status) == LEFT_OUT)
		puts("left out: nothing can be mounted here");
	else
		ck_assert_msg(status == 0, "status 0x%x", status);
}

static int attach_sparse(int me, void *arg)
{
	struct group *g = arg;
	struct err e = ERR_INIT;
	struct ddp__shm s;
	int rc = pretend("0");

	if (rc)
		return rc;
	if (ddp__shm_attach(&s, g->fd, me, g->n, cookie, &e))
		return 1;
	return bytes_of(g->fd) > 64 << 10;
}

START_TEST(costs_pages_only_until_it_is_used)
{
	struct group g = make(200);

	run_pretending(attach_sparse, &g);
	close(g.fd);
}
END_TEST

/* All memory that a rank may write to later is there once it has attached. */
static int attach_strict(int me, void *arg)
{
	struct group *g = arg;
	struct err e = ERR_INIT;
	struct ddp__shm s;
	size_t before, all;
	int rc = pretend("2");

	if (rc)
		return rc;
	if (ddp__shm_attach(&s, g->fd, me, g->n, cookie, &e) ||
	    ddp__shm_attach(&s, g->fd, me + 1, g->n, cookie, &e))
		return 1;
	before = bytes_of(g->fd);
	memset(s.slots, 1, s.mapped - DDP__SHM_CONTROL);
	all = bytes_of(g->fd);
	return before < s.mapped || all != before;
}

START_TEST(takes_all_pages_where_a_lack_of_memory_is_a_signal)
{
	struct group g = make(2);

	run_pretending(attach_strict, &g);
	close(g.fd);
}
END_TEST

/* The error comes early, so that the caller can fall back to sockets. */
static int attach_refused(int me, void *arg)
{
	struct group *g = arg;
	struct err e = ERR_INIT;
	struct ddp__shm s;

	if (refuse(SYS_fallocate, ENOSPC))
		return LEFT_OUT;
	if (ddp__shm_attach(&s, g->fd, me, g->n, cookie, &e) != -ENOSPC)
		return 1;
	return strcmp(e.text, "shared memory: No space left on device") != 0;
}

START_TEST(reports_that_there_is_no_memory)
{
	struct group g = make(2);

	run_pretending(attach_refused, &g);
	close(g.fd);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("shm_memory");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, costs_pages_only_until_it_is_used);
	tcase_add_test(tc, takes_all_pages_where_a_lack_of_memory_is_a_signal);
	tcase_add_test(tc, reports_that_there_is_no_memory);
	return run_case(tc);
}
