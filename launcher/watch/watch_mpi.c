/* watch_mpi.c: which of this node's workers are looked at for calls of MPI. */
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/file.h"
#include "launcher/watch/watch.h"

enum {
	PART = 200, /* a look may cost this part of the CPU of a worker */
};

static const struct activity_sample *watch_last_sample(const struct watched *x)
{
	const struct activity *a = &x->activity;

	return a->n ? &a->past[(a->n - 1) % ACTIVITY_TICKS] : NULL;
}

/* A program of libddp is known by its calls. The stack of a process in the
 * kernel may not be readable for long. */
static pid_t watch_mpi_pid(const struct watch *w, uint32_t i)
{
	const struct activity_sample *s = watch_last_sample(&w->workers[i]);

	return w->group->workers[i].running && s && !s->calls &&
			       s->state != 'D' && s->state != 'Z'
		       ? (pid_t)s->pid
		       : 0;
}

/* How often the kernel has taken a CPU from its first thread, which slept. */
static uint64_t watch_wakes(pid_t pid)
{
	char path[48], text[4096];

	snprintf(path, sizeof(path), "/proc/%d/task/%d/status", (int)pid,
		 (int)pid);
	if (file_read_text(path, text, sizeof(text)) <= 0)
		return 0;
	return delays_count(text, "voluntary_ctxt_switches:");
}

void watch_look_mpi(struct watch *w)
{
	uint32_t n = 0;
	pid_t *pids;

	if (!w->look_mpi || !mpi_schedule_tick(&w->mpi))
		return;
	pids = calloc(w->group->n, sizeof(*pids));
	for (uint32_t i = 0; pids && i < w->group->n; i++) {
		pids[n] = watch_mpi_pid(w, i);
		if (!pids[n])
			continue;
		w->workers[i].wakes = watch_wakes(pids[n]);
		n++;
	}
	if (n)
		w->look_mpi(w->owner, pids, n);
	free(pids);
}

static struct watched *watch_find_mpi(struct watch *w, pid_t pid)
{
	for (uint32_t i = 0; i < w->group->n; i++)
		if (watch_mpi_pid(w, i) == pid)
			return &w->workers[i];
	return NULL;
}

void watch_close_mpi(struct watched *x)
{
	if (x->has_return)
		close(x->return_fd);
	x->has_return = 0;
}

/* Whether the call of the last look has returned since; and prepares the same
 * for the next look. */
static enum mpi_since watch_note_return(struct watched *x,
					const struct mpi_look *look)
{
	enum mpi_since since =
		x->has_return ? call_return_read(x->return_fd) : MPI_UNKNOWN;

	if (since == MPI_SAME && mpi_look_is_call(look) &&
	    look->pid == x->mpi.last.pid &&
	    look->returns == x->mpi.last.returns)
		return since;
	watch_close_mpi(x);
	if (!mpi_look_is_call(look) || !look->returns)
		return since;
	x->return_fd = call_return_open(look->pid, look->returns);
	x->has_return = x->return_fd >= 0;
	return since;
}

static int watch_computes(const struct watched *x)
{
	return x->activity.doing == RANK_BUSY ||
	       x->activity.doing == RANK_WORKS ||
	       x->activity.doing == RANK_LOADS;
}

void watch_take_mpi(struct watch *w, struct slice text, uint64_t cpu_ms)
{
	enum mpi_found found = MPI_FOUND_NONE;
	uint64_t now = clock_ns(), least;
	struct mpi_look look;
	enum mpi_since since;
	struct watched *x;

	if (!w->workers)
		return;
	while (mpi_look_next(&text, &look)) {
		x = watch_find_mpi(w, look.pid);
		if (!x)
			continue;
		since = watch_note_return(x, &look);
		mpi_wait_add(&x->mpi, &look, since, x->wakes,
			     watch_wakes(look.pid), now);
		if (!mpi_look_has_mpi(&look))
			continue;
		if (!x->mpi.looks && watch_computes(x))
			found = MPI_FOUND_BUSY;
		else if (found == MPI_FOUND_NONE)
			found = MPI_FOUND_WAITS;
	}
	least = cpu_ms * PART / (w->group->n * watch_tick_ms(w));
	mpi_schedule_set(&w->mpi, found, (unsigned)least);
}

int watch_waits_in_mpi(const struct watch *w)
{
	for (uint32_t i = 0; i < w->group->n; i++)
		if (w->workers[i].mpi.same)
			return 1;
	return 0;
}
