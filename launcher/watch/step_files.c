/* step_files.c: one look at a time, in a thread: the files may be on a file
 * system whose server has stopped. A look is owned by its thread and by its
 * step_files; the last one to leave frees it. */
#include "launcher/watch/watch.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/thread.h"

enum { PATHS_MAX = 64 << 20 };

struct step_look {
	atomic_int owners, is_done;
	uint64_t began_ms;
	uint32_t n;
	char *paths;	 /* each ends with NUL; "": none */
	int64_t steps[]; /* [n] */
};

static void step_look_leave(struct step_look *k)
{
	if (atomic_fetch_sub(&k->owners, 1) > 1)
		return;
	free(k->paths);
	free(k);
}

static void *step_look_run(void *arg)
{
	struct step_look *k = arg;
	const char *path = k->paths;

	for (uint32_t i = 0; i < k->n; i++) {
		k->steps[i] = *path ? sampler_read_step(path) : -1;
		path += strlen(path) + 1;
	}
	atomic_store(&k->is_done, 1);
	step_look_leave(k);
	return NULL;
}

int step_files_init(struct step_files *f, uint32_t n)
{
	*f = (struct step_files){.n = n};
	f->steps = malloc(n * sizeof(*f->steps));
	if (!f->steps)
		return -1;
	for (uint32_t i = 0; i < n; i++)
		f->steps[i] = -1;
	return 0;
}

void step_files_release(struct step_files *f)
{
	if (f->look)
		step_look_leave(f->look);
	free(f->steps);
	*f = (struct step_files){.n = 0};
}

/* paths: as in struct step_look. */
static void step_files_begin(struct step_files *f, struct buf *paths)
{
	struct step_look *k = calloc(1, sizeof(*k) + f->n * sizeof(*k->steps));

	if (!k || paths->failed) {
		free(k);
		return;
	}
	atomic_init(&k->owners, 2);
	k->began_ms = clock_ms();
	k->n = f->n;
	k->paths = paths->data;
	*paths = (struct buf)BUF_INIT(PATHS_MAX);
	if (thread_detach(step_look_run, k, THREAD_STACK_SMALL) < 0) {
		atomic_init(&k->owners, 1);
		step_look_leave(k);
		return;
	}
	f->look = k;
}

uint64_t step_files_look(struct step_files *f, step_file_path *path,
			 void *owner)
{
	struct buf paths = BUF_INIT(PATHS_MAX);
	char one[PATH_MAX];
	int any = 0;

	if (f->look && !atomic_load(&f->look->is_done))
		return clock_ms() - f->look->began_ms;
	if (f->look) {
		memcpy(f->steps, f->look->steps, f->n * sizeof(*f->steps));
		step_look_leave(f->look);
		f->look = NULL;
	}
	for (uint32_t i = 0; i < f->n; i++) {
		path(owner, i, one);
		any |= *one != '\0';
		buf_put(&paths, one, strlen(one) + 1);
	}
	if (any)
		step_files_begin(f, &paths);
	buf_release(&paths);
	return 0;
}
