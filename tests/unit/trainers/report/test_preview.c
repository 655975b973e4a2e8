/* test_preview.c: the PNG shows the originals above the outputs, pixel by
 * pixel. */
#include <check.h>
#include <png.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/run_case.h"
#include "trainers/report/preview.h"

static char folder[] = "/tmp/test_preview.XXXXXX", path[64];
static struct err e;

static void make_folder(void)
{
	ck_assert_ptr_nonnull(mkdtemp(folder));
	snprintf(path, sizeof(path), "%s/x.png", folder);
	e = (struct err)ERR_INIT;
}

static void drop_folder(void)
{
	unlink(path);
	ck_assert_int_eq(rmdir(folder), 0); /* the folder is empty otherwise */
}

/* Reads the file as RGB. */
static uint8_t *read_back(int *width, int *height)
{
	png_image image = {.version = PNG_IMAGE_VERSION};
	uint8_t *out;

	ck_assert_int_ne(png_image_begin_read_from_file(&image, path), 0);
	image.format = PNG_FORMAT_RGB;
	out = malloc(PNG_IMAGE_SIZE(image));
	ck_assert_int_ne(png_image_finish_read(&image, NULL, out, 0, NULL), 0);
	*width = (int)image.width;
	*height = (int)image.height;
	return out;
}

START_TEST(originals_are_above_their_reconstructions)
{
	const struct image_shape shape = {1, 2, 3, 10, {0}, {1}};
	const int n = 18; /* one row and two more */
	uint8_t before[18 * 6], *got;
	float after[18 * 6];
	int w, h;

	for (int i = 0; i < n * 6; i++) {
		before[i] = (uint8_t)(i * 2);
		after[i] = (float)(255 - i) / 255;
	}
	ck_assert_int_eq(preview_write(path, &shape, n, before, after, &e), 0);
	got = read_back(&w, &h);
	ck_assert_int_eq(w, 2 + 16 * (3 * 2 + 2));
	ck_assert_int_eq(h, 2 + 2 * (2 * (2 * 2 + 2) + 2));
	for (int i = 0; i < n; i++)
		for (int y = 0; y < 4; y++)
			for (int x = 0; x < 6; x++) {
				int left = 2 + i % 16 * 8 + x;
				int top = 2 + i / 16 * 14 + y;
				int k = i * 6 + y / 2 * 3 + x / 2;

				ck_assert_int_eq(got[(top * w + left) * 3],
						 before[k]);
				top += 6;
				ck_assert_int_eq(got[(top * w + left) * 3],
						 255 - k);
			}
	ck_assert_int_eq(got[0], 128);
	free(got);
}
END_TEST

START_TEST(colours_are_scaled_back_and_cut_off)
{
	const struct image_shape shape = {3, 1, 1, 10, {.5f, .25f, 0},
					  {.5f, .25f, 1}};
	const uint8_t before[] = {10, 20, 30};
	const float after[] = {-4, 1, 9};
	const uint8_t want[] = {0, 128, 255};
	uint8_t *got;
	int w, h;

	ck_assert_int_eq(preview_write(path, &shape, 1, before, after, &e), 0);
	got = read_back(&w, &h);
	ck_assert_mem_eq(got + (2 * w + 2) * 3, before, 3);
	ck_assert_mem_eq(got + (6 * w + 2) * 3, want, 3);
	free(got);
}
END_TEST

START_TEST(a_file_that_cannot_be_written_is_named)
{
	const struct image_shape shape = {1, 1, 1, 10, {0}, {1}};
	const uint8_t before[1] = {0};
	const float after[1] = {0};

	ck_assert_int_lt(preview_write("/nowhere/x.png", &shape, 1, before,
				       after, &e), 0);
	ck_assert_str_eq(e.text, "--save-images: cannot write /nowhere/x.png: "
			 "No such file or directory");
	ck_assert_int_lt(preview_write(folder, &shape, 1, before, after, &e),
			 0);
	ck_assert_ptr_nonnull(strstr(e.text, "directory"));
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("preview");

	tcase_add_checked_fixture(t, make_folder, drop_folder);
	tcase_add_test(t, originals_are_above_their_reconstructions);
	tcase_add_test(t, colours_are_scaled_back_and_cut_off);
	tcase_add_test(t, a_file_that_cannot_be_written_is_named);
	return run_case(t);
}
