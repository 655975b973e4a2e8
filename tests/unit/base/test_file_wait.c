/* test_file_wait.c: files and what is none. tests/e2e/file_server.bats stops a
 * file server. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file_wait.h"
#include "tests/unit/emulated.h"
#include "tests/unit/run_case.h"

static char dir[] = "/tmp/test_file_wait.XXXXXX";

static void begin(void)
{
	ck_assert_ptr_nonnull(mkdtemp(dir));
	ck_assert_int_eq(chdir(dir), 0);
}

static void end(void)
{
	unlink("file");
	unlink("fifo");
	rmdir(dir);
}

static void put(const char *text)
{
	FILE *f = fopen("file", "w");

	ck_assert_ptr_nonnull(f);
	ck_assert_int_ge(fputs(text, f), 0);
	ck_assert_int_eq(fclose(f), 0);
}

START_TEST(the_end_of_a_file_is_read)
{
	struct buf out = BUF_INIT(100);
	struct stat st;

	put("0123456789");
	ck_assert_int_eq(file_wait_read("file", 4, &st, &out), 0);
	ck_assert_int_eq(st.st_size, 10);
	ck_assert(slice_is_equal(SLICE(out.data, out.len), SLICE_STR("6789")));
	ck_assert_int_eq(file_wait_read("file", 100, &st, &out), 0);
	ck_assert_uint_eq(out.len, 14);
	buf_release(&out);
}
END_TEST

START_TEST(what_is_no_file_is_not_waited_for)
{
	struct buf out = BUF_INIT(100);
	struct stat st;

	ck_assert_int_eq(file_wait_read("no/such", 4, &st, &out), -ENOENT);
	ck_assert_int_eq(mkfifo("fifo", 0600), 0);
	ck_assert_int_eq(file_wait_read("fifo", 4, &st, &out), 0);
	ck_assert(S_ISFIFO(st.st_mode));
	ck_assert_uint_eq(out.len, 0);
	put("");
	ck_assert_int_eq(file_wait_read("file", 4, &st, &out), 0);
	ck_assert_uint_eq(out.len, 0);
	buf_release(&out);
}
END_TEST

/* A FUSE file system whose server answers nothing, on "stopped"; or -1. */
static int mount_stopped(void)
{
	char options[100];
	int fd = open("/dev/fuse", O_RDWR | O_CLOEXEC);

	snprintf(options, sizeof(options),
		 "fd=%d,rootmode=40000,user_id=0,group_id=0", fd);
	if (fd >= 0 && mkdir("stopped", 0700) == 0 &&
	    unshare(CLONE_NEWNS) == 0 &&
	    mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0 &&
	    mount("none", "stopped", "fuse", 0, options) == 0)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}

START_TEST(reads_of_a_stopped_server_wait_long_only_once)
{
	struct buf out = BUF_INIT(100);
	int fd = mount_stopped();
	uint64_t begin = clock_ms();
	struct stat st;

	if (fd < 0)
		goto out; /* no FUSE here */
	for (int i = 0; i < 20; i++)
		ck_assert_int_eq(file_wait_read("stopped/x", 4, &st, &out),
				 -ETIMEDOUT);
	ck_assert_uint_lt(clock_ms() - begin, 10 * FILE_WAIT_MS);
	put("0123");
	ck_assert_int_eq(file_wait_read("file", 4, &st, &out), 0);
	ck_assert_uint_eq(out.len, 4);
	close(fd); /* ends the threads */
	umount2("stopped", MNT_DETACH);
out:
	rmdir("stopped");
	buf_release(&out);
}
END_TEST

START_TEST(files_of_a_trusted_folder_are_read_without_a_thread)
{
	const struct rlimit none = {0, 0};
	char folder[] = "/dev/shm/test_file_wait.XXXXXX";
	char path[64], link[64];
	struct buf out = BUF_INIT(100);
	struct stat st;
	int fd;

	if (emulator_lacks("an error of clone"))
		return;
	ck_assert_ptr_nonnull(mkdtemp(folder));
	ck_assert_int_eq(chmod(folder, 0755), 0);
	snprintf(path, sizeof(path), "%s/file", folder);
	snprintf(link, sizeof(link), "%s/link", folder);
	fd = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(symlink("file", link), 0);
	file_wait_trust(folder);
	ck_assert_int_eq(pwrite(fd, "0123", 4, 0), 4);
	close(fd);
	if (fork() == 0) { /* without the right to start a thread */
		int ok = setrlimit(RLIMIT_NPROC, &none) == 0 &&
			 (geteuid() != 0 || setresuid(65534, 65534,
						      65534) == 0) &&
			 file_wait_read(link, 4, &st, &out) == -EAGAIN &&
			 file_wait_read(path, 4, &st, &out) == 0 &&
			 out.len == 4;

		file_wait_trust("/proc/self");
		ok = ok && file_wait_read(path, 4, &st, &out) == -EAGAIN;

		_exit(!ok);
	}
	ck_assert_int_gt(wait(&fd), 0);
	unlink(path);
	unlink(link);
	rmdir(folder);
	buf_release(&out);
	ck_assert_int_eq(fd, 0);
}
END_TEST

START_TEST(a_link_from_there_to_a_stopped_server_has_a_deadline)
{
	char folder[] = "/dev/shm/test_file_wait.XXXXXX";
	char link[64], target[256];
	struct buf out = BUF_INIT(100);
	int fd = mount_stopped();
	struct stat st;

	if (fd < 0)
		goto out; /* no FUSE here */
	ck_assert_ptr_nonnull(mkdtemp(folder));
	snprintf(link, sizeof(link), "%s/link", folder);
	snprintf(target, sizeof(target), "%s/stopped/x", dir);
	file_wait_trust(folder);
	ck_assert_int_eq(symlink(target, link), 0);
	ck_assert_int_eq(file_wait_read(link, 4, &st, &out), -ETIMEDOUT);
	unlink(link);
	rmdir(folder);
	close(fd); /* ends the thread */
	umount2("stopped", MNT_DETACH);
out:
	rmdir("stopped");
	buf_release(&out);
}
END_TEST

START_TEST(a_file_system_has_its_type_mount_and_source)
{
	char out[FILE_WAIT_SERVER_MAX];

	ck_assert_int_eq(
		strncmp(file_wait_server("/proc/self/status", out),
			"proc at /proc, ", 15),
		0);
	/* a relative path, and the longest mount that covers it */
	ck_assert_ptr_nonnull(strstr(file_wait_server("file", out), " at /"));
	ck_assert_int_ne(strncmp(file_wait_server("/procfs", out), "proc", 4),
			 0);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("file_wait");

	tcase_set_timeout(c, 60);
	tcase_add_checked_fixture(c, begin, end);
	tcase_add_test(c, the_end_of_a_file_is_read);
	tcase_add_test(c, what_is_no_file_is_not_waited_for);
	tcase_add_test(c, reads_of_a_stopped_server_wait_long_only_once);
	tcase_add_test(c,
		       files_of_a_trusted_folder_are_read_without_a_thread);
	tcase_add_test(c,
		       a_link_from_there_to_a_stopped_server_has_a_deadline);
	tcase_add_test(c, a_file_system_has_its_type_mount_and_source);
	return run_case(c);
}
