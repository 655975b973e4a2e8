/* test_checkpoint.c: a complete checkpoint file is read back, and any other
 * file is an error that leaves memory and the old file unchanged. */
#include <check.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/run_case.h"
#include "worker-sdk/ddp.h"

static char dir[64], path[128];
static double weights[100], moments[37];
static uint64_t epoch;
static struct ddp_section sections[] = {
	{"weights", weights, sizeof(weights)},
	{"moments", moments, sizeof(moments)},
	{"epoch", &epoch, sizeof(epoch)},
	{"nothing", NULL, 0},
};
enum { SECTIONS = 4 };

static void set_up(void)
{
	strcpy(dir, "/tmp/test_checkpoint.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	snprintf(path, sizeof(path), "%s/model.ckpt", dir);
}

static int files_in_dir(void)
{
	DIR *d = opendir(dir);
	int n = 0;

	while (readdir(d))
		n++;
	closedir(d);
	return n - 2;
}

static void tear_down(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", dir);
	ck_assert_int_eq(system(command), 0);
}

static void fill(int seed)
{
	for (int i = 0; i < 100; i++)
		weights[i] = seed + i * 0.5;
	for (int i = 0; i < 37; i++)
		moments[i] = seed * i;
	epoch = (uint64_t)seed;
}

static int is_filled(int seed)
{
	double w[100], m[37];
	uint64_t e = epoch;
	int same;

	memcpy(w, weights, sizeof(w));
	memcpy(m, moments, sizeof(m));
	fill(seed);
	same = !memcmp(w, weights, sizeof(w)) &&
	       !memcmp(m, moments, sizeof(m)) && e == epoch;
	memcpy(weights, w, sizeof(w));
	memcpy(moments, m, sizeof(m));
	epoch = e;
	return same;
}

static int save(void)
{
	return ddp_checkpoint_save(path, "mlp 784-50-10", sections, SECTIONS);
}

static int load(void)
{
	return ddp_checkpoint_load(path, "mlp 784-50-10", sections, SECTIONS);
}

static void expect_text(const char *part)
{
	ck_assert_msg(strstr(ddp_last_error(), part) != NULL,
		      "no '%s' in '%s'", part, ddp_last_error());
}

/* Loading fails with code and a text that contains part, and changes no
 * memory. */
static void expect_refused(int code, const char *part)
{
	fill(9);
	ck_assert_int_eq(load(), code);
	expect_text(part);
	ck_assert(is_filled(9));
}

static char *slurp(size_t *size)
{
	int fd = open(path, O_RDONLY);
	struct stat st;
	char *p;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(fstat(fd, &st), 0);
	*size = (size_t)st.st_size;
	p = malloc(*size);
	ck_assert_int_eq(read(fd, p, *size), (ssize_t)*size);
	close(fd);
	return p;
}

static void spit(const char *p, size_t size)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC, 0600);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, p, size), (ssize_t)size);
	close(fd);
}

START_TEST(comes_back_whole)
{
	fill(1);
	ck_assert_int_eq(save(), 0);
	fill(2);
	ck_assert_int_eq(load(), 0);
	ck_assert(is_filled(1));
	/* replace an old file, and load the sections in another order */
	fill(3);
	ck_assert_int_eq(save(), 0);
	fill(4);
	struct ddp_section turned[] = {sections[3], sections[1], sections[2],
				       sections[0]};
	ck_assert_int_eq(ddp_checkpoint_load(path, "mlp 784-50-10", turned,
					     SECTIONS), 0);
	ck_assert(is_filled(3));
	ck_assert_int_eq(files_in_dir(), 1);
}
END_TEST

START_TEST(name_without_a_folder)
{
	char old[4096];

	ck_assert_ptr_nonnull(getcwd(old, sizeof(old)));
	ck_assert_int_eq(chdir(dir), 0);
	ck_assert_int_eq(ddp_checkpoint_save("x", "k", sections, 1), 0);
	ck_assert_int_eq(ddp_checkpoint_load("x", "k", sections, 1), 0);
	ck_assert_int_eq(chdir(old), 0);
}
END_TEST

START_TEST(truncated_at_every_byte)
{
	size_t size;
	char *p;

	fill(1);
	ck_assert_int_eq(save(), 0);
	p = slurp(&size);
	for (size_t n = 0; n < size; n++) {
		ck_assert_int_eq(truncate(path, 0), 0);
		spit(p, n);
		expect_refused(DDP_ERR_DATA, "truncated");
	}
	free(p);
}
END_TEST

START_TEST(every_byte_damaged)
{
	size_t size;
	char *p;

	fill(1);
	ck_assert_int_eq(save(), 0);
	p = slurp(&size);
	for (size_t n = 0; n < size; n++) {
		p[n] ^= (char)(1 << n % 8);
		spit(p, size);
		expect_refused(DDP_ERR_DATA, path);
		p[n] ^= (char)(1 << n % 8);
	}
	spit(p, size);
	ck_assert_int_eq(load(), 0);
	ck_assert(is_filled(1));
	free(p);
}
END_TEST

START_TEST(surplus_bytes_are_an_error)
{
	size_t size;
	char *p;

	ck_assert_int_eq(save(), 0);
	p = slurp(&size);
	p = realloc(p, size + 1);
	p[size] = 0;
	spit(p, size + 1);
	expect_refused(DDP_ERR_DATA, "contradicts its size");
	free(p);
}
END_TEST

START_TEST(newer_version)
{
	size_t size;
	char *p;

	ck_assert_int_eq(save(), 0);
	p = slurp(&size);
	p[8] = 2; /* the u32 after the magic */
	spit(p, size);
	expect_refused(DDP_ERR_DATA, "newer than this libddp's 1");
	free(p);
}
END_TEST

START_TEST(not_a_checkpoint)
{
	spit("this is a letter to my aunt, not a model", 40);
	expect_refused(DDP_ERR_DATA, "is not a libddp checkpoint");
	unlink(path);
	ck_assert_int_eq(mkdir(path, 0700), 0);
	expect_refused(DDP_ERR_DATA, "not a regular file");
	ck_assert_int_eq(rmdir(path), 0);
	expect_refused(-ENOENT, "there is no checkpoint");
}
END_TEST

START_TEST(another_models_checkpoint_is_refused)
{
	struct ddp_section other[] = {sections[0], sections[1], sections[2],
				      {"more", moments, 8}};
	struct ddp_section smaller[] = {sections[0], sections[1], sections[2],
					sections[3]};

	smaller[1].size -= 8;
	ck_assert_int_eq(save(), 0);
	ck_assert_int_eq(ddp_checkpoint_load(path, "ae 784-128", sections,
					     SECTIONS), DDP_ERR_DATA);
	expect_text("belongs to mlp 784-50-10, not to ae 784-128");
	ck_assert_int_eq(ddp_checkpoint_load(path, "mlp 784-50-10", other, 4),
			 DDP_ERR_DATA);
	expect_text("section nothing");
	ck_assert_int_eq(ddp_checkpoint_save(path, "mlp 784-50-10", sections,
					     3), 0);
	ck_assert_int_eq(ddp_checkpoint_load(path, "mlp 784-50-10", other, 4),
			 DDP_ERR_DATA);
	expect_text("no section more");
	ck_assert_int_eq(ddp_checkpoint_load(path, "mlp 784-50-10", smaller,
					     4), DDP_ERR_DATA);
	expect_text("section moments has 296 bytes, not 288");
}
END_TEST

START_TEST(cannot_be_written)
{
	char inside[400];

	snprintf(inside, sizeof(inside), "%s/no/such/x", dir);
	ck_assert_int_eq(ddp_checkpoint_save(inside, "k", sections, 1),
			 -ENOENT);
	expect_text("create it first");
	snprintf(inside, sizeof(inside), "%s/%0250d", dir, 0);
	ck_assert_int_eq(ddp_checkpoint_save(inside, "k", sections, 1),
			 -ENAMETOOLONG);
	fill(1);
	ck_assert_int_eq(save(), 0);
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(mkdir(path, 0700), 0);
	ck_assert_int_eq(save(), -EISDIR);
	ck_assert_int_eq(files_in_dir(), 1);
}
END_TEST

START_TEST(a_path_that_names_a_folder_says_so)
{
	static const char *const ends[] = {"/", "/.", "/.."};
	char inside[128];

	snprintf(inside, sizeof(inside), "%s%s", dir, ends[_i]);
	ck_assert_int_eq(ddp_checkpoint_save(inside, "k", sections, 1),
			 -EISDIR);
	expect_text("it names a folder");
	ck_assert_int_eq(files_in_dir(), 0);
}
END_TEST

static mode_t mode_of(const char *file)
{
	struct stat st;

	ck_assert_int_eq(lstat(file, &st), 0);
	return st.st_mode;
}

START_TEST(a_link_stays_and_its_target_is_written)
{
	char link_path[128], next[128];

	snprintf(link_path, sizeof(link_path), "%s/last.ckpt", dir);
	snprintf(next, sizeof(next), "%s/older", dir);
	ck_assert_int_eq(symlink("older", link_path), 0);
	ck_assert_int_eq(symlink(path, next), 0);
	for (int i = 0; i < 2; i++) { /* a link first to a missing file, then to
				       * an existing one */
		fill(3 + i);
		ck_assert_int_eq(ddp_checkpoint_save(link_path, "mlp 784-50-10",
						     sections, SECTIONS), 0);
		ck_assert(S_ISLNK(mode_of(link_path)));
		ck_assert(S_ISLNK(mode_of(next)));
		ck_assert(S_ISREG(mode_of(path)));
		fill(0);
		ck_assert_int_eq(load(), 0);
		ck_assert(is_filled(3 + i));
	}
	ck_assert_int_eq(files_in_dir(), 3);
	ck_assert_int_eq(unlink(path), 0);
	ck_assert_int_eq(symlink("last.ckpt", path), 0);
	ck_assert_int_eq(ddp_checkpoint_save(link_path, "k", sections, 1),
			 -ELOOP);
	expect_text(link_path);
}
END_TEST

START_TEST(its_mode_follows_the_umask)
{
	mode_t old = umask(077);

	ck_assert_int_eq(save(), 0);
	ck_assert_int_eq(mode_of(path) & 0777, 0600);
	umask(022);
	ck_assert_int_eq(save(), 0);
	ck_assert_int_eq(mode_of(path) & 0777, 0644);
	umask(old);
}
END_TEST

START_TEST(folder_is_not_writable)
{
	pid_t pid;
	int status;

	fill(1);
	ck_assert_int_eq(save(), 0);
	ck_assert_int_eq(chmod(dir, 0555), 0);
	pid = fork();
	if (pid == 0) {
		/* root may write anywhere; the user nobody may not */
		if (getuid() == 0 && (setgid(65534) || setuid(65534)))
			_exit(2);
		_exit(save() == -EACCES &&
				      strstr(ddp_last_error(), "unchanged")
			      ? 0
			      : 1);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	ck_assert_int_eq(chmod(dir, 0755), 0);
	fill(2);
	ck_assert_int_eq(load(), 0);
	ck_assert(is_filled(1));
	ck_assert_int_eq(files_in_dir(), 1);
}
END_TEST

/* Simulates a full disk by a limit on the file size, in a process of its own,
 * because Check's reports are a file too. */
static int save_in_little_room(rlim_t most, void (*on_limit)(int))
{
	struct rlimit limit = {most, most};
	pid_t pid = fork();
	int status;

	if (pid == 0) {
		signal(SIGXFSZ, on_limit);
		fill(2);
		_exit(!setrlimit(RLIMIT_FSIZE, &limit) && save() == -EFBIG &&
				      strstr(ddp_last_error(), "unchanged")
			      ? 0
			      : 1);
	}
	waitpid(pid, &status, 0);
	return status;
}

START_TEST(size_limit_is_an_error_and_keeps_the_old_file)
{
	void (*on_limit)(int) = _i ? SIG_IGN : SIG_DFL;
	struct stat st;

	fill(1);
	ck_assert_int_eq(save(), 0);
	ck_assert_int_eq(stat(path, &st), 0);
	for (rlim_t most = 0; most < (rlim_t)st.st_size; most += 100) {
		ck_assert_int_eq(save_in_little_room(most, on_limit),
				 0);
		ck_assert_int_eq(files_in_dir(), 1);
		ck_assert_int_eq(load(), 0);
		ck_assert(is_filled(1));
	}
}
END_TEST

/* A disk that is really full: a file system of 64 KiB, in a mount namespace of
 * its own. */
static int save_on_a_full_disk(void)
{
	static char large[100000];
	struct ddp_section much[] = {{"large", large, sizeof(large)}};
	struct ddp_section little[] = {{"large", large, 1000}};

	if (unshare(CLONE_NEWNS) ||
	    mount("none", "/", NULL, MS_REC | MS_PRIVATE, NULL) ||
	    mount("none", dir, "tmpfs", 0, "size=64k"))
		return 77;
	if (ddp_checkpoint_save(path, "k", little, 1))
		return 1;
	if (ddp_checkpoint_save(path, "k", much, 1) != -ENOSPC ||
	    !strstr(ddp_last_error(), "free some space"))
		return 2;
	if (files_in_dir() != 1)
		return 3;
	return ddp_checkpoint_load(path, "k", little, 1) ? 4 : 0;
}

START_TEST(full_disk_keeps_the_old_file)
{
	int status;
	pid_t pid = fork();

	if (pid == 0)
		_exit(save_on_a_full_disk());
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFEXITED(status));
	if (WEXITSTATUS(status) == 77)
		printf("not root: the full disk was a file size limit only\n");
	else
		ck_assert_int_eq(WEXITSTATUS(status), 0);
}
END_TEST

/* The saving process is killed again and again: the file is always one of the
 * two, and the next save removes the files of killed writers. */
START_TEST(killed_at_any_moment)
{
	fill(1);
	ck_assert_int_eq(save(), 0);
	for (int i = 0; i < 60; i++) {
		int ready[2];
		char byte;
		pid_t pid;

		ck_assert_int_eq(pipe(ready), 0);
		pid = fork();
		if (pid == 0) {
			/* no ck_ here: it writes to the parent's pipe */
			if (write(ready[1], "x", 1) != 1)
				_exit(1);
			for (int k = 0;; k++) {
				fill(1 + k % 2);
				save();
			}
		}
		ck_assert_int_eq(read(ready[0], &byte, 1), 1);
		usleep((useconds_t)(i * 37 % 2000));
		kill(pid, SIGKILL);
		ck_assert_int_eq(waitpid(pid, NULL, 0), pid);
		close(ready[0]);
		close(ready[1]);
		fill(7);
		ck_assert_int_eq(load(), 0);
		ck_assert(is_filled(1) || is_filled(2));
	}
	fill(1);
	ck_assert_int_eq(save(), 0);
	ck_assert_int_eq(files_in_dir(), 1);
}
END_TEST

START_TEST(bad_arguments)
{
	struct ddp_section twice[] = {sections[0], sections[0]};
	struct ddp_section bare[] = {{"", weights, 8}, {"x", NULL, 8}};
	char kind[300];

	memset(kind, 'k', sizeof(kind));
	kind[299] = 0;
	ck_assert_int_eq(ddp_checkpoint_save(NULL, "k", sections, 1),
			 DDP_ERR_ARGUMENT);
	ck_assert_int_eq(ddp_checkpoint_save(path, kind, sections, 1),
			 DDP_ERR_ARGUMENT);
	ck_assert_int_eq(ddp_checkpoint_save(path, "k", NULL, 1),
			 DDP_ERR_ARGUMENT);
	ck_assert_int_eq(ddp_checkpoint_save(path, "k", twice, 2),
			 DDP_ERR_ARGUMENT);
	expect_text("two sections");
	ck_assert_int_eq(ddp_checkpoint_save(path, "k", bare, 1),
			 DDP_ERR_ARGUMENT);
	ck_assert_int_eq(ddp_checkpoint_load(path, "k", bare + 1, 1),
			 DDP_ERR_ARGUMENT);
	ck_assert_int_eq(files_in_dir(), 0);
}
END_TEST

int main(void)
{
	TCase *tc = tcase_create("checkpoint");

	tcase_set_timeout(tc, 60);
	tcase_add_checked_fixture(tc, set_up, tear_down);
	tcase_add_test(tc, comes_back_whole);
	tcase_add_test(tc, name_without_a_folder);
	tcase_add_test(tc, truncated_at_every_byte);
	tcase_add_test(tc, every_byte_damaged);
	tcase_add_test(tc, surplus_bytes_are_an_error);
	tcase_add_test(tc, newer_version);
	tcase_add_test(tc, not_a_checkpoint);
	tcase_add_test(tc, another_models_checkpoint_is_refused);
	tcase_add_test(tc, cannot_be_written);
	tcase_add_loop_test(tc, a_path_that_names_a_folder_says_so, 0, 3);
	tcase_add_test(tc, a_link_stays_and_its_target_is_written);
	tcase_add_test(tc, its_mode_follows_the_umask);
	tcase_add_test(tc, folder_is_not_writable);
	tcase_add_loop_test(tc, size_limit_is_an_error_and_keeps_the_old_file,
			    0, 2);
	tcase_add_test(tc, full_disk_keeps_the_old_file);
	tcase_add_test(tc, killed_at_any_moment);
	tcase_add_test(tc, bad_arguments);
	return run_case(tc);
}
