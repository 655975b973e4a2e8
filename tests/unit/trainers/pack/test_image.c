/* test_image.c: JPEG and PNG files that the test makes are decoded, and broken,
 * foreign and huge ones are errors. */
#include <check.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>
#include <png.h>
#include <zlib.h>

#include "tests/unit/run_case.h"
#include "trainers/pack/image.h"

enum { FILE_MAX = 1 << 20, SCANS_MAX = 600 };

static unsigned char *file;
static unsigned long size; /* bytes in file */
static struct image image;
static struct err e;

static void release(void)
{
	image_release(&image);
	free(file);
	file = NULL;
}

/* ---- files ---- */

/* A smooth image: JPEG changes it little. Channel c of (x, y). */
static uint8_t smooth(int width, int height, int x, int y, int c)
{
	int v[4] = {255 * x / width, 255 * y / height, 128, 40};

	return (uint8_t)v[c];
}

/* More than IMAGE_SCANS_MAX scans, all of them allowed: each coefficient of
 * each component in three. */
static void add_scans(struct jpeg_compress_struct *c, jpeg_scan_info *scan)
{
	int n = 0;

	scan[n++] = (jpeg_scan_info){3, {0, 1, 2}, 0, 0, 0, 0};
	for (int level = 2; level >= 0; level--)
		for (int k = 1; k < 64; k++)
			for (int i = 0; i < 3; i++)
				scan[n++] = (jpeg_scan_info){
					1, {i}, k, k,
					level == 2 ? 0 : level + 1, level};
	ck_assert_int_gt(n, IMAGE_SCANS_MAX);
	ck_assert_int_le(n, SCANS_MAX);
	c->scan_info = scan;
	c->num_scans = n;
}

static void make_jpeg(int width, int height, J_COLOR_SPACE colours,
		      int channels, int scans)
{
	struct jpeg_compress_struct c;
	struct jpeg_error_mgr errors;
	static jpeg_scan_info scan[SCANS_MAX];
	JSAMPLE *row = malloc((size_t)(width * channels));

	free(file);
	file = NULL;
	c.err = jpeg_std_error(&errors);
	jpeg_create_compress(&c);
	jpeg_mem_dest(&c, &file, &size);
	c.image_width = (JDIMENSION)width;
	c.image_height = (JDIMENSION)height;
	c.input_components = channels;
	c.in_color_space = colours;
	jpeg_set_defaults(&c);
	jpeg_set_quality(&c, 95, TRUE);
	if (scans > 1)
		add_scans(&c, scan);
	jpeg_start_compress(&c, TRUE);
	for (int y = 0; y < height; y++) {
		for (int i = 0; i < width * channels; i++)
			row[i] = smooth(width, height, i / channels, y,
					i % channels);
		jpeg_write_scanlines(&c, &row, 1);
	}
	jpeg_finish_compress(&c);
	jpeg_destroy_compress(&c);
	free(row);
}

static void make_png(int width, int height, png_uint_32 format)
{
	png_image p = {.version = PNG_IMAGE_VERSION,
		       .width = (png_uint_32)width,
		       .height = (png_uint_32)height, .format = format};
	int channels = (int)PNG_IMAGE_SAMPLE_CHANNELS(format);
	uint8_t *pixels = malloc((size_t)(width * height * channels));
	png_alloc_size_t n = FILE_MAX;

	for (int i = 0; i < width * height * channels; i++)
		pixels[i] = smooth(width, height, i / channels % width,
				   i / channels / width, i % channels);
	free(file);
	file = malloc(n);
	ck_assert(png_image_write_to_memory(&p, file, &n, 0, pixels, 0, NULL));
	size = n;
	free(pixels);
}

static void decoded(int least, int width, int height)
{
	image_release(&image);
	ck_assert_msg(image_decode(&image, file, size, least, &e) == 0, "%s",
		      e.text);
	ck_assert_int_eq(image.width, width);
	ck_assert_int_eq(image.height, height);
}

static void refused(const char *text)
{
	image_release(&image);
	e = (struct err)ERR_INIT;
	ck_assert_int_eq(image_decode(&image, file, size, 1, &e), ERR_DATA);
	ck_assert_msg(strstr(e.text, text) != NULL, "'%s' has no '%s'", e.text,
		      text);
}

static void near(int x, int y, int c, int want, int by)
{
	int got = image.pixels[(y * image.width + x) * 3 + c];

	ck_assert_msg(abs(got - want) <= by, "(%d, %d) %d is %d, not %d", x, y,
		      c, got, want);
}

static void is_smooth(int by)
{
	for (int y = 0; y < image.height; y++)
		for (int x = 0; x < image.width; x++)
			for (int c = 0; c < 3; c++)
				near(x, y, c,
				     smooth(image.width, image.height, x, y, c),
				     by);
}

/* ---- what is decoded ---- */

START_TEST(a_jpeg_has_its_pixels)
{
	make_jpeg(61, 43, JCS_RGB, 3, 1);
	decoded(43, 61, 43);
	is_smooth(16);
}
END_TEST

/* As long as the shorter side keeps the pixels that are wanted. */
START_TEST(a_large_jpeg_is_decoded_at_a_fraction_of_its_size)
{
	make_jpeg(161, 120, JCS_RGB, 3, 1);
	decoded(61, 161, 120);
	decoded(60, 81, 60);
	is_smooth(24);
	decoded(31, 81, 60);
	decoded(30, 41, 30);
	decoded(16, 41, 30);
	decoded(15, 21, 15);
	decoded(1, 21, 15);
	decoded(500, 161, 120);
}
END_TEST

START_TEST(grey_becomes_rgb)
{
	make_jpeg(32, 16, JCS_GRAYSCALE, 1, 1);
	decoded(16, 32, 16);
	for (int c = 0; c < 3; c++)
		near(24, 8, c, smooth(32, 16, 24, 8, 0), 8);
	make_png(32, 16, PNG_FORMAT_GRAY);
	decoded(16, 32, 16);
	for (int c = 0; c < 3; c++)
		near(24, 8, c, smooth(32, 16, 24, 8, 0), 0);
}
END_TEST

START_TEST(a_png_has_its_pixels)
{
	make_png(61, 43, PNG_FORMAT_RGB);
	decoded(10, 61, 43); /* never at a fraction */
	is_smooth(0);
}
END_TEST

/* Its alpha is 40 of 255 everywhere. */
START_TEST(transparent_pixels_are_put_on_black)
{
	make_png(8, 8, PNG_FORMAT_RGBA);
	decoded(8, 8, 8);
	near(4, 4, 2, 50, 8); /* 128, composed in linear light */
	ck_assert_int_lt(image.pixels[2], 60);
}
END_TEST

/* ---- what is refused ---- */

START_TEST(cmyk_is_refused)
{
	make_jpeg(16, 16, JCS_CMYK, 4, 1);
	refused("it is a CMYK JPEG");
	ck_assert_ptr_nonnull(strstr(e.text, "convert it to RGB"));
}
END_TEST

START_TEST(a_truncated_jpeg_is_refused)
{
	unsigned long whole;

	make_jpeg(64, 64, JCS_RGB, 3, 1);
	whole = size;
	/* without the last two bytes, its end marker, nothing is missing */
	for (size = 3; size < whole - 2; size += size < 800 ? 1 : 13)
		refused("it is a broken JPEG: ");
	size = 2;
	refused("it is neither JPEG nor PNG");
}
END_TEST

START_TEST(a_truncated_png_is_refused)
{
	unsigned long whole;

	make_png(64, 64, PNG_FORMAT_RGB);
	whole = size;
	/* libpng does not ask for IEND, the last 12 bytes */
	for (size = 8; size < whole - 16; size++)
		refused("it is a broken PNG: ");
}
END_TEST

/* Libpng would print warnings, and libjpeg go on with grey. */
START_TEST(a_damaged_file_is_refused)
{
	make_jpeg(64, 64, JCS_RGB, 3, 1);
	memset(file + size * 3 / 4, 0xff, 8);
	refused("it is a broken JPEG: ");
	make_png(64, 64, PNG_FORMAT_RGB);
	file[size / 2] ^= 0x55;
	refused("it is a broken PNG: ");
}
END_TEST

START_TEST(other_files_are_refused)
{
	file = (unsigned char *)strdup("GIF89a.........................");
	size = 32;
	refused("it is neither JPEG nor PNG");
	size = 0;
	refused("the file is empty");
}
END_TEST

/* Only its head claims that size. */
START_TEST(a_huge_jpeg_is_refused)
{
	make_jpeg(16, 16, JCS_RGB, 3, 1);
	for (unsigned long i = 0; i + 8 < size; i++)
		if (file[i] == 0xff && file[i + 1] == 0xc0)
			memcpy(file + i + 5, "\xff\xdc\xff\xdc", 4);
	refused("it has 65500 x 65500 pixels, and images have 1 to 100000000");
}
END_TEST

START_TEST(a_huge_png_is_refused)
{
	unsigned char *crc;
	unsigned long sum;

	make_png(16, 16, PNG_FORMAT_RGB);
	memcpy(file + 16, "\0\0\x75\x30\0\0\x75\x30", 8); /* 30000 */
	sum = crc32(0, file + 12, 17);
	crc = file + 29;
	for (int i = 0; i < 4; i++)
		crc[i] = (unsigned char)(sum >> (24 - 8 * i));
	refused("it has 30000 x 30000 pixels");
}
END_TEST

START_TEST(a_jpeg_of_many_scans_is_refused)
{
	make_jpeg(16, 16, JCS_RGB, 3, SCANS_MAX);
	refused("it is a broken JPEG: more than 500 scans");
}
END_TEST

/* ---- scaling ---- */

static uint8_t *fit(int side)
{
	uint8_t *out = malloc(3 * (size_t)side * (size_t)side);

	ck_assert_msg(image_fit(&image, side, out, &e) == 0, "%s", e.text);
	return out;
}

static void fresh(int width, int height)
{
	image_release(&image);
	ck_assert_int_eq(image_alloc(&image, (uint64_t)width, (uint64_t)height,
				     &e), 0);
}

START_TEST(an_image_of_the_size_stays_as_it_is)
{
	uint8_t *out;

	make_png(24, 24, PNG_FORMAT_RGB);
	decoded(24, 24, 24);
	out = fit(24);
	for (int c = 0; c < 3; c++)
		for (int i = 0; i < 24 * 24; i++)
			ck_assert_uint_eq(out[c * 576 + i],
					  image.pixels[3 * i + c]);
	free(out);
}
END_TEST

START_TEST(the_middle_is_cut_out)
{
	static const int sizes[][2] = {{40, 20}, {20, 40}};

	for (int k = 0; k < 2; k++) {
		int w = sizes[k][0], h = sizes[k][1];
		uint8_t *out;

		fresh(w, h);
		for (int i = 0; i < w * h; i++)
			for (int c = 0; c < 3; c++)
				image.pixels[3 * i + c] =
					(uint8_t)(c ? i / w : i % w);
		out = fit(20);
		for (int i = 0; i < 400; i++) {
			ck_assert_int_eq(out[i], i % 20 + (w - 20) / 2);
			ck_assert_int_eq(out[400 + i], i / 20 + (h - 20) / 2);
		}
		free(out);
	}
}
END_TEST

/* The weights of a pixel sum to 1, at the edges as well. */
START_TEST(one_colour_stays_one_colour)
{
	static const int sizes[][3] = {{1, 1, 8}, {7, 5, 8}, {500, 375, 64},
				       {3, 1000, 8}, {9000, 1, 8},
				       {17, 16, 15}};

	for (size_t k = 0; k < sizeof(sizes) / sizeof(*sizes); k++) {
		int side = sizes[k][2];
		uint8_t *out;

		fresh(sizes[k][0], sizes[k][1]);
		memset(image.pixels, 201,
		       3 * (size_t)(image.width * image.height));
		out = fit(side);
		for (int i = 0; i < 3 * side * side; i++)
			ck_assert_int_eq(out[i], 201);
		free(out);
	}
}
END_TEST

/* Half the size: weights 1, 3, 3, 1 of 8, in both directions. */
START_TEST(a_smaller_image_has_means)
{
	uint8_t *out;

	fresh(16, 16);
	memset(image.pixels, 0, 3 * 256);
	image.pixels[3 * (5 * 16 + 6)] = 255; /* (6, 5), red */
	out = fit(8);
	ck_assert_int_eq(out[2 * 8 + 3], (255 * 9 + 32) / 64);
	ck_assert_int_eq(out[2 * 8 + 2], (255 * 3 + 32) / 64);
	ck_assert_int_eq(out[3 * 8 + 3], (255 * 3 + 32) / 64);
	ck_assert_int_eq(out[3 * 8 + 2], (255 + 32) / 64);
	ck_assert_int_eq(out[2 * 8 + 4], 0);
	ck_assert_int_eq(out[1 * 8 + 3], 0);
	ck_assert_int_eq(out[64 + 2 * 8 + 3], 0);
	free(out);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("image");

	tcase_set_timeout(c, 60);
	tcase_add_checked_fixture(c, NULL, release);
	tcase_add_test(c, a_jpeg_has_its_pixels);
	tcase_add_test(c, a_large_jpeg_is_decoded_at_a_fraction_of_its_size);
	tcase_add_test(c, grey_becomes_rgb);
	tcase_add_test(c, a_png_has_its_pixels);
	tcase_add_test(c, transparent_pixels_are_put_on_black);
	tcase_add_test(c, cmyk_is_refused);
	tcase_add_test(c, a_truncated_jpeg_is_refused);
	tcase_add_test(c, a_truncated_png_is_refused);
	tcase_add_test(c, a_damaged_file_is_refused);
	tcase_add_test(c, other_files_are_refused);
	tcase_add_test(c, a_huge_jpeg_is_refused);
	tcase_add_test(c, a_huge_png_is_refused);
	tcase_add_test(c, a_jpeg_of_many_scans_is_refused);
	tcase_add_test(c, an_image_of_the_size_stays_as_it_is);
	tcase_add_test(c, the_middle_is_cut_out);
	tcase_add_test(c, one_colour_stays_one_colour);
	tcase_add_test(c, a_smaller_image_has_means);
	return run_case(c) ? EXIT_FAILURE : EXIT_SUCCESS;
}
