/* wrong_data.c: parses the sentences that worker-sdk/api/check_replicas.c,
 * reducer_finite.c and reducer_norms.c write. */
#include "rendezvous/stall/stall.h"

#include <stdio.h>
#include <string.h>

static const char rank_is[] = "rank ";

/* A sentence has "rank 2 on h1" between these two. */
static const struct {
	const char *before, *after;
} sentences[] = {
	{"ddp_check_replicas: the data of ",
	 " differs from that of the other "},
	{" is not finite on ", ", before the average: "},
	{" has values up to ", ", before the average, and up to "},
};

/* The part between two strings; empty: they are not there. */
static struct slice wrong_data_between(struct slice s, const char *before,
				       const char *after)
{
	const char *at = slice_find(s, before), *end;

	if (!at)
		return SLICE("", 0);
	at += strlen(before);
	end = memmem(at, (size_t)(s.data + s.len - at), after, strlen(after));
	return end ? SLICE(at, (size_t)(end - at)) : SLICE("", 0);
}

/* The number in "rank 2 on h1", if s has one such name. */
static int wrong_data_rank(struct slice s, uint32_t *rank)
{
	const char *end = s.data + s.len;
	const char *at = slice_find(s, rank_is);
	uint64_t n = 0;
	int digits = 0;

	if (!at)
		return 0;
	at += strlen(rank_is);
	for (; at < end && *at >= '0' && *at <= '9' && n < UINT32_MAX; at++) {
		n = n * 10 + (uint64_t)(*at - '0');
		digits++;
	}
	*rank = (uint32_t)n;
	return digits && n < UINT32_MAX &&
	       !memmem(at, (size_t)(end - at), rank_is, strlen(rank_is));
}

/* 1 if the cause that a worker gives is that one rank has other data than most
 * ranks, or a gradient that no rank should have. */
static int wrong_data_parse(struct slice why, uint32_t *rank)
{
	struct slice line = why.len ? slice_next_line(&why) : why, name;

	for (size_t i = 0; i < sizeof(sentences) / sizeof(*sentences); i++) {
		if (!line.len)
			return 0;
		name = wrong_data_between(line, sentences[i].before,
					  sentences[i].after);
		if (name.len)
			return wrong_data_rank(name, rank);
	}
	return 0;
}

int wrong_data_find(const struct stall *s, struct slice why,
		    struct stall_news *out)
{
	struct slice line;
	uint32_t rank;

	if (!wrong_data_parse(why, &rank) || rank >= s->world ||
	    !s->ranks[rank].known)
		return 0;
	line = slice_next_line(&why);
	*out = (struct stall_news){
		.rank = rank,
		.local_rank = s->ranks[rank].at.local_rank,
		.pid = s->ranks[rank].at.pid,
	};
	snprintf(out->why, sizeof(out->why), "%.*s", SLICE_FMT(line));
	return 1;
}
