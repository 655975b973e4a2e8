/* test_cache.c: decoded data is made once, found again, and made again when it
 * is stale or damaged. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "tests/unit/refuse.h"
#include "tests/unit/run_case.h"
#include "trainers/data/cache.h"

static char dir[64];
static struct err e;

static void set_up(void)
{
	strcpy(dir, "/tmp/test_cache.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	setenv("DDP_CACHE", dir, 1);
}

static void tear_down(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	ck_assert_int_eq(system(command), 0);
}

enum { BLOCK = 100000 };

/* *arg counts how often the block was made. */
static int make_block(void *arg, struct payload *p, struct err *unused)
{
	++*(int *)arg;
	p->size = BLOCK;
	p->data = malloc(BLOCK);
	memset(p->data, 'x', BLOCK);
	return 0;
}

static int made;
static struct cache_source source = {"block", "first", make_block, &made};

/* Prepares the block, checks it, and returns how often it was made for that. */
static int prepare(char *note)
{
	struct cache_block b;
	const char *data;

	made = 0;
	ck_assert_int_eq(cache_prepare(&source, &b, note, &e), 0);
	ck_assert_uint_eq(b.size, BLOCK);
	data = b.data;
	ck_assert_int_eq(data[0], 'x');
	/* each byte equals the one before: an assertion for each would take
	 * seconds */
	ck_assert_mem_eq(data, data + 1, BLOCK - 1);
	cache_release(&b);
	return made;
}

static void cached_path(char *out)
{
	snprintf(out, CACHE_PATH_MAX, "%s/block.ddpcache", dir);
}

START_TEST(a_created_file_is_cached)
{
	struct cache_block b;
	char note[ERR_TEXT_MAX];

	ck_assert_int_eq(prepare(note), 1);
	ck_assert_int_eq(prepare(note), 0);
	ck_assert_str_eq(note, "");
	ck_assert_int_eq(cache_open(&source, &b, &e), 0);
	ck_assert_int_eq(made, 0);
	ck_assert_ptr_nonnull(b.map);
	cache_release(&b);
}
END_TEST

START_TEST(a_file_made_from_other_data_is_rebuilt)
{
	char note[ERR_TEXT_MAX];

	ck_assert_int_eq(prepare(note), 1);
	source.identity = "second";
	ck_assert_int_eq(prepare(note), 1);
	ck_assert_int_eq(prepare(note), 0);
	source.identity = "first";
}
END_TEST

/* A changed byte in the header, the identity or the block; a truncated file. */
START_TEST(a_damaged_file_is_made_again)
{
	static const long at[] = {0, 8, 26, 4096, 4096 + BLOCK - 1};
	char note[ERR_TEXT_MAX], path[CACHE_PATH_MAX];

	ck_assert_int_eq(prepare(note), 1);
	cached_path(path);
	if (_i < 5) {
		FILE *f = fopen(path, "r+");

		fseek(f, at[_i], SEEK_SET);
		fputc('?', f);
		fclose(f);
	} else {
		ck_assert_int_eq(truncate(path, _i == 5 ? 4000 : 9000), 0);
	}
	ck_assert_int_eq(prepare(note), 1);
	/* a file with another version or identity is not damaged, but stale */
	if (_i == 1 || _i == 2)
		ck_assert_str_eq(note, "");
	else
		ck_assert_ptr_nonnull(strstr(note, "block.ddpcache was "
					     "damaged"));
	ck_assert_int_eq(prepare(note), 0);
	ck_assert_str_eq(note, "");
}
END_TEST

/* Another user could have written the file: others can write to it, or, if the
 * test may make such a file, another user owns it. */
START_TEST(a_file_that_others_can_write_is_not_used)
{
	char note[ERR_TEXT_MAX], path[CACHE_PATH_MAX];
	struct cache_block b;

	ck_assert_int_eq(prepare(note), 1);
	cached_path(path);
	ck_assert_int_eq(chmod(path, _i ? 0600 : 0620), 0);
	if (_i && chown(path, 65534, (gid_t)-1) < 0)
		return; /* not root */
	made = 0;
	ck_assert_int_eq(cache_open(&source, &b, &e), 0);
	ck_assert_int_eq(made, 1);
	ck_assert_ptr_null(b.map);
	cache_release(&b);
	ck_assert_int_eq(prepare(note), 1);
	ck_assert_ptr_nonnull(strstr(note, "block.ddpcache belongs to another "
					   "user, or others can write to it"));
	ck_assert_int_eq(prepare(note), 0);
	ck_assert_str_eq(note, "");
}
END_TEST

START_TEST(unnamed_data_is_not_cached)
{
	struct cache_source nameless = {NULL, NULL, make_block, &made};
	char note[ERR_TEXT_MAX], command[128];
	struct cache_block b;

	made = 0;
	ck_assert_int_eq(cache_prepare(&nameless, &b, note, &e), 0);
	cache_release(&b);
	ck_assert_int_eq(cache_open(&nameless, &b, &e), 0);
	ck_assert_uint_eq(b.size, BLOCK);
	cache_release(&b);
	ck_assert_int_eq(made, 2);
	ck_assert_str_eq(note, "");
	snprintf(command, sizeof(command), "[ -z \"$(ls '%s')\" ]", dir);
	ck_assert_int_eq(system(command), 0);
}
END_TEST

START_TEST(without_a_cache_folder_data_is_made_with_a_warning)
{
	char note[ERR_TEXT_MAX];
	struct cache_block b;

	setenv("DDP_CACHE", "/dev/null/cache", 1);
	ck_assert_int_eq(prepare(note), 1);
	ck_assert_ptr_nonnull(strstr(note, "/dev/null/cache"));
	made = 0;
	ck_assert_int_eq(cache_open(&source, &b, &e), 0);
	ck_assert_int_eq(made, 1);
	ck_assert_uint_eq(b.size, BLOCK);
	cache_release(&b);
}
END_TEST

START_TEST(the_environment_names_the_folder)
{
	char out[CACHE_PATH_MAX];

	setenv("DDP_CACHE", "/a", 1);
	setenv("XDG_CACHE_HOME", "/b", 1);
	setenv("HOME", "/c", 1);
	ck_assert(cache_folder(out));
	ck_assert_str_eq(out, "/a");
	setenv("DDP_CACHE", "", 1);
	ck_assert(cache_folder(out));
	ck_assert_str_eq(out, "/b/ddprun");
	unsetenv("XDG_CACHE_HOME");
	ck_assert(cache_folder(out));
	ck_assert_str_eq(out, "/c/.cache/ddprun");
	unsetenv("HOME");
	ck_assert(!cache_folder(out));
}
END_TEST

/* The lock only saves work. */
START_TEST(without_locks_a_file_is_cached_as_well)
{
	char note[ERR_TEXT_MAX];

	if (refuse(SYS_flock, _i ? EBADF : ENOLCK))
		return;
	ck_assert_int_eq(prepare(note), 1);
	ck_assert_int_eq(prepare(note), 0);
	ck_assert_str_eq(note, "");
}
END_TEST

START_TEST(ten_processes_at_once_make_it_once)
{
	enum { PROCESSES = 10 };
	int total = 0, status, go[2];
	pid_t pid[PROCESSES];

	ck_assert_int_eq(pipe(go), 0);
	for (int i = 0; i < PROCESSES; i++) {
		pid[i] = fork();
		if (pid[i] == 0) {
			char note[ERR_TEXT_MAX], c;

			close(go[1]);
			/* all children start when the pipe's last writer
			 * closes */
			if (read(go[0], &c, 1) != 0)
				_exit(99);
			_exit(prepare(note));
		}
	}
	close(go[0]);
	close(go[1]);
	for (int i = 0; i < PROCESSES; i++) {
		ck_assert_int_eq(waitpid(pid[i], &status, 0), pid[i]);
		ck_assert(WIFEXITED(status));
		total += WEXITSTATUS(status);
	}
	ck_assert_int_eq(total, 1);
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("cache");

	tcase_set_timeout(t, 30);
	tcase_add_checked_fixture(t, set_up, tear_down);
	tcase_add_test(t, a_created_file_is_cached);
	tcase_add_test(t, a_file_made_from_other_data_is_rebuilt);
	tcase_add_loop_test(t, a_damaged_file_is_made_again, 0, 7);
	tcase_add_loop_test(t, a_file_that_others_can_write_is_not_used, 0, 2);
	tcase_add_test(t, unnamed_data_is_not_cached);
	tcase_add_test(
		t, without_a_cache_folder_data_is_made_with_a_warning);
	tcase_add_test(t, the_environment_names_the_folder);
	tcase_add_loop_test(t, without_locks_a_file_is_cached_as_well, 0, 2);
	tcase_add_test(t, ten_processes_at_once_make_it_once);
	return run_case(t);
}
