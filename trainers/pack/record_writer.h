/* record_writer.h: writes one part of a packed data set, shard by shard. Knows
 * no images' formats. */
#ifndef TRAINERS_RECORD_WRITER_H
#define TRAINERS_RECORD_WRITER_H

#include "trainers/data/records_format.h"

struct record_writer {
	const char *dir;	  /* borrowed; it exists */
	struct records_head head; /* the shard under way, or the last */
	uint32_t per_shard;	  /* images of a full one */
	int fd;			  /* -1: none is under way */
	unsigned char *labels;	  /* [per_shard][label_size] */
	struct records_head *done; /* [done_count], total and shards unset */
	uint32_t done_count, done_room;
	uint64_t bytes; /* in all files so far */
};

/* set, shape and classes are the same for both parts. shard_bytes: about the
 * largest size of a file. Writes nothing yet. The caller releases w, also after
 * an error. */
int record_writer_init(struct record_writer *w, const char *dir,
		       enum records_part part, uint64_t set,
		       const struct image_shape *shape, uint64_t shard_bytes,
		       struct err *e);
/* Appends an image of the shape's size. */
int record_writer_put(struct record_writer *w, const uint8_t *pixels,
		      uint32_t label, struct err *e);
/* Writes the heads, which makes the files valid, and waits until all is on the
 * disk. ERR_DATA: there is no image. */
int record_writer_finish(struct record_writer *w, struct err *e);
void record_writer_release(struct record_writer *w);

#endif
