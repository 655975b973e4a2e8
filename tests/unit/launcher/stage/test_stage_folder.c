/* test_stage_folder.c: a folder for copies on a file system without locks. */
#include <check.h>
#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "launcher/stage/stage_folder.h"
#include "tests/unit/refuse.h"
#include "tests/unit/run_case.h"

/* Another process could not know that the copy is in use, and remove it. */
START_TEST(without_locks_no_copy_is_made)
{
	char dir[] = "/tmp/test_stage_folder.XXXXXX", copy[64], out[PATH_MAX];
	struct err e = ERR_INIT;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(copy, sizeof(copy), "%s/copy", dir);
	if (refuse(SYS_flock, _i ? EBADF : ENOLCK) == 0) {
		ck_assert_int_eq(stage_folder_make(copy, out, &e), -EBUSY);
		ck_assert_ptr_nonnull(strstr(
			e.text, "/copy' has no locks (flock); choose another "
				"place: --stage PATH:FOLDER"));
	}
	/* it is empty */
	ck_assert_int_eq(rmdir(dir), 0);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("stage_folder");

	tcase_add_loop_test(tc, without_locks_no_copy_is_made, 0, 2);
	return run_case(tc);
}
