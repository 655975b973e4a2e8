/* top_screen.c: a line is filled cell by cell, and each cell knows how many
 * columns are left. */
#include "launcher/top/top_internal.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#define BOLD "\033[1m"
#define REVERSE "\033[7m"
#define RED "\033[31m"
#define YELLOW "\033[33m"

enum { WITHOUT_LIMIT = 1 << 20, KEYS = 1 };

struct top_line {
	struct buf *out;
	const struct top_screen *s;
	int left;   /* columns */
	int styled; /* the style is to be reset at its end */
};

/* ---- text of any origin ---- */

/* The length of the valid UTF-8 sequence at p, and its code point; 0: none. */
static size_t top_text_decode(const unsigned char *p, size_t n, uint32_t *code)
{
	size_t len = p[0] < 0x80   ? 1
		     : p[0] < 0xc2 ? 0
		     : p[0] < 0xe0 ? 2
		     : p[0] < 0xf0 ? 3
		     : p[0] < 0xf5 ? 4
				   : 0;

	if (!len || len > n)
		return 0;
	*code = len == 1 ? p[0] : p[0] & (0x7fu >> len);
	for (size_t i = 1; i < len; i++) {
		if ((p[i] & 0xc0) != 0x80)
			return 0;
		*code = *code << 6 | (p[i] & 0x3fu);
	}
	if ((len == 3 && *code < 0x800) || (len == 4 && *code < 0x10000) ||
	    (*code >= 0xd800 && *code < 0xe000) || *code > 0x10ffff)
		return 0;
	return len;
}

/* C0, DEL, C1; marks that change the direction of text, or are invisible. */
static int top_text_is_control(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0) ||
	       (c >= 0x200b && c <= 0x200f) || (c >= 0x2028 && c <= 0x202e) ||
	       (c >= 0x2060 && c <= 0x206f) || c == 0xfeff;
}

/* Columns of a character, roughly as in Unicode's East Asian Width. */
static int top_text_width(uint32_t c)
{
	if (c >= 0x300 && c < 0x370)
		return 0; /* combining */
	return (c >= 0x1100 && c < 0x1160) || (c >= 0x2e80 && c < 0xa4d0) ||
		       (c >= 0xac00 && c < 0xd7a4) ||
		       (c >= 0xf900 && c < 0xfb00) ||
		       (c >= 0xfe30 && c < 0xfe70) ||
		       (c >= 0xff00 && c < 0xff61) ||
		       (c >= 0x1f300 && c < 0x1fb00) ||
		       (c >= 0x20000 && c < 0x40000)
	       ? 2
	       : 1;
}

/* Appends what fits into max columns. Returns how many it used. */
static int top_text_put(struct buf *out, struct slice text, int max)
{
	const unsigned char *p = (const unsigned char *)text.data;
	int used = 0;

	for (size_t i = 0; i < text.len;) {
		uint32_t code = 0;
		size_t len = top_text_decode(p + i, text.len - i, &code);
		int fine = len && !top_text_is_control(code);
		int width = fine ? top_text_width(code) : 1;

		if (used + width > max)
			break;
		if (fine)
			buf_put(out, p + i, len);
		else
			buf_put(out, "?", 1);
		used += width;
		i += len ? len : 1;
	}
	return used;
}

/* ---- lines ---- */

static void top_line_begin(struct top_line *l, struct buf *out,
			   const struct top_screen *s)
{
	*l = (struct top_line){
		.out = out, .s = s,
		.left = s->columns ? s->columns : WITHOUT_LIMIT,
	};
}

static void top_line_style(struct top_line *l, const char *style)
{
	if (!l->s->color)
		return;
	buf_put(l->out, style, strlen(style));
	l->styled = 1;
}

static void top_line_put(struct top_line *l, struct slice text)
{
	l->left -= top_text_put(l->out, text, l->left);
}

static void top_line_printf(struct top_line *l, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));

static void top_line_printf(struct top_line *l, const char *fmt, ...)
{
	char text[512];
	va_list args;

	va_start(args, fmt);
	vsnprintf(text, sizeof(text), fmt, args);
	va_end(args);
	top_line_put(l, SLICE_STR(text));
}

/* On a terminal the rest of the line is erased; the last line has no newline,
 * which would scroll. */
static void top_line_end(struct top_line *l, int is_last)
{
	if (l->styled)
		buf_put(l->out, "\033[m", 3);
	if (l->s->columns)
		buf_put(l->out, "\033[K", 3);
	if (!l->s->columns)
		buf_put(l->out, "\n", 1);
	else if (!is_last)
		buf_put(l->out, "\r\n", 2);
}

/* ---- the table ---- */

enum top_column {
	COLUMN_RANK, COLUMN_ROLE, COLUMN_NODE, COLUMN_HOST, COLUMN_PID,
	COLUMN_DOES,
	COLUMN_STEP, COLUMN_RATE, COLUMN_QUIET, COLUMN_WAITS, COLUMN_CPU,
	COLUMN_MEMORY, COLUMN_WHAT,
	COLUMNS
};

/* width: 0 is the rest of the line. from: columns that a terminal must have
 * before this one is shown. */
static const struct {
	const char *title;
	int width, from, left;
} top_columns[COLUMNS] = {
	[COLUMN_RANK] = {"RANK", 5, 0, 0},
	[COLUMN_ROLE] = {"ROLE", 10, 44, 1},
	[COLUMN_NODE] = {"NODE", 5, 70, 0},
	[COLUMN_HOST] = {"HOST", 12, 56, 1},
	[COLUMN_PID] = {"PID", 8, 86, 0},
	[COLUMN_DOES] = {"DOES", 9, 0, 1},
	[COLUMN_STEP] = {"STEP", 9, 26, 0},
	[COLUMN_RATE] = {"RATE/s", 8, 46, 0},
	[COLUMN_QUIET] = {"AGE", 7, 36, 0},
	[COLUMN_WAITS] = {"WAITS", 6, 64, 0},
	[COLUMN_CPU] = {"CPU%", 5, 76, 0},
	[COLUMN_MEMORY] = {"MEM", 7, 94, 0},
	[COLUMN_WHAT] = {"WHAT", 0, 50, 1},
};

static const char *top_row_does(const struct top_row *row)
{
	static const char *const names[RANK_DOINGS] = {
		[RANK_STARTS] = "starts", [RANK_WORKS] = "works",
		[RANK_BUSY] = "computes", [RANK_BLOCKED] = "blocked",
		[RANK_IDLE] = "sleeps",	  [RANK_STOPPED] = "stopped",
		[RANK_CALLS] = "in call", [RANK_LOADS] = "loads",
	};

	return row->as.doing < RANK_DOINGS ? names[row->as.doing] : "?";
}

static void top_put_memory(char *out, size_t room, int64_t bytes)
{
	static const char units[] = "KMGT";
	double x = (double)bytes / 1024;
	int i = 0;

	if (bytes < 0) {
		snprintf(out, room, "-");
		return;
	}
	for (; x >= 1000 && i < 3; i++)
		x /= 1024;
	snprintf(out, room, x < 10 ? "%.1f%c" : "%.0f%c", x, units[i]);
}

static void top_put_seconds(char *out, size_t room, uint64_t ms)
{
	if (ms < 100000)
		snprintf(out, room, "%.1fs", (double)ms / 1000);
	else if (ms < 100 * 60000)
		snprintf(out, room, "%llum", (unsigned long long)ms / 60000);
	else
		snprintf(out, room, "%lluh", (unsigned long long)ms / 3600000);
}

/* A number, or "-" if it is unknown. */
static void top_put_known(char *out, size_t room, int known, const char *fmt,
			  double x)
{
	if (known)
		snprintf(out, room, strchr(fmt, '1') ? "%.1f" : "%.0f", x);
	else
		snprintf(out, room, "-");
}

/* The text of a cell: in place, or in the 32 bytes of own. */
static struct slice top_cell(const struct top_row *row, enum top_column c,
			     char own[32])
{
	const struct wire_rank *x = &row->as;

	own[0] = '\0';
	switch (c) {
	case COLUMN_RANK:
		snprintf(own, 32, "%u", x->rank);
		break;
	case COLUMN_NODE:
		top_put_known(own, 32, row->node >= 0, "0", row->node);
		break;
	case COLUMN_ROLE:
		return row->role;
	case COLUMN_HOST:
		return row->host;
	case COLUMN_PID:
		snprintf(own, 32, "%lld", (long long)x->pid);
		break;
	case COLUMN_DOES:
		return SLICE_STR(top_row_does(row));
	case COLUMN_STEP:
		top_put_known(own, 32, x->step >= 0, "0", (double)x->step);
		break;
	case COLUMN_RATE:
		top_put_known(own, 32, x->step_us != 0, "1",
			      x->step_us ? 1e6 / (double)x->step_us : 0);
		break;
	case COLUMN_QUIET:
		top_put_seconds(own, 32, x->quiet_ms);
		break;
	case COLUMN_WAITS:
		top_put_known(own, 32, x->waited >= 0, "0", x->waited / 10.0);
		break;
	case COLUMN_CPU:
		top_put_known(own, 32, row->as.cpu >= 0, "0",
			      (double)row->as.cpu / 10);
		break;
	case COLUMN_MEMORY:
		top_put_memory(own, 32, row->as.memory);
		break;
	default:
		return x->doing == RANK_CALLS ? x->call : x->words;
	}
	return SLICE_STR(own);
}

/* Columns that text takes, at most max. */
static int top_text_columns(struct slice text, int max)
{
	struct buf nowhere = BUF_INIT(0);
	int used = top_text_put(&nowhere, text, max);

	buf_release(&nowhere);
	return used;
}

static void top_line_put_cell(struct top_line *l, enum top_column c,
			      struct slice text)
{
	int width = top_columns[c].width, used, gap;

	if (!width) {
		top_line_put(l, text);
		return;
	}
	used = top_text_columns(text, width);
	gap = width - used;
	if (!top_columns[c].left && gap > 0)
		top_line_printf(l, "%*s", gap, "");
	if (l->left > 0)
		l->left -= top_text_put(l->out, text,
					width < l->left ? width : l->left);
	if (top_columns[c].left && gap > 0)
		top_line_printf(l, "%*s", gap, "");
	top_line_printf(l, " ");
}

static int top_column_is_shown(const struct top_screen *s,
			       const struct top_rows *r, enum top_column c)
{
	if (c == COLUMN_ROLE && !r->has_roles)
		return 0;
	return !s->columns || s->columns >= top_columns[c].from;
}

static void top_put_titles(struct buf *out, const struct top_screen *s,
			   const struct top_rows *r)
{
	struct top_line l;

	top_line_begin(&l, out, s);
	top_line_style(&l, REVERSE);
	for (int c = 0; c < COLUMNS; c++)
		if (top_column_is_shown(s, r, c))
			top_line_put_cell(&l, c,
					  SLICE_STR(top_columns[c].title));
	if (s->columns && l.left > 0)
		top_line_printf(&l, "%*s", l.left, "");
	top_line_end(&l, 0);
}

/* Without colors a mark is a character: where colors are, it is one as well. */
static void top_put_row(struct buf *out, const struct top_screen *s,
			const struct top_rows *r, const struct top_row *row)
{
	static const char *const words[] = {"", "SLOW: ", "! "};
	struct top_line l;
	char own[32];

	top_line_begin(&l, out, s);
	if (row->mark != TOP_FINE)
		top_line_style(&l, row->mark == TOP_SLOW ? YELLOW : RED);
	for (int c = 0; c < COLUMNS; c++) {
		if (!top_column_is_shown(s, r, c))
			continue;
		if (c == COLUMN_WHAT)
			top_line_printf(&l, "%s", words[row->mark]);
		top_line_put_cell(&l, c, top_cell(row, c, own));
	}
	top_line_end(&l, 0);
}

/* ---- the job ---- */

static void top_put_title(struct buf *out, const struct top_screen *s,
			  const struct job_status *job)
{
	const struct wire_job *m = &job->as;
	struct top_line l;
	char since[32];

	top_put_seconds(since, sizeof(since), m->state_ms);
	top_line_begin(&l, out, s);
	top_line_style(&l, BOLD);
	top_line_printf(&l, "job '");
	top_line_put(&l, m->job);
	top_line_printf(&l, "'  %s for %s  attempt %u of %u",
			job_status_state_name(m->state), since, m->attempt + 1,
			m->max_restarts + 1);
	if (s->jobs > 1)
		top_line_printf(&l, "  (job %zu of %zu)", s->job + 1, s->jobs);
	top_line_end(&l, 0);
}

static void top_put_counts(struct buf *out, const struct top_screen *s,
			   const struct job_status *job,
			   const struct top_rows *r)
{
	const struct wire_job *m = &job->as;
	size_t slow = 0, quiet = 0;
	struct top_line l;

	for (size_t i = 0; i < r->n; i++) {
		slow += r->rows[i].mark == TOP_SLOW;
		quiet += r->rows[i].mark == TOP_QUIET;
	}
	top_line_begin(&l, out, s);
	top_line_printf(&l, "%u of %u nodes  %u workers", m->joined,
			m->max_nodes, m->world_size);
	if (m->exited)
		top_line_printf(&l, "  %u ended", m->exited);
	if (m->spares)
		top_line_printf(&l, "  %u spares", m->spares);
	if (slow)
		top_line_printf(&l, "  %zu slow", slow);
	if (quiet)
		top_line_printf(&l, "  %zu without progress", quiet);
	top_line_printf(&l, "  at %s", job->server);
	top_line_end(&l, 0);
}

/* Returns the number of lines. */
static int top_put_clause(struct buf *out, const struct top_screen *s,
			  const char *before, struct slice text)
{
	struct top_line l;

	if (!text.len)
		return 0;
	top_line_begin(&l, out, s);
	top_line_printf(&l, "%s", before);
	top_line_put(&l, text);
	top_line_end(&l, 0);
	return 1;
}

static int top_put_head(struct buf *out, const struct top_screen *s,
			const struct job_status *job, const struct top_rows *r)
{
	int n = 1;

	top_put_title(out, s, job);
	/* a title, the table's own, a rank and the keys */
	if (s->columns && s->lines < 8)
		return n;
	top_put_counts(out, s, job, r);
	n++;
	n += top_put_clause(out, s, "waiting for ", job->as.text);
	n += top_put_clause(out, s, "the last round ended: ", job->as.cause);
	return n;
}

static void top_put_keys(struct buf *out, const struct top_screen *s)
{
	static const char *const orders[TOP_ORDERS] = {"rank", "age", "step",
						       "CPU"};
	struct top_line l;

	top_line_begin(&l, out, s);
	if (s->message) {
		top_line_printf(&l, "%s", s->message);
	} else {
		top_line_printf(&l, "q quit  s sort: %s  / filter",
				orders[s->order]);
		if (s->filter && *s->filter)
			top_line_printf(&l, ": %s", s->filter);
		top_line_printf(&l, "  o output  d dump  n next job  "
				"up, down scroll");
	}
	top_line_end(&l, 1);
}

/* Erases what an earlier screen left between the rows and the last line. */
static void top_put_bottom(struct buf *out, const struct top_screen *s)
{
	if (!s->columns)
		return;
	buf_printf(out, "\033[J\033[%d;1H", s->lines);
	top_put_keys(out, s);
}

/* ---- the last lines of a rank ---- */

static size_t top_count_lines(const struct buf *text)
{
	struct slice rest = SLICE(text->data, text->len);
	size_t n = 0;

	for (; rest.len; n++)
		slice_next_line(&rest);
	return n;
}

/* How many lines of each stream fit into room; returns what all take, with
 * their titles, or 0: there is no room for these. A stream with few lines
 * leaves its room to the other. */
static int top_plan_output(const struct job_output *o, int room, int fit[2])
{
	int n[2], titles;

	for (int i = 0; i < 2; i++)
		n[i] = (int)top_count_lines(&o->lines[i]);
	titles = 1 + (o->text && *o->text) + (n[0] && n[1]);
	room -= titles;
	if (room < 0)
		return 0;
	for (int i = 0; i < 2; i++) {
		int rest = room - n[!i], half = (room + !i) / 2;

		fit[i] = rest > half ? rest : half;
		if (fit[i] > n[i])
			fit[i] = n[i];
	}
	return titles + fit[0] + fit[1];
}

static void top_put_stream(struct buf *out, const struct top_screen *s,
			   const struct buf *text, int fit)
{
	struct slice rest = SLICE(text->data, text->len);
	size_t skip = top_count_lines(text) - (size_t)fit;
	struct top_line l;

	while (rest.len) {
		struct slice line = slice_next_line(&rest);

		if (skip) {
			skip--;
			continue;
		}
		top_line_begin(&l, out, s);
		top_line_put(&l, line);
		top_line_end(&l, 0);
	}
}

static void top_put_output_title(struct buf *out, const struct top_screen *s,
				 const char *stream)
{
	const struct job_output *o = s->output;
	struct top_line l;

	top_line_begin(&l, out, s);
	top_line_style(&l, REVERSE);
	top_line_printf(&l, "rank %u", o->rank);
	if (o->host && *o->host) {
		top_line_printf(&l, " on ");
		top_line_put(&l, SLICE_STR(o->host));
	}
	top_line_printf(&l, ": %s", stream);
	if (s->columns && l.left > 0)
		top_line_printf(&l, "%*s", l.left, "");
	top_line_end(&l, 0);
}

static void top_put_output(struct buf *out, const struct top_screen *s,
			   const int fit[2])
{
	static const char *const titles[] = {"last lines of stdout",
					     "last lines of stderr"};
	const struct job_output *o = s->output;
	const char *why = o->text ? o->text : "";

	if (!o->lines[0].len && !o->lines[1].len)
		top_put_output_title(out, s, *why ? "no lines"
						  : "no output so far");
	for (int i = 0; i < 2; i++) {
		if (!o->lines[i].len)
			continue;
		top_put_output_title(out, s, titles[i]);
		top_put_stream(out, s, &o->lines[i], fit[i]);
	}
	top_put_clause(out, s, "", SLICE_STR(why));
}

size_t top_screen_put(struct buf *out, const struct top_screen *s,
		      const struct job_status *job, const struct top_rows *r)
{
	size_t room = r->n, first = s->first;
	int left = s->columns ? s->lines - KEYS : WITHOUT_LIMIT;
	int height = 0, fit[2];

	if (s->columns)
		buf_printf(out, "\033[H");
	left -= top_put_head(out, s, job, r);
	if (s->output)
		height = top_plan_output(s->output, left / 2, fit);
	left -= height;
	if (r->n && left > 1) {
		top_put_titles(out, s, r);
		left--;
	}
	if (s->columns)
		room = left > 0 ? (size_t)left : 0;
	if (first + room > r->n)
		first = r->n > room ? r->n - room : 0;
	for (size_t i = first; i < r->n && i < first + room; i++)
		top_put_row(out, s, r, &r->rows[i]);
	if (height && s->columns)
		buf_printf(out, "\033[J\033[%d;1H", s->lines - height);
	if (height)
		top_put_output(out, s, fit);
	top_put_bottom(out, s);
	return room;
}

void top_screen_put_nothing(struct buf *out, const struct top_screen *s,
			    const char *words)
{
	struct top_line l;

	if (s->columns)
		buf_printf(out, "\033[H");
	top_line_begin(&l, out, s);
	top_line_printf(&l, "%s", words);
	top_line_end(&l, 0);
	top_put_bottom(out, s);
}
