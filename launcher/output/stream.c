/* stream.c: moves lines from one worker's pipe to their destinations. */
#include "launcher/output/stream.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <unistd.h>

#include "base/log.h"

enum {
	DRAIN_MAX = 1 << 20, /* a pipe's size: stop even if it is refilled */
	PIECE_MIN = 4 << 10,
	EXPANDED_MAX = 1 << 20, /* a read of empty lines, with their prefixes */
	/* how long a part of a line waits for more bytes, and for its end. A
	 * progress bar that is drawn all the time is shown at this pace */
	QUIET_MS = 1000,
	WHOLE_MS = 5000,
};

/* Each rank's prefix has a color on a terminal, unless the user's template has
 * colors of its own. Red is left to errors. */
static const char *stream_color(const struct stream *s)
{
	static const char *const colors[] = {
		"\x1b[36m", "\x1b[33m", "\x1b[32m",
		"\x1b[35m", "\x1b[34m", "\x1b[96m",
	};

	if (!s->writer->has_color || memchr(s->prefix, 0x1b, s->prefix_len))
		return "";
	return colors[s->of.rank % (sizeof(colors) / sizeof(*colors))];
}

static void stream_put_prefix(struct stream *s)
{
	struct output *o = s->output;
	struct buf prefix = BUF_INIT(sizeof(s->prefix));
	char rank[16], local_rank[16];

	snprintf(rank, sizeof(rank), "%u", s->of.rank);
	snprintf(local_rank, sizeof(local_rank), "%u", s->of.local_rank);
	o->vars.rank = rank;
	o->vars.local_rank = local_rank;
	o->vars.stream = s->of.is_stderr ? "stderr" : "stdout";
	if (o->role_of)
		o->vars.role_name = o->role_of(o->role_arg, s->of.rank);
	line_prefix_put(&prefix, o->rules->prefix, &o->vars);
	s->prefix_len = prefix.len;
	if (prefix.len)
		memcpy(s->prefix, prefix.data, prefix.len);
	buf_release(&prefix);
	s->color = stream_color(s);
	s->piece_max = EXPANDED_MAX / (s->prefix_len + 1);
	if (s->piece_max > OUTPUT_PIECE_BYTES)
		s->piece_max = OUTPUT_PIECE_BYTES;
	if (s->piece_max < PIECE_MIN)
		s->piece_max = PIECE_MIN;
}

int stream_open(struct stream *s, struct output *o,
		const struct stream_setup *setup)
{
	int rc;

	s->of = *setup;
	s->output = o;
	s->writer = setup->is_stderr ? o->own.err : o->own.out;
	s->held_next = NULL;
	s->held_pprev = NULL;
	lines_init(&s->lines);
	if (fcntl(s->of.fd, F_SETFL, O_NONBLOCK) < 0)
		rc = -errno;
	else
		rc = output_watch(o, s);
	if (rc < 0) {
		s->of.fd = -1;
		return rc;
	}
	stream_put_prefix(s);
	return 0;
}

/* 1 if newer lines of this piece fill the tail. A text outside the piece is
 * never too old: its line began in an earlier piece and ends in this one. */
static int stream_is_too_old(const struct stream *s, const char *text)
{
	return text >= s->output->piece && text < s->tail_from;
}

static void stream_on_line(void *arg, struct slice text, int flags)
{
	struct stream *s = arg;
	struct output *o = s->output;

	if (flags & LINES_DRAWN) {
		output_show(o, s, text, 0);
		return;
	}
	s->has_ended_line = 1;
	if (o->rules->copied[s->of.is_stderr].n)
		output_copy(o, s, text, flags);
	if (s->of.shown && !(flags & LINES_SHOWN))
		output_show(o, s, text, flags);
	if (s->of.tail && !stream_is_too_old(s, text.data))
		tail_add(s->of.tail, lines_last_segment(text));
}

/* Where the lines of the piece begin that the tail can hold. */
static const char *stream_find_tail(const char *piece, size_t n)
{
	const char *least = n > TAIL_BYTES ? piece + n - TAIL_BYTES : piece;
	const char *end = piece + n;

	for (int i = 0; i <= TAIL_LINES; i++) {
		const char *at = memrchr(least, '\n', (size_t)(end - least));

		if (!at) { /* a long line: the tail keeps its end */
			at = memrchr(piece, '\n', (size_t)(least - piece));
			return at ? at + 1 : piece;
		}
		end = at;
	}
	return end + 1;
}

/* Returns as read(2): more than 0, 0 at the end, or -errno. */
static long stream_read_piece(struct stream *s)
{
	struct output *o = s->output;
	ssize_t n;
	int rc;

	do {
		n = read(s->of.fd, o->piece, s->piece_max);
	} while (n < 0 && errno == EINTR);
	if (n < 0 && errno == EIO && s->of.is_terminal)
		return 0; /* no process has it open any more */
	if (n < 0 && errno != EAGAIN) {
		rc = errno;
		log_warn("the output of local rank %u cannot be read any more: "
			 "%s", s->of.local_rank, strerror(rc));
		return -rc;
	}
	if (n < 0)
		return -EAGAIN;
	if (n == 0)
		return 0;
	rc = log_writer_write(&s->of.file, SLICE(o->piece, (size_t)n));
	if (rc < 0)
		output_warn_full(o, -rc);
	if (s->of.is_terminal)
		writer_put_raw(s->writer, SLICE(o->piece, (size_t)n));
	if (s->of.tail)
		s->tail_from = stream_find_tail(o->piece, (size_t)n);
	s->has_ended_line = 0;
	lines_feed(&s->lines, SLICE(o->piece, (size_t)n), stream_on_line, s);
	return n;
}

/* The stream's redrawn line has ended and was printed above. */
static void stream_forget_redrawn(struct stream *s)
{
	if (s->output->redrawn == s)
		output_redraw(s->output, s, SLICE("", 0));
}

/* ---- unfinished lines ---- */

/* A line that a terminal redraws in place is not held back. */
static int stream_holds(const struct stream *s)
{
	return s->of.shown && lines_held(&s->lines) &&
	       !(s->writer->columns && lines_is_redrawn(&s->lines));
}

/* After a read, which may have left more of an unfinished line. */
static void stream_hold(struct stream *s)
{
	uint64_t now = uv_now(s->output->loop);

	if (!stream_holds(s)) {
		output_unhold(s->output, s);
		return;
	}
	if (!s->held_pprev || s->has_ended_line)
		s->held_ms = now;
	s->heard_ms = now;
	output_hold(s->output, s);
}

uint64_t stream_held_due(const struct stream *s)
{
	uint64_t quiet = s->heard_ms + QUIET_MS, whole = s->held_ms + WHOLE_MS;

	if (lines_is_redrawn(&s->lines))
		return s->held_ms + QUIET_MS;
	return quiet < whole ? quiet : whole;
}

void stream_show_held(struct stream *s)
{
	output_unhold(s->output, s);
	if (s->writer->columns)
		output_redraw(s->output, s, SLICE(s->lines.part.data,
						  s->lines.part.len));
	else
		lines_show(&s->lines, stream_on_line, s);
}

size_t stream_read(struct stream *s)
{
	struct slice text;
	long n;

	if (s->of.fd < 0)
		return 0;
	n = stream_read_piece(s);
	if (n == -EAGAIN)
		return 0;
	if (n <= 0) {
		stream_close(s);
		return 0;
	}
	if (s->writer->columns && s->of.shown) {
		text = lines_redrawn(&s->lines);
		if (text.data)
			output_redraw(s->output, s, text);
		else
			stream_forget_redrawn(s);
	}
	stream_hold(s);
	return (size_t)n;
}

static void stream_end_line(struct stream *s)
{
	lines_end(&s->lines, stream_on_line, s);
	output_unhold(s->output, s);
	stream_forget_redrawn(s);
}

void stream_say(struct stream *s, struct slice text)
{
	int rc;

	if (s->of.fd < 0)
		return;
	stream_end_line(s);
	rc = log_writer_write(&s->of.file, text);
	if (rc < 0)
		output_warn_full(s->output, -rc);
	lines_feed(&s->lines, text, stream_on_line, s);
	stream_end_line(s);
	output_flush(s->output);
}

void stream_drain(struct stream *s)
{
	long n = 1, sum = 0;

	if (s->of.fd < 0)
		return;
	while (sum < DRAIN_MAX && (n = stream_read_piece(s)) > 0)
		sum += n;
	stream_end_line(s);
	if (n == 0)
		stream_close(s);
	output_flush(s->output);
}

struct slice stream_unfinished(const struct stream *s)
{
	const struct buf *part = &s->lines.part;

	if (s->of.fd < 0 || !part->len)
		return SLICE("", 0);
	return lines_last_segment(SLICE(part->data, part->len));
}

void stream_close(struct stream *s)
{
	if (s->of.fd < 0)
		return;
	stream_end_line(s);
	lines_release(&s->lines);
	output_unwatch(s->output, s);
	close(s->of.fd);
	log_writer_close(&s->of.file);
	s->of.fd = -1;
	s->of.on_closed(s->of.arg);
}
