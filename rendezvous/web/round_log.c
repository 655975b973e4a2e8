/* round_log.c: a ring of rounds. */
#include <stdlib.h>
#include <string.h>

#include "rendezvous/web/web_internal.h"

struct round_log *round_log_new(void)
{
	return calloc(1, sizeof(struct round_log));
}

void round_log_free(struct round_log *l)
{
	for (int i = 0; l && i < ROUND_LOG_MAX; i++)
		free(l->entries[i].cause);
	free(l);
}

void round_log_begin(struct round_log *l, const struct wire_job *m,
		     uint64_t now_ms)
{
	struct round_entry *x = &l->entries[l->n++ % ROUND_LOG_MAX];

	free(x->cause);
	*x = (struct round_entry){.round = m->round, .began_ms = now_ms,
				  .world_size = m->world_size,
				  .nodes = m->joined};
}

/* The length of the first line, cut between characters. */
static size_t round_log_cause_len(struct slice cause)
{
	size_t n = 0;

	while (n < cause.len && (unsigned char)cause.data[n] >= 0x20)
		n++;
	if (n > ROUND_LOG_CAUSE_MAX)
		for (n = ROUND_LOG_CAUSE_MAX;
		     n && (cause.data[n] & 0xc0) == 0x80; n--)
			;
	return n;
}

void round_log_end(struct round_log *l, uint8_t verdict, struct slice cause,
		   uint64_t now_ms)
{
	struct round_entry *x =
		l->n ? &l->entries[(l->n - 1) % ROUND_LOG_MAX] : NULL;

	if (!x || x->ended_ms)
		return;
	x->ended_ms = now_ms > x->began_ms ? now_ms : x->began_ms + 1;
	x->verdict = verdict;
	if (cause.len)
		x->cause = strndup(cause.data, round_log_cause_len(cause));
}

static const char *round_log_verdict(const struct round_entry *x)
{
	static const char *const names[] = {
		[WIRE_SUCCESS] = "success", [WIRE_FAILURE] = "failure",
		[WIRE_RESTART] = "restart", [WIRE_ENDED] = "ended",
		[WIRE_REGROUP] = "regroup",
	};

	return x->verdict < sizeof(names) / sizeof(*names) ? names[x->verdict]
							   : "?";
}

static void round_log_put_entry(const struct round_entry *x, struct buf *out,
				const struct json *j, uint64_t now_ms)
{
	uint64_t end = x->ended_ms ? x->ended_ms : now_ms;

	buf_printf(out, "{\"round\":%u,\"nodes\":%u,\"world_size\":%u,"
		   "\"began_seconds_ago\":%.3f,\"lasted_seconds\":%.3f,"
		   "\"end\":",
		   x->round, x->nodes, x->world_size,
		   (double)(now_ms - x->began_ms) / 1e3,
		   (double)(end - x->began_ms) / 1e3);
	if (x->ended_ms)
		buf_printf(out, "\"%s\",\"cause\":", round_log_verdict(x));
	else
		buf_printf(out, "null,\"cause\":");
	if (x->cause)
		json_put_text(out, j, SLICE_STR(x->cause));
	else
		buf_printf(out, "null");
	buf_put(out, "}", 1);
}

void round_log_put_json(const struct round_log *l, struct buf *out,
			const struct json *j, uint64_t now_ms)
{
	uint64_t n = l ? l->n : 0,
		 i = n > ROUND_LOG_MAX ? n - ROUND_LOG_MAX : 0;

	buf_put(out, "[", 1);
	for (; i < n; i++) {
		round_log_put_entry(&l->entries[i % ROUND_LOG_MAX], out, j,
				    now_ms);
		if (i + 1 < n)
			buf_put(out, ",", 1);
	}
	buf_put(out, "]", 1);
}
