/* records.c: the shards of a part are mapped one after another into one range
 * of addresses, so that the images are one array. */
#include "trainers/data/records.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/file.h"
#include "trainers/data/data_files.h"

/* An open file of the set. */
struct shard {
	int fd;
	struct records_head head;
	char path[DATA_PATH_MAX];
};

static int shard_path(char *out, const char *dir, enum records_part part,
		      uint32_t number)
{
	char name[RECORDS_NAME_MAX];
	int n = snprintf(out, DATA_PATH_MAX, "%s/%s", dir,
			 records_name(part, number, name));

	return n < DATA_PATH_MAX ? 0 : -ENAMETOOLONG;
}

int records_exist(const char *dir)
{
	char path[DATA_PATH_MAX];

	return shard_path(path, dir, RECORDS_TRAIN, 0) == 0 &&
	       access(path, F_OK) == 0;
}

static int shard_check_size(const struct shard *s, struct err *e)
{
	unsigned long long want = records_file_size(&s->head), has;
	struct stat st;

	if (fstat(s->fd, &st) < 0)
		return err_set(e, -errno, "%s: %s", s->path, strerror(errno));
	has = (unsigned long long)st.st_size;
	if (has == want)
		return 0;
	return err_set(e, ERR_DATA,
		       "%s is %s: it has %llu bytes, and its header says %llu; "
		       "copy or pack it again", s->path,
		       has < want ? "truncated" : "too large", has, want);
}

/* first: the part's first shard, or the other part's first; NULL: this shard is
 * the first. */
static int shard_check_set(const struct shard *s, const struct shard *first,
			   enum records_part part, uint32_t number,
			   uint64_t before, struct err *e)
{
	const struct records_head *h = &s->head, *f = &first->head;

	if (h->part != part || h->shard != number)
		return err_set(e, ERR_DATA,
			       "%s is shard %u of %s, under a wrong name; copy "
			       "or pack it again", s->path, h->shard,
			       records_part_name(h->part));
	if (h->set != f->set ||
	    memcmp(&h->shape, &f->shape, sizeof(h->shape)) != 0)
		return err_set(e, ERR_DATA,
			       "%s and %s belong to different data sets; copy "
			       "or pack all files again", s->path, first->path);
	if (h->first != before || (h->part == f->part &&
				   (h->shards != f->shards ||
				    h->total != f->total)))
		return err_set(e, ERR_DATA, "%s does not follow the file "
			       "before it; copy or pack all files again",
			       s->path);
	return 0;
}

/* Opens the file and reads its head. */
static int shard_open(struct shard *s, const char *dir, enum records_part part,
		      uint32_t number, struct err *e)
{
	unsigned char head[RECORDS_HEAD_SIZE];
	int r = shard_path(s->path, dir, part, number);

	s->fd = -1;
	if (r < 0)
		return err_set(e, r, "%.400s: the name is too long", dir);
	s->fd = open(s->path, O_RDONLY | O_CLOEXEC);
	if (s->fd < 0 && errno == ENOENT)
		return err_set(e, -ENOENT, "%s is missing: the packed data set "
			       "is incomplete; copy or pack it again", s->path);
	if (s->fd < 0)
		return err_set(e, -errno, "%s: %s", s->path, strerror(errno));
	r = file_read_all(s->fd, head, sizeof(head));
	if (r == -EIO)
		return err_set(e, ERR_DATA,
			       "%s is truncated: it is shorter than a header "
			       "of %d bytes; copy or pack it again", s->path,
			       RECORDS_HEAD_SIZE);
	if (r < 0)
		return err_set(e, r, "%s: %s", s->path, strerror(-r));
	r = records_head_get(&s->head, head, s->path, e);
	return r < 0 ? r : shard_check_size(s, e);
}

static void shard_close(struct shard *s)
{
	if (s->fd >= 0)
		close(s->fd);
}

static int shard_read_labels(const struct shard *s, uint32_t *to,
			     struct err *e)
{
	const struct records_head *h = &s->head;
	size_t size = h->label_size, bytes = (size_t)h->count * size;
	unsigned char *raw = malloc(bytes);
	int r;

	if (!raw)
		return err_no_memory(e, "the labels of %s", s->path);
	r = lseek(s->fd, (off_t)records_labels_at(h), SEEK_SET) < 0
		    ? -errno
		    : file_read_all(s->fd, raw, bytes);
	if (r < 0)
		r = err_set(e, r, "%s: %s", s->path, strerror(-r));
	else if (crc32_z(0, raw, bytes) != h->labels_crc)
		r = err_set(e, ERR_DATA, "%s is damaged: the checksum of its "
			    "labels does not match; copy or pack it again",
			    s->path);
	for (uint64_t i = 0; i < h->count && r == 0; i++) {
		to[i] = records_label_get(raw + i * size, h->label_size);
		if (to[i] >= (uint32_t)h->shape.classes)
			r = err_set(e, ERR_DATA,
				    "%s: label %llu is %u, and there are %d "
				    "classes; pack it again", s->path,
				    (unsigned long long)i, to[i],
				    h->shape.classes);
	}
	free(raw);
	return r;
}

/* Reserves addresses and memory for all images of the part. */
static int records_reserve(struct records *r, const struct shard *first,
			   struct err *e)
{
	enum records_part part = first->head.part;
	size_t total = (size_t)first->head.total;
	size_t bytes = total * records_image_size(&first->head.shape);
	void *map = mmap(NULL, bytes, PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);

	if (map == MAP_FAILED)
		return err_set(e, -errno, "%s: cannot reserve %zu MiB of "
			       "addresses for all images: %s", first->path,
			       bytes >> 20, strerror(errno));
	r->map[part] = map;
	r->map_size[part] = bytes;
	r->labels[part] = malloc(total * sizeof(uint32_t));
	if (!r->labels[part])
		return err_no_memory(e, "%zu labels", total);
	return 0;
}

static int records_map_shard(struct records *r, const struct shard *s,
			     struct err *e)
{
	const struct records_head *h = &s->head;
	size_t size = records_image_size(&h->shape);
	char *at = (char *)r->map[h->part] + (size_t)h->first * size;

	if (mmap(at, (size_t)h->count * size, PROT_READ, MAP_SHARED | MAP_FIXED,
		 s->fd, RECORDS_ALIGN) == MAP_FAILED)
		return err_set(e, -errno, "%s cannot be mapped: %s", s->path,
			       strerror(errno));
	return shard_read_labels(s, r->labels[h->part] + h->first, e);
}

/* Calls take for each file of a part. *first is the first file of the set, with
 * its descriptor closed. */
static int records_each(const char *dir, enum records_part part,
			struct shard *first,
			int (*take)(void *arg, const struct shard *s,
				    struct err *e),
			void *arg, struct err *e)
{
	struct shard *s = malloc(sizeof(*s));
	uint64_t before = 0;
	uint32_t shards = 1;
	int r = 0;

	if (!s)
		return err_no_memory(e, "the files of %s", dir);
	for (uint32_t i = 0; i < shards && r == 0; i++) {
		r = shard_open(s, dir, part, i, e);
		/* compare the test's first file with the training's, and the
		 * test's others with it */
		if (r == 0 && i == 0 && part == RECORDS_TRAIN)
			*first = *s;
		if (r == 0)
			r = shard_check_set(s, first, part, i, before, e);
		if (r == 0 && i == 0)
			*first = *s;
		if (r == 0)
			r = take(arg, s, e);
		if (r == 0) {
			shards = s->head.shards;
			before += s->head.count;
		}
		shard_close(s);
	}
	free(s);
	return r;
}

static int records_take(void *arg, const struct shard *s, struct err *e)
{
	struct records *r = arg;
	int rc = s->head.shard == 0 ? records_reserve(r, s, e) : 0;

	return rc < 0 ? rc : records_map_shard(r, s, e);
}

int records_open(struct records *r, const char *dir, struct err *e)
{
	struct dataset_part *part[RECORDS_PARTS] = {&r->set.train,
						    &r->set.test};
	struct shard *first = malloc(sizeof(*first));
	int rc = 0;

	memset(r, 0, sizeof(*r));
	if (!first)
		return err_no_memory(e, "the files of %s", dir);
	for (int i = 0; i < RECORDS_PARTS && rc == 0; i++) {
		rc = records_each(dir, (enum records_part)i, first,
				  records_take, r, e);
		if (rc < 0)
			break;
		r->set.shape = first->head.shape;
		part[i]->count = (uint32_t)first->head.total;
		part[i]->labels = r->labels[i];
		part[i]->samples = (struct samples){
			.pixels = r->map[i],
			.size = records_image_size(&first->head.shape),
			.is_file = 1};
	}
	free(first);
	return rc;
}

void records_release(struct records *r)
{
	for (int i = 0; i < RECORDS_PARTS; i++) {
		if (r->map[i])
			munmap(r->map[i], r->map_size[i]);
		free(r->labels[i]);
	}
	memset(r, 0, sizeof(*r));
}

/* ---- Verification ---- */

enum { VERIFY_BYTES = 1 << 20 };

static int records_verify_pixels(const struct shard *s, struct err *e)
{
	uint64_t left = s->head.count * records_image_size(&s->head.shape);
	unsigned char *bytes = malloc(VERIFY_BYTES);
	uLong crc = 0;
	int r = 0;

	if (!bytes)
		return err_no_memory(e, "%s", s->path);
	if (lseek(s->fd, RECORDS_ALIGN, SEEK_SET) < 0)
		r = -errno;
	while (left && r == 0) {
		size_t n = left < VERIFY_BYTES ? (size_t)left : VERIFY_BYTES;

		r = file_read_all(s->fd, bytes, n);
		crc = crc32_z(crc, bytes, n);
		left -= n;
	}
	free(bytes);
	if (r < 0)
		return err_set(e, r, "%s: %s", s->path, strerror(-r));
	if (crc != s->head.pixels_crc)
		return err_set(e, ERR_DATA, "%s is damaged: the checksum of "
			       "its images does not match; copy or pack it "
			       "again",
			       s->path);
	return 0;
}

static int records_verify_shard(void *arg, const struct shard *s,
				struct err *e)
{
	uint32_t *labels = malloc((size_t)s->head.count * sizeof(*labels));
	int r;

	if (!labels)
		return err_no_memory(e, "the labels of %s", s->path);
	r = shard_read_labels(s, labels, e);
	free(labels);
	++*(uint32_t *)arg;
	return r < 0 ? r : records_verify_pixels(s, e);
}

int records_verify(const char *dir, uint32_t *files, struct err *e)
{
	struct shard *first = malloc(sizeof(*first));
	int r = 0;

	*files = 0;
	if (!first)
		return err_no_memory(e, "the files of %s", dir);
	for (int i = 0; i < RECORDS_PARTS && r == 0; i++)
		r = records_each(dir, (enum records_part)i, first,
				 records_verify_shard, files, e);
	free(first);
	return r;
}
