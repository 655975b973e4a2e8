/* test_checkpoint_sync.c: a checkpoint survives a power cut: its data is on the
 * disk before its name is, and its name before ddp_checkpoint_save returns. */
/* replaces: fsync renameat */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/run_case.h"
#include "worker-sdk/ddp.h"

/* Wraps the system calls of checkpoint.c (-Wl,--wrap). */
int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __real_renameat(int from, const char *a, int to, const char *b);
int __wrap_renameat(int from, const char *a, int to, const char *b);

static char log_[200];
static int fails; /* number of the fsync that fails, from 1 */
static off_t synced; /* the file's size at that time */

int __wrap_fsync(int fd)
{
	struct stat st;

	ck_assert_int_eq(fstat(fd, &st), 0);
	strcat(log_, S_ISDIR(st.st_mode) ? "folder synced; " : "file synced; ");
	if (S_ISREG(st.st_mode))
		synced = st.st_size;
	if (fails && --fails == 0) {
		errno = EIO;
		return -1;
	}
	return __real_fsync(fd);
}

int __wrap_renameat(int from, const char *a, int to, const char *b)
{
	strcat(log_, "renamed; ");
	return __real_renameat(from, a, to, b);
}

static char dir[64], path[128];
static double weights[1000];
static const struct ddp_section sections[] = {
	{"weights", weights, sizeof(weights)}};

static void set_up(void)
{
	strcpy(dir, "/tmp/test_checkpoint_sync.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/model.ckpt", dir);
}

static void tear_down(void)
{
	unlink(path);
	ck_assert_int_eq(rmdir(dir), 0);
}

START_TEST(data_is_synced_before_the_name)
{
	struct stat st;

	ck_assert_int_eq(ddp_checkpoint_save(path, "k", sections, 1), 0);
	ck_assert_str_eq(log_, "file synced; renamed; folder synced; ");
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_int_eq(synced, st.st_size);
}
END_TEST

START_TEST(data_that_cannot_be_synced_gets_no_name)
{
	fails = 1;
	ck_assert_int_eq(ddp_checkpoint_save(path, "k", sections, 1), -EIO);
	ck_assert_str_eq(log_, "file synced; ");
	ck_assert_int_ne(access(path, F_OK), 0);
}
END_TEST

START_TEST(a_name_that_cannot_be_synced_is_an_error)
{
	fails = 2;
	ck_assert_int_eq(ddp_checkpoint_save(path, "k", sections, 1), -EIO);
	ck_assert_ptr_nonnull(strstr(ddp_last_error(), "syncing its folder"));
	ck_assert_int_eq(access(path, F_OK), 0);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("checkpoint_sync");

	tcase_add_checked_fixture(tc, set_up, tear_down);
	tcase_add_test(tc, data_is_synced_before_the_name);
	tcase_add_test(tc, data_that_cannot_be_synced_gets_no_name);
	tcase_add_test(tc, a_name_that_cannot_be_synced_is_an_error);
	return run_case(tc);
}
