/* dataset.c: the payload's layout and the idx reader, which trusts no byte. */
#include "trainers/data/dataset.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <zlib.h>

/* ---- The payload ----
 * Host byte order: a cache belongs to one kind of host. After the header: the
 * pixels of train and test, their labels, and if there are lists, from the next
 * multiple of 8 on, of both the starts, the columns, the values. */

struct payload_header {
	uint64_t magic;
	uint32_t count[2];  /* of train, of test */
	uint32_t listed[2]; /* entries of their lists; 0: there are none */
	struct image_shape shape;
};

#define PAYLOAD_MAGIC 0x3374657361746164u /* "dataset3" */
enum { DENSE_SHARE = 3 }; /* a list pays up to one pixel of three */

static size_t sample_size(const struct payload_header *h)
{
	return (size_t)h->shape.channels * (size_t)h->shape.height *
	       (size_t)h->shape.width;
}

static size_t plain_size(const struct payload_header *h)
{
	size_t samples = (size_t)h->count[0] + h->count[1];
	size_t size = sizeof *h + samples * (sample_size(h) + 1);

	return (size + 7) & ~(size_t)7;
}

static size_t payload_size(const struct payload_header *h)
{
	size_t samples = (size_t)h->count[0] + h->count[1];
	size_t listed = (size_t)h->listed[0] + h->listed[1];

	if (!listed)
		return plain_size(h);
	return plain_size(h) + (samples + 2) * sizeof(uint32_t) +
	       listed * (sizeof(uint16_t) + 1);
}

/* The parts of a payload; the lists as a decoder writes them. */
struct parts {
	struct dataset_room room;
	uint32_t *start[2];
	uint16_t *column[2];
	uint8_t *value[2];
};

static void find_parts(struct payload_header *h, struct parts *p)
{
	uint8_t *at = (uint8_t *)(h + 1);

	for (int i = 0; i < 2; i++) {
		p->room.pixels[i] = at;
		at += (size_t)h->count[i] * sample_size(h);
	}
	for (int i = 0; i < 2; i++) {
		p->room.labels[i] = at;
		at += h->count[i];
	}
	at = (uint8_t *)h + plain_size(h);
	for (int i = 0; i < 2; i++) {
		p->start[i] = (uint32_t *)(void *)at;
		at += ((size_t)h->count[i] + 1) * sizeof(uint32_t);
	}
	for (int i = 0; i < 2; i++) {
		p->column[i] = (uint16_t *)(void *)at;
		at += (size_t)h->listed[i] * sizeof(uint16_t);
	}
	for (int i = 0; i < 2; i++) {
		p->value[i] = at;
		at += h->listed[i];
	}
}

int dataset_alloc(struct payload *p, const struct image_shape *shape,
		  uint32_t train, uint32_t test, struct dataset_room *room,
		  struct err *e)
{
	struct payload_header head = {PAYLOAD_MAGIC, {train, test}, {0, 0},
				      *shape};
	struct parts parts;

	p->size = payload_size(&head);
	p->data = calloc(1, p->size);
	if (!p->data)
		return err_set(e, -ENOMEM, "no memory for %u + %u images (%zu "
			       "bytes)", train, test, p->size);
	memcpy(p->data, &head, sizeof head);
	find_parts(p->data, &parts);
	*room = parts.room;
	return 0;
}

static void fill_lists(const struct payload_header *h, struct parts *p, int i)
{
	const uint8_t *pixel = p->room.pixels[i];
	uint32_t n = 0;

	for (uint32_t k = 0; k < h->count[i]; k++) {
		p->start[i][k] = n;
		for (uint16_t c = 0; c < sample_size(h); c++, pixel++) {
			if (!*pixel)
				continue;
			p->column[i][n] = c;
			p->value[i][n++] = *pixel;
		}
	}
	p->start[i][h->count[i]] = n;
}

int dataset_add_lists(struct payload *p, struct err *e)
{
	struct payload_header *h = p->data;
	size_t all[2], inked[2] = {0, 0}, size;
	struct parts parts;
	void *more;

	find_parts(h, &parts);
	for (int i = 0; i < 2; i++) {
		all[i] = (size_t)h->count[i] * sample_size(h);
		for (size_t k = 0; k < all[i]; k++)
			inked[i] += parts.room.pixels[i][k] != 0;
	}
	if ((inked[0] + inked[1]) * DENSE_SHARE > all[0] + all[1] ||
	    all[0] + all[1] > UINT32_MAX || sample_size(h) >= UINT16_MAX)
		return 0;
	h->listed[0] = (uint32_t)inked[0];
	h->listed[1] = (uint32_t)inked[1];
	size = payload_size(h);
	more = realloc(p->data, size);
	if (!more)
		return err_set(e, -ENOMEM, "no memory for %u + %u images (%zu "
			       "bytes)", h->count[0], h->count[1], size);
	p->data = more;
	p->size = size;
	h = more;
	find_parts(h, &parts);
	for (int i = 0; i < 2; i++)
		fill_lists(h, &parts, i);
	return 0;
}

static int shape_is_right(const struct image_shape *s)
{
	return s->channels > 0 && s->channels <= IMAGE_CHANNELS_MAX &&
	       s->height > 0 && s->height <= IMAGE_SIDE_MAX &&
	       s->width > 0 && s->width <= IMAGE_SIDE_MAX &&
	       s->classes > 0 && s->classes <= IMAGE_CLASSES_MAX;
}

int dataset_view(const void *data, size_t size, struct dataset *d,
		 struct err *e)
{
	/* only read through the const pointers below */
	struct payload_header *h = (struct payload_header *)data;
	struct dataset_part *part[2] = {&d->train, &d->test};
	struct parts p;

	if (size < sizeof *h || h->magic != PAYLOAD_MAGIC ||
	    !shape_is_right(&h->shape) || size != payload_size(h))
		return err_set(e, ERR_DATA, "the decoded images (%zu bytes) "
			       "are damaged", size);
	find_parts(h, &p);
	d->shape = h->shape;
	for (int i = 0; i < 2; i++) {
		int listed = h->listed[0] + h->listed[1] > 0;

		part[i]->count = h->count[i];
		part[i]->labels = p.room.labels[i];
		part[i]->samples = (struct samples){
			p.room.pixels[i], sample_size(h),
			listed ? p.start[i] : NULL, p.column[i], p.value[i]};
	}
	return 0;
}

/* ---- Finding MNIST ---- */

const struct image_shape mnist_shape = {
	1, DATASET_SIDE, DATASET_SIDE, DATASET_CLASSES, {0}, {1}};

static const char *const mnist_names[MNIST_FILES] = {
	"train-images-idx3-ubyte",
	"train-labels-idx1-ubyte",
	"t10k-images-idx3-ubyte",
	"t10k-labels-idx1-ubyte",
};

static int find_one(char *path, const char *dir, const char *sub,
		    const char *name, struct stat *st)
{
	static const char *const ends[] = {"", ".gz"};

	for (int i = 0; i < 2; i++) {
		int n = snprintf(path, MNIST_PATH_MAX, "%s/%s%s%s", dir, sub,
				 name, ends[i]);

		if (n < MNIST_PATH_MAX && stat(path, st) == 0 &&
		    S_ISREG(st->st_mode))
			return 0;
	}
	return -ENOENT;
}

/* Returns how many of the four are in dir/sub. */
static int find_all(struct mnist_files *f, const char *dir, const char *sub,
		    const char **missing)
{
	size_t max = sizeof f->identity;
	size_t len = (size_t)snprintf(f->identity, max, "%s; ",
				      DATASET_FORMAT);
	int found = 0;

	for (int i = 0; i < MNIST_FILES; i++) {
		struct stat st;

		if (find_one(f->path[i], dir, sub, mnist_names[i], &st) < 0) {
			if (!*missing)
				*missing = mnist_names[i];
			continue;
		}
		found++;
		len += (size_t)snprintf(
			f->identity + len, max - len,
			"%llu:%llu %llu bytes %lld.%09ld; ",
			(unsigned long long)st.st_dev,
			(unsigned long long)st.st_ino,
			(unsigned long long)st.st_size,
			(long long)st.st_mtim.tv_sec, st.st_mtim.tv_nsec);
	}
	return found;
}

int mnist_find(struct mnist_files *f, const char *dir, struct err *e)
{
	const char *missing = NULL, *missing_below = NULL;
	struct stat st;
	int below;

	if (stat(dir, &st) < 0)
		return err_set(e, -errno, "no data folder %s: %s; give --data "
			       "(or DDP_DATA) the folder with MNIST's files",
			       dir, strerror(errno));
	if (find_all(f, dir, "", &missing) == MNIST_FILES)
		return 0;
	below = find_all(f, dir, "mnist/", &missing_below);
	if (below == MNIST_FILES)
		return 0;
	return err_set(e, -ENOENT, "%s%s has no %s, gzipped or plain; --data "
		       "(or DDP_DATA) names the folder with MNIST's four files "
		       "or with a folder mnist that has them", dir,
		       below ? "/mnist" : "", below ? missing_below : missing);
}

/* ---- Reading idx ---- */

struct idx {
	const char *path;
	gzFile file;
	uint32_t count;
};

static int read_exactly(struct idx *x, void *to, size_t size,
			unsigned long long whole, struct err *e)
{
	unsigned char *p = to;
	size_t done = 0;

	while (done < size) {
		size_t part = size - done < INT_MAX ? size - done : INT_MAX;
		int code, n = gzread(x->file, p + done, (unsigned)part);

		if (n < 0 || (n == 0 && gzerror(x->file, &code) && code < 0 &&
			      code != Z_BUF_ERROR))
			return err_set(e, ERR_DATA, "%s cannot be read: %s",
				       x->path, gzerror(x->file, &code));
		if (n == 0)
			return err_set(e, ERR_DATA, "%s is truncated: it ends "
				       "after %llu bytes, by its header it has "
				       "%llu; get it again", x->path,
				       (unsigned long long)gztell(x->file),
				       whole);
		done += (size_t)n;
	}
	return 0;
}

static uint32_t big_endian(const unsigned char *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 |
	       (uint32_t)p[2] << 8 | p[3];
}

enum { MAGIC_IMAGES = 0x803, MAGIC_LABELS = 0x801, COUNT_MAX = 10000000 };

/* Opens path and checks the header; images have rows and columns in it. */
static int idx_open(struct idx *x, const char *path, uint32_t magic,
		    struct err *e)
{
	unsigned char head[16];
	size_t size = magic == MAGIC_IMAGES ? 16 : 8;
	int r;

	x->path = path;
	errno = 0;
	x->file = gzopen(path, "rbe");
	if (!x->file)
		return err_set(e, errno ? -errno : -ENOMEM, "cannot open %s: "
			       "%s", path, strerror(errno ? errno : ENOMEM));
	gzbuffer(x->file, 1 << 17);
	r = read_exactly(x, head, size, size, e);
	if (r < 0)
		return r;
	if (big_endian(head) != magic)
		return err_set(e, ERR_DATA, "%s is no idx file of %s: its "
			       "magic is 0x%08x, not 0x%08x", path,
			       magic == MAGIC_IMAGES ? "images" : "labels",
			       big_endian(head), magic);
	x->count = big_endian(head + 4);
	if (magic == MAGIC_IMAGES && (big_endian(head + 8) != DATASET_SIDE ||
				      big_endian(head + 12) != DATASET_SIDE))
		return err_set(e, ERR_DATA, "%s has images of %u x %u; this "
			       "model takes %d x %d", path,
			       big_endian(head + 8), big_endian(head + 12),
			       DATASET_SIDE, DATASET_SIDE);
	if (x->count == 0 || x->count > COUNT_MAX)
		return err_set(e, ERR_DATA, "%s says that it has %u samples; "
			       "1 to %d are possible", path, x->count,
			       COUNT_MAX);
	return 0;
}

/* Reads count * each bytes and makes sure that nothing follows. */
static int idx_read(struct idx *x, size_t each, uint8_t *to, struct err *e)
{
	size_t size = x->count * each, head = each == 1 ? 8 : 16;
	unsigned char more;
	int r = read_exactly(x, to, size, head + size, e);
	int n, code = Z_OK;

	if (r < 0)
		return r;
	n = gzread(x->file, &more, 1);
	/* A gzip file that lacks only its trailer reads well up to here. */
	gzerror(x->file, &code);
	if (n < 0 || code == Z_BUF_ERROR)
		return err_set(e, ERR_DATA, "%s is truncated or damaged at its "
			       "end: %s; get it again", x->path,
			       gzerror(x->file, &code));
	if (n > 0)
		return err_set(e, ERR_DATA, "%s has another size than its "
			       "header says: more than %zu bytes; get it again",
			       x->path, head + size);
	return 0;
}

static int check_labels(const struct idx *x, const uint8_t *label,
			struct err *e)
{
	for (uint32_t i = 0; i < x->count; i++)
		if (label[i] >= DATASET_CLASSES)
			return err_set(e, ERR_DATA, "%s: label %u is %u; "
				       "digits go up to 9", x->path, i,
				       label[i]);
	return 0;
}

/* x: the four open files in mnist_names' order. */
static int decode(struct idx *x, struct payload *p, struct err *e)
{
	struct dataset_room room;
	int r = 0;

	for (int i = 0; i < MNIST_FILES; i += 2)
		if (x[i].count != x[i + 1].count)
			return err_set(e, ERR_DATA, "%s has %u images, but %s "
				       "has %u labels; they are not of one set",
				       x[i].path, x[i].count, x[i + 1].path,
				       x[i + 1].count);
	r = dataset_alloc(p, &mnist_shape, x[0].count, x[2].count, &room, e);
	for (int i = 0; i < 2 && r == 0; i++) {
		r = idx_read(&x[2 * i], DATASET_PIXELS, room.pixels[i], e);
		if (r == 0)
			r = idx_read(&x[2 * i + 1], 1, room.labels[i], e);
		if (r == 0)
			r = check_labels(&x[2 * i + 1], room.labels[i], e);
	}
	return r < 0 ? r : dataset_add_lists(p, e);
}

int mnist_decode(const struct mnist_files *f, struct payload *p,
		 struct err *e)
{
	struct idx x[MNIST_FILES] = {{NULL, NULL, 0}};
	int r = 0;

	p->data = NULL;
	for (int i = 0; i < MNIST_FILES && r == 0; i++)
		r = idx_open(&x[i], f->path[i],
			     i % 2 ? MAGIC_LABELS : MAGIC_IMAGES, e);
	if (r == 0)
		r = decode(x, p, e);
	for (int i = 0; i < MNIST_FILES; i++)
		if (x[i].file)
			gzclose(x[i].file);
	if (r < 0) {
		free(p->data);
		p->data = NULL;
	}
	return r;
}
