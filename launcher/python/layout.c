/* layout.c: the offsets of 64-bit builds, which the debug information of
 * CPython's own builds states: the same in all releases of a version. Line
 * tables follow CPython's Objects/lnotab_notes.txt and locations.md. */
#include "launcher/python/layout.h"

#include <string.h>

/* The same from 3.9 to 3.12. */
#define OBJECTS                                                       \
	.object_type = 8, .text_length = 16, .text_state = 32,        \
	.bytes_size = 16, .bytes_data = 32
#define TEXT_TO_3_11 .text_ascii = 48, .text_other = 72

/* 3.9 and 3.10. */
#define TO_3_10                                                       \
	.runtime_interpreters = 32, .runtime_gil = 568,               \
	.interp_threads = 8, .thread_next = 8, .thread_id = 176,      \
	.thread_frame = 24, .frame_back = 24, .frame_code = 32,       \
	.code_file = 104, .code_name = 112, .code_first_line = 40,    \
	.code_lines = 120, TEXT_TO_3_11, OBJECTS

/* 3.11 and 3.12. */
#define FROM_3_11                                                     \
	.lines = LINE_TABLE_LOCATIONS, .runtime_interpreters = 40,    \
	.thread_next = 8, .thread_cframe = 56, .frame_at = 56,        \
	.code_file = 112, .code_name = 128, .code_lines = 136, OBJECTS

static const struct python_layout layouts[] = {
	{.minor = 9, .lines = LINE_TABLE_LNOTAB, .frame_at = 104, TO_3_10},
	{.minor = 10, .lines = LINE_TABLE_RANGES, .frame_at = 96, TO_3_10},
	{
		.minor = 11,
		.runtime_gil = 576,
		.interp_threads = 16,
		.thread_id = 152,
		.thread_native_id = 160,
		.cframe_frame = 8,
		.frame_back = 48,
		.frame_code = 32,
		.frame_owner = 69,
		.code_first_line = 72,
		.code_bytes = 184,
		FROM_3_11,
		TEXT_TO_3_11,
	},
	{
		.minor = 12,
		.interp_threads = 72,
		.interp_gil = 384,
		.gil_holder = 8,
		.gil_locked = 16,
		.thread_id = 136,
		.thread_native_id = 144,
		.frame_back = 8,
		.frame_owner = 70,
		.code_first_line = 68,
		.code_bytes = 192,
		.text_ascii = 40,
		.text_other = 56,
		FROM_3_11,
	},
};

static uint64_t layout_max(uint64_t a, uint64_t b)
{
	return a > b ? a : b;
}

/* Sets the sizes. -1: an offset is not plausible. */
static int layout_finish(struct python_layout *l)
{
	enum { FAR = 1 << 20 };
	const uint64_t far[] = {
		l->runtime_interpreters,
		l->interp_next,
		l->interp_threads,
		l->gil_holder,
		l->gil_locked,
		l->thread_next,
		l->thread_id,
		l->thread_native_id,
		l->thread_frame,
		l->code_bytes,
		l->object_type,
		l->text_length,
		l->text_state,
		l->text_ascii,
		l->bytes_size,
		l->bytes_data,
	};
	uint64_t frame = layout_max(layout_max(l->frame_back, l->frame_code),
				    layout_max(l->frame_at, l->frame_owner));
	uint64_t code =
		layout_max(layout_max(l->code_file, l->code_name),
			   layout_max(l->code_first_line, l->code_lines));

	for (size_t i = 0; i < sizeof(far) / sizeof(*far); i++) {
		if (far[i] > FAR)
			return -1;
	}
	frame = layout_max(frame, l->object_type);
	code = layout_max(code, l->object_type);
	if (frame > PYTHON_STRUCT_MAX - sizeof(uint64_t) ||
	    code > PYTHON_STRUCT_MAX - sizeof(uint64_t))
		return -1;
	l->frame_size = frame + sizeof(uint64_t);
	l->code_size = code + sizeof(uint64_t);
	return 0;
}

int python_layout_of(struct python_layout *l, unsigned minor)
{
	for (size_t i = 0; i < sizeof(layouts) / sizeof(*layouts); i++) {
		if (layouts[i].minor != minor)
			continue;
		*l = layouts[i];
		return layout_finish(l);
	}
	*l = (struct python_layout){.minor = minor};
	return -1;
}

/* CPython's struct _Py_DebugOffsets is all words, in groups that begin with the
 * size of what they describe; these are the groups' places. */
struct layout_groups {
	unsigned interp_gil, thread, frame, code, object, bytes, text;
};

int python_layout_read(struct python_layout *l,
		       const uint64_t words[PYTHON_DEBUG_OFFSETS])
{
	static const struct layout_groups groups[] = {
		{17, 19, 28, 34, 44, 64, 67}, /* 3.13 */
		{18, 22, 31, 39, 50, 74, 77}, /* 3.14 */
	};
	enum { FIRST = 13 };
	const struct layout_groups *g;
	unsigned minor = (unsigned)(words[1] >> 16 & 0xff);

	*l = (struct python_layout){.minor = 0};
	if (memcmp(words, "xdebugpy", sizeof(*words)) != 0 ||
	    words[1] >> 24 != 3)
		return -1;
	l->minor = minor;
	if (minor < FIRST || minor > PYTHON_NEWEST)
		return -1;
	g = &groups[minor - FIRST];
	*l = (struct python_layout){
		.minor = minor,
		.lines = LINE_TABLE_LOCATIONS,
		.runtime_interpreters = words[5],
		.interp_next = words[8],
		.interp_threads = words[9],
		.gil_locked = words[g->interp_gil],
		.gil_holder = words[g->interp_gil + 1],
		.thread_next = words[g->thread + 2],
		.thread_frame = words[g->thread + 4],
		.thread_id = words[g->thread + 5],
		.thread_native_id = words[g->thread + 6],
		.frame_back = words[g->frame + 1],
		.frame_code = words[g->frame + 2],
		.frame_at = words[g->frame + 3],
		.frame_owner = words[g->frame + 5],
		.code_file = words[g->code + 1],
		.code_name = words[g->code + 3],
		.code_lines = words[g->code + 4],
		.code_first_line = words[g->code + 5],
		.code_bytes = words[g->code + 9],
		.object_type = words[g->object + 1],
		.bytes_size = words[g->bytes + 1],
		.bytes_data = words[g->bytes + 2],
		.text_state = words[g->text + 1],
		.text_length = words[g->text + 2],
		.text_ascii = words[g->text + 3],
		/* then the length in UTF-8, and a pointer */
		.text_other = words[g->text + 3] + 2 * sizeof(uint64_t),
	};
	return layout_finish(l);
}

/* ---- line tables ---- */

enum { LINE_MAX_PLAUSIBLE = 100000000 };

static int line_table_check(int64_t line)
{
	return line > 0 && line < LINE_MAX_PLAUSIBLE ? (int)line : 0;
}

/* Pairs: how many bytes further, how many lines further. */
static int line_table_find_lnotab(const unsigned char *t, size_t size,
				  int64_t line, uint64_t at)
{
	uint64_t from = 0;

	for (size_t i = 0; i + 1 < size; i += 2) {
		from += t[i];
		if (from > at)
			break;
		line += (int8_t)t[i + 1];
	}
	return line_table_check(line);
}

/* Pairs: the bytes of a range, its lines relative to the last; -128: none. */
static int line_table_find_range(const unsigned char *t, size_t size,
				 int64_t line, uint64_t at)
{
	uint64_t end = 0;

	for (size_t i = 0; i + 1 < size; i += 2) {
		int8_t more = (int8_t)t[i + 1];

		end += t[i];
		if (more != -128)
			line += more;
		if (at < end)
			return more == -128 ? 0 : line_table_check(line);
	}
	return 0;
}

struct location_reader {
	const unsigned char *at, *end;
};

static unsigned location_byte(struct location_reader *r)
{
	return r->at < r->end ? *r->at++ : 0;
}

/* 6 bits in each byte, the lowest first; 64: more follow. */
static int64_t location_number(struct location_reader *r)
{
	uint64_t value = 0;

	for (unsigned shift = 0; shift < 36; shift += 6) {
		unsigned byte = location_byte(r);

		value |= (uint64_t)(byte & 63) << shift;
		if (!(byte & 64))
			break;
	}
	return (int64_t)value;
}

/* Its lowest bit is the sign. */
static int64_t location_signed(struct location_reader *r)
{
	int64_t value = location_number(r);

	return value & 1 ? -(value >> 1) : value >> 1;
}

static int line_table_find_location(const unsigned char *t, size_t size,
				    int64_t line, uint64_t at)
{
	enum { NONE = 15, LONG = 14, NO_COLUMN = 13, ONE_LINE = 10 };
	struct location_reader r = {t, t + size};
	uint64_t end = 0;

	while (r.at < r.end) {
		unsigned byte = location_byte(&r), code = byte >> 3 & 15;

		end += 2 * ((byte & 7) + 1);
		if (code == LONG || code == NO_COLUMN)
			line += location_signed(&r);
		else if (code >= ONE_LINE && code != NONE)
			line += code - ONE_LINE;
		if (at < end)
			return code == NONE ? 0 : line_table_check(line);
		/* the next entry begins with a byte that has the top bit */
		while (r.at < r.end && !(*r.at & 128))
			r.at++;
	}
	return 0;
}

int line_table_find(enum line_table_kind kind, const unsigned char *table,
		    size_t size, int first_line, uint64_t at)
{
	switch (kind) {
	case LINE_TABLE_LNOTAB:
		return line_table_find_lnotab(table, size, first_line, at);
	case LINE_TABLE_RANGES:
		return line_table_find_range(table, size, first_line, at);
	default:
		return line_table_find_location(table, size, first_line, at);
	}
}
