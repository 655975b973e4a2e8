/* test_train_pieces.c: which GPU a rank takes, which checkpoints stay, and
 * which changes are reported when a run continues elsewhere. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/run_case.h"
#include "trainers/train/device_assign.h"
#include "trainers/train/resume.h"
#include "trainers/train/train_state.h"

/* ---- device_assign.h ---- */

static void sits(int local_rank, int count, const char *visible, int index,
		 const char *want)
{
	char name[DEVICE_CLAIM_NAME_MAX];

	ck_assert_int_eq(device_assign_gpu(local_rank, count, visible, name),
			 index);
	ck_assert_str_eq(name, want);
}

START_TEST(a_rank_takes_a_gpu)
{
	sits(0, 4, NULL, 0, "0");
	sits(3, 4, NULL, 3, "3");
	sits(5, 4, NULL, 1, "1"); /* rank 1 uses that GPU already */
	sits(1, 2, "4,6", 1, "6");
	sits(3, 1, "7", 0, "7"); /* --gpus-per-proc: each rank sees only its
				  * own */
	sits(1, 2, "GPU-aa,GPU-bb", 1, "GPU-bb");
	sits(0, 0, NULL, 0, "0");
}
END_TEST

START_TEST(a_gpu_that_another_rank_of_the_host_has_is_seen)
{
	const struct device_claim all[] = {
		{"0", "0"}, {"0", "1"}, {"2", "0"}, {"2", "0"}, {"0", "1"},
		{"0", "GPU-aa"},
	};
	const int other[] = {-1, -1, -1, 2, 1, -1};

	for (int i = 0; i < 6; i++)
		ck_assert_int_eq(device_assign_conflict(all, i), other[i]);
}
END_TEST

static void are_called(const char *want, int first, int last, int one)
{
	char text[64];
	cpu_set_t set;

	CPU_ZERO(&set);
	for (int i = first; i <= last; i++)
		CPU_SET((size_t)i, &set);
	if (one >= 0)
		CPU_SET((size_t)one, &set);
	ck_assert_str_eq(device_assign_cores(&set, text, sizeof(text)), want);
}

START_TEST(cores_have_a_short_name)
{
	char small[12];
	cpu_set_t set;

	are_called("core 3", 3, 3, -1);
	are_called("cores 0-1", 0, 1, -1);
	are_called("cores 0-3,8", 0, 3, 8);
	are_called("cores 0,1022-1023", 1022, 1023, 0);
	CPU_ZERO(&set);
	for (size_t i = 0; i < 64; i += 2)
		CPU_SET(i, &set);
	ck_assert_str_eq(device_assign_cores(&set, small, sizeof(small)),
			 "cores 0,2,4");
}
END_TEST

/* ---- checkpoints ---- */

static char folder[] = "/tmp/test_keep.XXXXXX";

static void enter(void)
{
	ck_assert_ptr_nonnull(mkdtemp(folder));
	ck_assert_int_eq(chdir(folder), 0);
}

static void leave(void)
{
	static const char *const names[] = {
		"c", "c.1", "c.2", "c.3", "c.old", "c.before", "c.before.1",
		"real", "real.before",
	};

	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		unlink(names[i]);
	ck_assert_int_eq(chdir("/"), 0);
	ck_assert_int_eq(rmdir(folder), 0);
}

static void write_text(const char *name, const char *text)
{
	FILE *f = fopen(name, "w");

	ck_assert_ptr_nonnull(f);
	fputs(text, f);
	ck_assert_int_eq(fclose(f), 0);
}

/* Checks a file's text; "": there is no such file. */
static void holds(const char *name, const char *want)
{
	char text[16] = "";
	FILE *f = fopen(name, "r");

	if (f) {
		text[fread(text, 1, sizeof(text) - 1, f)] = 0;
		fclose(f);
	}
	ck_assert_str_eq(text, want);
}

/* Saves as a checkpoint is saved: written under another name, then renamed. */
static void save(const char *text, long keep)
{
	checkpoint_rotate_begin("c", keep);
	write_text("c.part", text);
	ck_assert_int_eq(rename("c.part", "c"), 0);
	checkpoint_rotate_end("c", keep, 1);
}

START_TEST(only_the_last_checkpoints_are_kept)
{
	save("1", 3);
	holds("c.1", "");
	save("2", 3);
	save("3", 3);
	save("4", 3);
	holds("c", "4");
	holds("c.1", "3");
	holds("c.2", "2");
	holds("c.3", "");
	holds("c.old", "");
	save("5", 1);
	holds("c", "5");
	holds("c.1", "3");
}
END_TEST

START_TEST(a_file_that_was_not_written_replaces_nothing)
{
	save("1", 2);
	save("2", 2);
	checkpoint_rotate_begin("c", 2);
	checkpoint_rotate_end("c", 2, 0);
	holds("c", "2");
	holds("c.1", "1");
	holds("c.old", "");
	/* a process that died between begin and end: the next one continues */
	checkpoint_rotate_begin("c", 2);
	save("3", 2);
	holds("c", "3");
	holds("c.1", "2");
}
END_TEST

START_TEST(the_checkpoints_of_another_run_are_set_aside)
{
	ck_assert_int_eq(checkpoint_rotate_aside("c"), 0);
	save("1", 2);
	save("2", 2);
	ck_assert_int_eq(checkpoint_rotate_aside("c"), 2);
	holds("c", "");
	holds("c.1", "");
	holds("c.before", "2");
	holds("c.before.1", "1");
	write_text("real", "4");
	ck_assert_int_eq(symlink("real", "c"), 0);
	ck_assert_int_eq(checkpoint_rotate_aside("c"), 1);
	holds("real.before", "4");
	holds("c", ""); /* the link is still there, but its target is missing */
	ck_assert_int_eq(unlink("c"), 0);
}
END_TEST

/* ---- train_about_changes ---- */

static const struct train_about was = {
	.batch = 64, .micro = 32, .world_size = 2, .total = 100, .lr = 0.1,
	.device = "cpu, 1 thread",
};

static void changes(const struct train_about *now, const char *want)
{
	char text[512];

	ck_assert_str_eq(train_about_changes(&was, now, text, sizeof(text)),
			 want);
}

START_TEST(changes_are_reported)
{
	struct train_about now = was;

	changes(&now, "");
	now.world_size = 1;
	now.micro = 64;
	strcpy(now.device, "NVIDIA H200");
	changes(&now, "1 rank instead of 2 (sums are rounded differently); "
		      "NVIDIA H200 instead of cpu, 1 thread (rounds "
		      "differently); 64 samples per rank at once instead of 32 "
		      "(changes batch normalisation)");
	now = was;
	now.precision = PRECISION_BF16;
	now.lr = 0.5;
	now.augment = 1;
	changes(&now, "--precision bf16 instead of fp32; --lr 0.5 instead of "
		"0.1; with augmentation");
	now = was;
	now.augment = AUGMENT_RESIZE;
	changes(&now, "with augmentation by --crop random-resized");
	now = was;
	now.crop_size = 24;
	changes(&now, "--crop-size 24 instead of the images' size");
	now = was;
	now.precision = PRECISION_TF32;
	changes(&now, "--precision tf32 instead of fp32");
	now.precision = PRECISION_FP16;
	changes(&now, "--precision fp16 instead of fp32");
	now.precision = PRECISIONS; /* a later version's */
	changes(&now, "--precision unknown instead of fp32");
	now = was;
	now.total = 200;
	changes(&now, ""); /* a constant rate has no length */
	now.schedule = SCHEDULE_COSINE;
	changes(&now, "another --schedule");
}
END_TEST

START_TEST(a_long_list_is_cut_off)
{
	struct train_about now = was;
	char text[16];

	now.world_size = 4;
	now.lr = 3;
	now.nesterov = 1;
	train_about_changes(&was, &now, text, sizeof(text));
	ck_assert_str_eq(text, "4 ranks instead");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("train_pieces");
	TCase *t = tcase_create("pure"), *k = tcase_create("keep");

	tcase_add_test(t, a_rank_takes_a_gpu);
	tcase_add_test(t, a_gpu_that_another_rank_of_the_host_has_is_seen);
	tcase_add_test(t, cores_have_a_short_name);
	tcase_add_test(t, changes_are_reported);
	tcase_add_test(t, a_long_list_is_cut_off);
	suite_add_tcase(s, t);
	tcase_add_checked_fixture(k, enter, leave);
	tcase_add_test(k, only_the_last_checkpoints_are_kept);
	tcase_add_test(k, a_file_that_was_not_written_replaces_nothing);
	tcase_add_test(k, the_checkpoints_of_another_run_are_set_aside);
	suite_add_tcase(s, k);
	return run_suite(s);
}
