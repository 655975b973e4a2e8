/* test_journal_file.c: which owners and modes a journal's file may have. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rendezvous/journal/journal_file.h"
#include "tests/unit/refuse.h"
#include "tests/unit/run_case.h"

static char dir[64], path[80];
static struct err e;

static void begin(void)
{
	strcpy(dir, "/tmp/test_journal_file.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/journal", dir);
	e = (struct err)ERR_INIT;
}

static void end(void)
{
	char command[100];

	snprintf(command, sizeof(command), "rm -rf %s", dir);
	ck_assert_int_eq(system(command), 0);
}

/* Opens and closes it: 0, or the error, whose text contains `part`. */
static int open_it(const char *part)
{
	struct journal_file *f;
	int rc = journal_file_open(&f, path, -1, &e);

	if (rc == 0)
		journal_file_close(f);
	ck_assert_msg(!part || strstr(e.text, part), "no '%s' in '%s'", part,
		      e.text);
	return rc;
}

START_TEST(a_new_file_is_private_to_its_user)
{
	struct stat st;

	umask(0);
	ck_assert_int_eq(open_it(NULL), 0);
	ck_assert_int_eq(stat(path, &st), 0);
	ck_assert_int_eq(st.st_mode & 0777, 0600);
	ck_assert_int_eq(open_it(NULL), 0);
}
END_TEST

START_TEST(a_file_that_others_can_reach_is_refused)
{
	static const mode_t bad[] = {0640, 0604, 0620, 0602};

	ck_assert_int_eq(open_it(NULL), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		ck_assert_int_eq(chmod(path, bad[i]), 0);
		ck_assert_int_eq(open_it("other users can read or write it"),
				 ERR_USAGE);
	}
}
END_TEST

START_TEST(a_file_of_another_user_is_refused)
{
	if (geteuid() != 0)
		return;
	ck_assert_int_eq(open_it(NULL), 0);
	ck_assert_int_eq(chown(path, 12345, 12345), 0);
	ck_assert_int_eq(open_it("belongs to user 12345"), ERR_USAGE);
}
END_TEST

/* In a folder that others can write to, they could choose a link's target. */
START_TEST(a_link_is_not_followed)
{
	char target[80];

	snprintf(target, sizeof(target), "%s/target", dir);
	ck_assert_int_eq(symlink(target, path), 0);
	ck_assert_int_lt(open_it("not a symbolic link"), 0);
	ck_assert_int_ne(access(target, F_OK), 0);
}
END_TEST

/* Without the lock two servers could write to one journal. */
START_TEST(without_locks_a_file_is_refused)
{
	if (refuse(SYS_flock, ENOLCK))
		return;
	ck_assert_int_eq(open_it("journal: cannot lock it: No locks available"),
			 -ENOLCK);
}
END_TEST

START_TEST(a_pipe_is_refused)
{
	ck_assert_int_eq(mkfifo(path, 0600), 0);
	ck_assert_int_eq(open_it("not a regular file"), ERR_USAGE);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("journal_file");

	tcase_add_checked_fixture(c, begin, end);
	tcase_add_test(c, a_new_file_is_private_to_its_user);
	tcase_add_test(c, a_file_that_others_can_reach_is_refused);
	tcase_add_test(c, a_file_of_another_user_is_refused);
	tcase_add_test(c, a_link_is_not_followed);
	tcase_add_test(c, a_pipe_is_refused);
	tcase_add_test(c, without_locks_a_file_is_refused);
	return run_case(c);
}
