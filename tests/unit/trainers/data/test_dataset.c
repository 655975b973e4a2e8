/* test_dataset.c: a payload returns the data written into it, lists included,
 * and any other block is refused. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/run_case.h"
#include "trainers/data/dataset.h"

enum { PIXELS = 3 * 5 * 7 };

static const struct image_shape small = {3, 5, 7, 100000, {.5f, .25f, .125f},
					 {1, 2, 4}};
static struct err e;

START_TEST(a_payload_of_another_size_is_refused)
{
	struct dataset_room room;
	struct payload p;
	struct dataset d;

	ck_assert_int_eq(dataset_alloc(&p, &small, 2, 1, &room, &e), 0);
	ck_assert_int_eq(dataset_view(p.data, p.size, &d, &e), 0);
	ck_assert_int_eq(dataset_view(p.data, p.size - 1, &d, &e), ERR_DATA);
	ck_assert_int_eq(dataset_view(p.data, 3, &d, &e), ERR_DATA);
	memset(p.data, 0, 8);
	ck_assert_int_eq(dataset_view(p.data, p.size, &d, &e), ERR_DATA);
	free(p.data);
}
END_TEST

START_TEST(a_payload_keeps_its_shape)
{
	struct dataset_room room;
	struct payload p;
	struct dataset d;

	ck_assert_int_eq(dataset_alloc(&p, &small, 2, 1, &room, &e), 0);
	ck_assert_int_eq(dataset_view(p.data, p.size, &d, &e), 0);
	ck_assert_mem_eq(&d.shape, &small, sizeof(small));
	ck_assert_uint_eq(d.train.samples.size, PIXELS);
	ck_assert_ptr_eq(d.test.samples.pixels,
			 d.train.samples.pixels + 2 * PIXELS);
	free(p.data);
}
END_TEST

/* With a width of zero all images would be equal. */
START_TEST(a_payload_of_an_impossible_shape_is_refused)
{
	struct image_shape wrong = small;
	struct dataset_room room;
	struct payload p;
	struct dataset d;

	*(int *[]){&wrong.channels, &wrong.height, &wrong.width,
		   &wrong.classes, &wrong.channels, &wrong.height}[_i] =
		_i < 4 ? 0 : _i == 4 ? IMAGE_CHANNELS_MAX + 1 : -5;
	ck_assert_int_eq(dataset_alloc(&p, &small, 2, 1, &room, &e), 0);
	memcpy((char *)p.data + 24, &wrong, sizeof(wrong));
	ck_assert_int_eq(dataset_view(p.data, p.size, &d, &e), ERR_DATA);
	free(p.data);
}
END_TEST

/* Sets every step-th pixel of both parts. */
static void ink_every(struct payload *p, int step)
{
	struct dataset_room room;

	ck_assert_int_eq(dataset_alloc(p, &small, 5, 3, &room, &e), 0);
	for (int i = 0; i < 2; i++)
		for (int k = 0; k < (i ? 3 : 5) * PIXELS; k += step)
			room.pixels[i][k] = (uint8_t)(k % 255 + 1);
	room.labels[0][0] = 255;
	room.labels[1][2] = 70000;
	ck_assert_int_eq(dataset_add_lists(p, &e), 0);
}

START_TEST(the_lists_name_every_pixel_that_is_not_zero)
{
	struct payload p;
	struct dataset d;

	ink_every(&p, 4);
	ck_assert_int_eq(dataset_view(p.data, p.size, &d, &e), 0);
	for (int i = 0; i < 2; i++) {
		struct dataset_part *part = i ? &d.test : &d.train;
		const struct samples *s = &part->samples;
		uint32_t n = 0;

		ck_assert_ptr_nonnull(s->start);
		for (uint32_t k = 0; k < part->count * PIXELS; k++) {
			if (k % PIXELS == 0)
				ck_assert_uint_eq(s->start[k / PIXELS],
						  n);
			if (!s->pixels[k])
				continue;
			ck_assert_uint_eq(s->column[n], k % PIXELS);
			ck_assert_uint_eq(s->value[n++], s->pixels[k]);
		}
		ck_assert_uint_eq(s->start[part->count], n);
	}
	ck_assert_uint_eq(d.train.labels[0], 255);
	ck_assert_uint_eq(d.train.labels[1], 0);
	ck_assert_uint_eq(d.test.labels[2], 70000);
	free(p.data);
}
END_TEST

START_TEST(both_parts_have_lists_if_they_are_equally_long)
{
	struct dataset_room room;
	struct payload p;
	struct dataset d;

	ck_assert_int_eq(dataset_alloc(&p, &small, 2, 2, &room, &e), 0);
	room.pixels[0][3] = room.pixels[1][PIXELS] = 9;
	ck_assert_int_eq(dataset_add_lists(&p, &e), 0);
	ck_assert_int_eq(dataset_view(p.data, p.size, &d, &e), 0);
	ck_assert_ptr_nonnull(d.train.samples.start);
	ck_assert_ptr_nonnull(d.test.samples.start);
	free(p.data);
}
END_TEST

START_TEST(images_with_much_ink_have_no_lists)
{
	struct payload p;
	struct dataset d;

	ink_every(&p, 2);
	ck_assert_int_eq(dataset_view(p.data, p.size, &d, &e), 0);
	ck_assert_ptr_null(d.train.samples.start);
	ck_assert_ptr_null(d.test.samples.start);
	free(p.data);
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("dataset");

	tcase_add_test(t, a_payload_of_another_size_is_refused);
	tcase_add_test(t, a_payload_keeps_its_shape);
	tcase_add_loop_test(t, a_payload_of_an_impossible_shape_is_refused, 0,
			    6);
	tcase_add_test(t, the_lists_name_every_pixel_that_is_not_zero);
	tcase_add_test(t, both_parts_have_lists_if_they_are_equally_long);
	tcase_add_test(t, images_with_much_ink_have_no_lists);
	return run_case(t);
}
