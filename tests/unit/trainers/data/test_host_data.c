/* test_host_data.c: synthetic images are the same in every run, as many as
 * requested, and a model can tell their classes apart. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/run_case.h"
#include "trainers/data/host_data.h"

static struct err e;

START_TEST(the_same_images_at_every_run)
{
	/* a side whose planes are no multiple of eight bytes */
	enum { SIDE = 33, TRAIN = 200, TEST = 50 };
	struct payload a, b;

	ck_assert_int_eq(synthetic_make(SIDE, TRAIN, TEST, &a, &e), 0);
	ck_assert_int_eq(synthetic_make(SIDE, TRAIN, TEST, &b, &e), 0);
	ck_assert_uint_eq(a.size, b.size);
	ck_assert_mem_eq(a.data, b.data, a.size);
	free(a.data);
	free(b.data);
}
END_TEST

/* The mean of a channel reveals the label, whatever the noise. */
START_TEST(a_class_is_brighter_in_one_channel)
{
	enum { SIDE = 32, TRAIN = 300, PLANE = SIDE * SIDE };
	int seen[SYNTHETIC_CLASSES] = {0};
	struct payload p;
	struct dataset d;

	ck_assert_int_eq(synthetic_make(SIDE, TRAIN, 1, &p, &e), 0);
	ck_assert_int_eq(dataset_view(p.data, p.size, &d, &e), 0);
	ck_assert_int_eq(d.shape.classes, SYNTHETIC_CLASSES);
	for (uint32_t i = 0; i < TRAIN; i++) {
		int label = d.train.labels[i];

		ck_assert_int_lt(label, SYNTHETIC_CLASSES);
		seen[label]++;
		for (int c = 0; c < 3; c++) {
			const uint8_t *x = d.train.samples.pixels +
					   (3 * i + (uint32_t)c) * PLANE;
			double sum = 0, want = 63.5;

			for (int k = 0; k < PLANE; k++)
				sum += x[k];
			if (c == label % 3)
				want += 8 * label;
			ck_assert_double_eq_tol(sum / PLANE, want, 8);
		}
	}
	for (int i = 0; i < SYNTHETIC_CLASSES; i++)
		ck_assert_int_gt(seen[i], TRAIN / SYNTHETIC_CLASSES / 4);
	free(p.data);
}
END_TEST

START_TEST(the_number_of_images_is_bounded)
{
	ck_assert_uint_eq(synthetic_count(224), (256 << 20) / (3 * 224 * 224));
	ck_assert_uint_eq(synthetic_count(8), 50000);
	ck_assert_uint_eq(synthetic_count(IMAGE_SIDE_MAX * 4), 1);
}
END_TEST

/* A rank makes the images for itself, and a batch has to fit. */
START_TEST(at_least_the_requested_number_of_images_is_made)
{
	struct host_data_want want = {.kind = DATA_SYNTHETIC, .side = 8,
				      .least = 60000};
	struct host_data h;

	ck_assert_int_eq(host_data_find(&h, &want, &e), 0);
	ck_assert_int_eq(host_data_open(&h, &e), 0);
	ck_assert_uint_eq(h.set.train.count, 60000);
	ck_assert_int_eq(h.set.shape.width, 8);
	host_data_release(&h);
}
END_TEST

START_TEST(a_batch_that_no_memory_holds_is_refused)
{
	struct host_data_want want = {.kind = DATA_SYNTHETIC, .side = 224,
				      .least = 1000000};
	struct host_data h;

	ck_assert_int_eq(host_data_find(&h, &want, &e), ERR_USAGE);
	ck_assert_ptr_nonnull(strstr(e.text, "smaller --batch-size"));
}
END_TEST

START_TEST(cifar_without_a_folder_is_an_error_in_words)
{
	struct host_data_want want = {.kind = DATA_CIFAR10};
	struct host_data h;

	ck_assert_int_eq(host_data_find(&h, &want, &e), ERR_USAGE);
	ck_assert_ptr_nonnull(strstr(e.text, "--synthetic"));
	ck_assert_ptr_nonnull(strstr(e.text, "get-data cifar10"));
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("synthetic");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, the_same_images_at_every_run);
	tcase_add_test(t, a_class_is_brighter_in_one_channel);
	tcase_add_test(t, the_number_of_images_is_bounded);
	tcase_add_test(t, at_least_the_requested_number_of_images_is_made);
	tcase_add_test(t, a_batch_that_no_memory_holds_is_refused);
	tcase_add_test(t, cifar_without_a_folder_is_an_error_in_words);
	return run_case(t);
}
