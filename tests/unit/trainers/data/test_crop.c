/* test_crop.c: the part of an image that is drawn, against torchvision's
 * formulas in double precision; and the weights of its scaling. */
#include <check.h>
#include <stdlib.h>

#include "tests/unit/run_case.h"
#include "tests/unit/trainers/data/crop_reference.h"

static int is_inside(const struct crop *c, int height, int width)
{
	return c->y >= 0 && c->x >= 0 && c->height > 0 && c->width > 0 &&
	       c->y + c->height <= height && c->x + c->width <= width;
}

START_TEST(the_exponential_is_exact_to_1e_8)
{
	for (int64_t x = -CROP_LOG_RATIO; x <= CROP_LOG_RATIO; x += 99991)
		ck_assert_double_eq_tol((double)crop_exp(x) / (double)CROP_ONE,
					exp((double)x / (double)CROP_ONE),
					1e-8);
}
END_TEST

START_TEST(sides_are_rounded_square_roots)
{
	for (uint64_t area = 0; area < 3000; area++)
		ck_assert_int_eq(crop_side(area << 16, CROP_ONE),
				 (int)floor(sqrt((double)area) + 0.5));
	ck_assert_int_eq(crop_side((uint64_t)1 << 40, CROP_ONE), 4096);
	/* 1.5 is rounded up, and what is just below it down */
	ck_assert_int_eq(crop_side(9 << 14, CROP_ONE), 2);
	ck_assert_int_eq(crop_side((9 << 14) - 1, CROP_ONE), 1);
}
END_TEST

/* RandomResizedCrop.get_params of torchvision 0.29, with other random
 * numbers. */
static struct crop torchvision_draw(int height, int width)
{
	struct crop c = crop_fallback(height, width);

	c.flip = drand48() < 0.5;
	for (int i = 0; i < 10; i++) {
		double area = height * width * (0.08 + 0.92 * drand48());
		double ratio = exp(log(4.0 / 3) * (2 * drand48() - 1));
		int w = (int)rint(sqrt(area * ratio));
		int h = (int)rint(sqrt(area / ratio));

		if (w <= 0 || w > width || h <= 0 || h > height)
			continue;
		return (struct crop){
			(int)(drand48() * (height - h + 1)),
			(int)(drand48() * (width - w + 1)), h, w, c.flip};
	}
	return c;
}

/* How often the fields of a part are in each of ten ranges. */
enum { RANGES = 10, FIELDS = 5 };
struct counts {
	int of[FIELDS][RANGES];
};

static void counts_add(struct counts *n, const struct crop *c, int height,
		       int width)
{
	const double field[FIELDS] = {
		c->height * c->width / (double)(height * width),
		(log((double)c->width / c->height) / log(4.0 / 3) + 1.1) / 2.2,
		(c->y + 0.5) / (height - c->height + 1),
		(c->x + 0.5) / (width - c->width + 1),
		c->flip,
	};

	ck_assert(is_inside(c, height, width));
	for (int i = 0; i < FIELDS; i++) {
		int k = (int)(field[i] * RANGES);

		n->of[i][k < 0 ? 0 : k >= RANGES ? RANGES - 1 : k]++;
	}
}

START_TEST(parts_are_distributed_as_torchvisions)
{
	enum { N = 100000 };
	static const int shapes[][2] = {{300, 400}, {224, 224}, {40, 500}};
	int height = shapes[_i][0], width = shapes[_i][1];
	struct counts ours = {0}, theirs = {0};

	srand48(1);
	for (uint32_t i = 0; i < N; i++) {
		struct crop c = crop_draw(5, 2, i, height, width);

		counts_add(&ours, &c, height, width);
		c = torchvision_draw(height, width);
		counts_add(&theirs, &c, height, width);
	}
	for (int i = 0; i < FIELDS * RANGES; i++) {
		int a = ours.of[i / RANGES][i % RANGES];
		int b = theirs.of[i / RANGES][i % RANGES];

		/* six deviations of the difference */
		if (fabs((double)(a - b)) > 6 * sqrt(a + b + 1.0))
			ck_abort_msg("field %d, range %d: %d, not %d",
				     i / RANGES, i % RANGES, a, b);
	}
}
END_TEST

START_TEST(narrow_images_use_the_middle)
{
	static const struct {
		int height, width;
		struct crop c;
	} rows[] = {
		{1, 1, {0, 0, 1, 1, 0}},
		{300, 3, {148, 0, 4, 3, 0}},  /* 3/4: 3 x 4 */
		{3, 300, {0, 148, 3, 4, 0}},  /* 4/3 */
		{30, 30, {0, 0, 30, 30, 0}},
	};

	for (size_t i = 0; i < sizeof(rows) / sizeof(*rows); i++) {
		struct crop c = crop_fallback(rows[i].height, rows[i].width);

		ck_assert_mem_eq(&c, &rows[i].c, sizeof(c));
	}
	/* no part of 8 % of the area is that narrow */
	for (uint32_t i = 0; i < 1000; i++) {
		struct crop c = crop_draw(1, 1, i, 300, 3);

		c.flip = 0;
		ck_assert_mem_eq(&c, &rows[1].c, sizeof(c));
		c = crop_draw(1, 1, i, 1, 1);
		c.flip = 0;
		ck_assert_mem_eq(&c, &rows[0].c, sizeof(c));
	}
}
END_TEST

START_TEST(parts_depend_on_seed_epoch_and_sample_alone)
{
	struct crop a = crop_draw(1, 2, 3, 500, 400);
	struct crop b = crop_draw(1, 2, 3, 500, 400);
	int equal = 0;

	ck_assert_mem_eq(&a, &b, sizeof(a));
	for (uint32_t i = 0; i < 1000; i++) {
		a = crop_draw(1, 2, i, 500, 400);
		b = crop_draw(2, 2, i, 500, 400);
		equal += a.y == b.y && a.x == b.x;
		b = crop_draw(1, 3, i, 500, 400);
		equal += a.y == b.y && a.x == b.x;
		b = crop_draw(1, 2, i + 1, 500, 400);
		equal += a.y == b.y && a.x == b.x;
		/* a shift flips the same images */
		ck_assert_int_eq(a.flip, augment_draw(1, 2, i).flip);
	}
	ck_assert_int_lt(equal, 10);
}
END_TEST

START_TEST(a_centre_crop_is_in_the_middle)
{
	static const struct crop wants[] = {
		{16, 16, 224, 224, 0}, {0, 0, 100, 100, 0}, {0, 38, 1, 224, 0}};
	struct crop got = crop_centre(256, 256, 224);

	ck_assert_mem_eq(&got, &wants[0], sizeof(got));
	got = crop_centre(100, 100, 224);
	ck_assert_mem_eq(&got, &wants[1], sizeof(got));
	got = crop_centre(1, 300, 224);
	ck_assert_mem_eq(&got, &wants[2], sizeof(got));
}
END_TEST

/* ---- Scaling ---- */

static const struct {
	int from, to;
} sizes[] = {{1, 1},   {1, 8},	 {2, 9},     {7, 7},	 {8, 7},   {13, 8},
	     {100, 8}, {31, 64}, {256, 224}, {224, 256}, {4096, 8}};

START_TEST(weights_are_pillows)
{
	int from = sizes[_i].from, to = sizes[_i].to;

	for (int k = 0; k < to; k++) {
		int first = crop_first(k, from, to);
		int end = crop_end(k, from, to);
		uint64_t sum = 0;

		ck_assert_int_ge(first, 0);
		ck_assert_int_gt(end, first);
		ck_assert_int_le(end, from);
		for (int i = 0; i < from; i++) {
			double w = reference_weight(i, k, from, to);

			if (i < first || i >= end) {
				ck_assert_double_lt(w, 1e-9);
				continue;
			}
			sum += crop_weight(i, k, from, to);
			ck_assert_double_eq_tol(
				(double)crop_weight(i, k, from, to) /
					crop_reach(from, to), w, 1e-9);
		}
		ck_assert_uint_lt(sum * 255, (uint64_t)1 << 32);
	}
}
END_TEST

START_TEST(equal_sizes_change_nothing)
{
	for (int k = 0; k < 9; k++) {
		ck_assert_int_eq(crop_first(k, 9, 9), k);
		ck_assert_int_eq(crop_end(k, 9, 9), k + 1);
	}
}
END_TEST

START_TEST(means_are_rounded_once)
{
	srand(1);
	for (int i = 0; i < 1000000; i++) {
		uint64_t weight = ((uint64_t)rand() << 13 ^ (uint64_t)rand()) %
					  ((uint64_t)1 << (i % 44 + 1)) + 1;
		uint64_t byte = (uint64_t)(rand() % 256), sum = byte * weight;

		/* around the ties */
		if (byte < 255)
			sum += weight / 2 + (uint64_t)(i % 3) - 1;
		if (sum > 255 * weight)
			continue;
		ck_assert_uint_eq(crop_mean(sum, weight),
				  (2 * sum + weight) / (2 * weight));
	}
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("crop");

	tcase_set_timeout(t, 30);
	tcase_add_test(t, the_exponential_is_exact_to_1e_8);
	tcase_add_test(t, sides_are_rounded_square_roots);
	tcase_add_loop_test(t, parts_are_distributed_as_torchvisions, 0, 3);
	tcase_add_test(t, narrow_images_use_the_middle);
	tcase_add_test(t, parts_depend_on_seed_epoch_and_sample_alone);
	tcase_add_test(t, a_centre_crop_is_in_the_middle);
	tcase_add_loop_test(t, weights_are_pillows, 0,
			    sizeof(sizes) / sizeof(*sizes));
	tcase_add_test(t, equal_sizes_change_nothing);
	tcase_add_test(t, means_are_rounded_once);
	return run_case(t);
}
