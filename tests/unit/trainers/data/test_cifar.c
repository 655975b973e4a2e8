/* test_cifar.c: reading CIFAR-10's files, valid and invalid ones. */
#include <check.h>
#include <errno.h>
#include <lzma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "tests/unit/run_case.h"
#include "trainers/data/data_files.h"

/* More than the reader reads at once. */
enum { EACH = 70, TEST = 9, RECORD = 1 + CIFAR_PIXELS };

static char dir[64];
static struct data_files files;
static struct err e;

/* ---- Making files ---- */

static const char *const names[CIFAR_FILES] = {
	"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
	"data_batch_4.bin", "data_batch_5.bin", "test_batch.bin"};

enum packed { PLAIN, GZIP, XZ };

static uint8_t label_of(int which, int i)
{
	return (uint8_t)((which + i) % 10);
}

static uint8_t pixel_of(int which, int i, int k)
{
	return (uint8_t)(which * 31 + i * 7 + k);
}

/* The caller frees the bytes. */
static uint8_t *right_bytes(int which, size_t *size)
{
	int count = which == CIFAR_FILES - 1 ? TEST : EACH;
	uint8_t *bytes, *at;

	*size = (size_t)count * RECORD;
	at = bytes = malloc(*size + 1);
	for (int i = 0; i < count; i++) {
		*at++ = label_of(which, i);
		for (int k = 0; k < CIFAR_PIXELS; k++)
			*at++ = pixel_of(which, i, k);
	}
	return bytes;
}

static void path_of(char *out, const char *sub, int which, enum packed how)
{
	snprintf(out, DATA_PATH_MAX, "%s/%s%s%s", dir, sub, names[which],
		 how == GZIP ? ".gz" : how == XZ ? ".xz" : "");
}

static void write_bytes(const char *path, const uint8_t *bytes, size_t size)
{
	FILE *f = fopen(path, "w");

	ck_assert_ptr_nonnull(f);
	ck_assert_uint_eq(fwrite(bytes, 1, size, f), size);
	ck_assert_int_eq(fclose(f), 0);
}

static void write_file(const char *sub, int which, enum packed how,
		       const uint8_t *bytes, size_t size)
{
	char path[DATA_PATH_MAX];

	path_of(path, sub, which, how);
	if (how == XZ) {
		size_t room = lzma_stream_buffer_bound(size), done = 0;
		uint8_t *out = malloc(room);

		ck_assert_int_eq(lzma_easy_buffer_encode(
			0, LZMA_CHECK_CRC64, NULL, bytes, size, out, &done,
			room), LZMA_OK);
		write_bytes(path, out, done);
		free(out);
	} else if (how == GZIP) {
		gzFile f = gzopen(path, "wb1");

		ck_assert_int_eq(gzwrite(f, bytes, (unsigned)size), (int)size);
		ck_assert_int_eq(gzclose(f), Z_OK);
	} else {
		write_bytes(path, bytes, size);
	}
}

static void write_right(const char *sub, enum packed how)
{
	for (int i = 0; i < CIFAR_FILES; i++) {
		size_t size;
		uint8_t *bytes = right_bytes(i, &size);

		write_file(sub, i, how, bytes, size);
		free(bytes);
	}
}

static void set_up(void)
{
	strcpy(dir, "/tmp/test_cifar.XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
	memset(&e, 0, sizeof(e));
}

static void tear_down(void)
{
	char command[128];

	snprintf(command, sizeof(command), "rm -rf '%s'", dir);
	ck_assert_int_eq(system(command), 0);
}

/* ---- Valid files ---- */

static void assert_image(const struct dataset_part *p, uint32_t at, int which,
			 int i)
{
	const uint8_t *pixels = p->samples.pixels + (size_t)at * CIFAR_PIXELS;

	ck_assert_uint_eq(p->labels[at], label_of(which, i));
	for (int k = 0; k < CIFAR_PIXELS; k += 511)
		ck_assert_uint_eq(pixels[k], pixel_of(which, i, k));
}

static void assert_decodes(void)
{
	struct payload p;
	struct dataset d;

	ck_assert_msg(cifar_find(&files, dir, &e) == 0, "%s", e.text);
	ck_assert_msg(cifar_decode(&files, &p, &e) == 0, "%s", e.text);
	ck_assert_int_eq(dataset_view(p.data, p.size, &d, &e), 0);
	ck_assert_mem_eq(&d.shape, &cifar_shape, sizeof(cifar_shape));
	ck_assert_uint_eq(d.train.count, 5 * EACH);
	ck_assert_uint_eq(d.test.count, TEST);
	ck_assert_ptr_null(d.train.samples.start);
	for (int i = 0; i < 5 * EACH; i++)
		assert_image(&d.train, (uint32_t)i, i / EACH, i % EACH);
	for (int i = 0; i < TEST; i++)
		assert_image(&d.test, (uint32_t)i, CIFAR_FILES - 1, i);
	free(p.data);
}

START_TEST(plain_gzip_and_xz_are_read)
{
	write_right("", (enum packed)_i);
	assert_decodes();
}
END_TEST

START_TEST(files_in_the_usual_folders_are_found)
{
	const char *sub = _i ? "cifar-10-batches-bin/" : "cifar10/";
	char path[128];

	snprintf(path, sizeof(path), "%s/%s", dir, sub);
	ck_assert_int_eq(mkdir(path, 0700), 0);
	write_right(sub, PLAIN);
	assert_decodes();
}
END_TEST

START_TEST(one_file_is_read_alone)
{
	struct cifar_images images;
	char path[DATA_PATH_MAX];

	write_right("", XZ);
	path_of(path, "", 2, XZ);
	ck_assert_int_eq(cifar_decode_file(path, &images, &e), 0);
	ck_assert_uint_eq(images.count, EACH);
	ck_assert_uint_eq(images.labels[EACH - 1], label_of(2, EACH - 1));
	ck_assert_uint_eq(images.pixels[(EACH - 1) * CIFAR_PIXELS + 5],
			  pixel_of(2, EACH - 1, 5));
	cifar_images_release(&images);
}
END_TEST

START_TEST(the_identity_changes_with_a_file)
{
	char before[DATA_IDENTITY_MAX];
	size_t size;
	uint8_t *bytes = right_bytes(3, &size);

	write_right("", PLAIN);
	ck_assert_int_eq(cifar_find(&files, dir, &e), 0);
	strcpy(before, files.identity);
	ck_assert_int_eq(cifar_find(&files, dir, &e), 0);
	ck_assert_str_eq(files.identity, before);
	write_file("", 3, PLAIN, bytes, size - RECORD);
	free(bytes);
	ck_assert_int_eq(cifar_find(&files, dir, &e), 0);
	ck_assert_str_ne(files.identity, before);
}
END_TEST

/* The contents of the real set, if its files are available. */
START_TEST(the_real_files_are_read)
{
	const char *data = getenv("DDP_TEST_DATA");
	struct cifar_images images;

	if (!data || cifar_find(&files, data, &e) < 0)
		return;
	ck_assert_msg(cifar_decode_file(files.path[0], &images, &e) == 0, "%s",
		      e.text);
	ck_assert_uint_eq(images.count, 10000);
	ck_assert_mem_eq(images.labels, "\6\11\11\4\1\1\2\7\10\3\4\7", 12);
	cifar_images_release(&images);
}
END_TEST

/* ---- Invalid files ---- */

static void assert_says(int r, int code, const char *what)
{
	ck_assert_msg(r == code, "%d: %s", r, e.text);
	ck_assert_msg(strstr(e.text, what) != NULL, "'%s' is not in: %s", what,
		      e.text);
}

static void assert_refused(const char *what, int which)
{
	struct payload p;

	ck_assert_int_eq(cifar_find(&files, dir, &e), 0);
	assert_says(cifar_decode(&files, &p, &e), ERR_DATA, what);
	ck_assert_ptr_null(p.data);
	ck_assert_ptr_nonnull(strstr(e.text, names[which]));
}

START_TEST(a_file_of_too_many_images_is_refused)
{
	enum { MOST = 81920 };
	struct cifar_images images;
	char path[DATA_PATH_MAX];

	write_right("", PLAIN);
	path_of(path, "", 0, PLAIN);
	ck_assert_int_eq(truncate(path, (off_t)(MOST + 1) * RECORD), 0);
	assert_says(cifar_decode_file(path, &images, &e), ERR_DATA,
		    "more than 81920 images");
	cifar_images_release(&images);
}
END_TEST

START_TEST(a_folder_that_is_not_there_is_named)
{
	assert_says(cifar_find(&files, "/tmp/no such folder", &e), -ENOENT,
		    "/tmp/no such folder");
	ck_assert_ptr_nonnull(strstr(e.text, "get-data cifar10"));
}
END_TEST

START_TEST(the_first_missing_file_is_named)
{
	char path[DATA_PATH_MAX];

	write_right("", XZ);
	path_of(path, "", 1, XZ);
	unlink(path);
	path_of(path, "", 5, XZ);
	unlink(path);
	assert_says(cifar_find(&files, dir, &e), -ENOENT, "data_batch_2.bin");
}
END_TEST

/* The error is about the folder with most of the files: the user meant that. */
START_TEST(a_file_missing_in_a_subfolder_is_named)
{
	char path[DATA_PATH_MAX];

	snprintf(path, sizeof(path), "%s/cifar10", dir);
	ck_assert_int_eq(mkdir(path, 0700), 0);
	write_right("cifar10/", PLAIN);
	path_of(path, "cifar10/", 5, PLAIN);
	unlink(path);
	assert_says(cifar_find(&files, dir, &e), -ENOENT,
		    "/cifar10 has no test_batch.bin");
}
END_TEST

/* One file has only its first bytes, or another value in one byte. */
static const struct flaw {
	const char *what;
	int which;
	size_t size, at;
	uint8_t value;
	const char *text;
} flaws[] = {
	{"is empty", 4, 0, 0, 4, "truncated"},
	{"ends with its first label", 4, 1, 0, 4, "truncated"},
	{"ends in its first image", 4, 1000, 0, 4, "truncated"},
	{"ends before the last pixel of an image", 4, 5 * RECORD - 1, 0, 4,
	 "truncated"},
	{"ends with a label", 4, 69 * RECORD + 1, 0, 4, "truncated"},
	{"lacks its last image", 2, (EACH - 1) * RECORD, 0, 2,
	 "has 69 images"},
	{"has a label over nine", 3, EACH * RECORD, 66 * RECORD, 10,
	 "label 66 is 10"},
};

START_TEST(a_file_with_a_flaw_is_refused)
{
	const struct flaw *w = &flaws[_i];
	size_t size;
	uint8_t *bytes = right_bytes(w->which, &size);

	printf("%s %s\n", names[w->which], w->what);
	write_right("", PLAIN);
	bytes[w->at] = w->value;
	write_file("", w->which, PLAIN, bytes, w->size);
	free(bytes);
	assert_refused(w->text, w->which);
}
END_TEST

/* The published form: six files of 10,000 images, here all zeros. */
START_TEST(a_test_file_of_the_published_set_that_was_cut_is_refused)
{
	char path[DATA_PATH_MAX];

	write_right("", PLAIN);
	for (int i = 0; i < CIFAR_FILES; i++) {
		off_t images = i < CIFAR_FILES - 1 ? 10000 : 9997;

		path_of(path, "", i, PLAIN);
		ck_assert_int_eq(truncate(path, 0), 0);
		ck_assert_int_eq(truncate(path, images * RECORD), 0);
	}
	assert_refused("has 9997 images", 5);
}
END_TEST

/* A packed file ends early, or has four other bytes: in its middle, or in what
 * follows the data, which are checksums and an index. */
static const struct damage {
	enum packed how;
	int which, from_end; /* 0 is the middle */
	const char *put;     /* NULL: it ends there */
	const char *text;    /* or "": a label or the checksum is wrong */
} damages[] = {
	{GZIP, 5, 0, NULL, "truncated"}, {XZ, 5, 0, NULL, "truncated"},
	{GZIP, 5, 3, NULL, "truncated"}, {XZ, 5, 3, NULL, "truncated"},
	{GZIP, 5, 9, NULL, "truncated"}, {XZ, 5, 9, NULL, "truncated"},
	{GZIP, 1, 0, "abcd", ""},	 {XZ, 1, 0, "abcd", ""},
	{GZIP, 1, 8, "abcd", ""},	 {XZ, 1, 8, "abcd", ""},
};

START_TEST(a_damaged_packed_file_is_refused)
{
	const struct damage *d = &damages[_i];
	char path[DATA_PATH_MAX];
	struct stat st;
	off_t at;
	FILE *f;

	write_right("", d->how);
	path_of(path, "", d->which, d->how);
	ck_assert_int_eq(stat(path, &st), 0);
	at = d->from_end ? st.st_size - d->from_end : st.st_size / 2;
	f = fopen(path, "r+");
	fseek(f, at, SEEK_SET);
	if (d->put)
		fputs(d->put, f);
	else
		ck_assert_int_eq(ftruncate(fileno(f), at), 0);
	fclose(f);
	assert_refused(d->text, d->which);
}
END_TEST

/* MNIST uses the same reader, so it reads xz as well. */
START_TEST(mnist_is_read_from_xz)
{
	static const char *const idx[] = {
		"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
		"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte"};
	uint8_t images[16 + 2 * DATASET_PIXELS] = {
		0, 0, 8, 3, 0, 0, 0, 2, 0, 0, 0, 28, 0, 0, 0, 28};
	uint8_t labels[] = {0, 0, 8, 1, 0, 0, 0, 2, 4, 7};
	struct payload p;
	struct dataset d;

	images[sizeof(images) - 1] = 99;
	for (int i = 0; i < 4; i++) {
		char path[DATA_PATH_MAX];
		uint8_t out[4096];
		size_t done = 0;

		snprintf(path, sizeof(path), "%s/%s.xz", dir, idx[i]);
		ck_assert_int_eq(lzma_easy_buffer_encode(
			0, LZMA_CHECK_CRC64, NULL, i % 2 ? labels : images,
			i % 2 ? sizeof(labels) : sizeof(images), out, &done,
			sizeof(out)), LZMA_OK);
		write_bytes(path, out, done);
	}
	ck_assert_int_eq(mnist_find(&files, dir, &e), 0);
	ck_assert_msg(mnist_decode(&files, &p, &e) == 0, "%s", e.text);
	ck_assert_int_eq(dataset_view(p.data, p.size, &d, &e), 0);
	ck_assert_uint_eq(d.test.labels[1], 7);
	ck_assert_uint_eq(d.test.samples.pixels[2 * DATASET_PIXELS - 1], 99);
	free(p.data);
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("cifar");

	tcase_set_timeout(t, 60);
	tcase_add_checked_fixture(t, set_up, tear_down);
	tcase_add_loop_test(t, plain_gzip_and_xz_are_read, 0, 3);
	tcase_add_loop_test(t, files_in_the_usual_folders_are_found, 0, 2);
	tcase_add_test(t, one_file_is_read_alone);
	tcase_add_test(t, the_identity_changes_with_a_file);
	tcase_add_test(t, the_real_files_are_read);
	tcase_add_test(t, a_file_of_too_many_images_is_refused);
	tcase_add_test(t, a_folder_that_is_not_there_is_named);
	tcase_add_test(t, the_first_missing_file_is_named);
	tcase_add_test(t, a_file_missing_in_a_subfolder_is_named);
	tcase_add_loop_test(t, a_file_with_a_flaw_is_refused, 0,
			    sizeof(flaws) / sizeof(*flaws));
	tcase_add_test(
		t, a_test_file_of_the_published_set_that_was_cut_is_refused);
	tcase_add_loop_test(t, a_damaged_packed_file_is_refused, 0,
			    sizeof(damages) / sizeof(*damages));
	tcase_add_test(t, mnist_is_read_from_xz);
	return run_case(t);
}
