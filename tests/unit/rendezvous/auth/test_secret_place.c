/* test_secret_place.c: a token file that another user can replace is refused:
 * in a folder that others can write to, behind a link there, or a pipe. So is
 * a key file on a file system that cannot make it once. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rendezvous/auth/secret.h"
#include "tests/unit/refuse.h"
#include "tests/unit/rendezvous/auth/secret_home.h"
#include "tests/unit/run_case.h"

static char *path_in(const char *folder, const char *name)
{
	static char full[100];

	snprintf(full, sizeof(full), "%s/%s", folder, name);
	return full;
}

static void refused(const char *file, const char *part)
{
	struct secret s;

	ck_assert_int_eq(secret_of_file(&s, file, "the token file", &e),
			 ERR_PROOF);
	says(part);
}

static void accepted(const char *file)
{
	struct secret s;

	ck_assert_msg(secret_of_file(&s, file, "the token file", &e) == 0,
		      "%s", e.text);
}

START_TEST(a_token_in_a_folder_that_others_can_write_to_is_refused)
{
	char folder[64], inner[70], file[90], text[400];

	snprintf(folder, sizeof(folder), "%s/shared", home);
	snprintf(inner, sizeof(inner), "%s/mine", folder);
	snprintf(file, sizeof(file), "%s/token", inner);
	ck_assert_int_eq(mkdir(folder, 0755) | mkdir(inner, 0700), 0);
	write_file(file, "0123456789abcdef", 0600);
	accepted(file);
	/* the folder above is enough: it can be renamed */
	ck_assert_int_eq(chmod(folder, 0777), 0);
	snprintf(text, sizeof(text),
		 "the token file %s can be replaced by other users, because "
		 "they can write to the folder %s (mode 0777): run chmod go-w "
		 "on it", file, folder);
	refused(file, text);
	/* in a sticky one only its owner can be */
	ck_assert_int_eq(chmod(folder, 01777), 0);
	accepted(file);
	ck_assert_int_eq(chmod(folder, 0755) | chmod(inner, 0772), 0);
	refused(file, "/shared/mine (mode 0772)");
	ck_assert_int_eq(chdir(inner), 0);
	refused("token", "the token file token can be replaced");
	ck_assert_int_eq(chdir("/"), 0);
}
END_TEST

START_TEST(a_folder_of_the_user_s_own_group_may_be_writable_for_it)
{
	char folder[64], file[80];
	uid_t us = geteuid();

	snprintf(folder, sizeof(folder), "%s/shared", home);
	snprintf(file, sizeof(file), "%s/token", folder);
	ck_assert_int_eq(mkdir(folder, 0700) | chmod(folder, 0775), 0);
	write_file(file, "0123456789abcdef", 0600);
	if (us == getegid())
		accepted(file);
	if (us != 0)
		return;
	ck_assert_int_eq(chown(folder, 0, 12345), 0);
	refused(file, "because they can write to the folder");
	ck_assert_int_eq(chmod(folder, 01775), 0);
	accepted(file);
}
END_TEST

START_TEST(a_link_is_followed_through_each_folder)
{
	char open_[64], own[64], link_[80], file[80], text[300];

	snprintf(open_, sizeof(open_), "%s/open", home);
	snprintf(own, sizeof(own), "%s/own", home);
	snprintf(link_, sizeof(link_), "%s/link", own);
	snprintf(file, sizeof(file), "%s/token", open_);
	ck_assert_int_eq(mkdir(open_, 0700) | mkdir(own, 0700), 0);
	write_file(file, "0123456789abcdef", 0600);
	ck_assert_int_eq(symlink("../open/token", link_), 0);
	accepted(link_);
	ck_assert_int_eq(chmod(open_, 0777), 0);
	snprintf(text, sizeof(text), "the folder %s", open_);
	refused(link_, text);
	/* and the other way */
	ck_assert_int_eq(rename(file, path_in(own, "token")) |
				 symlink(path_in(own, "token"), file), 0);
	refused(file, text);
	/* a stranger's link, in a folder like /tmp */
	ck_assert_int_eq(chmod(open_, 01777), 0);
	accepted(file);
	if (geteuid() == 0) {
		ck_assert_int_eq(lchown(file, 12345, 12345), 0);
		snprintf(text, sizeof(text),
			 "can be replaced by user 12345, who owns the link %s: "
			 "move it to a folder of your own", file);
		refused(file, text);
	}
	/* a circle is the kernel's to report */
	ck_assert_int_eq(unlink(link_) | symlink("link", link_), 0);
	ck_assert_int_eq(secret_of_file(&(struct secret){0}, link_,
					"the token file", &e), -ELOOP);
}
END_TEST

START_TEST(a_folder_of_another_user_is_refused)
{
	char folder[64], file[80];

	if (geteuid() != 0)
		return;
	snprintf(folder, sizeof(folder), "%s/theirs", home);
	snprintf(file, sizeof(file), "%s/token", folder);
	ck_assert_int_eq(mkdir(folder, 0755), 0);
	write_file(file, "0123456789abcdef", 0600);
	ck_assert_int_eq(chown(folder, 12345, 12345), 0);
	refused(file, "can be replaced by user 12345, who owns the folder");
	/* systemd administers its credentials */
	setenv("CREDENTIALS_DIRECTORY", folder, 1);
	accepted(file);
	unsetenv("CREDENTIALS_DIRECTORY");
}
END_TEST

/* The writer of a pipe chooses the secret. */
START_TEST(a_pipe_that_another_user_made_is_refused)
{
	char file[64], name[32], *text = "0123456789abcdef";
	int fd[2], end_;

	snprintf(file, sizeof(file), "%s/pipe", home);
	ck_assert_int_eq(mkfifo(file, 0600), 0);
	end_ = open(file, O_RDWR | O_CLOEXEC);
	ck_assert_int_eq(chmod(file, 0620), 0);
	refused(file, "can be changed by other users (mode 0620)");
	if (geteuid() == 0) {
		ck_assert_int_eq(chmod(file, 0600) | chown(file, 12345, 0), 0);
		refused(file, "belongs to user 12345");
	}
	close(end_);
	/* as --token-file <(command) */
	ck_assert_int_eq(pipe(fd), 0);
	ck_assert_int_eq(write(fd[1], text, 16), 16);
	close(fd[1]);
	snprintf(name, sizeof(name), "/dev/fd/%d", fd[0]);
	accepted(name);
	close(fd[0]);
}
END_TEST

START_TEST(the_key_is_not_made_where_others_can_replace_it)
{
	struct secret s;

	ck_assert_int_eq(chmod(home, 0777), 0);
	ck_assert_int_eq(secret_of_user(&s, &e), ERR_PROOF);
	says("can be replaced by other users");
	ck_assert_int_eq(access(path_in(home, "ddprun"), F_OK), -1);
	ck_assert_int_eq(chmod(home, 0700), 0);
	ck_assert_int_eq(secret_of_user(&s, &e), 0);
}
END_TEST

/* A file system with neither hard links nor locks. */
START_TEST(without_links_and_locks_no_key_is_made)
{
	char command[100];
	struct secret s;

	if (refuse(SYS_linkat, EPERM) || refuse(SYS_flock, ENOLCK))
		return;
#ifdef SYS_link
	ck_assert_int_eq(refuse(SYS_link, EPERM), 0);
#endif
	ck_assert_int_eq(secret_of_user(&s, &e), ERR_PROOF);
	says("cannot create this user's key file");
	says("No locks available; give all nodes the same secret in DDP_TOKEN");
	/* nor is anything left */
	snprintf(command, sizeof(command), "test -z \"$(ls -A %s/ddprun)\"",
		 home);
	ck_assert_int_eq(system(command), 0);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("secret_place");

	tcase_add_checked_fixture(tc, secret_home_begin, secret_home_end);
	tcase_add_test(tc,
		       a_token_in_a_folder_that_others_can_write_to_is_refused);
	tcase_add_test(tc,
		       a_folder_of_the_user_s_own_group_may_be_writable_for_it);
	tcase_add_test(tc, a_link_is_followed_through_each_folder);
	tcase_add_test(tc, a_folder_of_another_user_is_refused);
	tcase_add_test(tc, a_pipe_that_another_user_made_is_refused);
	tcase_add_test(tc,
		       the_key_is_not_made_where_others_can_replace_it);
	tcase_add_test(tc, without_links_and_locks_no_key_is_made);
	return run_case(tc);
}
