/* records_format.h: a file of a packed data set ("shard"): a head, images of
 * one size as raw bytes, their labels. docs/packed-data.md describes it. Pure:
 * knows neither files nor memory maps. */
#ifndef TRAINERS_RECORDS_FORMAT_H
#define TRAINERS_RECORDS_FORMAT_H

#include "trainers/data/dataset.h"

enum {
	RECORDS_VERSION = 1,
	RECORDS_HEAD_SIZE = 4096,
	/* Where the images begin. Every shard but the last of a part has images
	 * of a multiple of this many bytes, so that shards can be mapped one
	 * after the other, whatever a page's size is. */
	RECORDS_ALIGN = 65536,
	RECORDS_SHARDS_MAX = 100000,
	RECORDS_NAME_MAX = 32,
};

enum records_part { RECORDS_TRAIN, RECORDS_TEST, RECORDS_PARTS };

struct records_head {
	uint64_t set; /* the same number in all files of a data set */
	enum records_part part;
	uint32_t shard, shards; /* within this part */
	struct image_shape shape;
	uint32_t label_size; /* 2 or 4 bytes */
	/* Images before this shard; in it; in the part. */
	uint64_t first, count, total;
	uint32_t labels_crc, pixels_crc; /* zlib's crc32 */
};

/* "train", "test" */
const char *records_part_name(enum records_part part);
/* "train-00000.records", into out[RECORDS_NAME_MAX]; returns out. */
const char *records_name(enum records_part part, uint32_t shard, char *out);

/* The bytes of an image. */
size_t records_image_size(const struct image_shape *s);
/* The smallest number of images that is a multiple of RECORDS_ALIGN bytes. */
uint32_t records_unit(const struct image_shape *s);
/* Where the labels begin, and where the file ends. */
uint64_t records_labels_at(const struct records_head *h);
uint64_t records_file_size(const struct records_head *h);

void records_head_put(const struct records_head *h,
		      unsigned char out[RECORDS_HEAD_SIZE]);
/* Parses and checks a head; path is for errors. ERR_DATA: it is no packed data
 * set, of another version, damaged, or impossible. */
int records_head_get(struct records_head *h,
		     const unsigned char in[RECORDS_HEAD_SIZE],
		     const char *path, struct err *e);

/* Labels as they are in the file: little-endian. */
void records_label_put(unsigned char *to, uint32_t size, uint32_t label);
uint32_t records_label_get(const unsigned char *from, uint32_t size);

#endif
