/* test_plan_cache.c: the file of the fastest convolutions. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "trainers/cuda/plan_cache.h"

#define KEY "bf16 forward 8x8x4x4 by 16x3x3 /1 +1"

static char folder[] = "/tmp/test_plan_cache.XXXXXX";
static char path[128];
static char noted[1024];
static int notes;

static void on_note(const char *line)
{
	snprintf(noted, sizeof(noted), "%s", line);
	notes++;
}

static struct plan_cache *open_cache(void)
{
	struct plan_cache *c =
		plan_cache_new(folder, "GPU x sm_90", 91900, on_note);

	ck_assert_ptr_nonnull(c);
	return c;
}

static void setup(void)
{
	strcpy(folder + strlen(folder) - 6, "XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/conv-GPU_x_sm_90-91900.plans", folder);
	notes = 0;
}

static void teardown(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf %s", folder);
	ck_assert_int_eq(system(command), 0);
}

/* A file with one plan. */
static void write_one(void)
{
	struct plan_cache *c = open_cache();

	ck_assert_str_eq(plan_cache_add(c, KEY, "eng1 2=3", 4.5, 0),
			 "eng1 2=3");
	plan_cache_free(c);
	ck_assert_int_eq(access(path, F_OK), 0);
}

START_TEST(a_plan_outlives_the_process)
{
	struct plan_cache *c;

	write_one();
	c = open_cache();
	ck_assert_str_eq(plan_cache_find(c, KEY), "eng1 2=3");
	ck_assert_ptr_null(plan_cache_find(c, "another"));
	plan_cache_free(c);
	ck_assert_int_eq(notes, 0);
}
END_TEST

START_TEST(processes_agree_on_the_first_plan_written)
{
	struct plan_cache *a = open_cache(), *b = open_cache();

	ck_assert_str_eq(plan_cache_add(a, KEY, "eng1", 1, 0), "eng1");
	ck_assert_str_eq(plan_cache_add(a, "other", "eng3", 1, 0), "eng3");
	ck_assert_str_eq(plan_cache_add(b, KEY, "eng2", 1, 0), "eng1");
	/* b has read what a wrote besides */
	ck_assert_str_eq(plan_cache_find(b, "other"), "eng3");
	plan_cache_free(a);
	plan_cache_free(b);
}
END_TEST

START_TEST(a_new_measurement_replaces_the_old_one)
{
	struct plan_cache *c;

	write_one();
	c = open_cache();
	ck_assert_str_eq(plan_cache_add(c, KEY, "eng9", 1, 1), "eng9");
	plan_cache_free(c);
	c = open_cache();
	ck_assert_str_eq(plan_cache_find(c, KEY), "eng9");
	plan_cache_free(c);
}
END_TEST

START_TEST(another_gpu_or_cudnn_has_another_file)
{
	struct plan_cache *c;

	write_one();
	c = plan_cache_new(folder, "GPU x sm_90", 92000, on_note);
	ck_assert_ptr_null(plan_cache_find(c, KEY));
	plan_cache_free(c);
	c = plan_cache_new(folder, "GPU y", 91900, on_note);
	ck_assert_ptr_null(plan_cache_find(c, KEY));
	plan_cache_free(c);
	/* even if it has this file's name */
	c = plan_cache_new(folder, "GPU.x.sm.90", 91900, on_note);
	ck_assert_ptr_null(plan_cache_find(c, KEY));
	plan_cache_free(c);
	ck_assert_int_eq(notes, 1);
}
END_TEST

/* Replaces the byte at `at` of the file, or truncates it there. */
static void damage(long at, int byte)
{
	FILE *f = fopen(path, "r+");

	ck_assert_ptr_nonnull(f);
	if (byte < 0) {
		ck_assert_int_eq(ftruncate(fileno(f), at), 0);
	} else {
		fseek(f, at, SEEK_SET);
		fputc(byte, f);
	}
	fclose(f);
}

START_TEST(a_damaged_file_is_noted_once_and_replaced)
{
	struct plan_cache *c;
	struct stat st;
	long at;

	write_one();
	ck_assert_int_eq(stat(path, &st), 0);
	/* any byte, and any length */
	at = (long)st.st_size * _i / 40;
	damage(at, _i % 2 ? -1 : 1);
	c = open_cache();
	ck_assert_int_eq(notes, 1);
	ck_assert_ptr_nonnull(strstr(noted, path));
	ck_assert_ptr_nonnull(strstr(noted, "damaged"));
	ck_assert_ptr_null(plan_cache_find(c, KEY));
	ck_assert_str_eq(plan_cache_add(c, KEY, "eng2", 1, 0), "eng2");
	plan_cache_free(c);
	c = open_cache();
	ck_assert_str_eq(plan_cache_find(c, KEY), "eng2");
	plan_cache_free(c);
	ck_assert_int_eq(notes, 1);
}
END_TEST

START_TEST(a_file_that_others_can_write_is_left_alone)
{
	struct plan_cache *c;
	struct stat before, after;

	write_one();
	ck_assert_int_eq(chmod(path, 0666), 0);
	ck_assert_int_eq(stat(path, &before), 0);
	c = open_cache();
	ck_assert_ptr_null(plan_cache_find(c, KEY));
	ck_assert_str_eq(plan_cache_add(c, KEY, "eng2", 1, 0), "eng2");
	plan_cache_free(c);
	ck_assert_int_eq(stat(path, &after), 0);
	ck_assert_uint_eq(before.st_ino, after.st_ino);
	ck_assert_int_eq(notes, 1);
	ck_assert_ptr_nonnull(strstr(noted, "others can write"));
}
END_TEST

START_TEST(a_folder_that_cannot_be_made_is_noted_once)
{
	struct plan_cache *c =
		plan_cache_new("/dev/null/x", "GPU", 1, on_note);

	ck_assert_str_eq(plan_cache_add(c, KEY, "eng2", 1, 0), "eng2");
	ck_assert_str_eq(plan_cache_add(c, "other", "eng3", 1, 0), "eng3");
	ck_assert_str_eq(plan_cache_find(c, KEY), "eng2");
	plan_cache_free(c);
	ck_assert_int_eq(notes, 1);
	ck_assert_ptr_nonnull(strstr(noted, "cannot be kept"));
}
END_TEST

START_TEST(without_a_folder_plans_are_kept_in_memory)
{
	struct plan_cache *c = plan_cache_new(NULL, "GPU", 1, NULL);
	char key[32];

	for (int i = 0; i < 300; i++) {
		snprintf(key, sizeof(key), "key %d", i);
		plan_cache_add(c, key, key + 4, i, 0);
	}
	ck_assert_str_eq(plan_cache_find(c, "key 299"), "299");
	ck_assert_str_eq(plan_cache_find(c, "key 0"), "0");
	plan_cache_free(c);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("plan_cache");
	TCase *t = tcase_create("all");
	SRunner *r;
	int failed;

	tcase_add_checked_fixture(t, setup, teardown);
	tcase_add_test(t, a_plan_outlives_the_process);
	tcase_add_test(t, processes_agree_on_the_first_plan_written);
	tcase_add_test(t, a_new_measurement_replaces_the_old_one);
	tcase_add_test(t, another_gpu_or_cudnn_has_another_file);
	tcase_add_loop_test(t, a_damaged_file_is_noted_once_and_replaced, 0,
			    40);
	tcase_add_test(t, a_file_that_others_can_write_is_left_alone);
	tcase_add_test(t, a_folder_that_cannot_be_made_is_noted_once);
	tcase_add_test(t, without_a_folder_plans_are_kept_in_memory);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_ENV);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
