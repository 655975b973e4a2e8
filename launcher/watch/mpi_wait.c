/* mpi_wait.c: compares a look at a stack with the looks before it. */
#include "launcher/watch/mpi_wait.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LINE_MAX_BYTES = 160 };

int mpi_look_next(struct slice *text, struct mpi_look *out)
{
	char line[LINE_MAX_BYTES];
	unsigned long long returns;
	int pid;

	while (text->len) {
		struct slice s = slice_next_line(text);

		snprintf(line, sizeof(line), "%.*s", SLICE_FMT(s));
		*out = (struct mpi_look){.pid = 0};
		if (sscanf(line, "%d %llx %39s %63s", &pid, &returns, out->call,
			   out->where) != 4)
			continue;
		out->pid = pid;
		out->returns = returns;
		return 1;
	}
	return 0;
}

int mpi_look_has_mpi(const struct mpi_look *l)
{
	return strcmp(l->call, "none") != 0;
}

int mpi_look_is_call(const struct mpi_look *l)
{
	return strncmp(l->call, "MPI_", 4) == 0;
}

static void mpi_wait_add_sleep(struct mpi_wait *w, const struct mpi_look *l,
			       uint64_t before, uint64_t after)
{
	int is_asleep = mpi_look_has_mpi(l) && w->last.pid == l->pid &&
			!mpi_look_is_call(&w->last) && before == w->wakes;

	*w = (struct mpi_wait){.last = *l, .wakes = after,
			       .asleep = is_asleep ? w->asleep + 1 : 0};
}

void mpi_wait_add(struct mpi_wait *w, const struct mpi_look *l,
		  enum mpi_since since, uint64_t before, uint64_t after,
		  uint64_t ns)
{
	int is_new = w->last.pid != l->pid || strcmp(w->last.call, l->call);

	if (!mpi_look_is_call(l)) {
		mpi_wait_add_sleep(w, l, before, after);
		return;
	}
	if (is_new || !w->looks) {
		w->looks = 0;
		w->looks_ns = ns;
	}
	if (is_new || since != MPI_SAME || l->returns != w->last.returns) {
		w->same = 0;
		w->same_ns = ns;
	} else {
		w->same++;
	}
	w->looks++;
	w->last = *l;
	w->asleep = 0;
}

static int mpi_wait_is_known(const struct activity *a)
{
	return a->doing == RANK_BUSY || a->doing == RANK_IDLE ||
	       a->doing == RANK_STARTS;
}

/* "(99 % CPU)" of what it does. */
static void mpi_wait_put_percent(const struct activity *a, size_t n,
				 char out[ACTIVITY_WORDS_MAX])
{
	const char *percent = strchr(a->words, '(');

	if (a->doing == RANK_BUSY && percent)
		snprintf(out + n, ACTIVITY_WORDS_MAX - n, " %.*s)",
			 (int)strcspn(percent, ",)"), percent);
}

int mpi_wait_words(const struct mpi_wait *w, const struct activity *a,
		   char out[ACTIVITY_WORDS_MAX], uint64_t *since_ns)
{
	const char *where = w->last.where;

	snprintf(out, ACTIVITY_WORDS_MAX, "%s", a->words);
	if (w->asleep >= MPI_WAIT_ASLEEP && a->doing == RANK_IDLE)
		snprintf(out, ACTIVITY_WORDS_MAX, "%.80s without being woken",
			 a->words);
	if (!mpi_wait_is_known(a) || (!w->same && w->looks < MPI_WAIT_LOOKS))
		return 0;
	*since_ns = w->same ? w->same_ns : w->looks_ns;
	mpi_wait_put_percent(
		a,
		(size_t)snprintf(out, ACTIVITY_WORDS_MAX, "%s in %s%s%s",
				 w->same ? "stays" : "is", w->last.call,
				 strcmp(where, "-") ? " at " : "",
				 strcmp(where, "-") ? where : ""),
		out);
	return 1;
}

int mpi_schedule_tick(struct mpi_schedule *s)
{
	if (!s->ticks)
		s->ticks = s->left = MPI_WAIT_TICKS;
	s->left -= s->left > 0;
	return s->left == 0;
}

void mpi_schedule_set(struct mpi_schedule *s, enum mpi_found found,
		      unsigned least)
{
	unsigned most = found == MPI_FOUND_NONE ? MPI_WAIT_TICKS_NONE
						: MPI_WAIT_TICKS_BUSY;

	s->ticks = found == MPI_FOUND_WAITS ? MPI_WAIT_TICKS : 2 * s->ticks;
	if (s->ticks > most)
		s->ticks = most;
	if (s->ticks < least)
		s->ticks = least;
	s->left = s->ticks;
}
