/* test_temp_file.c: writers that replace one file at the same time, even with
 * equal pids; which files of killed writers are removed, and which files must
 * stay. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "tests/unit/refuse.h"
#include "tests/unit/run_case.h"
#include "worker-sdk/core/temp_file.h"
#include "worker-sdk/ddp.h"

static char dir[64];
static int folder;

static void set_up(void)
{
	strcpy(dir, "/tmp/test_temp_file.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	folder = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	ck_assert_int_ge(folder, 0);
}

static void tear_down(void)
{
	char command[128];

	close(folder);
	snprintf(command, sizeof(command), "rm -rf %s", dir);
	ck_assert_int_eq(system(command), 0);
}

static int is_there(const char *name)
{
	return faccessat(folder, name, F_OK, AT_SYMLINK_NOFOLLOW) == 0;
}

/* Makes an empty file, last written `age` seconds ago. */
static void put(const char *name, long age)
{
	int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL, 0600);
	struct timespec times[2];

	ck_assert_int_ge(fd, 0);
	clock_gettime(CLOCK_REALTIME, &times[0]);
	times[0].tv_sec -= age;
	times[1] = times[0];
	ck_assert_int_eq(futimens(fd, times), 0);
	close(fd);
}

/* Runs the clean-up that a writer of "f" does before it writes. */
static void tidy(void)
{
	struct ddp__temp_file t;

	ck_assert_int_eq(ddp__temp_file_make(&t, folder, "f"), 0);
	ddp__temp_file_tidy(&t, "f");
	ck_assert(is_there(t.name));
	ddp__temp_file_end(&t);
	ck_assert(!is_there(t.name));
}

START_TEST(replaces_the_file_as_a_whole)
{
	struct ddp__temp_file t;
	struct stat st;

	put("f", 0);
	ck_assert_int_eq(ddp__temp_file_make(&t, folder, "f"), 0);
	ck_assert_int_eq(write(t.fd, "new", 3), 3);
	ck_assert_int_eq(fstatat(folder, "f", &st, 0), 0);
	ck_assert_int_eq(st.st_size, 0);
	ck_assert_int_eq(ddp__temp_file_rename(&t, "f"), 0);
	ddp__temp_file_end(&t);
	ck_assert_int_eq(fstatat(folder, "f", &st, 0), 0);
	ck_assert_int_eq(st.st_size, 3);
}
END_TEST

START_TEST(a_removed_file_is_named)
{
	struct ddp__temp_file t;

	ck_assert_int_eq(ddp__temp_file_make(&t, folder, "f"), 0);
	ck_assert_int_eq(unlinkat(folder, t.name, 0), 0);
	ck_assert_int_eq(ddp__temp_file_rename(&t, "f"), -ESTALE);
	ddp__temp_file_end(&t);
}
END_TEST

START_TEST(a_killed_writers_file_is_removed_a_live_ones_stays)
{
	struct ddp__temp_file killed, alive;

	ck_assert_int_eq(ddp__temp_file_make(&killed, folder, "f"), 0);
	ck_assert_int_eq(ddp__temp_file_make(&alive, folder, "f"), 0);
	tidy();
	ck_assert(is_there(killed.name) && is_there(alive.name));
	close(killed.fd); /* as the writer's death does */
	tidy();
	ck_assert(!is_there(killed.name) && is_there(alive.name));
	ddp__temp_file_end(&alive);
}
END_TEST

/* The temporary name has 22 bytes more than the file's. */
START_TEST(a_name_without_room_for_the_temporary_ones_is_refused)
{
	char name[NAME_MAX + 1];
	struct ddp__temp_file t;

	memset(name, 'n', sizeof(name));
	name[NAME_MAX - 21] = '\0';
	ck_assert_int_eq(ddp__temp_file_make(&t, folder, name), -ENAMETOOLONG);
	name[NAME_MAX - 22] = '\0';
	ck_assert_int_eq(ddp__temp_file_make(&t, folder, name), 0);
	ck_assert_uint_eq(strlen(t.name), NAME_MAX);
	ddp__temp_file_end(&t);
}
END_TEST

/* Another kernel keeps the lock, or none does: only the file's age counts. */
START_TEST(only_old_files_of_other_hosts_are_removed)
{
	put("f.tmp.00000001.00000001", DDP__ABANDONED_S - 60);
	put("f.tmp.00000001.00000002", DDP__ABANDONED_S + 60);
	tidy();
	ck_assert(is_there("f.tmp.00000001.00000001"));
	ck_assert(!is_there("f.tmp.00000001.00000002"));
}
END_TEST

/* NFS and Lustre as they may be mounted: flock is not known there, or fails. */
START_TEST(without_locks_only_old_files_are_removed)
{
	static const unsigned codes[] = {ENOLCK, EBADF, ENOSYS, EOPNOTSUPP};
	struct timespec old[2] = {{.tv_sec = 1}, {.tv_sec = 1}};
	struct ddp__temp_file other, t;

	if (refuse(SYS_flock, codes[_i]))
		return;
	ck_assert_int_eq(flock(folder, LOCK_SH), -1);
	ck_assert_int_eq(errno, (int)codes[_i]);
	/* its writer may be alive or not: nobody knows */
	ck_assert_int_eq(ddp__temp_file_make(&other, folder, "f"), 0);
	tidy();
	ck_assert(is_there(other.name));
	ck_assert_int_eq(futimens(other.fd, old), 0);
	tidy();
	ck_assert(!is_there(other.name));
	ck_assert_int_eq(ddp__temp_file_rename(&other, "f"), -ESTALE);
	ddp__temp_file_end(&other);
	ck_assert_int_eq(ddp__temp_file_make(&t, folder, "f"), 0);
	ck_assert_int_eq(ddp__temp_file_rename(&t, "f"), 0);
	ddp__temp_file_end(&t);
	ck_assert(is_there("f"));
}
END_TEST

START_TEST(files_with_other_names_are_not_removed)
{
	static const char *const names[] = {
		"f.tmp.1", "f.tmp.old", "f.tmp.0000000g.00000001",
		"f.tmp.00000001.000000012", "g.tmp.00000001.00000001",
		"f.tmp.00000001-00000001", "f.tmp.00000001.0000000"};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		put(names[i], 10L * DDP__ABANDONED_S);
	tidy();
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		ck_assert_msg(is_there(names[i]), "%s", names[i]);
}
END_TEST

/* ---- two writers whose pids are equal */

enum { SIZE = 8 << 20, SAVES = 40 };

/* Saves as pid 1 of a PID namespace of its own. */
static int save_as_pid_1(const char *path, int value)
{
	char *data = malloc(SIZE);
	struct ddp_section s = {"w", data, SIZE};
	int status;
	pid_t pid;

	if (!data || unshare(CLONE_NEWPID))
		return 77;
	memset(data, value, SIZE);
	pid = fork();
	if (pid == 0) {
		for (int i = 0; i < SAVES; i++)
			if (ddp_checkpoint_save(path, "k", &s, 1))
				_exit(1);
		_exit(0);
	}
	return pid > 0 && waitpid(pid, &status, 0) == pid && WIFEXITED(status)
		       ? WEXITSTATUS(status)
		       : 2;
}

static int is_all(const char *data, char value)
{
	for (size_t i = 0; i < SIZE; i++)
		if (data[i] != value)
			return 0;
	return 1;
}

START_TEST(two_writers_with_one_pid_never_mix)
{
	char path[80], *data = malloc(SIZE);
	struct ddp_section s = {"w", data, SIZE};
	int left = 2, status, skipped = 0;

	ck_assert_ptr_nonnull(data);
	snprintf(path, sizeof(path), "%s/f", dir);
	memset(data, 1, SIZE);
	ck_assert_int_eq(ddp_checkpoint_save(path, "k", &s, 1), 0);
	fflush(NULL);
	for (int i = 1; i <= 2; i++)
		if (fork() == 0)
			_exit(save_as_pid_1(path, i));
	while (left) {
		pid_t pid = waitpid(-1, &status, WNOHANG);

		ck_assert_int_ge(pid, 0);
		if (pid > 0) {
			left--;
			skipped |= WEXITSTATUS(status) == 77;
			ck_assert(WIFEXITED(status) &&
				  (skipped || !WEXITSTATUS(status)));
		}
		ck_assert_msg(ddp_checkpoint_load(path, "k", &s, 1) == 0, "%s",
			      ddp_last_error());
		ck_assert(is_all(data, 1) || is_all(data, 2));
	}
	if (skipped)
		puts("no PID namespaces here: one test less");
	free(data);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("temp_file");

	tcase_set_timeout(c, 120);
	tcase_add_checked_fixture(c, set_up, tear_down);
	tcase_add_test(c, replaces_the_file_as_a_whole);
	tcase_add_test(c, a_removed_file_is_named);
	tcase_add_test(c, a_killed_writers_file_is_removed_a_live_ones_stays);
	tcase_add_test(c,
		       a_name_without_room_for_the_temporary_ones_is_refused);
	tcase_add_test(c, only_old_files_of_other_hosts_are_removed);
	tcase_add_loop_test(c, without_locks_only_old_files_are_removed, 0,
			    4);
	tcase_add_test(c, files_with_other_names_are_not_removed);
	tcase_add_test(c, two_writers_with_one_pid_never_mix);
	return run_case(c);
}
