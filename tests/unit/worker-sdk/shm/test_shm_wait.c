/* test_shm_wait.c: how ranks find out whether a peer lives. */
/* replaces: open */
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/run_case.h"
#include "tests/unit/worker-sdk/shm/shm_ranks.h"

/* The segment whose rank 1 writes its reason and ends at the moment at which
 * rank 0 looks whether it lives. */
static struct ddp__shm_header *ending;

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);

/* As under qemu-user, which replaces its own process's stat. */
int __wrap_open(const char *path, int flags, ...)
{
	static const char fake[] =
		"1 (x) R 1 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 0 7 0 0\n";
	char own[64];
	int fd;

	if (ending && atomic_load(&ending->aborted) != DDP__SHM_ABORTED) {
		ending->abort_code = ERR_ARGUMENT;
		strcpy(ending->abort_text, "the reason");
		atomic_store(&ending->aborted, DDP__SHM_ABORTED);
	}
	snprintf(own, sizeof(own), "/proc/%d/stat", (int)getpid());
	if (strcmp(path, own) != 0 && strcmp(path, "/proc/self/stat") != 0)
		return __real_open(path, flags);
	fd = memfd_create("stat", 0);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_gt(write(fd, fake, sizeof(fake) - 1), 0);
	ck_assert_int_eq(lseek(fd, 0, SEEK_SET), 0);
	return fd;
}

START_TEST(ranks_read_the_same_start_time_under_qemu)
{
	uint64_t own = 0, seen;
	int up[2], hold[2];
	pid_t child;
	char c;

	ck_assert_int_eq(pipe(up), 0);
	ck_assert_int_eq(pipe(hold), 0);
	child = fork();
	if (child == 0) {
		close(hold[1]);
		own = ddp__process_start(getpid());
		if (write(up[1], &own, sizeof(own)) != sizeof(own))
			_exit(1);
		_exit(read(hold[0], &c, 1) != 0);
	}
	ck_assert_int_gt(child, 0);
	ck_assert_int_eq(read(up[0], &own, sizeof(own)), sizeof(own));
	seen = ddp__process_start(child);
	ck_assert_uint_gt(seen, 0);
	ck_assert_uint_eq(own, seen);
	close(hold[1]);
	ck_assert_int_eq(waitpid(child, NULL, 0), child);
	ck_assert_uint_eq(ddp__process_start(child), 0);
	close(hold[0]);
	close(up[0]);
	close(up[1]);
}
END_TEST

START_TEST(a_zombie_is_gone)
{
	siginfo_t info;
	pid_t child = fork();

	if (child == 0)
		_exit(0);
	ck_assert_int_eq(waitid(P_PID, (id_t)child, &info, WEXITED | WNOWAIT),
			 0);
	ck_assert_uint_eq(ddp__process_start(child), 0);
	ck_assert_int_eq(waitpid(child, NULL, 0), child);
}
END_TEST

START_TEST(a_rank_that_ends_after_it_gave_a_reason_gave_one)
{
	struct err e = ERR_INIT;
	struct group g = make(2);
	struct ddp__shm s;

	ck_assert_int_eq(ddp__shm_attach(&s, g.fd, 0, 2, cookie, &e), 0);
	ddp__shm_control(&s, 1)->pid = INT_MAX; /* there is none */
	ddp__shm_control(&s, 1)->start_time = 1;
	atomic_store(&s.header->aborted, DDP__SHM_ABORTING + 1);
	ending = s.header;
	ck_assert_int_eq(ddp__shm_fail(&s, &e), ERR_ARGUMENT);
	ck_assert_str_eq(e.text, "the reason");
	ending = NULL;
	ddp__shm_detach(&s);
	close(g.fd);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("shm_wait");

	tcase_add_test(c,
		       ranks_read_the_same_start_time_under_qemu);
	tcase_add_test(c, a_zombie_is_gone);
	tcase_add_test(c, a_rank_that_ends_after_it_gave_a_reason_gave_one);
	return run_case(c);
}
