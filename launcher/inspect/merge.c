/* merge.c: walks the folder, knows each file by its first bytes, and sorts them
 * into worlds. */
#include "launcher/inspect/merge.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/log.h"
#include "launcher/traces/torch_trace.h"

enum {
	DEPTH_MAX = 8,
	FILES_MAX = 1 << 20,
	TRACE_MAX = 256 << 20, /* bytes of PyTorch's file */
	WORLDS_MAX = 256,
	PATH_MAX_READ = 4096,
	TEXT_LOOK = 4096, /* the first bytes of a text tell its kind */
	VERSION = 1,
};

struct merge {
	struct merge_world worlds[WORLDS_MAX];
	size_t n;
	int used, seen;
};

/* The world of that name, made if it is new. NULL: no memory, or too many. */
static struct merge_world *merge_find(struct merge *m, const char *name,
				      const char *source)
{
	struct merge_world *w;

	for (size_t i = 0; i < m->n; i++) {
		w = &m->worlds[i];
		if (strcmp(w->name, name) == 0 &&
		    strcmp(w->source, source) == 0)
			return w;
	}
	if (m->n == WORLDS_MAX ||
	    merge_world_init(&m->worlds[m->n], strdup(name), source) < 0)
		return NULL;
	return &m->worlds[m->n++];
}

static int merge_no_world(struct err *e)
{
	return err_set(e, -ENOMEM, "out of memory, or more than %d attempts "
		       "of jobs in one folder", WORLDS_MAX);
}

/* 0: not used; 1: used; or an error. */
static int merge_refuse(const char *path, const char *why)
{
	log_warn("%s is left out: %s", path, why);
	return 0;
}

static int merge_refuse_twice(const char *path, const struct merge_world *w,
			      uint32_t rank)
{
	log_warn("%s is left out: rank %u of %s is also in another file; name "
		 "a folder that has one run of the job", path, rank, w->name);
	return 0;
}

/* ---- one file ---- */

/* Whether the file is large enough for the parts in its header. */
static int merge_is_whole(const struct flight_file *head, off_t size)
{
	return head->parts && size >= 0 &&
	       flight_part_at(head, head->parts) <= (uint64_t)size;
}

static int merge_add_recorder(struct merge *m, const char *path, int fd,
			      off_t size, struct err *e)
{
	struct flight_file head;
	struct merge_world *w;
	char name[FLIGHT_NAME_MAX + 64];
	int rc = flight_file_read(&head, fd);

	if (rc < 0)
		return merge_refuse(path, "a flight recorder that is damaged, "
				    "or of another version of ddprun");
	if (!merge_is_whole(&head, size))
		return merge_refuse(path, "a truncated flight recorder");
	snprintf(name, sizeof(name), "job '%s', attempt %u, round %u", head.job,
		 head.attempt + 1, head.round);
	w = merge_find(m, name, "libddp");
	if (!w)
		return merge_no_world(e);
	for (uint32_t i = 0; i < head.parts; i++) {
		if (merge_world_has(w, head.base_rank + i))
			return merge_refuse_twice(path, w, head.base_rank + i);
	}
	rc = merge_world_add_recorder(w, &head, fd, e);
	return rc < 0 ? rc : 1;
}

/* The number that the name ends with, or -1. */
static long merge_rank_of(const char *path)
{
	size_t n = strlen(path), at = n;

	while (at && path[at - 1] >= '0' && path[at - 1] <= '9')
		at--;
	return at == n || n - at > 7 ? -1 : strtol(path + at, NULL, 10);
}

/* Traces of one attempt belong together, in whichever folders. */
static void merge_torch_name(const char *path, char *out, size_t size)
{
	const char *at = strstr(path, "/attempt_");

	if (at)
		snprintf(out, size, "traces in %.*s",
			 (int)strcspn(at + 1, "/"), at + 1);
	else
		snprintf(out, size, "traces");
}

static int merge_add_pickle(struct merge *m, const char *path,
			    const struct pickle *p, struct err *e)
{
	const char *slash = strrchr(path, '/');
	long rank = merge_rank_of(path);
	struct merge_world *w;
	char name[128];
	int rc;

	if (!torch_trace_is(p))
		return 0;
	merge_torch_name(path, name, sizeof(name));
	w = merge_find(m, name, "PyTorch");
	if (!w)
		return merge_no_world(e);
	if (merge_world_has(w, (uint32_t)rank))
		return merge_refuse_twice(path, w, (uint32_t)rank);
	rc = merge_world_add_torch(w, p, (uint32_t)rank,
				   slash ? slash + 1 : path, e);
	return rc < 0 ? rc : 1;
}

static int merge_add_torch(struct merge *m, const char *path, int fd,
			   off_t size, struct err *e)
{
	struct pickle p = {NULL};
	char *bytes;
	int rc;

	if (merge_rank_of(path) < 0)
		return 0;
	if (size > TRACE_MAX)
		return merge_refuse(path, "larger than a trace of PyTorch");
	bytes = malloc((size_t)size);
	if (!bytes)
		return err_no_memory(e, "%s", path);
	rc = file_read_all(fd, bytes, (size_t)size);
	if (rc < 0)
		rc = merge_refuse(path, strerror(-rc));
	else if ((rc = pickle_read(&p, SLICE(bytes, (size_t)size), e)) == 0)
		rc = merge_add_pickle(m, path, &p, e);
	else if (rc == ERR_DATA)
		rc = merge_refuse(path, e->text);
	pickle_release(&p);
	free(bytes);
	return rc;
}

/* Why a JSON file that also has calls is not read; NULL: it has none. */
static const char *merge_known_json(int fd)
{
	static const struct {
		const char *has, *why;
	} kinds[] = {
		{"\"version\":\t1,\n\t\"nodes\":",
		 "the output of `ddprun dump --json`, which has compared the "
		 "ranks of all nodes itself: read its findings"},
		{"\"pg_config\":",
		 "a trace of PyTorch as JSON; only its pickled files, "
		 "fr_trace_RANK, are read"},
	};
	char text[TEXT_LOOK + 1];
	ssize_t n = pread(fd, text, TEXT_LOOK, 0);

	text[n > 0 ? n : 0] = '\0';
	for (size_t i = 0; i < sizeof(kinds) / sizeof(*kinds); i++)
		if (*text == '{' && strstr(text, kinds[i].has))
			return kinds[i].why;
	return NULL;
}

static int merge_add_file(struct merge *m, const char *path, off_t size,
			  struct err *e)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK), rc = 0;
	const char *why;
	uint64_t magic = 0;
	ssize_t n;

	if (fd < 0)
		return merge_refuse(path, strerror(errno));
	n = pread(fd, &magic, sizeof(magic), 0);
	if (n == sizeof(magic) && magic == FLIGHT_FILE_MAGIC)
		rc = merge_add_recorder(m, path, fd, size, e);
	else if (n > 0 && *(unsigned char *)&magic == 0x80)
		rc = merge_add_torch(m, path, fd, size, e);
	else if ((why = merge_known_json(fd)))
		rc = merge_refuse(path, why);
	close(fd);
	if (rc > 0)
		m->used++;
	return rc < 0 ? rc : 0;
}

/* ---- the folder ---- */

static int merge_walk(struct merge *m, const char *dir, int depth,
		      struct err *e);

static int merge_visit(struct merge *m, const char *path, int depth,
		       struct err *e)
{
	struct stat st;

	if (lstat(path, &st) < 0)
		return 0; /* it has just gone */
	if (S_ISDIR(st.st_mode))
		return depth ? merge_walk(m, path, depth - 1, e) : 0;
	if (!S_ISREG(st.st_mode))
		return 0;
	if (++m->seen > FILES_MAX)
		return err_set(e, -EFBIG, "more than %d files", FILES_MAX);
	return merge_add_file(m, path, st.st_size, e);
}

/* In the order of names, so that the output is the same each time. */
static int merge_walk(struct merge *m, const char *dir, int depth,
		      struct err *e)
{
	char path[PATH_MAX_READ];
	struct dirent **names;
	int n = scandir(dir, &names, NULL, alphasort), rc = 0;

	if (n < 0)
		return err_set(e, -errno, "cannot read %s: %s", dir,
			       strerror(errno));
	for (int i = 0; i < n; i++) {
		const char *name = names[i]->d_name;

		if (rc == 0 && strcmp(name, ".") && strcmp(name, "..") &&
		    (size_t)snprintf(path, sizeof(path), "%s/%s", dir, name) <
			    sizeof(path))
			rc = merge_visit(m, path, depth, e);
		free(names[i]);
	}
	free(names);
	return rc;
}

/* ---- the output ---- */

static int merge_put_json(struct buf *out, const struct merge *m, struct err *e)
{
	const struct json *j = json_load(e);
	cJSON *all, *list;

	if (!j)
		return ERR_SYSTEM;
	all = j->object();
	j->add_number(all, "version", VERSION);
	list = j->add_array(all, "worlds");
	for (size_t i = 0; i < m->n; i++)
		j->append(list, merge_world_json(j, &m->worlds[i]));
	return json_put(out, j, all, e);
}

int merge_put(struct buf *out, const char *dir, int json, struct err *e)
{
	struct merge *m = calloc(1, sizeof(*m));
	int rc;

	if (!m)
		return err_no_memory(e, "the records");
	rc = merge_walk(m, dir, DEPTH_MAX, e);
	for (size_t i = 0; rc == 0 && i < m->n; i++)
		rc = merge_world_finish(&m->worlds[i], e);
	if (rc == 0 && json)
		rc = merge_put_json(out, m, e);
	for (size_t i = 0; rc == 0 && !json && i < m->n; i++) {
		buf_printf(out, i ? "\n" : "");
		merge_world_put(out, &m->worlds[i]);
	}
	if (rc == 0)
		rc = m->used;
	for (size_t i = 0; i < m->n; i++)
		merge_world_release(&m->worlds[i]);
	free(m);
	return rc;
}
