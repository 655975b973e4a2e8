/* test_mnist.c: reading MNIST's files, valid and invalid ones. */
#include <check.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "tests/unit/run_case.h"
#include "trainers/data/data_files.h"

enum { TRAIN = 12, TEST = 5, OWN = -1 };

static char dir[64];
static struct data_files files;
static struct err e;

/* ---- Making files ---- */

static const char *const names[MNIST_FILES] = {
	"train-images-idx3-ubyte",
	"train-labels-idx1-ubyte",
	"t10k-images-idx3-ubyte",
	"t10k-labels-idx1-ubyte",
};

struct idx_bytes {
	unsigned char bytes[16 + TRAIN * DATASET_PIXELS + 64];
	size_t size;
};

static void put32(struct idx_bytes *b, uint32_t v)
{
	for (int shift = 24; shift >= 0; shift -= 8)
		b->bytes[b->size++] = (unsigned char)(v >> shift);
}

/* The bytes of file `which` of the four, all valid. Pixel k of sample i is i +
 * k. */
static void right_bytes(struct idx_bytes *b, int which)
{
	uint32_t count = which < 2 ? TRAIN : TEST;

	b->size = 0;
	put32(b, which % 2 ? 0x801 : 0x803);
	put32(b, count);
	if (which % 2 == 0) {
		put32(b, DATASET_SIDE);
		put32(b, DATASET_SIDE);
	}
	for (uint32_t i = 0; i < count; i++) {
		if (which % 2) {
			b->bytes[b->size++] = (unsigned char)(i % 10);
			continue;
		}
		for (uint32_t k = 0; k < DATASET_PIXELS; k++)
			b->bytes[b->size++] = (unsigned char)(i + k);
	}
}

static void path_of(char *out, const char *sub, int which, const char *end)
{
	snprintf(out, DATA_PATH_MAX, "%s/%s%s%s", dir, sub, names[which], end);
}

static void write_plain(const char *sub, int which, const struct idx_bytes *b)
{
	char path[DATA_PATH_MAX];
	FILE *f;

	path_of(path, sub, which, "");
	f = fopen(path, "w");
	ck_assert_ptr_nonnull(f);
	ck_assert_uint_eq(fwrite(b->bytes, 1, b->size, f), b->size);
	ck_assert_int_eq(fclose(f), 0);
}

static void write_right(const char *sub, const char *mode, const char *end)
{
	struct idx_bytes b;
	char path[DATA_PATH_MAX];

	for (int i = 0; i < MNIST_FILES; i++) {
		gzFile f;

		right_bytes(&b, i);
		path_of(path, sub, i, end);
		f = gzopen(path, mode);
		ck_assert_ptr_nonnull(f);
		ck_assert_int_eq(gzwrite(f, b.bytes, (unsigned)b.size),
				 (int)b.size);
		ck_assert_int_eq(gzclose(f), Z_OK);
	}
}

static void set_up(void)
{
	strcpy(dir, "/tmp/test_mnist.XXXXXX");
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

static void assert_right(const struct dataset *d)
{
	ck_assert_uint_eq(d->train.count, TRAIN);
	ck_assert_uint_eq(d->test.count, TEST);
	for (uint32_t i = 0; i < TRAIN; i++) {
		ck_assert_uint_eq(d->train.labels[i], i % 10);
		ck_assert_uint_eq(
			d->train.samples.pixels[i * DATASET_PIXELS + 9],
			(uint8_t)(i + 9));
	}
	for (uint32_t i = 0; i < TEST; i++) {
		ck_assert_uint_eq(d->test.labels[i], i % 10);
		ck_assert_uint_eq(
			d->test.samples.pixels[i * DATASET_PIXELS + 783],
			(uint8_t)(i + 783));
	}
}

static void assert_decodes(void)
{
	struct payload p;
	struct dataset d;

	ck_assert_int_eq(mnist_find(&files, dir, &e), 0);
	ck_assert_msg(mnist_decode(&files, &p, &e) == 0, "%s", e.text);
	ck_assert_int_eq(dataset_view(p.data, p.size, &d, &e), 0);
	assert_right(&d);
	free(p.data);
}

START_TEST(plain_files_are_read)
{
	write_right("", "wbT", "");
	assert_decodes();
}
END_TEST

START_TEST(gzipped_files_are_read)
{
	write_right("", "wb", ".gz");
	assert_decodes();
}
END_TEST

START_TEST(files_in_the_folder_mnist_are_found)
{
	char sub[128];

	snprintf(sub, sizeof(sub), "%s/mnist", dir);
	ck_assert_int_eq(mkdir(sub, 0700), 0);
	write_right("mnist/", "wb", ".gz");
	assert_decodes();
}
END_TEST

/* ---- Invalid files ---- */

static void assert_says(int r, int code, const char *what)
{
	ck_assert_msg(r == code, "%d: %s", r, e.text);
	ck_assert_msg(strstr(e.text, what) != NULL, "'%s' is not in: %s", what,
		      e.text);
}

static void assert_refused(const char *what)
{
	struct payload p;

	ck_assert_int_eq(mnist_find(&files, dir, &e), 0);
	assert_says(mnist_decode(&files, &p, &e), ERR_DATA, what);
	ck_assert_ptr_null(p.data);
}

START_TEST(a_folder_that_is_not_there_is_named)
{
	assert_says(mnist_find(&files, "/tmp/no such folder", &e), -ENOENT,
		    "/tmp/no such folder");
}
END_TEST

START_TEST(a_missing_file_is_named)
{
	char path[DATA_PATH_MAX];

	write_right("", "wbT", "");
	path_of(path, "", 3, "");
	unlink(path);
	assert_says(mnist_find(&files, dir, &e), -ENOENT,
		    "t10k-labels-idx1-ubyte");
}
END_TEST

/* What may be wrong with a file: it has the bytes of the file `like`, of these
 * as many halves as `halves`, and `more` bytes; its byte `at` is `value`. */
static const struct flaw {
	const char *what;
	int first, last; /* each file from first to last has it in turn */
	int like;	 /* a file, or OWN */
	int halves, more, at, value;
	const char *text, *also; /* in the error, which names the file */
} flaws[] = {
	{"is empty", 0, 3, OWN, 0, 0, 0, 0, "truncated"},
	{"ends in the header", 0, 3, OWN, 0, 5, 0, 0, "truncated"},
	{"ends in the middle", 0, 3, OWN, 1, 0, 0, 0, "truncated"},
	{"lacks its last byte", 0, 3, OWN, 2, -1, 0, 0, "truncated"},
	{"has a byte too many", 0, 3, OWN, 2, 1, 0, 0,
	 "larger than its header says"},
	{"has another magic", 0, 3, OWN, 2, 0, 2, 0x0d, "magic is 0x00000d0"},
	{"has no sample", 0, 0, OWN, 0, 16, 7, 0, "0 samples"},
	{"has labels, not images", 0, 0, 1, 2, 0, 0, 0,
	 "not an idx file of images"},
	{"has images of another size", 2, 2, OWN, 2, 0, 11, 32,
	 "32 x 28"},
	{"has a label over nine", 1, 1, OWN, 2, 0, 8 + 4, 10, "label 4 is 10"},
	{"has fewer labels than images", 1, 1, 3, 2, 0, 0, 0, "12 images",
	 "5 labels"},
};

START_TEST(a_file_with_a_flaw_is_refused)
{
	const struct flaw *w = &flaws[_i];

	for (int which = w->first; which <= w->last; which++) {
		struct idx_bytes b;

		printf("%s %s\n", names[which], w->what);
		write_right("", "wbT", "");
		right_bytes(&b, w->like == OWN ? which : w->like);
		b.bytes[b.size] = 0; /* the byte too many */
		if (w->halves < 2)
			b.size = b.size / 2 * (size_t)w->halves;
		b.size += (size_t)w->more;
		if (w->at)
			b.bytes[w->at] = (unsigned char)w->value;
		write_plain("", which, &b);
		assert_refused(w->text);
		ck_assert_ptr_nonnull(strstr(e.text, names[which]));
		ck_assert(!w->also || strstr(e.text, w->also));
	}
}
END_TEST

START_TEST(truncated_gzip_files_are_refused)
{
	char path[DATA_PATH_MAX];
	struct stat st;

	write_right("", "wb", ".gz");
	path_of(path, "", 0, ".gz");
	ck_assert_int_eq(stat(path, &st), 0);
	/* in the middle; in the checksum at the end */
	ck_assert_int_eq(truncate(path, _i ? st.st_size - 3 : st.st_size / 2),
			 0);
	assert_refused("truncated");
	ck_assert_ptr_nonnull(strstr(e.text, names[0]));
}
END_TEST

START_TEST(a_gzip_file_with_a_wrong_checksum_is_refused)
{
	char path[DATA_PATH_MAX];
	FILE *f;

	write_right("", "wb", ".gz");
	path_of(path, "", 0, ".gz");
	f = fopen(path, "r+");
	fseek(f, -8, SEEK_END);
	fputs("abcd", f);
	fclose(f);
	assert_refused(names[0]);
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("mnist");

	tcase_set_timeout(t, 30);
	tcase_add_checked_fixture(t, set_up, tear_down);
	tcase_add_test(t, plain_files_are_read);
	tcase_add_test(t, gzipped_files_are_read);
	tcase_add_test(t, files_in_the_folder_mnist_are_found);
	tcase_add_test(t, a_folder_that_is_not_there_is_named);
	tcase_add_test(t, a_missing_file_is_named);
	tcase_add_loop_test(t, a_file_with_a_flaw_is_refused, 0,
			    sizeof(flaws) / sizeof(*flaws));
	tcase_add_loop_test(t, truncated_gzip_files_are_refused, 0, 2);
	tcase_add_test(t, a_gzip_file_with_a_wrong_checksum_is_refused);
	return run_case(t);
}
