/* records_format.c: the head's bytes, and which heads are possible. */
#include "trainers/data/records_format.h"

#include <stdio.h>
#include <string.h>
#include <zlib.h>

#include "base/buf.h"

enum { MAGIC_SIZE = 8, CRC_END = MAGIC_SIZE + 4 };
static const char records_magic[MAGIC_SIZE + 1] = "ddpack\r\n";

const char *records_part_name(enum records_part part)
{
	return part == RECORDS_TRAIN ? "train" : "test";
}

const char *records_name(enum records_part part, uint32_t shard, char *out)
{
	snprintf(out, RECORDS_NAME_MAX, "%s-%05u.records",
		 records_part_name(part), shard);
	return out;
}

size_t records_image_size(const struct image_shape *s)
{
	return (size_t)s->channels * (size_t)s->height * (size_t)s->width;
}

uint32_t records_unit(const struct image_shape *s)
{
	size_t size = records_image_size(s), twos = size & -size;

	return twos < RECORDS_ALIGN ? (uint32_t)(RECORDS_ALIGN / twos) : 1;
}

uint64_t records_labels_at(const struct records_head *h)
{
	uint64_t end = RECORDS_ALIGN +
		       h->count * (uint64_t)records_image_size(&h->shape);

	return (end + 7) & ~(uint64_t)7;
}

uint64_t records_file_size(const struct records_head *h)
{
	return records_labels_at(h) + h->count * h->label_size;
}

static void records_put_float(struct buf *b, float v)
{
	uint32_t bits;

	memcpy(&bits, &v, sizeof(bits));
	buf_put_u32(b, bits);
}

static float records_get_float(struct reader *r)
{
	uint32_t bits = reader_u32(r);
	float v;

	memcpy(&v, &bits, sizeof(v));
	return v;
}

static void records_put_fields(const struct records_head *h, struct buf *b)
{
	const struct image_shape *s = &h->shape;

	buf_put_u32(b, RECORDS_VERSION);
	buf_put_u64(b, h->set);
	buf_put_u32(b, h->part);
	buf_put_u32(b, h->shard);
	buf_put_u32(b, h->shards);
	buf_put_u32(b, (uint32_t)s->channels);
	buf_put_u32(b, (uint32_t)s->height);
	buf_put_u32(b, (uint32_t)s->width);
	buf_put_u32(b, (uint32_t)s->classes);
	buf_put_u32(b, h->label_size);
	buf_put_u64(b, h->first);
	buf_put_u64(b, h->count);
	buf_put_u64(b, h->total);
	buf_put_u32(b, h->labels_crc);
	buf_put_u32(b, h->pixels_crc);
	for (int i = 0; i < IMAGE_CHANNELS_MAX; i++)
		records_put_float(b, s->mean[i]);
	for (int i = 0; i < IMAGE_CHANNELS_MAX; i++)
		records_put_float(b, s->std[i]);
}

static uint32_t records_head_crc(const unsigned char *in)
{
	return (uint32_t)crc32_z(0, in + CRC_END, RECORDS_HEAD_SIZE - CRC_END);
}

void records_head_put(const struct records_head *h,
		      unsigned char out[RECORDS_HEAD_SIZE])
{
	struct buf b = BUF_INIT(RECORDS_HEAD_SIZE);

	memset(out, 0, RECORDS_HEAD_SIZE);
	memcpy(out, records_magic, MAGIC_SIZE);
	records_put_fields(h, &b);
	if (!b.failed) /* else the head stays zero, and a reader refuses it */
		memcpy(out + CRC_END, b.data, b.len);
	buf_release(&b);
	records_label_put(out + MAGIC_SIZE, 4, records_head_crc(out));
}

/* The parser reads whatever is there; records_check decides. */
static void records_get_fields(struct records_head *h, struct reader *r)
{
	struct image_shape *s = &h->shape;

	h->set = reader_u64(r);
	h->part = (enum records_part)reader_u32(r);
	h->shard = reader_u32(r);
	h->shards = reader_u32(r);
	s->channels = (int)reader_u32(r);
	s->height = (int)reader_u32(r);
	s->width = (int)reader_u32(r);
	s->classes = (int)reader_u32(r);
	h->label_size = reader_u32(r);
	h->first = reader_u64(r);
	h->count = reader_u64(r);
	h->total = reader_u64(r);
	h->labels_crc = reader_u32(r);
	h->pixels_crc = reader_u32(r);
	for (int i = 0; i < IMAGE_CHANNELS_MAX; i++)
		s->mean[i] = records_get_float(r);
	for (int i = 0; i < IMAGE_CHANNELS_MAX; i++)
		s->std[i] = records_get_float(r);
}

/* The name of an impossible field of the head; NULL: all are possible. */
static const char *records_check(const struct records_head *h)
{
	const struct image_shape *s = &h->shape;

	if (h->part >= RECORDS_PARTS || h->shards < 1 ||
	    h->shards > RECORDS_SHARDS_MAX || h->shard >= h->shards)
		return "its place in the data set";
	if (s->channels < 1 || s->channels > IMAGE_CHANNELS_MAX ||
	    s->height < 1 || s->height > IMAGE_SIDE_MAX || s->width < 1 ||
	    s->width > IMAGE_SIDE_MAX)
		return "the size of its images";
	if (s->classes < 1 || s->classes > IMAGE_CLASSES_MAX)
		return "its number of classes";
	if (h->label_size != 2 && h->label_size != 4)
		return "the size of its labels";
	if (h->total < 1 || h->total > UINT32_MAX || h->count < 1 ||
	    h->first > h->total || h->count > h->total - h->first ||
	    (h->shard == 0) != (h->first == 0) ||
	    (h->shard + 1 == h->shards) != (h->first + h->count == h->total))
		return "its number of images";
	if (h->shard + 1 < h->shards && h->count % records_unit(s))
		return "its number of images, which do not fill whole pages";
	for (int i = 0; i < s->channels; i++)
		if (!(s->std[i] > 0) || !(s->mean[i] >= -1e6f) ||
		    !(s->mean[i] <= 1e6f))
			return "the mean or deviation of its channels";
	return NULL;
}

int records_head_get(struct records_head *h,
		     const unsigned char in[RECORDS_HEAD_SIZE],
		     const char *path, struct err *e)
{
	struct reader r;
	const char *fault;
	uint32_t version;

	memset(h, 0, sizeof(*h));
	if (memcmp(in, records_magic, MAGIC_SIZE) != 0)
		return err_set(e, ERR_DATA,
			       "%s is not part of a packed data set: it has "
			       "other first bytes; make it with pack_data",
			       path);
	reader_init(&r, SLICE((const char *)in + CRC_END,
			      RECORDS_HEAD_SIZE - CRC_END));
	version = reader_u32(&r);
	if (version != RECORDS_VERSION)
		return err_set(e, ERR_DATA,
			       "%s has format %u, and this program reads %d; "
			       "pack it with the pack_data of this version",
			       path, version, RECORDS_VERSION);
	if (records_label_get(in + MAGIC_SIZE, 4) != records_head_crc(in))
		return err_set(e, ERR_DATA,
			       "%s is damaged: the checksum of its header does "
			       "not match; copy or pack it again", path);
	records_get_fields(h, &r);
	fault = records_check(h);
	if (fault)
		return err_set(e, ERR_DATA,
			       "%s is invalid: %s is impossible", path, fault);
	return 0;
}

void records_label_put(unsigned char *to, uint32_t size, uint32_t label)
{
	for (uint32_t i = 0; i < size; i++)
		to[i] = (unsigned char)(label >> 8 * i);
}

uint32_t records_label_get(const unsigned char *from, uint32_t size)
{
	uint32_t label = 0;

	for (uint32_t i = 0; i < size; i++)
		label |= (uint32_t)from[i] << 8 * i;
	return label;
}
