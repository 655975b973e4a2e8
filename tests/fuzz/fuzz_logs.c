/* fuzz_logs: users' log options are accepted or a clean error. Workers' output
 * passes the line cutter and the collapsing of lines without loss, each rank's
 * lines in order. */
#include <stdint.h>
#include <stdlib.h>

#include "launcher/output/collapse.h"
#include "launcher/output/lines.h"
#include "launcher/output/log_rules.h"
#include "launcher/output/redirect.h"
#include "launcher/output/template.h"

enum { RANKS = 3, PIECE = 7 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct collapse c;
static struct buf said[RANKS], heard[RANKS];

static void check(int ok)
{
	if (!ok)
		abort();
}

static void hear(void *arg, const struct collapse_line *line)
{
	for (int i = 0; i < RANKS; i++) {
		if (!(line->who[0] >> i & 1))
			continue;
		buf_put(&heard[i], line->text.data, line->text.len);
		buf_put_u8(&heard[i], (uint8_t)line->flags);
	}
}

static void say(void *arg, struct slice text, int flags)
{
	const uint32_t *i = arg;

	buf_put(&said[*i], text.data, text.len);
	buf_put_u8(&said[*i], (uint8_t)flags);
	collapse_add(&c, *i, text, flags, said[*i].len);
}

static void try_lines(struct slice in)
{
	struct lines cutters[RANKS];
	uint32_t who[RANKS] = {0, 1, 2};

	check(collapse_init(&c, RANKS, hear, NULL) == 0);
	for (uint32_t i = 0; i < RANKS; i++) {
		buf_init(&said[i], 8 << 20);
		buf_init(&heard[i], 8 << 20);
		lines_init(&cutters[i]);
		collapse_open(&c, i);
	}
	/* all ranks get the same output, in pieces whose sizes come from its
	 * bytes */
	for (size_t at = 0; at < in.len; at += PIECE) {
		size_t n = in.len - at < PIECE ? in.len - at : PIECE;
		uint32_t first = (unsigned char)in.data[at] % RANKS;

		for (uint32_t i = first; i < RANKS; i++)
			lines_feed(&cutters[i], SLICE(in.data + at, n), say,
				   &who[i]);
		collapse_expire(&c, at);
	}
	for (uint32_t i = 0; i < RANKS; i++) {
		lines_end(&cutters[i], say, &who[i]);
		lines_release(&cutters[i]);
		collapse_close(&c, i);
	}
	for (int i = 0; i < RANKS; i++) {
		check(said[i].len == heard[i].len);
		check(!said[i].len || !memcmp(said[i].data, heard[i].data,
					      said[i].len));
		buf_release(&said[i]);
		buf_release(&heard[i]);
	}
	collapse_release(&c);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct line_prefix_vars vars = {
		.role_name = "role", .host = "host", .rank = "1-2",
		.local_rank = "0", .stream = "stdout", .world_size = 3};
	struct buf text = BUF_INIT(1 << 20), prefix = BUF_INIT(256);
	struct line_filter f;
	struct err e = ERR_INIT;
	int rc;

	buf_put(&text, data, size);
	buf_put(&text, "", 1);
	rc = std_map_check(text.data, 4, "--tee", &e);
	check(rc == 0 || (rc == e.code && e.text[0]));
	for (uint32_t i = 0; rc == 0 && i < 4; i++)
		check(std_map_of(text.data, i) <= STD_BOTH);
	line_prefix_put(&prefix, text.data, &vars);
	check(prefix.len <= prefix.max);
	rc = line_filter_init(&f, text.data, "--f", &e);
	check(rc == 0 || rc == e.code);
	for (size_t i = 0; i < f.n; i++)
		check(line_filter_matches(&f, f.words[i]));
	line_filter_release(&f);
	buf_release(&prefix);
	buf_release(&text);
	try_lines(SLICE((const char *)data, size));
	return 0;
}
