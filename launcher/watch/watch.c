/* watch.c: a timer that keeps no loop alive. */
#include "launcher/watch/watch.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/file_wait.h"
#include "base/log.h"

enum {
	PATIENCE_MS = 30000, /* without progress until terminals get a line */
	PATIENCE_LEAST_MS = 300,
	TICKS = 30,	  /* in the patience */
	REPORT_TICKS = 5, /* between two reports, if nothing changes */
	REPORT_TICKS_MPI = 2, /* while ranks wait in MPI: they are seen late */
	WORKER_MS = 10,	  /* at least, for each worker: 1 % of a CPU */
	REPORT_MAX = 16 << 20,
	GROUPS_ROOM = 4096,
	STEPS_LATE_MS = 3000, /* an answer of a file server that works */
	STEP_TAIL = 128,
};
/* DDP_TEST_WATCH_MS is for tests: nobody waits half a minute for a line there.
 */
static uint32_t watch_patience(void)
{
	const char *text = getenv("DDP_TEST_WATCH_MS");
	long ms = text ? strtol(text, NULL, 10) : PATIENCE_MS;

	return ms >= PATIENCE_LEAST_MS && ms < INT_MAX ? (uint32_t)ms
						       : PATIENCE_MS;
}

void watch_init(struct watch *w, uv_loop_t *loop)
{
	w->patience_ms = watch_patience();
	uv_timer_init(loop, &w->timer);
	w->timer.data = w;
}

uint64_t watch_tick_ms(const struct watch *w)
{
	uint64_t ms = w->patience_ms / TICKS;
	uint64_t least = (uint64_t)w->group->n * WORKER_MS;

	return ms > least ? ms : least;
}

static void watch_note_step(struct watch *w, int64_t step)
{
	if (step >= 0 && (uint64_t)step + 1 > w->steps)
		w->steps = (uint64_t)step + 1;
}

/* From a worker's first call of libddp on. view is what its recorder has. */
static void watch_note_wait(struct watched *x, const struct activity_sample *s,
			    const struct flight_view *view, uint64_t tick_ms)
{
	uint64_t tick_ns = tick_ms * 1000000;
	struct delays now;

	if (!s->calls)
		return;
	group_waits_add(&x->groups, view,
			wait_share_most(&x->share, s->ns, tick_ns));
	if (!wait_share_add(&x->share, s->ns, s->waited_ns, tick_ns))
		return;
	delays_read((pid_t)s->pid, &now);
	wait_share_end_slice(&x->share, &now);
	group_waits_end_slice(&x->groups);
}

/* 1 if the worker has just become idle, or stopped being idle: the owner is
 * notified at once. */
static int watch_check(struct watch *w, uint32_t i, uint64_t tick_ms)
{
	const struct worker *worker = &w->group->workers[i];
	struct watched *x = &w->workers[i];
	struct activity_sample s;
	uint64_t quiet;

	sampler_read(w->recorder, i, worker->pid, w->step_files.steps[i],
		     w->view, &s, &x->call);
	if (sampler_is_dumped(&s))
		return 0;
	if (activity_quiet_ms(&x->activity, s.ns) > 2 * tick_ms)
		sampler_read_handler(&s);
	watch_note_dead(w, i, &s);
	activity_add(&x->activity, &s);
	stderr_file_look(&x->said, (pid_t)s.pid);
	watch_note_step(w, s.step);
	watch_note_wait(x, &s, w->view, tick_ms);
	quiet = activity_quiet_ms(&x->activity, s.ns);
	return x->activity.doing != x->reported && quiet > 2 * tick_ms;
}

static void watch_put(struct watch *w, uint32_t i, struct unanswered *u,
		      struct buf *items)
{
	const struct worker *worker = &w->group->workers[i];
	struct watched *x = &w->workers[i];
	const struct activity *a = &x->activity;
	const struct activity_sample *s =
		&a->past[(a->n + ACTIVITY_TICKS - 1) % ACTIVITY_TICKS];
	char cause[DELAYS_WORDS_MAX], words[WATCH_WORDS_MAX];
	char mpi[ACTIVITY_WORDS_MAX];
	uint64_t since_ns = a->since_ns;
	int waits = mpi_wait_words(&x->mpi, a, mpi, &since_ns);
	struct buf groups = BUF_INIT(GROUPS_ROOM);
	struct wire_rank item = {
		.rank = worker_rank(worker),
		.local_rank = i,
		.pid = worker->pid,
		.doing = (uint8_t)a->doing,
		.quiet_ms = activity_quiet_ms(a, s->ns),
		.does_ms = s->ns > since_ns ? (s->ns - since_ns) / 1000000 : 0,
		.world = x->call.world,
		.comm = x->call.comm,
		.number = x->call.number,
		.peer = x->call.peer,
		.step = s->step,
		.step_us = a->step_us,
		.call = SLICE_STR(waits ? x->mpi.last.call : x->call.text),
		.words = SLICE_STR(watch_words(w, i, mpi, waits, u, words)),
		.waited = wait_share_permille(&x->share),
		.cause = SLICE_STR(wait_share_cause(&x->share, cause)),
		.cpu = a->cpu,
		.memory = s->memory ? (int64_t)s->memory : -1,
	};

	item.groups.count = group_waits_put(&x->groups,
					    wait_share_ns(&x->share), &groups);
	item.groups.bytes = SLICE(groups.data, groups.len);
	if (groups.failed)
		item.groups = (struct wire_items){0};
	x->reported = a->doing;
	wire_put_rank_item(items, &item);
	buf_release(&groups);
}

static void watch_send(struct watch *w, struct buf *items, uint32_t n)
{
	const struct wire_progress m = {
		.round = w->round,
		.patience_ms = w->patience_ms,
		.ranks = {n, SLICE(items->data, items->len)},
	};

	if (!items->failed && n)
		w->on_report(w->owner, &m);
	buf_release(items);
}

/* As it was in the call that failed. */
static int watch_put_missed(struct watch *w, uint32_t i, struct buf *items)
{
	const struct worker *worker = &w->group->workers[i];
	struct sampler_call call;
	uint64_t ns = sampler_read_missed(w->recorder, i, w->view, &call);
	uint64_t now = clock_ns();
	struct wire_rank item = {
		.rank = worker_rank(worker),
		.local_rank = i,
		.pid = worker->pid,
		.doing = RANK_CALLS,
		.step = -1,
		.world = call.world,
		.comm = call.comm,
		.number = call.number,
		.peer = call.peer,
		.call = SLICE_STR(call.text),
		.waited = -1,
	};

	if (!ns)
		return 0;
	/* the worker's memory may be garbage */
	item.quiet_ms = item.does_ms = now > ns ? (now - ns) / 1000000 : 0;
	wire_put_rank_item(items, &item);
	return 1;
}

/* Whether the worker was in a call at one of the last looks, and is in none: if
 * that call failed, the worker does not hang outside of it, but is about to end
 * as the others do. */
static int watch_was_in_call(const struct watch *w, uint32_t i)
{
	const struct activity *a = &w->workers[i].activity;
	uint64_t since = clock_ns() - 2 * watch_tick_ms(w) * UINT64_C(1000000);
	int was = 0;

	for (unsigned k = 0; k < a->n && k < ACTIVITY_TICKS; k++)
		was |= a->past[k].in_call && a->past[k].ns >= since;
	return was && a->doing != RANK_CALLS;
}

static uint32_t watch_put_all(struct watch *w, struct buf *items)
{
	struct unanswered unanswered = {.net = 0};
	uint32_t n = 0;

	for (uint32_t i = 0; i < w->group->n; i++) {
		if (!w->group->workers[i].running)
			continue;
		if (!w->is_failure || !watch_was_in_call(w, i) ||
		    !watch_put_missed(w, i, items))
			watch_put(w, i, &unanswered, items);
		n++;
	}
	return n;
}

static void watch_report(struct watch *w)
{
	struct buf items = BUF_INIT(REPORT_MAX);
	uint32_t n = watch_put_all(w, &items);

	watch_send(w, &items, n);
}

/* It may have failed in the same call, before its state was ever reported. */
static int watch_has_just_ended(const struct watch *w, uint32_t i)
{
	uint64_t ended_ns = w->group->workers[i].ended_ns;

	return ended_ns &&
	       clock_ns() - ended_ns < watch_tick_ms(w) * UINT64_C(1000000);
}

void watch_report_failure(struct watch *w, uint32_t local_rank)
{
	struct buf items = BUF_INIT(REPORT_MAX);
	uint64_t tick_ms = watch_tick_ms(w);
	uint32_t n;

	if (!w->workers)
		return;
	n = (uint32_t)watch_put_missed(w, local_rank, &items);
	for (uint32_t i = 0; i < w->group->n; i++) {
		if (w->group->workers[i].running)
			watch_check(w, i, tick_ms);
		else if (i != local_rank && watch_has_just_ended(w, i))
			n += (uint32_t)watch_put_missed(w, i, &items);
	}
	w->is_failure = 1;
	n += watch_put_all(w, &items);
	w->is_failure = 0;
	watch_send(w, &items, n);
}

void watch_report_now(struct watch *w)
{
	uint64_t tick_ms = watch_tick_ms(w);

	if (!w->workers)
		return;
	for (uint32_t i = 0; i < w->group->n; i++)
		if (w->group->workers[i].running)
			watch_check(w, i, tick_ms);
	w->is_failure = 1;
	watch_report(w);
	w->is_failure = 0;
}

int watch_put_stderr(struct watch *w, uint32_t local_rank, time_t since,
		     struct buf *out)
{
	const struct stderr_file *said;
	int rc;

	if (!w->workers || local_rank >= w->group->n)
		return 0;
	said = &w->workers[local_rank].said;
	for (uint32_t i = 0; i < w->group->n; i++)
		if (i != local_rank &&
		    stderr_file_same(said, &w->workers[i].said))
			return 0;
	if (said->is_open && w->is_file_server_gone)
		return -ETIMEDOUT;
	rc = stderr_file_put(said, since, out);
	w->is_file_server_gone = rc == -ETIMEDOUT;
	return rc;
}

/* The agent goes on without the steps of a file system that has stopped. */
static void watch_look_steps(struct watch *w)
{
	uint64_t ms = step_files_look(&w->step_files, w->step_file, w->owner);
	char server[FILE_WAIT_SERVER_MAX], path[PATH_MAX];

	if (ms < STEPS_LATE_MS || w->are_steps_late)
		return;
	w->are_steps_late = 1;
	w->step_file(w->owner, 0, path);
	log_warn("the file system of the step files (%s) has not answered for "
		 "%llu s: the steps of this node's ranks are not known",
		 file_wait_server(path, server),
		 (unsigned long long)ms / 1000);
}

static void watch_on_tick(uv_timer_t *t)
{
	struct watch *w = t->data;
	uint64_t tick_ms = watch_tick_ms(w);
	int is_news = 0;

	watch_look_steps(w);
	for (uint32_t i = 0; i < w->group->n; i++)
		if (w->group->workers[i].running)
			is_news |= watch_check(w, i, tick_ms);
	watch_look_mpi(w);
	/* the first look is reported as well: a rank may fail soon, and the
	 * server must know the pid of the rank that it blames */
	if (++w->ticks == 1 || w->ticks % REPORT_TICKS == 0 || is_news ||
	    (w->ticks % REPORT_TICKS_MPI == 0 && watch_waits_in_mpi(w)))
		watch_report(w);
}

void watch_begin(struct watch *w, uint32_t round)
{
	uint64_t tick_ms = watch_tick_ms(w);

	watch_end(w);
	w->round = round;
	w->steps = 0;
	w->has_begun = 1;
	w->is_file_server_gone = 0;
	w->are_steps_late = 0;
	w->mpi = (struct mpi_schedule){.ticks = 0};
	w->workers = calloc(w->group->n, sizeof(*w->workers));
	w->view = malloc(sizeof(*w->view));
	if (!w->workers || !w->view ||
	    step_files_init(&w->step_files, w->group->n) < 0) {
		log_debug("no memory to watch the workers' progress");
		watch_end(w);
		return;
	}
	for (uint32_t i = 0; i < w->group->n; i++)
		activity_init(&w->workers[i].activity, tick_ms * 1000000,
			      clock_ns());
	uv_timer_start(&w->timer, watch_on_tick, tick_ms, tick_ms);
	uv_unref((uv_handle_t *)&w->timer);
}

void watch_again(struct watch *w, uint32_t local_rank)
{
	if (!w->workers)
		return;
	free(w->workers[local_rank].reads);
	watch_close_mpi(&w->workers[local_rank]);
	stderr_file_close(&w->workers[local_rank].said);
	w->workers[local_rank] = (struct watched){.reported = RANK_STARTS};
	w->workers[local_rank].began_ns = clock_ns();
	activity_init(&w->workers[local_rank].activity,
		      watch_tick_ms(w) * 1000000, clock_ns());
}

void watch_end(struct watch *w)
{
	uv_timer_stop(&w->timer);
	for (uint32_t i = 0; w->workers && i < w->group->n; i++) {
		stderr_file_close(&w->workers[i].said);
		watch_close_mpi(&w->workers[i]);
		free(w->workers[i].reads);
	}
	step_files_release(&w->step_files);
	free(w->workers);
	free(w->view);
	w->workers = NULL;
	w->view = NULL;
}

/* 0, or -ETIMEDOUT: its server does not answer. */
static int watch_note_step_file(struct watch *w, uint32_t i)
{
	struct buf text = BUF_INIT(STEP_TAIL);
	char path[PATH_MAX];
	struct slice lines;
	struct stat st;
	int rc = 0;

	w->step_file(w->owner, i, path);
	if (*path)
		rc = file_wait_read(path, STEP_TAIL, &st, &text);
	lines = SLICE(text.data, text.len);
	/* the tail may begin within a line */
	if (rc == 0 && text.len && st.st_size > STEP_TAIL)
		slice_next_line(&lines);
	if (rc == 0 && lines.len)
		watch_note_step(w, sampler_last_step(lines.data, lines.len));
	buf_release(&text);
	return rc == -ETIMEDOUT ? rc : 0;
}

uint64_t watch_steps(struct watch *w)
{
	struct flight_view *view = malloc(sizeof(*view));
	int rc = 0;

	for (uint32_t i = 0; view && w->has_begun && i < w->group->n; i++) {
		int64_t step = sampler_read_recorded_step(w->recorder, i, view);

		watch_note_step(w, step);
		if (step < 0 && rc == 0)
			rc = watch_note_step_file(w, i);
	}
	free(view);
	return w->steps;
}

void watch_close(struct watch *w)
{
	watch_end(w);
	uv_close((uv_handle_t *)&w->timer, NULL);
}
