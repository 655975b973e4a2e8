/* rank_progress.c: RANKS as text and as JSON. */
#include "rendezvous/status/job_status.h"

enum { SHOWN = 64 };

static const char *rank_progress_doing(uint8_t doing)
{
	static const char *const names[RANK_DOINGS] = {
		[RANK_STARTS] = "starts", [RANK_WORKS] = "works",
		[RANK_BUSY] = "computes", [RANK_BLOCKED] = "blocked",
		[RANK_IDLE] = "sleeps",	  [RANK_STOPPED] = "stopped",
		[RANK_CALLS] = "in_call", [RANK_LOADS] = "loads",
	};

	return doing < RANK_DOINGS ? names[doing] : "?";
}

static double rank_progress_rate(const struct wire_rank *r)
{
	return r->step_us ? 1e6 / (double)r->step_us : 0;
}

static void rank_progress_put_rank(struct buf *out, const struct wire_rank *r)
{
	buf_printf(out, "  rank %u  pid %lld", r->rank, (long long)r->pid);
	if (r->step >= 0)
		buf_printf(out, "  step %lld", (long long)r->step);
	if (r->step_us)
		buf_printf(out, ", %.3g a second", rank_progress_rate(r));
	buf_printf(out, "  last progress %.1f s ago",
		   (double)r->quiet_ms / 1000);
	if (r->waited >= 0)
		buf_printf(out, "  %d %% in collectives", r->waited / 10);
	if (r->doing == RANK_CALLS)
		buf_printf(out, "  in %.*s\n", SLICE_FMT(r->call));
	else
		buf_printf(out, "  %.*s\n", SLICE_FMT(r->words));
}

void rank_progress_put(struct buf *out, const struct wire_items *ranks)
{
	struct reader r;

	reader_init(&r, ranks->bytes);
	for (uint32_t i = 0; i < ranks->count && i < SHOWN; i++) {
		struct wire_rank x = wire_get_rank_item(&r);

		if (r.bad)
			return;
		rank_progress_put_rank(out, &x);
	}
	if (ranks->count > SHOWN)
		buf_printf(out, "  and %u more ranks; --json has all\n",
			   ranks->count - SHOWN);
}

static cJSON *rank_progress_json(const struct json *j,
				 const struct wire_rank *r)
{
	cJSON *to = j->object();

	j->add_number(to, "rank", r->rank);
	j->add_number(to, "pid", (double)r->pid);
	j->add_string(to, "does", rank_progress_doing(r->doing));
	json_add_text_or_null(j, to, "words", r->words);
	json_add_text_or_null(j, to, "call", r->call);
	j->add_number(to, "progress_seconds", (double)r->quiet_ms / 1000);
	if (r->step >= 0)
		j->add_number(to, "step", (double)r->step);
	else
		j->add_null(to, "step");
	if (r->step_us)
		j->add_number(to, "steps_per_second", rank_progress_rate(r));
	else
		j->add_null(to, "steps_per_second");
	if (r->waited >= 0)
		j->add_number(to, "collective_percent", (double)r->waited / 10);
	else
		j->add_null(to, "collective_percent");
	if (r->cpu >= 0)
		j->add_number(to, "cpu_percent", (double)r->cpu / 10);
	else
		j->add_null(to, "cpu_percent");
	if (r->memory >= 0)
		j->add_number(to, "memory_bytes", (double)r->memory);
	else
		j->add_null(to, "memory_bytes");
	return to;
}

void rank_progress_put_json(const struct json *j, cJSON *to,
			    const struct wire_items *ranks)
{
	cJSON *list = j->add_array(to, "ranks");
	struct reader r;

	reader_init(&r, ranks->bytes);
	for (uint32_t i = 0; i < ranks->count; i++) {
		struct wire_rank x = wire_get_rank_item(&r);

		if (r.bad)
			return;
		j->append(list, rank_progress_json(j, &x));
	}
}
