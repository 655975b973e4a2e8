/* odd_call.c: parses the sentence that worker-sdk/shm/shm_agree.c and its
 * counterparts write. */
#include "rendezvous/stall/stall.h"

#include <stdio.h>
#include <string.h>

static const char called[] = " called ", but[] = ", but rank ",
		  rank_is[] = "rank ", ends[] = ": all ranks must ";

static struct slice odd_call_from(struct slice s, const char *at)
{
	return SLICE(at, s.len - (size_t)(at - s.data));
}

/* The number at the start of s. 1 if there is one. */
static int odd_call_number(struct slice s, uint32_t *out)
{
	uint64_t n = 0;
	size_t i = 0;

	while (i < s.len && s.data[i] >= '0' && s.data[i] <= '9' &&
	       n < UINT32_MAX)
		n = n * 10 + (uint64_t)(s.data[i++] - '0');
	*out = (uint32_t)n;
	return i > 0 && n < UINT32_MAX;
}

/* "3 on h2 called X" up to `end`. */
static int odd_call_part(struct slice s, const char *end, uint32_t *rank,
			 struct slice *call)
{
	const char *at;

	s.len = (size_t)(end - s.data);
	at = slice_find(s, called);
	if (!at || !odd_call_number(s, rank))
		return 0;
	*call = odd_call_from(s, at + strlen(called));
	return 1;
}

/* libddp's sentence: "rank 0 on h1 called X, but rank 3 on h2 called Y". */
struct odd_call_pair {
	uint32_t rank[2];
	struct slice call[2]; /* borrowed from the sentence */
};

/* 1 if the cause that a worker gives has that sentence in it. */
static int odd_call_parse(struct slice why, struct odd_call_pair *out)
{
	const char *end = slice_find(why, ends), *middle, *first;

	if (!end)
		return 0;
	why.len = (size_t)(end - why.data);
	middle = slice_find(why, but);
	first = slice_find(why, rank_is);
	if (!middle || !first || first >= middle)
		return 0;
	return odd_call_part(odd_call_from(why, first + strlen(rank_is)),
			     middle, &out->rank[0], &out->call[0]) &&
	       odd_call_part(odd_call_from(why, middle + strlen(but)), end,
			     &out->rank[1], &out->call[1]);
}

static uint32_t odd_call_count(const struct stall *s, struct slice call)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < s->world; i++) {
		const struct slice *own = &s->ranks[i].at.call;

		n += s->ranks[i].known && own->len == call.len && own->len &&
		     memcmp(own->data, call.data, call.len) == 0;
	}
	return n;
}

int odd_call_find(const struct stall *s, struct slice why,
		  struct stall_news *out)
{
	struct odd_call_pair pair;
	uint32_t n[2];
	int odd;

	if (!odd_call_parse(why, &pair))
		return 0;
	for (int i = 0; i < 2; i++)
		n[i] = odd_call_count(s, pair.call[i]);
	odd = n[1] < n[0];
	/* it may be on a host whose last report is older than its call */
	if (n[0] == n[1] || n[!odd] < 2 || pair.rank[odd] >= s->world ||
	    !s->ranks[pair.rank[odd]].known)
		return 0;
	*out = (struct stall_news){
		.rank = pair.rank[odd],
		.local_rank = s->ranks[pair.rank[odd]].at.local_rank,
		.pid = s->ranks[pair.rank[odd]].at.pid,
	};
	snprintf(out->why, sizeof(out->why),
		 "it called %.*s, but %u ranks called %.*s",
		 SLICE_FMT(pair.call[odd]), n[!odd],
		 SLICE_FMT(pair.call[!odd]));
	return 1;
}

int odd_call_needs_reports(const struct stall *s, struct slice why)
{
	struct odd_call_pair pair;

	return s->world > 2 && odd_call_parse(why, &pair) &&
	       pair.rank[0] < s->world && pair.rank[1] < s->world;
}
