/* test_server_exec.c: which ddprdzv is executed, and what it inherits. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include "rendezvous/client/server_exec.h"
#include "tests/unit/run_case.h"

static char top[64];
static struct auth auth = {.methods = WIRE_BY_SECRET};
static struct server_exec_options options = {.journal_fd = -1, .auth = &auth};
static struct server_exec x;
static struct err e;

static const char *in_top(const char *name)
{
	static char path[200];

	snprintf(path, sizeof(path), "%s/%s", top, name);
	return path;
}

static void write_file(const char *name, mode_t mode)
{
	int fd = open(in_top(name), O_CREAT | O_WRONLY | O_CLOEXEC, mode);

	ck_assert_int_ge(fd, 0);
	close(fd);
}

/* Files of mode 700 in $T/lib, $T/bin and $T/path, and one without in $T. */
static void begin(void)
{
	static const char *const folders[] = {"lib", "bin", "path"};

	snprintf(top, sizeof(top), "/tmp/test_server_exec.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(top));
	for (size_t i = 0; i < 3; i++)
		ck_assert_int_eq(mkdir(in_top(folders[i]), 0700), 0);
	write_file("path/ddprdzv", 0700);
	write_file("path/other", 0700);
	write_file("ddprdzv", 0600);
	ck_assert_int_eq(setenv("PATH", in_top("path"), 1), 0);
	unsetenv("DDP_SERVER");
	e = (struct err)ERR_INIT;
}

static void end(void)
{
	char command[100];

	setenv("PATH", "/usr/bin:/bin", 1);
	snprintf(command, sizeof(command), "rm -rf %s", top);
	ck_assert_int_eq(system(command), 0);
}

/* made: a further program; given: DDP_SERVER; found: the program, or NULL and
 * the error's code and words. All paths but a bare `given` are below $T. */
static const struct {
	const char *made, *library, *given, *found;
	int code;
	const char *words;
} finds[] = {
	{NULL, NULL, NULL, "path/ddprdzv"},
	{NULL, "lib/libddp.so", NULL, "path/ddprdzv"},
	{"lib/ddprdzv", "lib/libddp.so", NULL, "lib/ddprdzv"},
	{"bin/ddprdzv", "lib/libddp.so", NULL, "lib/../bin/ddprdzv"},
	{"bin/ddprdzv", NULL, NULL, "path/ddprdzv"},
	{"lib/ddprdzv", "lib/libddp.so", "path/other", "path/other"},
	{NULL, "lib/libddp.so", "=other", "path/other"},
	{NULL, NULL, "=", "path/ddprdzv"},
	{NULL, NULL, "none", NULL, -ENOENT, "No such file"},
	{NULL, NULL, "=none", NULL, -ENOENT, "DDP_SERVER is 'none', which"},
	{NULL, NULL, "ddprdzv", NULL, -EACCES, "Permission denied"},
	{NULL, NULL, "lib", NULL, -EACCES, "set it to the path of ddprdzv"},
};

START_TEST(the_program_is_the_one_given_beside_or_in_path)
{
	char library[200];
	int rc;

	if (finds[_i].made)
		write_file(finds[_i].made, 0700);
	if (finds[_i].library) {
		strcpy(library, in_top(finds[_i].library));
		options.library = library;
	}
	if (finds[_i].given)
		setenv("DDP_SERVER",
		       *finds[_i].given == '=' ? finds[_i].given + 1
					       : in_top(finds[_i].given),
		       1);
	rc = server_exec_init(&x, &options, &e);
	if (finds[_i].found) {
		ck_assert_int_eq(rc, 0);
		ck_assert_str_eq(x.path, in_top(finds[_i].found));
		server_exec_release(&x);
		return;
	}
	ck_assert_int_eq(rc, finds[_i].code);
	ck_assert_ptr_nonnull(strstr(e.text, finds[_i].words));
}
END_TEST

START_TEST(a_missing_program_is_an_error_that_names_the_places)
{
	ck_assert_int_eq(setenv("PATH", in_top("bin"), 1), 0);
	ck_assert_int_eq(server_exec_init(&x, &options, &e), -ENOENT);
	ck_assert_ptr_nonnull(strstr(e.text, "beside this program or in PATH"));
	options.library = "/nowhere/libddp.so";
	ck_assert_int_eq(server_exec_init(&x, &options, &e), -ENOENT);
	ck_assert_ptr_nonnull(strstr(e.text, "beside libddp, beside this"));
}
END_TEST

START_TEST(the_arguments_name_the_descriptors_in_order)
{
	static const char *const words[] = {
		"ddprdzv",	  "--parent-fd=3", "--listen-fd=4",
		"--listen-fds=2", "--auth=parent", "--journal-fd=6",
		"--job=a job",	  "--guests=7",
	};
	const int fds[] = {0, 1};

	options.fds = fds;
	options.n = 2;
	options.journal_fd = 2;
	options.job = "a job";
	ck_assert_int_eq(server_exec_init(&x, &options, &e), 0);
	server_exec_add(&x, "--guests=%d", 7);
	ck_assert_int_eq(server_exec_finish(&x, &e), 0);
	for (size_t i = 0; i < sizeof(words) / sizeof(*words); i++)
		ck_assert_str_eq(x.argv[i], words[i]);
	ck_assert_ptr_null(x.argv[sizeof(words) / sizeof(*words)]);
	ck_assert_int_eq(x.nfds, 4);
	server_exec_release(&x);
}
END_TEST

START_TEST(too_many_or_too_long_arguments_are_an_error)
{
	ck_assert_int_eq(server_exec_init(&x, &options, &e), 0);
	for (int i = 0; i < SERVER_EXEC_WORDS_MAX; i++)
		server_exec_add(&x, "--more");
	ck_assert_int_eq(server_exec_finish(&x, &e), -E2BIG);
	server_exec_add(&x, "%0*d", 8 * PATH_MAX, 0);
	ck_assert_int_eq(server_exec_finish(&x, &e), -ENOBUFS);
	ck_assert_ptr_nonnull(strstr(e.text, x.path));
	server_exec_release(&x);
}
END_TEST

START_TEST(the_descriptors_are_copies_and_auth_is_in_the_pipe)
{
	unsigned char sent[AUTH_BYTES], got[AUTH_BYTES + 1];
	int fds[SOCK_LISTEN_MAX] = {0}, last;

	options.fds = fds;
	options.n = SOCK_LISTEN_MAX;
	options.journal_fd = 0;
	ck_assert_int_eq(server_exec_init(&x, &options, &e), 0);
	last = SERVER_EXEC_FD + x.nfds;
	ck_assert_int_eq(x.nfds, SERVER_EXEC_FDS_MAX);
	for (int i = 0; i < x.nfds; i++) {
		ck_assert_int_gt(x.fds[i], last);
		ck_assert_int_eq(fcntl(x.fds[i], F_GETFD), FD_CLOEXEC);
	}
	ck_assert_int_eq(fcntl(x.pipe, F_GETFD), FD_CLOEXEC);
	auth_to_bytes(sent, &auth);
	ck_assert_int_eq(read(x.fds[0], got, sizeof(got)), AUTH_BYTES);
	ck_assert_mem_eq(got, sent, AUTH_BYTES);
	auth.methods = WIRE_NO_PROOF;
	ck_assert_int_eq(server_exec_send_auth(x.pipe, &auth, &e), 0);
	ck_assert_int_eq(read(x.fds[0], got, sizeof(got)), AUTH_BYTES);
	ck_assert_mem_ne(got, sent, AUTH_BYTES);
	last = x.pipe;
	server_exec_release(&x);
	ck_assert_int_eq(fcntl(last, F_GETFD), -1);
}
END_TEST

/* _i copies of the four fit. */
START_TEST(without_descriptors_nothing_stays_open)
{
	const int fds[] = {0, 1};
	int rc, after, next = dup(0);
	struct rlimit old, small;

	ck_assert_int_ge(next, 0);
	close(next);
	options.fds = fds;
	options.n = 2;
	options.journal_fd = 2;
	ck_assert_int_eq(getrlimit(RLIMIT_NOFILE, &old), 0);
	small = (struct rlimit){(rlim_t)(SERVER_EXEC_COPIES + _i),
				old.rlim_max};
	ck_assert_int_eq(setrlimit(RLIMIT_NOFILE, &small), 0);
	/* no assertions here: Check opens a file */
	rc = server_exec_init(&x, &options, &e);
	after = dup(0);
	setrlimit(RLIMIT_NOFILE, &old);
	ck_assert_int_eq(rc, -EMFILE);
	ck_assert_int_eq(after, next);
	ck_assert_ptr_nonnull(strstr(e.text, in_top("path/ddprdzv")));
	for (int i = 0; i < 4; i++)
		ck_assert_int_eq(fcntl(SERVER_EXEC_COPIES + i, F_GETFD), -1);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("server_exec");

	tcase_add_checked_fixture(c, begin, end);
	tcase_add_loop_test(c, the_program_is_the_one_given_beside_or_in_path,
			    0, sizeof(finds) / sizeof(*finds));
	tcase_add_test(c, a_missing_program_is_an_error_that_names_the_places);
	tcase_add_test(c, the_arguments_name_the_descriptors_in_order);
	tcase_add_test(c, too_many_or_too_long_arguments_are_an_error);
	tcase_add_test(c, the_descriptors_are_copies_and_auth_is_in_the_pipe);
	tcase_add_loop_test(c, without_descriptors_nothing_stays_open, 0, 4);
	return run_case(c);
}
