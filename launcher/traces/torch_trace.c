/* torch_trace.c: the keys of FlightRecorder.hpp in PyTorch; which sizes must be
 * equal is as in torch.distributed.flight_recorder. */
#include "launcher/traces/torch_trace.h"

#include <stdio.h>
#include <string.h>

#include "launcher/python/python.h"

enum {
	CALLS_MAX = 100000,
	FRAMES_READ = 64,
	SIZES_READ = 64, /* in one call */
	NAME_MAX_SHOWN = 80,
};

int torch_trace_is(const struct pickle *p)
{
	const struct pickle_value *root = pickle_root(p);

	return pickle_get(p, root, "entries") &&
	       pickle_get(p, root, "pg_config");
}

/* ---- groups ---- */

/* How many numbers a text like "[0, 1, 2]" has. */
static uint32_t torch_trace_count_ranks(struct slice ranks)
{
	uint32_t n = 0;
	int in_number = 0;

	for (size_t i = 0; i < ranks.len; i++) {
		int digit = ranks.data[i] >= '0' && ranks.data[i] <= '9';

		n += digit && !in_number;
		in_number = digit;
	}
	return n;
}

static int torch_trace_is_text(struct slice s, const char *text)
{
	return s.len == strlen(text) && memcmp(s.data, text, s.len) == 0;
}

uint32_t torch_trace_world_size(const struct pickle *p)
{
	const struct pickle_value *groups =
		pickle_get(p, pickle_root(p), "pg_config");
	const struct pickle_value *group;
	uint32_t at = 0, most = 0, n;

	/* gloo does not name the group of all ranks; no other is larger */
	while ((group = pickle_next(p, groups, &at))) {
		n = torch_trace_count_ranks(pickle_get_text(p, group, "ranks"));
		most = n > most ? n : most;
	}
	return most;
}

struct torch_group {
	struct slice name, what; /* what it is for, or "undefined" */
	int is_world;
};

/* An entry's: a pair of texts. Old versions have only the first. */
static struct torch_group torch_group_of(const struct pickle *p,
					 const struct pickle_value *entry)
{
	const struct pickle_value *pair = pickle_get(p, entry, "process_group");
	struct torch_group g = {SLICE("", 0), SLICE("", 0), 0};
	const struct pickle_value *v;
	uint32_t at = 0;

	v = pickle_next(p, pair, &at);
	if (v && v->type == PICKLE_TEXT)
		g.name = v->text;
	v = v ? pickle_next(p, pair, &at) : NULL;
	if (v && v->type == PICKLE_TEXT)
		g.what = v->text;
	g.is_world = torch_trace_is_text(g.what, "default_pg");
	return g;
}

/* Several groups of a job may have one name: the ranks tell them apart. */
static uint64_t torch_group_hash(const struct pickle *p,
				 const struct torch_group *g)
{
	const struct pickle_value *all =
		pickle_get(p, pickle_root(p), "pg_config");
	char name[NAME_MAX_SHOWN];
	uint64_t hash;

	if (g->is_world)
		return 0;
	hash = trace_hash(0, g->name);
	if (g->name.len < sizeof(name)) {
		snprintf(name, sizeof(name), "%.*s", SLICE_FMT(g->name));
		hash = trace_hash(hash,
				  pickle_get_text(p, pickle_get(p, all, name),
						  "ranks"));
	}
	return hash ? hash : 1;
}

/* ---- what was called ---- */

/* "[4096]", "[4, 3]" and so on, of all tensors. */
static void torch_trace_put_sizes(struct buf *out, const struct pickle *p,
				  const struct pickle_value *tensors)
{
	const struct pickle_value *t, *size;
	uint32_t at = 0;

	for (int n = 0; n < SIZES_READ && (t = pickle_next(p, tensors, &at));
	     n++) {
		uint32_t in = 0;

		buf_printf(out, n ? ", [" : "[");
		for (int k = 0; k < 16 && (size = pickle_next(p, t, &in)); k++)
			buf_printf(out, "%s%lld", k ? ", " : "",
				   (long long)size->number);
		buf_put(out, "]", 1);
	}
}

static void torch_trace_put_texts(struct buf *out, const struct pickle *p,
				  const struct pickle_value *list)
{
	const struct pickle_value *v;
	uint32_t at = 0;

	for (int n = 0; n < SIZES_READ && (v = pickle_next(p, list, &at)); n++)
		buf_printf(out, "%s%.*s", n ? ", " : "",
			   v->type == PICKLE_TEXT ? (int)v->text.len : 0,
			   v->type == PICKLE_TEXT ? v->text.data : "");
}

struct torch_entry {
	const struct pickle *p;
	const struct pickle_value *entry;
	struct slice name; /* "all_reduce", "send 1->2" */
	struct slice kind; /* its first word */
};

static void torch_entry_split_name(struct torch_entry *t, struct torch_call *c)
{
	struct slice all = pickle_get_text(t->p, t->entry, "profiling_name");
	const char *colon = all.len ? memrchr(all.data, ':', all.len) : NULL;
	const char *space;
	size_t skip = colon ? (size_t)(colon - all.data) + 1 : 0;

	snprintf(c->library, sizeof(c->library), "%.*s",
		 (int)(skip ? skip - 1 : 0), all.data);
	t->name = SLICE(all.data + skip, all.len - skip);
	space = t->name.len ? memchr(t->name.data, ' ', t->name.len) : NULL;
	t->kind = t->name;
	if (space)
		t->kind.len = (size_t)(space - t->name.data);
}

static int torch_entry_is(const struct torch_entry *t, const char *kind)
{
	return torch_trace_is_text(t->kind, kind);
}

/* Equal on all ranks for calls that fit each other. */
static uint64_t torch_entry_hash(const struct torch_entry *t)
{
	int all_to_all = t->kind.len >= 10 &&
			 memcmp(t->kind.data, "all_to_all", 10) == 0;
	int scatter = torch_entry_is(t, "scatter");
	int gather = torch_entry_is(t, "gather");
	struct buf text = BUF_INIT(64 << 10);
	uint64_t hash;

	buf_put(&text, t->kind.data, t->kind.len);
	if (!scatter && !torch_entry_is(t, "broadcast"))
		torch_trace_put_texts(&text, t->p,
				      pickle_get(t->p, t->entry,
						 "input_dtypes"));
	buf_put(&text, "", 1);
	if (!all_to_all && !scatter)
		torch_trace_put_sizes(&text, t->p,
				      pickle_get(t->p, t->entry,
						 "input_sizes"));
	buf_put(&text, "", 1);
	if (!all_to_all && !gather)
		torch_trace_put_sizes(&text, t->p,
				      pickle_get(t->p, t->entry,
						 "output_sizes"));
	hash = trace_hash(0, SLICE(text.data, text.len));
	buf_release(&text);
	return hash;
}

/* "send 1->2", "recv 3<-0", "recv 3<-?". */
static void torch_entry_read_message(const struct torch_entry *t,
				     struct torch_call *c)
{
	char text[64];
	unsigned place, peer;

	c->message = torch_entry_is(t, "send")	 ? 1
		     : torch_entry_is(t, "recv") ? 2
						 : 0;
	if (!c->message)
		return;
	c->peer = UINT32_MAX;
	snprintf(text, sizeof(text), "%.*s", SLICE_FMT(t->name));
	if (sscanf(text, "%*s %9u%*2[-<>]%9u", &place, &peer) == 2) {
		c->place = place;
		c->peer = peer;
	}
}

/* Text that a terminal may show. */
static void torch_trace_clean(char *text)
{
	for (; *text; text++) {
		if ((unsigned char)*text < ' ' || *text == 0x7f)
			*text = '?';
	}
}

static void torch_entry_put_words(const struct torch_entry *t,
				  const struct torch_group *g,
				  struct torch_call *c)
{
	const struct pickle_value *sizes =
		pickle_get(t->p, t->entry, "input_sizes");
	struct buf out = BUF_INIT(64 << 10);
	uint32_t at = 0;

	buf_printf(&out, "%.*s", SLICE_FMT(t->name));
	if (!c->message)
		buf_printf(&out, " #%llu", (unsigned long long)c->number);
	if (pickle_next(t->p, sizes, &at)) {
		buf_put(&out, " (", 2);
		torch_trace_put_texts(&out, t->p,
				      pickle_get(t->p, t->entry,
						 "input_dtypes"));
		buf_put(&out, " ", 1);
		torch_trace_put_sizes(&out, t->p, sizes);
		buf_put(&out, ")", 1);
	}
	if (!g->is_world)
		buf_printf(&out, " of group %.*s", SLICE_FMT(g->name));
	if (!g->is_world && g->what.len &&
	    !torch_trace_is_text(g->what, "undefined"))
		buf_printf(&out, " (%.*s)", SLICE_FMT(g->what));
	snprintf(c->words, sizeof(c->words), "%.*s", (int)out.len,
		 out.len ? out.data : "");
	torch_trace_clean(c->words);
	buf_release(&out);
}

static void torch_entry_put_where(const struct torch_entry *t,
				  struct torch_call *c)
{
	const struct pickle_value *frames =
		pickle_get(t->p, t->entry, "frames");
	const struct pickle_value *frame;
	char text[PYTHON_WHERE_MAX];
	struct python_frame x;
	uint32_t at = 0;

	for (int i = 0; i < FRAMES_READ; i++) {
		struct slice file, name;
		int64_t line;

		frame = pickle_next(t->p, frames, &at);
		if (!frame)
			return;
		file = pickle_get_text(t->p, frame, "filename");
		name = pickle_get_text(t->p, frame, "name");
		line = pickle_get_number(t->p, frame, "line");
		snprintf(x.file, sizeof(x.file), "%.*s", SLICE_FMT(file));
		snprintf(x.function, sizeof(x.function), "%.*s",
			 SLICE_FMT(name));
		x.line = line > 0 && line < 100000000 ? (int)line : 0;
		if (!file.len || python_is_library(x.file))
			continue;
		snprintf(c->where, sizeof(c->where), "%.*s",
			 (int)sizeof(c->where) - 1,
			 python_frame_text(&x, text));
		torch_trace_clean(c->where);
		return;
	}
}

static uint64_t torch_trace_positive(int64_t n)
{
	return n > 0 ? (uint64_t)n : 0;
}

static void torch_entry_read(const struct pickle *p,
			     const struct pickle_value *entry,
			     struct torch_call *c)
{
	struct torch_entry t = {.p = p, .entry = entry};
	struct torch_group g = torch_group_of(p, entry);

	*c = (struct torch_call){.group = torch_group_hash(p, &g)};
	torch_entry_split_name(&t, c);
	torch_entry_read_message(&t, c);
	c->number = torch_trace_positive(pickle_get_number(
		p, entry, c->message ? "p2p_seq_id" : "collective_seq_id"));
	c->is_collective = !c->message && c->number && t.kind.len &&
			   !torch_entry_is(&t, "coalesced") &&
			   pickle_get_number(p, entry, "is_p2p") != 1;
	c->same = torch_entry_hash(&t);
	c->ns = torch_trace_positive(
		pickle_get_number(p, entry, "time_created_ns"));
	/* gloo states no more than that it is done with it */
	c->state = pickle_get_number(p, entry, "retired") == 1 ||
				   torch_trace_is_text(
					   pickle_get_text(p, entry, "state"),
					   "completed")
			   ? FLIGHT_DONE
			   : FLIGHT_ENTERED;
	torch_entry_put_words(&t, &g, c);
	torch_entry_put_where(&t, c);
}

void torch_trace_each_call(const struct pickle *p, torch_trace_on_call *on_call,
			   void *arg)
{
	const struct pickle_value *entries =
		pickle_get(p, pickle_root(p), "entries");
	const struct pickle_value *entry;
	struct torch_call c;
	uint32_t at = 0;

	for (int i = 0; i < CALLS_MAX; i++) {
		entry = pickle_next(p, entries, &at);
		if (!entry)
			return;
		torch_entry_read(p, entry, &c);
		on_call(arg, &c);
	}
}
