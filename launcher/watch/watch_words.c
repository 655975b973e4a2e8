/* watch_words.c: what the samples, /proc and the crash catcher say about a
 * worker. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "launcher/watch/watch.h"

enum {
	LAST_WORDS_ROOM = 1024,
	WHERE_MAX = 100,
	SAID_MAX = 160,
	DEAD_MAX = 160,
	FILE_ROOM = FILE_READS_NAME + 8,
};
_Static_assert(ACTIVITY_WORDS_MAX + WHERE_MAX + UNANSWERED_WORDS_MAX +
			       SAID_MAX + DEAD_MAX + FILE_ROOM <=
		       WATCH_WORDS_MAX,
	       "room for all words");
/* a child that died at most this long before the last progress may have ended
 * it */
#define DEAD_NS UINT64_C(60000000000)

/* Programs end their own children with such signals, and pipelines end with
 * them. For SIGTERM another sender may be known. */
static int watch_is_usual_death(const struct watch *w, uint32_t i,
				const struct crash_child *c)
{
	struct crash_sent sent;

	switch (c->signal) {
	case SIGINT:
	case SIGHUP:
	case SIGPIPE:
	case SIGQUIT:
		return 1;
	case SIGTERM:
		return !crash_catcher_read_sent(w->catcher, i, c->pid,
						c->signal, &sent) ||
		       sent.sender == c->parent;
	default:
		return 0;
	}
}

void watch_note_dead(const struct watch *w, uint32_t i,
		     struct activity_sample *s)
{
	const struct watched *x = &w->workers[i];
	struct crash_child c;

	if (s->dead_pid || !crash_catcher_read_child(w->catcher, i, &c) ||
	    c.ns < x->began_ns || c.ns + DEAD_NS < x->activity.progress_ns ||
	    watch_is_usual_death(w, i, &c))
		return;
	s->dead_pid = c.pid;
	s->dead_signal = c.signal;
	memcpy(s->dead_name, c.name, sizeof(c.name));
}

/* " (its stderr ends with: ValueError: bad shard 7 (w.py:36))": a thread or a
 * process of a worker that waits may have died. Into out[SAID_MAX]. */
static void watch_put_said(struct watch *w, uint32_t i, char *out)
{
	struct buf said = BUF_INIT(LAST_WORDS_ROOM);
	int most = SAID_MAX - 32;

	out[0] = '\0';
	if (w->put_said)
		w->put_said(w->owner, i, &said);
	if (said.len && !said.failed)
		snprintf(out, SAID_MAX, " (its stderr ends with: %.*s%s)",
			 said.len > (size_t)most ? most - 3 : (int)said.len,
			 said.data, said.len > (size_t)most ? "..." : "");
	buf_release(&said);
}

/* "its process 812 (python3) was killed by signal 9 (SIGKILL)" */
static void watch_put_dead(const struct watch *w, uint32_t i,
			   const struct activity_sample *s, struct buf *out)
{
	char name[SIGNAL_NAME_MAX];
	struct crash_sent sent;

	if (!s->dead_pid)
		return;
	buf_printf(out, "its process %lld", (long long)s->dead_pid);
	if (s->dead_name[0])
		buf_printf(out, " (%s)", s->dead_name);
	buf_printf(out, " was killed by signal %d (%s)", s->dead_signal,
		   signal_name(s->dead_signal, name));
	if (!crash_catcher_read_sent(w->catcher, i, (int32_t)s->dead_pid,
				     s->dead_signal, &sent))
		return;
	buf_printf(out, ", ");
	crash_catcher_put_sender(&sent, out);
}

/* "its process 812 (python3) exited with code 7": of a rank that waits. Its
 * programs may end so while all is well, so it explains no failure. */
static void watch_put_failed(const struct activity_sample *s, struct buf *out)
{
	if (s->failed_pid)
		buf_printf(out, "its process %lld (%s) exited with code %d",
			   (long long)s->failed_pid, s->failed_name,
			   s->failed_code);
}

/* Either in parentheses, into out[DEAD_MAX]. */
static void watch_copy_dead(const struct watch *w, uint32_t i,
			    const struct activity_sample *s, char *out)
{
	struct buf dead = BUF_INIT(DEAD_MAX);

	watch_put_dead(w, i, s, &dead);
	if (!dead.len)
		watch_put_failed(s, &dead);
	if (dead.len && !dead.failed)
		snprintf(out, DEAD_MAX, " (%.*s)", (int)dead.len, dead.data);
	buf_release(&dead);
}

/* ", file data/shard_7 (8.4 MB)", into out[FILE_ROOM]. */
static void watch_put_file(struct watched *x, pid_t pid, char *out)
{
	if (!x->reads)
		x->reads = calloc(1, sizeof(*x->reads));
	if (!x->reads)
		return;
	file_reads_look(x->reads, pid);
	if (x->reads->name[0])
		snprintf(out, FILE_ROOM, ", file %s", x->reads->name);
}

static int watch_is_quiet(const struct watch *w, const struct watched *x,
			  const struct activity_sample *s)
{
	return activity_quiet_ms(&x->activity, s->ns) > 2 * watch_tick_ms(w);
}

/* A process in the kernel may hold what a reader of its memory needs. */
static int watch_may_look(const struct activity_sample *s)
{
	return s->pid && s->state != 'D' && !s->has_left;
}

/* The connection that nobody answers, of a worker that waits in MPI, where it
 * computes, or elsewhere. Into out[UNANSWERED_WORDS_MAX]. */
static void watch_unanswered(const struct watch *w, const struct watched *x,
			     const struct activity_sample *s, int waits_in_mpi,
			     struct unanswered *u, char *out)
{
	int waits = waits_in_mpi || (watch_is_quiet(w, x, s) &&
				     (x->activity.doing == RANK_CALLS ||
				      x->activity.doing == RANK_IDLE));

	*out = '\0';
	if (waits && watch_may_look(s))
		unanswered_words(u, (pid_t)s->pid, out);
}

char *watch_words(struct watch *w, uint32_t i, const char *does,
		  int waits_in_mpi, struct unanswered *u, char *out)
{
	char where[PYTHON_WHERE_MAX] = "";
	char said[SAID_MAX] = "", dead[DEAD_MAX] = "";
	char file[FILE_ROOM] = "";
	char unanswered[UNANSWERED_WORDS_MAX];
	struct watched *x = &w->workers[i];
	const struct activity *a = &x->activity;
	const struct activity_sample *s =
		&a->past[(a->n + ACTIVITY_TICKS - 1) % ACTIVITY_TICKS];
	struct err e = ERR_INIT;
	int is_quiet = watch_is_quiet(w, x, s);
	int is_seen = is_quiet && watch_may_look(s);

	watch_copy_dead(w, i, s, dead);
	watch_unanswered(w, x, s, waits_in_mpi, u, unanswered);
	if (is_seen) {
		if (x->python.pid != s->pid || !x->python.runtime)
			python_process_find(&x->python, (pid_t)s->pid, &e);
		if (x->python.runtime)
			python_process_where(&x->python, where);
		if (a->doing == RANK_LOADS)
			watch_put_file(x, (pid_t)s->pid, file);
	}
	/* has left: what started it goes on */
	if ((is_quiet && s->has_left) ||
	    (is_seen && (a->doing == RANK_IDLE ||
			 a->doing == RANK_STARTS)) ||
	    (w->is_failure && a->doing != RANK_CALLS))
		watch_put_said(w, i, said);
	snprintf(out, WATCH_WORDS_MAX, "%s%s%s%.*s%s%s%s", does, file,
		 *where ? " in " : "", WHERE_MAX - 8, where, unanswered,
		 dead, said);
	return out;
}

void watch_put_dead_child(const struct watch *w, uint32_t local_rank,
			  struct buf *out)
{
	struct activity_sample now = {.dead_pid = 0};
	const struct activity *a;

	if (!w->workers || local_rank >= w->group->n)
		return;
	a = &w->workers[local_rank].activity;
	watch_note_dead(w, local_rank, &now);
	/* it may have reaped a zombie just before it ended */
	for (unsigned i = 0; !now.dead_pid && i < a->n && i < ACTIVITY_TICKS;
	     i++)
		now = a->past[(a->n - 1 - i) % ACTIVITY_TICKS];
	watch_put_dead(w, local_rank, &now, out);
}
