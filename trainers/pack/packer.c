/* packer.c: threads decode a few files at a time; then their images are written
 * in order. */
#include "trainers/pack/packer.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "trainers/data/data_files.h"
#include "trainers/pack/image.h"

enum {
	JOBS_EACH = 32, /* files at a time for each thread */
	THREADS_MAX = 256,
	FILE_BYTES_MAX = 256 << 20,
};

struct job {
	const struct image_file *file;
	uint8_t *pixels; /* [3][side][side] */
	int result;
	struct err err;
};

struct packer {
	const struct packer_options *options;
	struct packer_result *result;
	struct image_folder folder;
	char partial[DATA_PATH_MAX]; /* the folder under way; "": none */
	struct job *jobs;
	uint8_t *pixels;
	int job_count, jobs_max;
	atomic_int next;
};

/* ---- One file ---- */

static int packer_read_file(const char *path, unsigned char **bytes, size_t *n,
			    struct err *e)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC), r = 0;
	struct stat st;

	*bytes = NULL;
	if (fd < 0 || fstat(fd, &st) < 0)
		r = err_set(e, -errno, "%s", strerror(errno));
	else if (!S_ISREG(st.st_mode))
		r = err_set(e, ERR_DATA, "it is no file");
	else if (st.st_size > FILE_BYTES_MAX)
		r = err_set(e, ERR_DATA, "it has %lld bytes, and files have at "
			    "most %d", (long long)st.st_size, FILE_BYTES_MAX);
	if (r == 0) {
		*n = (size_t)st.st_size;
		*bytes = malloc(*n ? *n : 1);
		r = *bytes ? 0 : err_no_memory(e, "%zu bytes", *n);
	}
	if (r == 0) {
		r = file_read_all(fd, *bytes, *n);
		if (r < 0)
			r = err_set(e, r, "%s", strerror(-r));
	}
	if (fd >= 0)
		close(fd);
	return r;
}

static int packer_decode(const struct packer *p, struct job *j)
{
	unsigned char *bytes;
	struct image image = {0};
	size_t n;
	int r = packer_read_file(j->file->path, &bytes, &n, &j->err);

	if (r == 0)
		r = image_decode(&image, bytes, n, p->options->side, &j->err);
	free(bytes);
	if (r == 0)
		r = image_fit(&image, p->options->side, j->pixels, &j->err);
	image_release(&image);
	return r;
}

static void *packer_thread(void *arg)
{
	struct packer *p = arg;
	int i;

	while ((i = atomic_fetch_add(&p->next, 1)) < p->job_count)
		p->jobs[i].result = packer_decode(p, &p->jobs[i]);
	return NULL;
}

/* ---- A few files at a time ---- */

static void packer_decode_all(struct packer *p)
{
	pthread_t thread[THREADS_MAX];
	int started = 0;

	p->next = 0;
	while (started + 1 < p->options->threads &&
	       started + 1 < p->job_count &&
	       pthread_create(&thread[started], NULL, packer_thread, p) == 0)
		started++;
	packer_thread(p);
	for (int i = 0; i < started; i++)
		pthread_join(thread[i], NULL);
}

static int packer_put_job(struct packer *p, const struct job *j,
			  struct record_writer *w, struct err *e)
{
	char line[ERR_TEXT_MAX];
	int is_bad = j->result == ERR_DATA;

	if (j->result == 0) {
		p->result->images[w->head.part]++;
		return record_writer_put(w, j->pixels, j->file->label, e);
	}
	snprintf(line, sizeof(line), "%.600s: %.300s", j->file->path,
		 j->err.text);
	if (!is_bad || !p->options->skip_bad)
		return err_set(e, j->result, "%s%s", line,
			       is_bad ? " (--skip-bad skips such files)"
				      : "");
	p->result->left_out++;
	p->options->note(line);
	return 0;
}

static int packer_put_part(struct packer *p, struct record_writer *w,
			   struct err *e)
{
	enum records_part part = w->head.part;
	const struct image_file *file = p->folder.file[part];
	size_t count = p->folder.count[part];
	int r = 0;

	for (size_t at = 0; at < count && r == 0; at += (size_t)p->job_count) {
		p->job_count = count - at < (size_t)p->jobs_max
				       ? (int)(count - at)
				       : p->jobs_max;
		for (int i = 0; i < p->job_count; i++) {
			p->jobs[i].file = &file[at + (size_t)i];
			p->jobs[i].err = (struct err)ERR_INIT;
		}
		packer_decode_all(p);
		for (int i = 0; i < p->job_count && r == 0; i++)
			r = packer_put_job(p, &p->jobs[i], w, e);
	}
	return r;
}

static int packer_write_part(struct packer *p, enum records_part part,
			     uint64_t set, struct err *e)
{
	const int side = p->options->side;
	/* ImageNet's means and deviations, as most recipes use them */
	const struct image_shape shape = {
		3, side, side, (int)p->folder.class_count,
		{.485f, .456f, .406f}, {.229f, .224f, .225f, 1}};
	struct record_writer w;
	int r = record_writer_init(&w, p->partial, part, set, &shape,
				   p->options->shard_bytes, e);

	if (r == 0)
		r = packer_put_part(p, &w, e);
	if (r == 0)
		r = record_writer_finish(&w, e);
	p->result->files += w.done_count;
	p->result->bytes += w.bytes;
	record_writer_release(&w);
	return r;
}

/* ---- All ---- */

/* classes.txt: the name of each class; the first is label 0. */
static int packer_write_classes(const struct packer *p, struct err *e)
{
	char path[DATA_PATH_MAX + 16];
	FILE *f;
	int r = 0;

	snprintf(path, sizeof(path), "%s/classes.txt", p->partial);
	f = fopen(path, "we");
	if (!f)
		return err_set(e, -errno, "%s: %s", path, strerror(errno));
	for (uint32_t i = 0; i < p->folder.class_count && r == 0; i++)
		if (fprintf(f, "%s\n", p->folder.classes[i]) < 0)
			r = -errno;
	r = file_close_stream(f, r);
	return r < 0 ? err_set(e, r, "%s: %s", path, strerror(-r)) : 0;
}

static int packer_make_folder(struct packer *p, struct err *e)
{
	const char *to = p->options->to;
	struct stat st;
	int n = snprintf(p->partial, sizeof(p->partial), "%s.partial-XXXXXX",
			 to);

	if (n >= DATA_PATH_MAX - RECORDS_NAME_MAX) {
		p->partial[0] = '\0';
		return err_set(e, -ENAMETOOLONG, "%.400s: the name is too long",
			       to);
	}
	if (lstat(to, &st) == 0 || !mkdtemp(p->partial)) {
		int rc = -errno, exists = lstat(to, &st) == 0;

		p->partial[0] = '\0';
		return exists ? err_set(e, ERR_USAGE, "%s exists; name another "
					"folder, or remove it", to)
			      : err_set(e, rc, "%s.partial-XXXXXX: %s", to,
					strerror(-rc));
	}
	/* mkdtemp's folder is private; the result is as mkdir makes it */
	n = (int)umask(0);
	umask((mode_t)n);
	if (chmod(p->partial, 0777 & ~(mode_t)n) < 0)
		return err_set(e, -errno, "%s: %s", p->partial,
			       strerror(errno));
	return 0;
}

static void packer_on_name(void *arg, int dir, const char *name)
{
	unlinkat(dir, name, 0);
}

/* On failure. */
static void packer_remove_folder(struct packer *p)
{
	int dir = open(p->partial, O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dir < 0)
		return;
	/* an entry that cannot be removed stays, in a folder with the name of a
	 * partial one */
	if (file_each_name(dir, packer_on_name, NULL) == 0)
		rmdir(p->partial);
	close(dir);
}

static int packer_alloc(struct packer *p, struct err *e)
{
	size_t size = 3 * (size_t)p->options->side * (size_t)p->options->side;

	p->jobs_max = JOBS_EACH * p->options->threads;
	p->jobs = calloc((size_t)p->jobs_max, sizeof(*p->jobs));
	p->pixels = malloc((size_t)p->jobs_max * size);
	if (!p->jobs || !p->pixels)
		return err_no_memory(e, "%d images", p->jobs_max);
	for (int i = 0; i < p->jobs_max; i++)
		p->jobs[i].pixels = p->pixels + (size_t)i * size;
	return 0;
}

static int packer_write(struct packer *p, struct err *e)
{
	uint64_t set;
	int r = packer_make_folder(p, e);

	if (r == 0 && getrandom(&set, sizeof(set), 0) != sizeof(set))
		r = err_set(e, -errno, "no random number: %s",
			    strerror(errno));
	for (int i = 0; i < RECORDS_PARTS && r == 0; i++)
		r = packer_write_part(p, (enum records_part)i, set, e);
	if (r == 0)
		r = packer_write_classes(p, e);
	if (r == 0 && rename(p->partial, p->options->to) < 0)
		r = err_set(e, -errno, "%s: %s", p->options->to,
			    strerror(errno));
	if (r < 0 && p->partial[0])
		packer_remove_folder(p);
	return r;
}

int packer_run(const struct packer_options *o, struct packer_result *result,
	       struct err *e)
{
	struct packer p = {.options = o, .result = result};
	int r;

	memset(result, 0, sizeof(*result));
	if (o->threads < 1 || o->threads > THREADS_MAX || o->side < 1 ||
	    o->side > IMAGE_SIDE_MAX)
		return err_set(e, ERR_ARGUMENT, "%d threads, images of %d",
			       o->threads, o->side);
	r = image_folder_list(&p.folder, o->from, e);
	if (r == 0)
		r = packer_alloc(&p, e);
	if (r == 0)
		r = packer_write(&p, e);
	result->classes = p.folder.class_count;
	result->ignored = p.folder.ignored;
	image_folder_release(&p.folder);
	free(p.jobs);
	free(p.pixels);
	return r;
}
