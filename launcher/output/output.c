/* output.c: reads the workers in turn and shows their lines. */
#include "launcher/output/output.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "base/log.h"
#include "launcher/output/stream.h"

enum {
	PAUSE_BYTES = 1 << 20,
	RESUME_BYTES = 512 << 10,
	FLUSH_BYTES = 256 << 10,
	COPIED_MAX = 4 << 20, /* a read with its prefixes, and some room */
	STREAMS_AT_ONCE = 64,
	PAUSED_MS = 1000, /* until a slow reader is looked at again */
	LOOK_MS = 100, LOOK_PAUSED_MS = 10,
};

/* ---- when the workers are read */

static void output_on_ready(uv_poll_t *poll, int status, int events);

static void output_set_watching(struct output *o)
{
	int wanted = o->streams && !o->paused && !o->resting && !o->closing;
	int rc = 0;

	if (o->watching == wanted)
		return;
	o->watching = wanted;
	if (wanted)
		rc = uv_poll_start(&o->ready, UV_READABLE, output_on_ready);
	else
		uv_poll_stop(&o->ready);
	if (rc < 0)
		log_error("error: the workers' output is not read any more: "
			  "%s", err_name(rc));
}

static void output_on_rested(uv_timer_t *t)
{
	struct output *o = t->data;

	o->resting = 0;
	output_set_watching(o);
}

/* After a pass that read this many bytes from n streams: rests if they were
 * few. */
static void output_rest(struct output *o, size_t n, size_t bytes)
{
	uint64_t ms = read_backoff_ms(&o->backoff, uv_now(o->loop), n, bytes);

	if (!ms)
		return;
	o->resting = 1;
	uv_timer_start(&o->rest, output_on_rested, ms, 0);
	output_set_watching(o);
}

static void output_on_ready(uv_poll_t *poll, int status, int events)
{
	struct epoll_event ready[STREAMS_AT_ONCE];
	struct output *o = poll->data;
	size_t bytes = 0;
	int n = epoll_wait(o->epoll, ready, STREAMS_AT_ONCE, 0);

	for (int i = 0; i < n && !o->paused; i++) {
		bytes += stream_read(ready[i].data.ptr);
		if (writer_pair_pending(&o->own) > FLUSH_BYTES)
			output_flush(o);
	}
	output_flush(o);
	if (n > 0 && !o->closing)
		output_rest(o, (size_t)n, bytes);
}

int output_watch(struct output *o, struct stream *s)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = s};
	struct collapse *c = o->collapse[s->of.is_stderr];

	if (epoll_ctl(o->epoll, EPOLL_CTL_ADD, s->of.fd, &event) < 0)
		return -errno;
	o->streams++;
	if (c && s->of.shown)
		collapse_open(c, s->of.local_rank);
	output_set_watching(o);
	return 0;
}

void output_unwatch(struct output *o, struct stream *s)
{
	struct collapse *c = o->collapse[s->of.is_stderr];

	epoll_ctl(o->epoll, EPOLL_CTL_DEL, s->of.fd, NULL);
	o->streams--;
	if (c && s->of.shown)
		collapse_close(c, s->of.local_rank);
	output_set_watching(o);
}

/* ---- the launcher's outputs */

static void output_close_when_drained(struct output *o)
{
	if (o->closing != 1 || writer_pair_pending(&o->own))
		return;
	o->closing = 2;
	log_set_sink(NULL, NULL);
	output_set_watching(o);
	uv_close((uv_handle_t *)&o->ready, NULL);
	uv_close((uv_handle_t *)&o->rest, NULL);
	uv_close((uv_handle_t *)&o->expire, NULL);
	uv_close((uv_handle_t *)&o->show_held, NULL);
	uv_close((uv_handle_t *)&o->look, NULL);
	writer_pair_close(&o->own);
}

/* 1 if our outputs, or the log folder's server, have more than this to write.
 */
static int output_is_full(const struct output *o, size_t bytes)
{
	return writer_pair_pending(&o->own) > bytes ||
	       (o->queue && log_queue_holds_up(o->queue, bytes));
}

static void output_on_room(void *arg)
{
	struct output *o = arg;

	if (!output_is_full(o, RESUME_BYTES)) {
		o->paused = 0;
		if (o->closing != 2)
			output_set_watching(o);
	}
	output_close_when_drained(o);
}

void output_warn_full(struct output *o, int why)
{
	if (o->warned_full)
		return;
	o->warned_full = 1;
	log_warn("cannot write to the log files: %s; the job continues, and "
		 "shows on the console what they lack",
		 strerror(why));
}

static void output_flush_copies(struct output *o)
{
	for (int i = 0; i < 2; i++) {
		int rc = 0;

		if (o->copied[i].len)
			rc = log_writer_write(&o->round.copies[i],
					    SLICE(o->copied[i].data,
						  o->copied[i].len));
		buf_reset(&o->copied[i]);
		if (rc < 0)
			output_warn_full(o, -rc);
	}
}

static void output_look(struct output *o, uint64_t ms);

void output_flush(struct output *o)
{
	output_flush_copies(o);
	writer_pair_flush(&o->own);
	if (o->closing || o->paused || !output_is_full(o, PAUSE_BYTES))
		return;
	o->paused = 1;
	output_set_watching(o);
	if (o->queue)
		output_look(o, LOOK_PAUSED_MS);
}

/* ---- the log folder's server */

static void output_on_look(uv_timer_t *t)
{
	struct output *o = t->data;
	int was_paused = o->paused;

	log_queue_report(o->queue);
	if (!was_paused)
		return;
	output_on_room(o);
	if (!o->paused && o->closing != 2)
		output_look(o, LOOK_MS);
}

/* Does not keep the loop running, unless its streams are paused. */
static void output_look(struct output *o, uint64_t ms)
{
	uv_timer_start(&o->look, output_on_look, ms, ms);
}

void output_watch_queue(struct output *o, struct log_queue *q)
{
	if (!q->files)
		return;
	o->queue = q;
	uv_unref((uv_handle_t *)&o->look);
	output_look(o, LOOK_MS);
}

static void output_log_sink(void *arg, const char *line, unsigned long len)
{
	output_print(arg, line, len);
}

void output_print(struct output *o, const char *text, size_t n)
{
	writer_put(o->own.err, text, n);
	output_flush(o);
}

void output_terminal(const struct output *o, int *columns, int *rows)
{
	*columns = o->own.out->columns;
	*rows = o->own.out->columns ? o->own.out->rows : 0;
}

void output_lend_terminal(struct output *o)
{
	o->own.out->columns = o->own.err->columns = 0;
}

/* ---- the workers' lines */

static void output_put_line(struct writer *w, struct slice prefix,
			    struct slice text, int flags)
{
	writer_put_line(w, prefix, flags & LINES_BEGUN ? "... " : "", text,
			flags & LINES_OPEN ? " ...\n" : "\n");
}

static void output_put_colored(struct stream *s, struct slice text, int flags)
{
	char prefix[OUTPUT_PREFIX_MAX + 16];
	int n = snprintf(prefix, sizeof(prefix), "%s%.*s\x1b[0m", s->color,
			 (int)s->prefix_len, s->prefix);

	output_put_line(s->writer, SLICE(prefix, (size_t)n), text, flags);
}

/* Shows one line that several ranks printed. */
static void output_put_collapsed(struct output *o, int is_stderr,
				 const struct collapse_line *line)
{
	struct buf ranks = BUF_INIT(64 << 10), local_ranks = ranks;
	struct buf prefix = ranks;

	collapse_put_ranks(&ranks, o->collapse[is_stderr], line,
			   o->round.base_rank);
	collapse_put_ranks(&local_ranks, o->collapse[is_stderr], line, 0);
	o->vars.rank = ranks.data ? ranks.data : "";
	o->vars.local_rank = local_ranks.data ? local_ranks.data : "";
	o->vars.stream = is_stderr ? "stderr" : "stdout";
	if (o->role_of) /* the first rank's */
		o->vars.role_name = o->role_of(
			o->role_arg, (uint32_t)strtoul(o->vars.rank, NULL, 10));
	line_prefix_put(&prefix, o->rules->prefix, &o->vars);
	output_put_line(is_stderr ? o->own.err : o->own.out,
			SLICE(prefix.data, prefix.len),
			SLICE(line->text.data, line->text.len), line->flags);
	buf_release(&ranks);
	buf_release(&local_ranks);
	buf_release(&prefix);
}

static void output_on_collapsed_out(void *arg, const struct collapse_line *line)
{
	output_put_collapsed(arg, 0, line);
}

static void output_on_collapsed_err(void *arg, const struct collapse_line *line)
{
	output_put_collapsed(arg, 1, line);
}

static void output_on_expire(uv_timer_t *t);

static void output_wait_to_expire(struct output *o)
{
	uint64_t until, next = UINT64_MAX, now = uv_now(o->loop);

	for (int i = 0; i < 2; i++) {
		if (o->collapse[i] && collapse_holds(o->collapse[i], &until) &&
		    until < next)
			next = until;
	}
	if (next != UINT64_MAX)
		uv_timer_start(&o->expire, output_on_expire,
			       next > now ? next - now : 0, 0);
}

static void output_on_expire(uv_timer_t *t)
{
	struct output *o = t->data;

	for (int i = 0; i < 2; i++) {
		if (o->collapse[i])
			collapse_expire(o->collapse[i], uv_now(o->loop));
	}
	output_wait_to_expire(o);
	output_flush(o);
}

void output_show(struct output *o, struct stream *s, struct slice text,
		 int flags)
{
	struct collapse *c = o->collapse[s->of.is_stderr];
	struct writer *w = s->writer;

	if (w->columns && memchr(text.data, '\r', text.len))
		text = lines_last_segment(text);
	if (!c && *s->color) {
		output_put_colored(s, text, flags);
		return;
	}
	if (!c) {
		output_put_line(w, SLICE(s->prefix, s->prefix_len), text,
				flags);
		return;
	}
	collapse_add(c, s->of.local_rank, text, flags, uv_now(o->loop));
	if (!uv_is_active((uv_handle_t *)&o->expire))
		output_wait_to_expire(o);
}

void output_copy(struct output *o, struct stream *s, struct slice text,
		 int flags)
{
	struct buf *to = &o->copied[s->of.is_stderr];

	if (!log_writer_is_open(&o->round.copies[s->of.is_stderr]) ||
	    !line_filter_matches(&o->rules->copied[s->of.is_stderr], text))
		return;
	buf_put(to, s->prefix, s->prefix_len);
	buf_put(to, text.data, text.len);
	buf_put(to, "\n", 1);
	if (to->len > FLUSH_BYTES)
		output_flush_copies(o);
}

void output_redraw(struct output *o, struct stream *s, struct slice text)
{
	o->redrawn = text.len ? s : NULL;
	writer_set_status(s->writer, SLICE(s->prefix, text.len ? s->prefix_len
							       : 0), text);
}

/* ---- unfinished lines */

static void output_on_show_held(uv_timer_t *t);

/* While the reader of our output is slow, nothing is added to it. */
static void output_wait_to_show_held(struct output *o)
{
	uint64_t next = UINT64_MAX, now = uv_now(o->loop);

	for (const struct stream *s = o->held; s; s = s->held_next) {
		uint64_t due = stream_held_due(s);

		next = due < next ? due : next;
	}
	if (o->paused && next < now + PAUSED_MS)
		next = now + PAUSED_MS;
	if (o->held && !o->closing)
		uv_timer_start(&o->show_held, output_on_show_held,
			       next > now ? next - now : 0, 0);
}

static void output_on_show_held(uv_timer_t *t)
{
	struct output *o = t->data;
	struct stream *next;

	for (struct stream *s = o->held; s && !o->paused; s = next) {
		next = s->held_next;
		if (stream_held_due(s) <= uv_now(o->loop))
			stream_show_held(s);
	}
	output_flush(o);
	output_wait_to_show_held(o);
}

void output_hold(struct output *o, struct stream *s)
{
	if (!s->held_pprev) {
		s->held_next = o->held;
		if (s->held_next)
			s->held_next->held_pprev = &s->held_next;
		s->held_pprev = &o->held;
		o->held = s;
	}
	if (!uv_is_active((uv_handle_t *)&o->show_held))
		output_wait_to_show_held(o);
}

void output_unhold(struct output *o, struct stream *s)
{
	if (!s->held_pprev)
		return;
	*s->held_pprev = s->held_next;
	if (s->held_next)
		s->held_next->held_pprev = s->held_pprev;
	s->held_pprev = NULL;
}

/* ---- from start to end */

static int output_init_collapse(struct output *o, uint32_t n)
{
	static const collapse_emit emits[] = {output_on_collapsed_out,
					      output_on_collapsed_err};

	for (int i = 0; i < 2; i++) {
		o->collapse[i] = malloc(sizeof(*o->collapse[i]));
		if (!o->collapse[i] ||
		    collapse_init(o->collapse[i], n, emits[i], o) < 0) {
			free(o->collapse[i]);
			o->collapse[i] = NULL;
			return -ENOMEM;
		}
	}
	return 0;
}

static void output_init_handles(struct output *o)
{
	uv_timer_init(o->loop, &o->rest);
	uv_timer_init(o->loop, &o->expire);
	uv_timer_init(o->loop, &o->show_held);
	uv_timer_init(o->loop, &o->look);
	o->ready.data = o->rest.data = o->expire.data = o;
	o->show_held.data = o->look.data = o;
	writer_pair_init(&o->own, o->loop, output_on_room, o);
}

int output_init(struct output *o, uv_loop_t *loop, uint32_t n,
		const struct log_rules *rules, const char *role, struct err *e)
{
	int rc = -ENOMEM;

	*o = (struct output){.loop = loop, .rules = rules, .epoll = -1,
			     .round.copies = {LOG_WRITER_NONE,
					      LOG_WRITER_NONE}};
	sock_host_name(o->host);
	o->vars = (struct line_prefix_vars){.role_name = role, .host = o->host};
	buf_init(&o->copied[0], COPIED_MAX);
	buf_init(&o->copied[1], COPIED_MAX);
	o->piece = malloc(OUTPUT_PIECE_BYTES);
	if (!o->piece || (rules->collapse && output_init_collapse(o, n) < 0))
		goto fail;
	o->epoll = epoll_create1(EPOLL_CLOEXEC);
	if (o->epoll < 0) {
		rc = -errno;
		goto fail;
	}
	/* the first handle comes last: fail has no handle to close */
	rc = uv_poll_init(o->loop, &o->ready, o->epoll);
	if (rc < 0)
		goto fail;
	output_init_handles(o);
	log_set_sink(output_log_sink, o);
	return 0;
fail:
	output_release(o);
	return loop_check(rc, e, "cannot read the workers' output");
}

static void output_close_copies(struct output *o)
{
	output_flush_copies(o);
	for (int i = 0; i < 2; i++)
		log_writer_close(&o->round.copies[i]);
}

void output_begin(struct output *o, const struct output_round *round)
{
	for (int i = 0; i < 2; i++) {
		if (o->collapse[i])
			collapse_flush(o->collapse[i]);
	}
	output_close_copies(o);
	o->round = *round;
	o->vars.node_rank = round->node_rank;
	o->vars.world_size = round->world_size;
}

void output_close(struct output *o)
{
	if (o->closing)
		return;
	o->closing = 1;
	writer_set_status(o->own.out, SLICE("", 0), SLICE("", 0));
	output_flush(o);
	output_close_when_drained(o);
}

void output_abandon(struct output *o)
{
	writer_pair_abandon(&o->own);
	output_close_when_drained(o);
}

void output_release(struct output *o)
{
	log_set_sink(NULL, NULL);
	output_close_copies(o);
	writer_pair_release(&o->own);
	for (int i = 0; i < 2; i++) {
		buf_release(&o->copied[i]);
		if (o->collapse[i])
			collapse_release(o->collapse[i]);
		free(o->collapse[i]);
	}
	if (o->epoll >= 0)
		close(o->epoll);
	free(o->piece);
}

/* ---- the read backoff ---- */

uint64_t read_backoff_ms(struct read_backoff *p, uint64_t now_ms, size_t n,
			 size_t bytes)
{
	uint64_t windows = (now_ms - p->from_ms) / BACKOFF_WINDOW_MS;
	uint64_t earned = windows < BACKOFF_SAVED ? windows * BACKOFF_PASSES
						  : BACKOFF_SAVED;

	p->from_ms += windows * BACKOFF_WINDOW_MS;
	p->made = earned < p->made ? p->made - earned : 0;
	if (bytes >= n * BACKOFF_LITTLE_BYTES || ++p->made < BACKOFF_SAVED)
		return 0;
	return BACKOFF_WINDOW_MS - (now_ms - p->from_ms);
}
