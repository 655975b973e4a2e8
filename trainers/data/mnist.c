/* mnist.c: the idx reader, which validates every byte. */
#include "trainers/data/data_files.h"

#include <stdlib.h>
#include <string.h>

#include "trainers/data/reader.h"

const struct image_shape mnist_shape = {
	1, DATASET_SIDE, DATASET_SIDE, DATASET_CLASSES, {0}, {1}};

int mnist_find(struct data_files *f, const char *dir, struct err *e)
{
	static const char *const names[] = {
		"train-images-idx3-ubyte", "train-labels-idx1-ubyte",
		"t10k-images-idx3-ubyte", "t10k-labels-idx1-ubyte", NULL};
	static const char *const below[] = {"mnist", NULL};
	static const struct data_files_spec spec = {"MNIST", "mnist", names,
						    below};

	return data_files_find(f, &spec, dir, e);
}

struct idx {
	struct reader file;
	uint32_t count;
};

static uint32_t mnist_be32(const unsigned char *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 |
	       (uint32_t)p[2] << 8 | p[3];
}

enum { MAGIC_IMAGES = 0x803, MAGIC_LABELS = 0x801, COUNT_MAX = 10000000 };

/* Opens path and checks the header; for images the header includes rows and
 * columns. */
static int mnist_idx_open(struct idx *x, const char *path, uint32_t magic,
			  struct err *e)
{
	unsigned char head[16];
	size_t size = magic == MAGIC_IMAGES ? 16 : 8;
	int r = reader_open(&x->file, path, e);

	if (r == 0)
		r = reader_take_all(&x->file, head, size, size, e);
	if (r)
		return r;
	if (mnist_be32(head) != magic)
		return err_set(e, ERR_DATA,
			       "%s is not an idx file of %s: its magic is "
			       "0x%08x, not 0x%08x",
			       path,
			       magic == MAGIC_IMAGES ? "images" : "labels",
			       mnist_be32(head), magic);
	x->count = mnist_be32(head + 4);
	if (magic == MAGIC_IMAGES && (mnist_be32(head + 8) != DATASET_SIDE ||
				      mnist_be32(head + 12) != DATASET_SIDE))
		return err_set(e, ERR_DATA, "%s has images of %u x %u; this "
			       "model takes %d x %d", path,
			       mnist_be32(head + 8), mnist_be32(head + 12),
			       DATASET_SIDE, DATASET_SIDE);
	if (x->count == 0 || x->count > COUNT_MAX)
		return err_set(e, ERR_DATA,
			       "%s claims to have %u samples, but 1 to %d are "
			       "possible",
			       path, x->count, COUNT_MAX);
	return 0;
}

/* Reads count * each bytes and checks that the file ends there. */
static int mnist_idx_read(struct idx *x, size_t each, uint8_t *to,
			  struct err *e)
{
	size_t size = x->count * each, head = each == 1 ? 8 : 16;
	unsigned char more;
	int r = reader_take_all(&x->file, to, size, head + size, e);
	long n;

	if (r < 0)
		return r;
	n = reader_take(&x->file, &more, 1, e);
	if (n > 0)
		return err_set(e, ERR_DATA,
			       "%s is larger than its header says: more than "
			       "%zu bytes; download it again",
			       x->file.path, head + size);
	return (int)n;
}

static int mnist_read_labels(struct idx *x, uint32_t *to, struct err *e)
{
	uint8_t *label = malloc(x->count);
	int r;

	if (!label)
		return err_no_memory(e, "the labels of %s", x->file.path);
	r = mnist_idx_read(x, 1, label, e);
	for (uint32_t i = 0; i < x->count && r == 0; i++) {
		to[i] = label[i];
		if (label[i] >= DATASET_CLASSES)
			r = err_set(e, ERR_DATA,
				    "%s: label %u is %u, but digits go up to "
				    "9", x->file.path, i, label[i]);
	}
	free(label);
	return r;
}

/* x: the four open files in the order of their names. */
static int mnist_decode_into(struct idx *x, struct payload *p, struct err *e)
{
	struct dataset_room room;
	int r = 0;

	for (int i = 0; i < MNIST_FILES; i += 2)
		if (x[i].count != x[i + 1].count)
			return err_set(e, ERR_DATA,
				       "%s has %u images, but %s has %u "
				       "labels; they do not belong together",
				       x[i].file.path, x[i].count,
				       x[i + 1].file.path, x[i + 1].count);
	r = dataset_alloc(p, &mnist_shape, x[0].count, x[2].count, &room, e);
	for (int i = 0; i < 2 && r == 0; i++) {
		r = mnist_idx_read(&x[2 * i], DATASET_PIXELS, room.pixels[i],
				   e);
		if (r == 0)
			r = mnist_read_labels(&x[2 * i + 1], room.labels[i], e);
	}
	return r < 0 ? r : dataset_add_lists(p, e);
}

int mnist_decode(const struct data_files *f, struct payload *p,
		 struct err *e)
{
	struct idx x[MNIST_FILES];
	int r = 0;

	p->data = NULL;
	memset(x, 0, sizeof(x));
	for (int i = 0; i < MNIST_FILES && r == 0; i++)
		r = mnist_idx_open(&x[i], f->path[i],
				   i % 2 ? MAGIC_LABELS : MAGIC_IMAGES, e);
	if (r == 0)
		r = mnist_decode_into(x, p, e);
	for (int i = 0; i < MNIST_FILES; i++)
		reader_close(&x[i].file);
	if (r < 0) {
		free(p->data);
		p->data = NULL;
	}
	return r;
}
