/* cifar.c: reads records of a label and three planes, and validates all of
 * them. */
#include "trainers/data/data_files.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "trainers/data/reader.h"

const struct image_shape cifar_shape = {3, CIFAR_SIDE, CIFAR_SIDE, 10,
					{.4914f, .4822f, .4465f},
					{.2023f, .1994f, .2010f}};

int cifar_find(struct data_files *f, const char *dir, struct err *e)
{
	static const char *const names[] = {
		"data_batch_1.bin", "data_batch_2.bin", "data_batch_3.bin",
		"data_batch_4.bin", "data_batch_5.bin", "test_batch.bin", NULL};
	static const char *const below[] = {"cifar10", "cifar-10-batches-bin",
					    NULL};
	static const struct data_files_spec spec = {"CIFAR-10", "cifar10",
						    names, below};

	return data_files_find(f, &spec, dir, e);
}

/* ---- One file ---- */

enum { RECORD = 1 + CIFAR_PIXELS, RECORDS_AT_ONCE = 64 };
/* images in each of the six files, as published */
enum { CIFAR_FILE_IMAGES = 10000 };
/* Room for records, which doubles: a valid file has 10,000 records, and a file
 * with more than COUNT_MAX is not valid. */
enum { FIRST_ROOM = 10 * RECORDS_AT_ONCE, COUNT_MAX = 128 * FIRST_ROOM };

static int cifar_alloc(struct cifar_images *i, uint32_t *room, const char *path,
		       struct err *e)
{
	uint32_t more = *room ? *room * 2 : FIRST_ROOM;
	uint8_t *pixels, *labels;

	if (i->count + RECORDS_AT_ONCE <= *room)
		return 0;
	if (more > COUNT_MAX)
		return err_set(e, ERR_DATA,
			       "%s has more than %d images: this is not a file "
			       "of CIFAR-10",
			       path, COUNT_MAX);
	pixels = realloc(i->pixels, (size_t)more * CIFAR_PIXELS);
	if (pixels)
		i->pixels = pixels;
	labels = realloc(i->labels, more);
	if (labels)
		i->labels = labels;
	if (!pixels || !labels)
		return err_no_memory(e, "%u images of %s", more, path);
	*room = more;
	return 0;
}

static int cifar_parse_records(struct cifar_images *i, const uint8_t *record,
			       int n, const char *path, struct err *e)
{
	for (int k = 0; k < n; k++, record += RECORD) {
		if (record[0] > 9)
			return err_set(e, ERR_DATA,
				       "%s: label %u is %u, but CIFAR-10's "
				       "labels go up to 9",
				       path, i->count, record[0]);
		i->labels[i->count] = record[0];
		memcpy(i->pixels + (size_t)i->count * CIFAR_PIXELS, record + 1,
		       CIFAR_PIXELS);
		i->count++;
	}
	return 0;
}

static int cifar_read_records(struct reader *file, struct cifar_images *i,
			      struct err *e)
{
	uint8_t *records = malloc((size_t)RECORDS_AT_ONCE * RECORD);
	uint32_t room = 0;
	long n;
	int r;

	if (!records)
		return err_no_memory(e, "%s", file->path);
	do {
		r = cifar_alloc(i, &room, file->path, e);
		if (r < 0)
			break;
		n = reader_take(file, records, (size_t)RECORDS_AT_ONCE * RECORD,
				e);
		r = n < 0 ? (int)n
			  : cifar_parse_records(i, records, (int)(n / RECORD),
						file->path, e);
	} while (r == 0 && n == (long)RECORDS_AT_ONCE * RECORD);
	free(records);
	if (r == 0 && (n % RECORD || i->count == 0))
		r = err_set(e, ERR_DATA,
			    "%s is truncated: it ends after %llu bytes, inside "
			    "image %u; download it again",
			    file->path, file->done, i->count);
	return r;
}

int cifar_decode_file(const char *path, struct cifar_images *i, struct err *e)
{
	struct reader file;
	int r;

	memset(i, 0, sizeof(*i));
	r = reader_open(&file, path, e);
	if (r == 0)
		r = cifar_read_records(&file, i, e);
	reader_close(&file);
	return r;
}

void cifar_images_release(struct cifar_images *i)
{
	free(i->pixels);
	free(i->labels);
	memset(i, 0, sizeof(*i));
}

/* ---- All of them ---- */

struct decoding {
	const struct data_files *files;
	atomic_int next;
	struct cifar_images images[CIFAR_FILES];
	int result[CIFAR_FILES];
	struct err err[CIFAR_FILES];
};

static void *cifar_decode_worker(void *arg)
{
	struct decoding *d = arg;

	for (;;) {
		int i = atomic_fetch_add(&d->next, 1);

		if (i >= CIFAR_FILES)
			return NULL;
		d->result[i] = cifar_decode_file(d->files->path[i],
						 &d->images[i], &d->err[i]);
	}
}

/* Decodes with one thread per core that this process may use: unpacking xz
 * takes a second per file, and the other ranks wait for it. */
static void cifar_decode_all(struct decoding *d)
{
	pthread_t thread[CIFAR_FILES];
	int started = 0, cores = 1;
	cpu_set_t set;

	if (sched_getaffinity(0, sizeof(set), &set) == 0)
		cores = CPU_COUNT(&set);
	while (started + 1 < cores && started + 1 < CIFAR_FILES &&
	       pthread_create(&thread[started], NULL, cifar_decode_worker, d) ==
		       0)
		started++;
	cifar_decode_worker(d);
	for (int i = 0; i < started; i++)
		pthread_join(thread[i], NULL);
}

/* A file that was cut between two images is detected by its length: the five
 * training files have one length, and in CIFAR-10 itself the test file has it
 * as well. A smaller set of the same form may have any number of test
 * images. */
static int cifar_check(const struct decoding *d, struct err *e)
{
	const struct cifar_images *first = &d->images[0];
	int same = CIFAR_FILES - 1;

	for (int i = 0; i < CIFAR_FILES; i++)
		if (d->result[i] < 0)
			return err_set(e, d->result[i], "%s", d->err[i].text);
	if (first->count == CIFAR_FILE_IMAGES)
		same = CIFAR_FILES;
	for (int i = 1; i < same; i++)
		if (d->images[i].count != first->count)
			return err_set(
				e, ERR_DATA,
				"%s has %u images, but %s has %u; one of them "
				"is truncated, download it again",
				d->files->path[i], d->images[i].count,
				d->files->path[0], first->count);
	return 0;
}

static int cifar_assemble(const struct decoding *d, struct payload *p,
			  struct err *e)
{
	uint32_t train = (CIFAR_FILES - 1) * d->images[0].count;
	uint32_t test = d->images[CIFAR_FILES - 1].count;
	struct dataset_room room;
	int r = dataset_alloc(p, &cifar_shape, train, test, &room, e);

	for (int i = 0; i < CIFAR_FILES && r == 0; i++) {
		const struct cifar_images *from = &d->images[i];
		int part = i == CIFAR_FILES - 1;

		memcpy(room.pixels[part], from->pixels,
		       (size_t)from->count * CIFAR_PIXELS);
		for (uint32_t k = 0; k < from->count; k++)
			room.labels[part][k] = from->labels[k];
		room.pixels[part] += (size_t)from->count * CIFAR_PIXELS;
		room.labels[part] += from->count;
	}
	return r;
}

int cifar_decode(const struct data_files *f, struct payload *p, struct err *e)
{
	struct decoding *d = calloc(1, sizeof(*d));
	int r;

	p->data = NULL;
	if (!d)
		return err_no_memory(e, "CIFAR-10");
	d->files = f;
	cifar_decode_all(d);
	r = cifar_check(d, e);
	if (r == 0)
		r = cifar_assemble(d, p, e);
	for (int i = 0; i < CIFAR_FILES; i++)
		cifar_images_release(&d->images[i]);
	free(d);
	return r;
}
