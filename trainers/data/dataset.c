/* dataset.c: the payload's layout. */
#include "trainers/data/dataset.h"

#include <stdlib.h>
#include <string.h>

/* Host byte order: a cache belongs to one kind of host. After the header come
 * the pixels of train and test, then, at the next multiple of 8, their labels.
 * If there are lists, they follow at the next multiple of 8: the starts of
 * both, the columns, the values. */

struct payload_header {
	uint64_t magic;
	uint32_t count[2];  /* images in train and in test */
	uint32_t listed[2]; /* entries of their lists; 0: no lists */
	struct image_shape shape;
};

#define PAYLOAD_MAGIC 0x3474657361746164u /* "dataset4" */
enum { DENSE_SHARE = 3 }; /* lists pay if at most one pixel in three is
			   * nonzero */

static size_t dataset_sample_size(const struct payload_header *h)
{
	return (size_t)h->shape.channels * (size_t)h->shape.height *
	       (size_t)h->shape.width;
}

static size_t dataset_round_up(size_t size)
{
	return (size + 7) & ~(size_t)7;
}

/* Where the labels begin. */
static size_t dataset_labels_at(const struct payload_header *h)
{
	size_t samples = (size_t)h->count[0] + h->count[1];

	return dataset_round_up(sizeof(*h) + samples * dataset_sample_size(h));
}

static size_t dataset_plain_size(const struct payload_header *h)
{
	size_t samples = (size_t)h->count[0] + h->count[1];

	return dataset_round_up(dataset_labels_at(h) +
				samples * sizeof(uint32_t));
}

static size_t dataset_payload_size(const struct payload_header *h)
{
	size_t samples = (size_t)h->count[0] + h->count[1];
	size_t listed = (size_t)h->listed[0] + h->listed[1];

	if (!listed)
		return dataset_plain_size(h);
	return dataset_plain_size(h) + (samples + 2) * sizeof(uint32_t) +
	       listed * (sizeof(uint16_t) + 1);
}

/* The parts of a payload; with the lists as a decoder writes them. */
struct parts {
	struct dataset_room room;
	uint32_t *start[2];
	uint16_t *column[2];
	uint8_t *value[2];
};

static void dataset_find_parts(struct payload_header *h, struct parts *p)
{
	uint8_t *at = (uint8_t *)(h + 1);

	for (int i = 0; i < 2; i++) {
		p->room.pixels[i] = at;
		at += (size_t)h->count[i] * dataset_sample_size(h);
	}
	at = (uint8_t *)h + dataset_labels_at(h);
	for (int i = 0; i < 2; i++) {
		p->room.labels[i] = (uint32_t *)(void *)at;
		at += (size_t)h->count[i] * sizeof(uint32_t);
	}
	at = (uint8_t *)h + dataset_plain_size(h);
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

	p->size = dataset_payload_size(&head);
	p->data = calloc(1, p->size);
	if (!p->data)
		return err_no_memory(e, "%u + %u images (%zu bytes)", train,
				     test, p->size);
	memcpy(p->data, &head, sizeof(head));
	dataset_find_parts(p->data, &parts);
	*room = parts.room;
	return 0;
}

static void dataset_fill_lists(const struct payload_header *h, struct parts *p,
			       int i)
{
	const uint8_t *pixel = p->room.pixels[i];
	uint32_t n = 0;

	for (uint32_t k = 0; k < h->count[i]; k++) {
		p->start[i][k] = n;
		for (uint16_t c = 0; c < dataset_sample_size(h); c++, pixel++) {
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

	dataset_find_parts(h, &parts);
	for (int i = 0; i < 2; i++) {
		all[i] = (size_t)h->count[i] * dataset_sample_size(h);
		for (size_t k = 0; k < all[i]; k++)
			inked[i] += parts.room.pixels[i][k] != 0;
	}
	if ((inked[0] + inked[1]) * DENSE_SHARE > all[0] + all[1] ||
	    all[0] + all[1] > UINT32_MAX ||
	    dataset_sample_size(h) >= UINT16_MAX)
		return 0;
	h->listed[0] = (uint32_t)inked[0];
	h->listed[1] = (uint32_t)inked[1];
	size = dataset_payload_size(h);
	more = realloc(p->data, size);
	if (!more)
		return err_no_memory(e, "%u + %u images (%zu bytes)",
				     h->count[0], h->count[1], size);
	p->data = more;
	p->size = size;
	h = more;
	dataset_find_parts(h, &parts);
	for (int i = 0; i < 2; i++)
		dataset_fill_lists(h, &parts, i);
	return 0;
}

static int dataset_is_valid_shape(const struct image_shape *s)
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

	if (size < sizeof(*h) || h->magic != PAYLOAD_MAGIC ||
	    !dataset_is_valid_shape(&h->shape) ||
	    size != dataset_payload_size(h))
		return err_set(e, ERR_DATA, "the decoded images (%zu bytes) "
			       "are damaged", size);
	dataset_find_parts(h, &p);
	d->shape = h->shape;
	for (int i = 0; i < 2; i++) {
		int listed = h->listed[0] + h->listed[1] > 0;

		part[i]->count = h->count[i];
		part[i]->labels = p.room.labels[i];
		part[i]->samples = (struct samples){
			p.room.pixels[i], dataset_sample_size(h),
			listed ? p.start[i] : NULL, p.column[i], p.value[i]};
	}
	return 0;
}
