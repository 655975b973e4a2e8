/* line_table.c: follows CPython's Objects/lnotab_notes.txt and locations.md. */
#include "launcher/python/line_table.h"

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
