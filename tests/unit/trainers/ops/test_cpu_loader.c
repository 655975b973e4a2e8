/* test_cpu_loader.c: the contents of a batch: the samples in the epoch's order,
 * scaled and, if requested, cropped and flipped as augment.h defines. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/run_case.h"
#include "tests/unit/trainers/data/crop_reference.h"
#include "trainers/ops/ops.h"

/* Neither square nor a multiple of a vector's size. */
enum { CHANNELS = 3, HEIGHT = 9, WIDTH = 13, COUNT = 40 };
enum { PLANE = HEIGHT * WIDTH, SIZE = CHANNELS * PLANE };

static uint8_t pixels[COUNT * SIZE];
static uint32_t labels[COUNT];
static const struct image_shape shape = {
	CHANNELS, HEIGHT, WIDTH, 100000, {.4914f, .4822f, .4465f},
	{.2023f, .1994f, .2010f}};
static struct dataset_part part = {COUNT, {.pixels = pixels, .size = SIZE},
				   labels};
static struct device *device;
static struct err e;

static void set_up(void)
{
	struct device_options o = {.threads = 1, .core = -1};
	uint32_t chance = 5;

	for (int i = 0; i < COUNT * SIZE; i++) {
		chance = chance * 1664525u + 1013904223u;
		pixels[i] = (uint8_t)(chance >> 24);
	}
	for (int i = 0; i < COUNT; i++)
		labels[i] = (uint32_t)i * 2000;
	ck_assert_msg(ops_cpu.open(&o, &device, &e) == 0, "%s", e.text);
	ops_cpu.enter(device);
}

static void tear_down(void)
{
	ops_cpu.close(device);
}

/* A loader whose order is order[count], in epoch 6. */
static struct loader *new_loader(const struct loader_spec *s,
				 const uint32_t *order, size_t count)
{
	struct loader *f;

	ck_assert_msg(ops_cpu.loader_new(device, s, &f, &e) == 0, "%s", e.text);
	ck_assert_int_eq(ops_cpu.loader_order(f, order, count, 6, &e), 0);
	return f;
}

/* Takes n samples from `first` on; the caller frees them. */
static void *take(struct loader *f, int n, uint64_t first)
{
	struct step_args args = {.step = 1, .first = first};
	struct tensor in = f->in;
	void *data;

	in.n = n;
	in.bytes = (size_t)n * CHANNELS * (size_t)in.h * (size_t)in.w *
		   (in.type == TENSOR_BF16 ? 2 : 4);
	ck_assert_int_eq(ops_cpu.alloc(device, in.bytes, &data, &e), 0);
	in.data = data;
	ops_cpu.set_step(device, &args);
	ops_cpu.load_batch(f, n, &in);
	ck_assert_int_eq(ops_cpu.wait(device, &e), 0);
	return data;
}

static float scaled(int channel, uint8_t byte)
{
	return ((float)byte / 255.0f - shape.mean[channel]) /
	       shape.std[channel];
}

/* As augment.h defines it, pixel by pixel. */
static float wanted(uint32_t sample, const struct augment *a, int c, int y,
		    int x)
{
	int from_y = y + a->dy;
	int from_x = (a->flip ? WIDTH - 1 - x : x) + a->dx;

	if (from_y < 0 || from_y >= HEIGHT || from_x < 0 || from_x >= WIDTH)
		return scaled(c, 0);
	return scaled(c, pixels[sample * SIZE + (uint32_t)(c * PLANE +
					from_y * WIDTH + from_x)]);
}

static void assert_sample(const float *values, uint32_t sample,
			  const struct augment *a)
{
	for (int c = 0; c < CHANNELS; c++)
		for (int y = 0; y < HEIGHT; y++)
			for (int x = 0; x < WIDTH; x++, values++)
				ck_assert_float_eq_tol(
					*values, wanted(sample, a, c, y, x),
					1e-6f);
}

START_TEST(a_batch_is_the_next_samples_of_the_order)
{
	static const uint32_t order[] = {7, 0, 39, 7, 12};
	static const struct augment none = {0, 0, 0};
	struct loader_spec s = {.part = &part, .shape = shape, .batch = 3};
	struct loader *f = new_loader(&s, order, 5);
	float *values = take(f, 3, 2);

	for (int i = 0; i < 3; i++) {
		assert_sample(values + i * SIZE, order[2 + i], &none);
		ck_assert_uint_eq(f->labels[i], labels[order[2 + i]]);
	}
	ops_cpu.free(device, values);
	ops_cpu.loader_free(device, f);
}
END_TEST

START_TEST(augmented_samples_are_what_was_drawn_for_them)
{
	struct loader_spec s = {.part = &part, .shape = shape, .augment = 1,
				.seed = 11, .batch = COUNT};
	uint32_t order[COUNT];
	struct loader *f;
	float *values;
	int flips = 0;

	for (uint32_t i = 0; i < COUNT; i++)
		order[i] = COUNT - 1 - i;
	f = new_loader(&s, order, COUNT);
	values = take(f, COUNT, 0);
	for (int i = 0; i < COUNT; i++) {
		struct augment a = augment_draw(11, 6, order[i]);

		flips += a.flip;
		assert_sample(values + i * SIZE, order[i], &a);
	}
	ck_assert_int_gt(flips, 0);
	ck_assert_int_lt(flips, COUNT);
	ops_cpu.free(device, values);
	ops_cpu.loader_free(device, f);
}
END_TEST

/* Each of two ranks takes every other sample, a single rank takes all: the
 * images are the same. */
START_TEST(the_same_images_in_worlds_of_one_and_two)
{
	struct loader_spec s = {.part = &part, .shape = shape, .augment = 1,
				.seed = 4, .batch = COUNT};
	uint32_t all[COUNT], half[2][COUNT / 2];
	struct loader *f;
	float *one, *two;

	for (uint32_t i = 0; i < COUNT; i++) {
		all[i] = i * 7 % COUNT;
		half[i % 2][i / 2] = all[i];
	}
	f = new_loader(&s, all, COUNT);
	one = take(f, COUNT, 0);
	ops_cpu.loader_free(device, f);
	for (int rank = 0; rank < 2; rank++) {
		f = new_loader(&s, half[rank], COUNT / 2);
		two = take(f, COUNT / 2, 0);
		for (int i = 0; i < COUNT / 2; i++)
			ck_assert_mem_eq(two + i * SIZE,
					 one + (2 * i + rank) * SIZE,
					 SIZE * sizeof(*one));
		ops_cpu.free(device, two);
		ops_cpu.loader_free(device, f);
	}
	ops_cpu.free(device, one);
}
END_TEST

START_TEST(an_image_within_the_padding_is_zero_bytes)
{
	struct image_shape tiny = shape;
	struct dataset_part points = part;
	struct loader_spec s = {.part = &points, .shape = shape, .augment = 1,
				.seed = 1, .batch = COUNT};
	uint32_t order[COUNT];
	struct loader *f;
	float *values;

	tiny.height = tiny.width = 1;
	s.shape = tiny;
	points.samples.size = CHANNELS;
	for (uint32_t i = 0; i < COUNT; i++)
		order[i] = i;
	f = new_loader(&s, order, COUNT);
	values = take(f, COUNT, 0);
	for (uint32_t i = 0; i < COUNT; i++) {
		struct augment a = augment_draw(1, 6, i);
		uint8_t byte = a.dx || a.dy ? 0 : pixels[i * CHANNELS];

		ck_assert_float_eq_tol(values[i * CHANNELS], scaled(0, byte),
				       1e-6f);
	}
	ops_cpu.free(device, values);
	ops_cpu.loader_free(device, f);
}
END_TEST

/* ---- Parts that are scaled ---- */

/* Checks a sample of size h x w against the part that was drawn for it. */
static void assert_part(const float *values, uint32_t sample,
			const struct image_shape *s, const struct crop *crop,
			int h, int w)
{
	size_t plane = (size_t)s->height * (size_t)s->width;
	const uint8_t *image = pixels + sample * CHANNELS * plane;

	for (int c = 0; c < CHANNELS; c++, image += plane)
		for (int y = 0; y < h; y++)
			for (int x = 0; x < w; x++, values++)
				ck_assert_float_eq_tol(
					*values,
					scaled(c, reference_pixel(
							  image, s->width, crop,
							  h, w, y, x)),
					1e-6f);
}

static const struct {
	int height, width, side;
} parts[] = {{9, 13, 0}, {9, 13, 8}, {9, 13, 20}, {1, 1, 0}, {1, 1, 8},
	     {1, 13, 8}, {13, 1, 8}, {2, 2, 31}};
enum { PARTS = sizeof(parts) / sizeof(*parts) };

START_TEST(parts_are_scaled_to_the_result)
{
	enum augment_kind kind = _i < PARTS ? AUGMENT_RESIZE : AUGMENT_NONE;
	int height = parts[_i % PARTS].height, width = parts[_i % PARTS].width;
	int side = parts[_i % PARTS].side, flips = 0;
	struct dataset_part images = part;
	struct loader_spec s = {.part = &images, .shape = shape,
				.augment = kind, .seed = 11, .batch = COUNT,
				.side = side};
	uint32_t order[COUNT];
	struct loader *f;
	float *values;

	s.shape.height = height;
	s.shape.width = width;
	images.samples.size = (size_t)(CHANNELS * height * width);
	for (uint32_t i = 0; i < COUNT; i++)
		order[i] = COUNT - 1 - i;
	f = new_loader(&s, order, COUNT);
	ck_assert_int_eq(f->in.h, side ? side : height);
	ck_assert_int_eq(f->in.w, side ? side : width);
	values = take(f, COUNT, 0);
	for (int i = 0; i < COUNT; i++) {
		struct crop c = kind == AUGMENT_RESIZE ?
			crop_draw(11, 6, order[i], height, width) :
			crop_centre(height, width, side ? side : height);

		/* without a size and a draw, samples stay as they are */
		if (kind == AUGMENT_NONE && !side)
			c = (struct crop){0, 0, height, width, 0};
		flips += c.flip;
		assert_part(values + i * CHANNELS * f->in.h * f->in.w,
			    order[i], &s.shape, &c, f->in.h, f->in.w);
	}
	ck_assert(kind == AUGMENT_NONE ? !flips : flips > 0 && flips < COUNT);
	ops_cpu.free(device, values);
	ops_cpu.loader_free(device, f);
}
END_TEST

START_TEST(bf16_is_f32_to_nearest)
{
	uint32_t order[COUNT];
	struct loader_spec s = {.part = &part, .shape = shape, .augment = 1,
				.seed = 2, .batch = COUNT};
	struct loader *f;
	uint16_t *half;
	float *full;

	for (uint32_t i = 0; i < COUNT; i++)
		order[i] = i;
	f = new_loader(&s, order, COUNT);
	full = take(f, COUNT, 0);
	ops_cpu.loader_free(device, f);
	s.type = TENSOR_BF16;
	f = new_loader(&s, order, COUNT);
	ck_assert_int_eq(f->in.type, TENSOR_BF16);
	half = take(f, COUNT, 0);
	ops_cpu.loader_free(device, f);
	for (int i = 0; i < COUNT * SIZE; i++) {
		uint32_t bits = (uint32_t)half[i] << 16;
		float value;

		memcpy(&value, &bits, sizeof(value));
		ck_assert_float_eq_tol(value, full[i],
				       fabsf(full[i]) * 0x1p-8f);
	}
	ops_cpu.free(device, half);
	ops_cpu.free(device, full);
}
END_TEST

/* MNIST's bytes: all 256 are rounded like a division. */
START_TEST(bytes_of_mnist_are_divided_by_255)
{
	static uint8_t bytes[256];
	static const uint32_t order[] = {0};
	uint32_t label = 1;
	struct dataset_part one = {1, {.pixels = bytes, .size = 256}, &label};
	struct loader_spec s = {.part = &one, .batch = 1,
				.shape = {1, 16, 16, 10, {0}, {1}}};
	struct step_args args = {.step = 1};
	struct tensor in;
	struct loader *f;
	float values[256];

	for (int i = 0; i < 256; i++)
		bytes[i] = (uint8_t)i;
	f = new_loader(&s, order, 1);
	in = f->in;
	in.n = 1;
	in.data = values;
	ops_cpu.set_step(device, &args);
	ops_cpu.load_batch(f, 1, &in);
	for (int i = 0; i < 256; i++)
		ck_assert_float_eq(values[i], (float)i / 255.0f);
	ops_cpu.loader_free(device, f);
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("cpu_loader");

	tcase_set_timeout(t, 30);
	tcase_add_checked_fixture(t, set_up, tear_down);
	tcase_add_test(t, a_batch_is_the_next_samples_of_the_order);
	tcase_add_test(t, augmented_samples_are_what_was_drawn_for_them);
	tcase_add_test(t, the_same_images_in_worlds_of_one_and_two);
	tcase_add_test(t, an_image_within_the_padding_is_zero_bytes);
	tcase_add_loop_test(t, parts_are_scaled_to_the_result, 0, 2 * PARTS);
	tcase_add_test(t, bf16_is_f32_to_nearest);
	tcase_add_test(t, bytes_of_mnist_are_divided_by_255);
	return run_case(t);
}
