/* test_records.c: a packed data set comes back as it was written, and every way
 * in which its files can be wrong is an error that names the file. */
#include <check.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "tests/unit/run_case.h"
#include "trainers/data/records.h"
#include "trainers/pack/packer.h"

/* 64 images of 1 KiB are 64 KiB, and a shard. */
enum { SIDE = 32, SIZE = SIDE * SIDE, UNIT = 64, CLASSES = 100000 };
enum { TRAIN = 2 * UNIT + 5, TEST = 3 };

static const struct image_shape shape = {1, SIDE, SIDE, CLASSES, {.5f, 0, 0, 0},
					 {.25f, 1, 1, 1}};
static char dir[] = "/tmp/test_records.XXXXXX";
static struct records r;
static struct err e;

static uint8_t pixel_of(int part, uint32_t i, int k)
{
	return (uint8_t)(i * 31 + (uint32_t)k * 7 + (uint32_t)part);
}

static uint32_t label_of(int part, uint32_t i)
{
	return (i * 40503 + (uint32_t)part) % CLASSES;
}

static void write_part(enum records_part part, uint64_t set,
		       const struct image_shape *s, uint32_t count)
{
	struct record_writer w;
	uint8_t pixels[SIZE];

	ck_assert_int_eq(record_writer_init(&w, dir, part, set, s, 1, &e), 0);
	for (uint32_t i = 0; i < count; i++) {
		for (int k = 0; k < SIZE; k++)
			pixels[k] = pixel_of(part, i, k);
		ck_assert_msg(record_writer_put(&w, pixels, label_of(part, i),
						&e) == 0, "%s", e.text);
	}
	ck_assert_msg(record_writer_finish(&w, &e) == 0, "%s", e.text);
	ck_assert_uint_eq(w.done_count, (count + UNIT - 1) / UNIT);
	record_writer_release(&w);
}

static const char *path_of(const char *name)
{
	static char path[256];

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	return path;
}

static void remove_part(const char *part)
{
	char name[64];

	for (int i = 0; i < 5; i++) {
		snprintf(name, sizeof(name), "%s-%05d.records", part, i);
		unlink(path_of(name));
	}
}

static void begin(void)
{
	ck_assert_ptr_nonnull(mkdtemp(dir));
	write_part(RECORDS_TRAIN, 7, &shape, TRAIN);
	write_part(RECORDS_TEST, 7, &shape, TEST);
}

static void end(void)
{
	records_release(&r);
	remove_part("train");
	remove_part("test");
	ck_assert_int_eq(rmdir(dir), 0);
}

/* Opening fails, and the error has this file's path and this text. */
static void refused(int code, const char *name, const char *text)
{
	ck_assert_int_eq(records_open(&r, dir, &e), code);
	ck_assert_msg(strstr(e.text, path_of(name)) != NULL, "'%s' has no %s",
		      e.text, path_of(name));
	ck_assert_msg(strstr(e.text, text) != NULL, "'%s' has no '%s'", e.text,
		      text);
	records_release(&r);
}

static void opened(void)
{
	ck_assert_msg(records_open(&r, dir, &e) == 0, "%s", e.text);
}

/* Changes the byte at this place of a file; its old value. */
static unsigned char change(const char *name, off_t at, unsigned char by)
{
	int fd = open(path_of(name), O_RDWR);
	unsigned char old, now;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(pread(fd, &old, 1, at), 1);
	now = old ^ by;
	ck_assert_int_eq(pwrite(fd, &now, 1, at), 1);
	close(fd);
	return old;
}

START_TEST(all_images_come_back_as_they_were)
{
	const struct dataset_part *part[2];

	ck_assert_int_eq(records_exist(dir), 1);
	ck_assert_int_eq(records_exist("/nowhere"), 0);
	opened();
	part[0] = &r.set.train;
	part[1] = &r.set.test;
	ck_assert_uint_eq(part[0]->count, TRAIN);
	ck_assert_uint_eq(part[1]->count, TEST);
	ck_assert_mem_eq(&r.set.shape, &shape, sizeof(shape));
	for (int p = 0; p < 2; p++) {
		const struct samples *s = &part[p]->samples;

		ck_assert_uint_eq(s->size, SIZE);
		ck_assert_ptr_null(s->start);
		ck_assert_int_eq(s->is_file, 1);
		for (uint32_t i = 0; i < part[p]->count; i++) {
			const uint8_t *image = s->pixels + i * s->size;

			ck_assert_uint_eq(part[p]->labels[i], label_of(p, i));
			for (int k = 0; k < SIZE; k++)
				ck_assert_uint_eq(image[k], pixel_of(p, i, k));
		}
	}
}
END_TEST

START_TEST(labels_of_up_to_65536_classes_take_two_bytes)
{
	struct image_shape few = shape;
	struct stat two, four;

	ck_assert_int_eq(stat(path_of("test-00000.records"), &four), 0);
	remove_part("train");
	remove_part("test");
	few.classes = 65536;
	for (int i = 0; i < 2; i++) {
		struct record_writer w;
		uint8_t pixels[SIZE] = {0};

		ck_assert_int_eq(record_writer_init(&w, dir,
						    (enum records_part)i, 1,
						    &few, 1, &e), 0);
		for (uint32_t k = 0; k < TEST; k++)
			ck_assert_int_eq(record_writer_put(&w, pixels,
							   65535 - k, &e), 0);
		ck_assert_int_eq(record_writer_finish(&w, &e), 0);
		record_writer_release(&w);
	}
	ck_assert_int_eq(stat(path_of("test-00000.records"), &two), 0);
	ck_assert_int_eq(four.st_size - two.st_size, 2 * TEST);
	opened();
	ck_assert_uint_eq(r.set.train.labels[0], 65535);
	ck_assert_uint_eq(r.set.test.labels[2], 65533);
}
END_TEST

/* Sizes of all files are known from their heads. */
START_TEST(a_file_of_another_length_is_refused)
{
	static const char *const names[] = {"train-00000.records",
					    "train-00002.records",
					    "test-00000.records"};
	static const int sizes[] = {0, 1, 4095, 4096, RECORDS_ALIGN,
				    RECORDS_ALIGN + SIZE, -1, 1};
	const char *name = names[_i % 3];
	struct stat st;
	off_t size;

	ck_assert_int_eq(stat(path_of(name), &st), 0);
	size = _i / 3 < 6 ? sizes[_i / 3] : st.st_size + sizes[_i / 3];
	ck_assert_int_eq(truncate(path_of(name), size), 0);
	refused(ERR_DATA, name, size < st.st_size ? "is truncated"
						  : "is too large");
	ck_assert_ptr_nonnull(strstr(e.text, "copy or pack it again"));
}
END_TEST

START_TEST(a_foreign_file_is_refused)
{
	change("train-00001.records", 3, 1);
	refused(ERR_DATA, "train-00001.records",
		"is not part of a packed data set");
}
END_TEST

/* The number stands after the magic and the checksum. */
START_TEST(a_file_of_another_version_is_refused)
{
	change("train-00000.records", 12, 3);
	refused(ERR_DATA, "train-00000.records",
		"has format 2, and this program reads 1");
}
END_TEST

START_TEST(any_change_of_a_head_is_noticed)
{
	for (int at = 8; at < RECORDS_HEAD_SIZE; at += at < 128 ? 1 : 97) {
		if (at >= 12 && at < 16)
			continue; /* the version */
		change("test-00000.records", at, 0x10);
		refused(ERR_DATA, "test-00000.records",
			"the checksum of its header does not match");
		change("test-00000.records", at, 0x10);
	}
	opened();
}
END_TEST

START_TEST(changed_labels_are_noticed)
{
	change("train-00001.records", RECORDS_ALIGN + UNIT * SIZE + 9, 1);
	refused(ERR_DATA, "train-00001.records",
		"the checksum of its labels does not match");
}
END_TEST

/* Reading all pixels would take as long as an epoch. */
START_TEST(changed_pixels_are_noticed_when_all_is_verified)
{
	uint32_t files;

	ck_assert_msg(records_verify(dir, &files, &e) == 0, "%s", e.text);
	ck_assert_uint_eq(files, 4);
	change("train-00002.records", RECORDS_ALIGN + 5 * SIZE - 1, 0x80);
	opened();
	ck_assert_int_eq(records_verify(dir, &files, &e), ERR_DATA);
	ck_assert_ptr_nonnull(strstr(e.text, path_of("train-00002.records")));
	ck_assert_ptr_nonnull(strstr(e.text, "the checksum of its images does "
					     "not match"));
}
END_TEST

START_TEST(a_missing_file_is_named)
{
	ck_assert_int_eq(unlink(path_of("train-00001.records")), 0);
	refused(-ENOENT, "train-00001.records", "is missing");
}
END_TEST

START_TEST(a_set_without_test_images_is_refused)
{
	remove_part("test");
	refused(-ENOENT, "test-00000.records", "is missing");
}
END_TEST

START_TEST(a_file_under_another_name_is_refused)
{
	char from[256];

	snprintf(from, sizeof(from), "%s", path_of("train-00002.records"));
	ck_assert_int_eq(rename(from, path_of("train-00001.records")), 0);
	refused(ERR_DATA, "train-00001.records", "is shard 2 of train");
	snprintf(from, sizeof(from), "%s", path_of("test-00000.records"));
	ck_assert_int_eq(rename(from, path_of("train-00000.records")), 0);
	refused(ERR_DATA, "train-00000.records", "is shard 0 of test");
}
END_TEST

START_TEST(files_of_two_sets_are_not_mixed)
{
	struct image_shape other = shape;

	remove_part("test");
	write_part(RECORDS_TEST, 8, &shape, TEST);
	refused(ERR_DATA, "test-00000.records", "belong to different");
	remove_part("test");
	other.classes--;
	write_part(RECORDS_TEST, 7, &other, TEST);
	refused(ERR_DATA, "test-00000.records", "belong to different");
}
END_TEST

START_TEST(a_label_beyond_the_classes_is_refused)
{
	struct image_shape few = shape;

	remove_part("train");
	remove_part("test");
	few.classes = 2;
	write_part(RECORDS_TRAIN, 7, &few, 2);
	refused(ERR_DATA, "train-00000.records",
		"label 1 is 40503, and there are 2 classes");
}
END_TEST

/* ---- heads ---- */

static struct records_head good(void)
{
	return (struct records_head){
		.set = 1, .part = RECORDS_TEST, .shard = 1, .shards = 3,
		.shape = shape, .label_size = 4, .first = UNIT,
		.count = UNIT, .total = 3 * UNIT};
}

static int head_rc(const struct records_head *h)
{
	unsigned char bytes[RECORDS_HEAD_SIZE];
	struct records_head back;

	records_head_put(h, bytes);
	return records_head_get(&back, bytes, "x", &e);
}

#define IMPOSSIBLE(what)                                      \
	do {                                                  \
		struct records_head bad = good();             \
		what;                                         \
		ck_assert_msg(head_rc(&bad) == ERR_DATA, #what); \
	} while (0)

START_TEST(impossible_heads_are_refused)
{
	struct records_head h = good();

	ck_assert_msg(head_rc(&h) == 0, "%s", e.text);
	IMPOSSIBLE(bad.part = RECORDS_PARTS);
	IMPOSSIBLE(bad.shards = 0);
	IMPOSSIBLE(bad.shards = UINT32_MAX);
	IMPOSSIBLE(bad.shard = 3);
	IMPOSSIBLE(bad.shape.channels = 0);
	IMPOSSIBLE(bad.shape.channels = IMAGE_CHANNELS_MAX + 1);
	IMPOSSIBLE(bad.shape.height = -1);
	IMPOSSIBLE(bad.shape.width = IMAGE_SIDE_MAX + 1);
	IMPOSSIBLE(bad.shape.classes = 0);
	IMPOSSIBLE(bad.shape.classes = IMAGE_CLASSES_MAX + 1);
	IMPOSSIBLE(bad.label_size = 3);
	IMPOSSIBLE(bad.label_size = 0);
	IMPOSSIBLE(bad.count = 0);
	IMPOSSIBLE(bad.first = 0);
	IMPOSSIBLE(bad.first = UINT64_MAX - UNIT + 1);
	IMPOSSIBLE(bad.count = UINT64_MAX - UNIT + 1);
	IMPOSSIBLE(bad.total = (uint64_t)1 << 32);
	IMPOSSIBLE(bad.total = 2 * UNIT); /* it would be the last one */
	IMPOSSIBLE(bad.count = UNIT + 1); /* not whole pages */
	IMPOSSIBLE(bad.shard = 2);	/* not the last one */
	IMPOSSIBLE(bad.shape.std[0] = 0);
	IMPOSSIBLE(bad.shape.mean[0] = (float)strtod("nan", NULL));
	/* a channel that there is not */
	h.shape.std[1] = 0;
	ck_assert_int_eq(head_rc(&h), 0);
}
END_TEST

START_TEST(images_of_a_shard_are_whole_pages)
{
	static const int sizes[][3] = {/* channels, side, unit */
				       {3, 224, 64},	{4, 256, 1},
				       {3, 32, 64},	{1, 28, 4096},
				       {3, 225, 65536}, {3, 8, 1024}};

	for (size_t i = 0; i < sizeof(sizes) / sizeof(*sizes); i++) {
		struct image_shape s = {sizes[i][0], sizes[i][1], sizes[i][1],
					1, {0}, {1}};
		uint32_t unit = records_unit(&s);

		ck_assert_uint_eq(unit, (uint32_t)sizes[i][2]);
		ck_assert_uint_eq(unit * records_image_size(&s) %
					  RECORDS_ALIGN, 0);
	}
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("records");

	tcase_add_checked_fixture(c, begin, end);
	tcase_add_test(c, all_images_come_back_as_they_were);
	tcase_add_test(c, labels_of_up_to_65536_classes_take_two_bytes);
	tcase_add_loop_test(c, a_file_of_another_length_is_refused, 0, 24);
	tcase_add_test(c, a_foreign_file_is_refused);
	tcase_add_test(c, a_file_of_another_version_is_refused);
	tcase_add_test(c, any_change_of_a_head_is_noticed);
	tcase_add_test(c, changed_labels_are_noticed);
	tcase_add_test(c, changed_pixels_are_noticed_when_all_is_verified);
	tcase_add_test(c, a_missing_file_is_named);
	tcase_add_test(c, a_set_without_test_images_is_refused);
	tcase_add_test(c, a_file_under_another_name_is_refused);
	tcase_add_test(c, files_of_two_sets_are_not_mixed);
	tcase_add_test(c, a_label_beyond_the_classes_is_refused);
	tcase_add_test(c, impossible_heads_are_refused);
	tcase_add_test(c, images_of_a_shard_are_whole_pages);
	return run_case(c) ? EXIT_FAILURE : EXIT_SUCCESS;
}
