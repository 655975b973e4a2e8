/* record_writer.c: images are appended to a shard, then its labels; the heads,
 * which contain totals, come last. */
#include "trainers/pack/packer.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "base/file.h"
#include "trainers/data/data_files.h"

int record_writer_init(struct record_writer *w, const char *dir,
		       enum records_part part, uint64_t set,
		       const struct image_shape *shape, uint64_t shard_bytes,
		       struct err *e)
{
	size_t size = records_image_size(shape);
	uint32_t unit = records_unit(shape);
	uint64_t units = shard_bytes / size / unit;

	memset(w, 0, sizeof(*w));
	w->dir = dir;
	w->fd = -1;
	if (units > UINT32_MAX / unit)
		units = UINT32_MAX / unit;
	w->per_shard = (uint32_t)(units < 1 ? unit : units * unit);
	w->head = (struct records_head){
		.set = set, .part = part, .shape = *shape,
		.label_size = shape->classes <= 65536 ? 2 : 4};
	w->labels = malloc((size_t)w->per_shard * w->head.label_size);
	return w->labels ? 0
			 : err_no_memory(e, "%u labels", w->per_shard);
}

static const char *record_writer_path(const struct record_writer *w,
				      uint32_t shard, char *out)
{
	char name[RECORDS_NAME_MAX];

	snprintf(out, DATA_PATH_MAX, "%s/%s", w->dir,
		 records_name(w->head.part, shard, name));
	return out;
}

static int record_writer_fail(const struct record_writer *w, uint32_t shard,
			      int rc, struct err *e)
{
	char path[DATA_PATH_MAX];

	return err_set(e, rc, "%s: %s", record_writer_path(w, shard, path),
		       strerror(-rc));
}

static int record_writer_open_shard(struct record_writer *w, struct err *e)
{
	char path[DATA_PATH_MAX];

	if (w->head.shard == RECORDS_SHARDS_MAX)
		return err_set(e, ERR_USAGE, "more than %d files; give a "
			       "larger --shard-mib", RECORDS_SHARDS_MAX);
	w->fd = open(record_writer_path(w, w->head.shard, path),
		     O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (w->fd < 0 || lseek(w->fd, RECORDS_ALIGN, SEEK_SET) < 0)
		return record_writer_fail(w, w->head.shard, -errno, e);
	w->head.count = 0;
	w->head.pixels_crc = 0;
	return 0;
}

/* Remembers the head, for the end. */
static int record_writer_keep(struct record_writer *w, struct err *e)
{
	if (w->done_count == w->done_room) {
		uint32_t more = w->done_room ? 2 * w->done_room : 16;
		struct records_head *p =
			realloc(w->done, more * sizeof(*p));

		if (!p)
			return err_no_memory(e, "%u files", more);
		w->done = p;
		w->done_room = more;
	}
	w->done[w->done_count++] = w->head;
	w->bytes += records_file_size(&w->head);
	w->head.first += w->head.count;
	w->head.shard++;
	w->head.count = 0;
	return 0;
}

static int record_writer_close_shard(struct record_writer *w, struct err *e)
{
	size_t bytes = (size_t)w->head.count * w->head.label_size;
	int r;

	w->head.labels_crc = (uint32_t)crc32_z(0, w->labels, bytes);
	r = lseek(w->fd, (off_t)records_labels_at(&w->head), SEEK_SET) < 0
		    ? -errno
		    : file_write_all(w->fd, w->labels, bytes);
	r = file_close(w->fd, r);
	w->fd = -1;
	if (r < 0)
		return record_writer_fail(w, w->head.shard, r, e);
	return record_writer_keep(w, e);
}

int record_writer_put(struct record_writer *w, const uint8_t *pixels,
		      uint32_t label, struct err *e)
{
	size_t size = records_image_size(&w->head.shape);
	int r = w->fd < 0 ? record_writer_open_shard(w, e) : 0;

	if (r < 0)
		return r;
	r = file_write_all(w->fd, pixels, size);
	if (r < 0)
		return record_writer_fail(w, w->head.shard, r, e);
	w->head.pixels_crc =
		(uint32_t)crc32_z(w->head.pixels_crc, pixels, size);
	records_label_put(w->labels + w->head.count * w->head.label_size,
			  w->head.label_size, label);
	w->head.count++;
	return w->head.count == w->per_shard ? record_writer_close_shard(w, e)
					     : 0;
}

static int record_writer_put_head(const struct record_writer *w,
				  const struct records_head *h)
{
	unsigned char head[RECORDS_HEAD_SIZE];
	char path[DATA_PATH_MAX];
	int fd = open(record_writer_path(w, h->shard, path),
		      O_WRONLY | O_CLOEXEC);
	int r;

	if (fd < 0)
		return -errno;
	records_head_put(h, head);
	r = file_write_all(fd, head, sizeof(head));
	if (r == 0 && fsync(fd) < 0)
		r = -errno;
	return file_close(fd, r);
}

int record_writer_finish(struct record_writer *w, struct err *e)
{
	int r = w->fd < 0 ? 0 : record_writer_close_shard(w, e);

	if (r == 0 && w->done_count == 0)
		r = err_set(e, ERR_DATA, "no image of %s is left",
			    records_part_name(w->head.part));
	for (uint32_t i = 0; i < w->done_count && r == 0; i++) {
		w->done[i].shards = w->done_count;
		w->done[i].total = w->head.first;
		r = record_writer_put_head(w, &w->done[i]);
		if (r < 0)
			r = record_writer_fail(w, i, r, e);
	}
	return r;
}

void record_writer_release(struct record_writer *w)
{
	if (w->fd >= 0)
		close(w->fd);
	free(w->labels);
	free(w->done);
}
