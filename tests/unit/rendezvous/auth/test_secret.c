/* test_secret.c: tokens and key files: the key is made once, even in a race,
 * and refused if others could have read it. */
#include <check.h>
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sched.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "rendezvous/auth/auth.h"
#include "rendezvous/auth/credential.h"
#include "rendezvous/auth/secret.h"
#include "tests/unit/rendezvous/auth/secret_home.h"
#include "tests/unit/run_case.h"

static char path[64];

static void begin(void)
{
	secret_home_begin();
	snprintf(path, sizeof(path), "%s/ddprun/key", home);
	unsetenv("DDP_TOKEN");
	unsetenv("DDP_AUTH");
	unsetenv("SLURM_JOB_ID");
	setenv("DDP_MUNGE_SOCKET", "", 1);
}

static mode_t mode_of(const char *file)
{
	struct stat st;

	ck_assert_int_eq(stat(file, &st), 0);
	return st.st_mode & 07777;
}

START_TEST(the_key_file_is_made_once_for_its_owner_alone)
{
	struct secret a, b;
	char folder[64];

	umask(0);
	snprintf(folder, sizeof(folder), "%s/ddprun", home);
	ck_assert_int_eq(secret_of_user(&a, &e), 0);
	ck_assert_int_eq(mode_of(path), 0600);
	ck_assert_int_eq(mode_of(folder), 0700);
	ck_assert_int_eq(secret_of_user(&b, &e), 0);
	ck_assert(memcmp(&a.value, &b.value, sizeof(a.value)) == 0);
	ck_assert_ptr_ne(strstr(a.from, path), NULL);
	umask(0777);
	unlink(path);
	ck_assert_int_eq(secret_of_user(&b, &e), 0);
	ck_assert_int_eq(mode_of(path), 0600);
	ck_assert(memcmp(&a.value, &b.value, sizeof(a.value)) != 0);
}
END_TEST

/* Several processes need the first key at once; all get the same. */
static void race(void)
{
	enum { RACERS = 16 };
	struct secret mine, theirs;
	int go[2], told[2];

	ck_assert_int_eq(pipe(go) | pipe(told), 0);
	for (int i = 0; i < RACERS; i++) {
		if (fork())
			continue;
		close(go[1]);
		if (read(go[0], &mine, 1) != 0 ||
		    secret_of_user(&mine, &e) < 0)
			_exit(1);
		_exit(write(told[1], &mine.value, sizeof(mine.value)) !=
		      sizeof(mine.value));
	}
	close(go[0]);
	close(go[1]);
	close(told[1]);
	for (int i = 0; i < RACERS; i++) {
		int status;

		ck_assert_int_eq(read(told[0], &theirs.value,
				      sizeof(theirs.value)),
				 sizeof(theirs.value));
		if (i == 0)
			mine = theirs;
		ck_assert(memcmp(&mine.value, &theirs.value,
				 sizeof(mine.value)) == 0);
		ck_assert_int_gt(wait(&status), 0);
		ck_assert_int_eq(status, 0);
	}
	close(told[0]);
	ck_assert_int_eq(secret_of_user(&theirs, &e), 0);
	ck_assert(memcmp(&mine.value, &theirs.value,
			 sizeof(mine.value)) == 0);
}

/* Like two hosts that start at once, with one home directory. */
START_TEST(all_that_race_for_the_first_key_have_the_same)
{
	race();
}
END_TEST

/* From here on, link() fails with `code`, as on a file system without hard
 * links (FAT, some network file systems). 0: not possible here. */
static int forbid_links(int code)
{
	struct sock_filter code_of[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS,
			 offsetof(struct seccomp_data, nr)),
#ifdef SYS_link
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_link, 1, 0),
#endif
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_linkat, 0, 1),
		BPF_STMT(BPF_RET | BPF_K,
			 SECCOMP_RET_ERRNO | (unsigned)code),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
	};
	struct sock_fprog program = {sizeof(code_of) / sizeof(*code_of),
				     code_of};

	return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
	       prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

START_TEST(without_hard_links_all_that_race_have_the_same)
{
	static const int codes[] = {EPERM, EOPNOTSUPP, ENOSYS};
	int code = codes[_i];
	char folder[64];

	snprintf(folder, sizeof(folder), "%s/ddprun", home);
	if (!forbid_links(code))
		return;
	ck_assert_int_eq(link(home, path), -1);
	ck_assert_int_eq(errno, code);
	/* each time a new key */
	for (int i = 0; i < 20; i++) {
		race();
		ck_assert_int_eq(mode_of(path), 0600);
		ck_assert_int_eq(unlink(path), 0);
		/* no other file is left */
		ck_assert_int_eq(rmdir(folder), 0);
	}
}
END_TEST

START_TEST(a_key_that_others_can_read_is_refused)
{
	static const mode_t bad[] = {0640, 0604, 0660, 0620, 0602, 0644, 0601};
	struct secret s;

	ck_assert_int_eq(secret_of_user(&s, &e), 0);
	for (size_t i = 0; i < sizeof(bad) / sizeof(*bad); i++) {
		ck_assert_int_eq(chmod(path, bad[i]), 0);
		ck_assert_int_eq(secret_of_user(&s, &e), ERR_PROOF);
		says("chmod 600");
		says(path);
	}
	ck_assert_int_eq(chmod(path, 0400), 0);
	ck_assert_int_eq(secret_of_user(&s, &e), 0);
}
END_TEST

START_TEST(systemds_credentials_may_have_a_groups_bit)
{
	char file[80];
	struct secret s;

	snprintf(file, sizeof(file), "%s/alice", home);
	write_file(file, "the-token-of-alice-01", 0440);
	ck_assert_int_eq(secret_of_file(&s, file, "the token", &e), ERR_PROOF);
	setenv("CREDENTIALS_DIRECTORY", home, 1);
	ck_assert_int_eq(secret_of_file(&s, file, "the token", &e), 0);
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(chmod(file, i ? 0444 : 0460), 0);
		ck_assert_int_eq(secret_of_file(&s, file, "the token", &e),
				 ERR_PROOF);
	}
	ck_assert_int_eq(chmod(file, 0440), 0);
	setenv("CREDENTIALS_DIRECTORY", "/tmp/test_secre", 1);
	ck_assert_int_eq(secret_of_file(&s, file, "the token", &e), ERR_PROOF);
	unsetenv("CREDENTIALS_DIRECTORY");
}
END_TEST

START_TEST(a_key_of_another_user_is_refused)
{
	struct secret s;

	if (geteuid() != 0)
		return;
	ck_assert_int_eq(secret_of_user(&s, &e), 0);
	ck_assert_int_eq(chown(path, 12345, 12345), 0);
	ck_assert_int_eq(secret_of_user(&s, &e), ERR_PROOF);
	says("belongs to user 12345");
}
END_TEST

START_TEST(a_short_secret_is_refused)
{
	char file[64], longest[SECRET_MAX + 2];
	struct secret s;

	snprintf(file, sizeof(file), "%s/token", home);
	write_file(file, "0123456789abcde\n\n \n", 0600);
	ck_assert_int_eq(secret_of_file(&s, file, "the token file", &e),
			 ERR_USAGE);
	says("has 15 bytes");
	write_file(file, "", 0600);
	ck_assert_int_eq(secret_of_file(&s, file, "the token file", &e),
			 ERR_USAGE);
	memset(longest, 'x', sizeof(longest));
	longest[SECRET_MAX + 1] = '\0';
	write_file(file, longest, 0600);
	ck_assert_int_eq(secret_of_file(&s, file, "the token file", &e),
			 ERR_USAGE);
	longest[SECRET_MAX] = '\0';
	write_file(file, longest, 0600);
	ck_assert_int_eq(secret_of_file(&s, file, "the token file", &e), 0);
}
END_TEST

/* A newline from an editor does not belong to the token. */
START_TEST(the_same_token_is_the_same_secret_in_a_file_and_not)
{
	struct secret a, b;
	char file[64];

	snprintf(file, sizeof(file), "%s/token", home);
	write_file(file, "0123456789abcdef\r\n", 0600);
	ck_assert_int_eq(secret_of_file(&a, file, "the token file", &e), 0);
	ck_assert_int_eq(secret_of_text(&b, SLICE_STR("0123456789abcdef"),
					"DDP_TOKEN", &e), 0);
	ck_assert(memcmp(&a.value, &b.value, sizeof(a.value)) == 0);
}
END_TEST

START_TEST(without_a_place_for_the_key_the_options_are_named)
{
	struct secret s;

	unsetenv("XDG_CONFIG_HOME");
	unsetenv("HOME");
	ck_assert_int_eq(secret_of_user(&s, &e), ERR_PROOF);
	says("DDP_TOKEN");
	says("--token-file");
	says("--auth none");
	setenv("XDG_CONFIG_HOME", "relative", 1);
	ck_assert_int_eq(secret_of_user(&s, &e), ERR_PROOF);
	setenv("XDG_CONFIG_HOME", "/proc/self", 1);
	ck_assert_int_eq(secret_of_user(&s, &e), ERR_PROOF);
	says("cannot create");
	says("DDP_TOKEN");
}
END_TEST

/* ---- auth.h: the choice of the method ---- */

START_TEST(the_method_is_chosen_by_what_is_available)
{
	char file[64], text[100];
	struct auth a, b;

	snprintf(file, sizeof(file), "%s/token", home);
	write_file(file, "fedcba9876543210", 0600);
	ck_assert_int_eq(auth_choose(&a, NULL, NULL, &e), 0);
	ck_assert_uint_eq(a.methods, WIRE_BY_SECRET);
	ck_assert_ptr_ne(strstr(a.from, "the key file"), NULL);
	setenv("DDP_TOKEN", "0123456789abcdef", 1);
	ck_assert_int_eq(auth_choose(&b, "auto", NULL, &e), 0);
	ck_assert_ptr_ne(strstr(b.from, "DDP_TOKEN on "), NULL);
	ck_assert(memcmp(&a.secret, &b.secret, sizeof(a.secret)) != 0);
	ck_assert_int_eq(auth_choose(&b, NULL, file, &e), 0);
	ck_assert_ptr_ne(strstr(b.from, "the token file"), NULL);
	ck_assert_int_eq(auth_choose(&b, "none", NULL, &e), 0);
	ck_assert_uint_eq(b.methods, WIRE_NO_PROOF);
	ck_assert_int_eq(auth_choose(&b, "none", file, &e), ERR_USAGE);
	setenv("DDP_AUTH", "none", 1);
	ck_assert_int_eq(auth_choose(&b, NULL, NULL, &e), 0);
	ck_assert_uint_eq(b.methods, WIRE_NO_PROOF);
	ck_assert_int_eq(auth_choose(&b, "secret", NULL, &e), 0);
	ck_assert_uint_eq(b.methods, WIRE_BY_SECRET);
	setenv("DDP_AUTH", "nonsense", 1);
	ck_assert_int_eq(auth_choose(&b, NULL, NULL, &e), ERR_USAGE);
	says("DDP_AUTH 'nonsense'");
	unsetenv("DDP_AUTH");
	snprintf(text, sizeof(text), "%s/no-munge", home);
	setenv("DDP_MUNGE_SOCKET", text, 1);
	ck_assert_int_eq(auth_choose(&b, "munge", NULL, &e), ERR_PROOF);
	says("munged does not answer on");
	says(text);
	says("--token-file");
}
END_TEST

/* Other nodes' munge would be asked, so a key file does not help. */
START_TEST(on_a_slurm_node_a_munged_that_is_down_is_an_error)
{
	char text[100];
	struct auth a;

	snprintf(text, sizeof(text), "%s/no-munge", home);
	setenv("DDP_MUNGE_SOCKET", text, 1);
	ck_assert_int_eq(auth_choose(&a, NULL, NULL, &e), 0);
	ck_assert_uint_eq(a.methods, WIRE_BY_SECRET);
	setenv("SLURM_JOB_ID", "7", 1);
	ck_assert_int_eq(auth_choose(&a, NULL, NULL, &e), ERR_PROOF);
	says("munged does not answer on");
	setenv("DDP_TOKEN", "0123456789abcdef", 1);
	ck_assert_int_eq(auth_choose(&a, NULL, NULL, &e), 0);
}
END_TEST

/* ---- slurm.conf ---- */

START_TEST(slurm_conf_names_the_plugin_and_munges_socket)
{
	static const struct {
		const char *text, *socket;
		int without_munge;
	} rows[] = {
		{"", "", 0},
		{"ClusterName=c\nAuthType=auth/munge\n", "", 0},
		{"AuthType=auth/slurm", "", 1},
		{"  authtype = \"auth/slurm\" # ours\n", "", 1},
		{"#AuthType=auth/slurm\nAuthTypes=auth/slurm\n", "", 0},
		{"AuthType=auth/none\r\nX=1\r\n", "", 1},
		{"AuthInfo=socket=/a/b\n", "/a/b", 0},
		{"AuthInfo=ttl=60,socket=/a/b,cred_expire=5\n", "/a/b", 0},
		{"AUTHINFO=\tttl=60\n", "", 0},
		{"AuthInfo=socket=\n", "", 0},
		{"AuthInfo=", "", 0},
		{"AuthInfo", "", 0},
		{"AuthType=auth/slurm\nAuthInfo=socket=/a\n", "", 1},
	};
	struct slurm_conf c;
	char text[200];

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		slurm_conf_parse(&c, SLICE_STR(rows[i].text));
		ck_assert_msg(c.without_munge == rows[i].without_munge &&
			      strcmp(c.munge_socket, rows[i].socket) == 0,
			      "row %zu: %d '%s'", i, c.without_munge,
			      c.munge_socket);
	}
	/* a path that no socket can have */
	memset(text, 'x', sizeof(text));
	memcpy(text, "AuthInfo=socket=/", 17);
	slurm_conf_parse(&c, SLICE(text, sizeof(text)));
	ck_assert_str_eq(c.munge_socket, "");
}
END_TEST

static void write_conf(const char *text)
{
	char conf[80];

	snprintf(conf, sizeof(conf), "%s/slurm.conf", home);
	write_file(conf, text, 0644);
	setenv("SLURM_CONF", conf, 1);
	setenv("SLURM_JOB_ID", "7", 1);
}

START_TEST(munge_is_not_asked_if_slurm_does_not_use_it)
{
	struct auth a;

	write_conf("AuthType=auth/slurm\n");
	ck_assert_int_eq(auth_choose(&a, NULL, NULL, &e), 0);
	ck_assert_uint_eq(a.methods, WIRE_BY_SECRET);
	ck_assert_int_eq(auth_wants_secret(NULL, NULL), 1);
	ck_assert_int_eq(auth_wants_secret("secret", NULL), 0);
	ck_assert_int_eq(auth_wants_secret(NULL, "a-file"), 0);
	setenv("DDP_TOKEN", "0123456789abcdef", 1);
	ck_assert_int_eq(auth_wants_secret(NULL, NULL), 0);
}
END_TEST

/* Hides this machine's own munge, if permitted. */
static void without_usual_key(void)
{
	if (unshare(CLONE_NEWNS) == 0 &&
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0)
		mount("none", "/etc/munge", "tmpfs", 0, NULL);
}

START_TEST(munge_is_looked_for_where_slurm_conf_says)
{
	char conf[120], want[100];
	struct auth a;

	without_usual_key();
	snprintf(want, sizeof(want), "%s/elsewhere", home);
	snprintf(conf, sizeof(conf), "AuthInfo=socket=%s\n", want);
	write_conf(conf);
	ck_assert_int_eq(auth_choose(&a, NULL, NULL, &e), ERR_PROOF);
	says("munged does not answer on");
	says(want);
	says("--auth secret");
	/* a step that ddprun starts needs no key file */
	ck_assert_int_eq(auth_wants_secret(NULL, NULL), 1);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("secret");

	tcase_add_checked_fixture(tc, begin, secret_home_end);
	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, the_key_file_is_made_once_for_its_owner_alone);
	tcase_add_test(tc, all_that_race_for_the_first_key_have_the_same);
	tcase_add_loop_test(tc, without_hard_links_all_that_race_have_the_same,
			    0, 3);
	tcase_add_test(tc, a_key_that_others_can_read_is_refused);
	tcase_add_test(tc,
		       systemds_credentials_may_have_a_groups_bit);
	tcase_add_test(tc, a_key_of_another_user_is_refused);
	tcase_add_test(tc, a_short_secret_is_refused);
	tcase_add_test(tc,
		       the_same_token_is_the_same_secret_in_a_file_and_not);
	tcase_add_test(tc, without_a_place_for_the_key_the_options_are_named);
	tcase_add_test(tc, the_method_is_chosen_by_what_is_available);
	tcase_add_test(tc, slurm_conf_names_the_plugin_and_munges_socket);
	tcase_add_test(tc, munge_is_not_asked_if_slurm_does_not_use_it);
	tcase_add_test(tc, munge_is_looked_for_where_slurm_conf_says);
	tcase_add_test(tc, on_a_slurm_node_a_munged_that_is_down_is_an_error);
	return run_case(tc);
}
