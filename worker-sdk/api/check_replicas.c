/* check_replicas.c: ddp_check_replicas: gathers a hash of each rank's data, and
 * names the ranks that differ from most. Only where some differ does it look
 * for the span. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker-sdk/api/api_internal.h"
#include "worker-sdk/comm/call_guard.h"
#include "worker-sdk/core/last_error.h"

enum {
	LANES = 4,    /* per hash: one chain would wait for its products */
	BATCH = 256,  /* spans in one gather of hashes */
	NAMED_MAX = 4 /* ranks in a text */
};

struct replica {
	uint64_t layout; /* a hash of n, counts and types */
	uint64_t data;
};

static uint64_t replica_hash_bytes(const char *data, size_t size)
{
	uint64_t lane[LANES] = {1, 2, 3, 4}, word;
	uint64_t hash = size;
	size_t at = 0;

	for (; size - at >= sizeof(lane); at += sizeof(lane))
		for (int i = 0; i < LANES; i++) {
			memcpy(&word, data + at + (size_t)i * sizeof(word),
			       sizeof(word));
			lane[i] = ddp__digest(lane[i], word);
		}
	for (; at < size; at += sizeof(word)) {
		size_t left = size - at;

		word = 0;
		memcpy(&word, data + at,
		       left < sizeof(word) ? left : sizeof(word));
		hash = ddp__digest(hash, word);
	}
	for (int i = 0; i < LANES; i++)
		hash = ddp__digest(hash, lane[i]);
	return hash;
}

static uint64_t replica_hash_span(const struct ddp_span *s)
{
	return s->count ? replica_hash_bytes(s->data, s->count *
					     ddp_type_size(s->type)) : 0;
}

static struct replica replica_of(const struct ddp_span *spans, int n)
{
	struct replica mine = {(uint64_t)n, 0};

	for (int i = 0; i < n; i++) {
		uint64_t shape = (uint64_t)spans[i].count << 8 | spans[i].type;

		mine.layout = ddp__digest(mine.layout, shape);
		mine.data = ddp__digest(mine.data,
					replica_hash_span(&spans[i]));
	}
	return mine;
}

/* ---- Which ranks differ ---- */

static int replica_count_same(const struct replica *all, int n, uint64_t data)
{
	int same = 0;

	for (int r = 0; r < n; r++)
		same += all[r].data == data;
	return same;
}

/* The lowest rank whose data most ranks have, else rank 0. Sets *same to the
 * number of ranks with its data. */
static int replica_find_model(const struct replica *all, int n, int *same)
{
	int model = 0;

	*same = replica_count_same(all, n, all[0].data);
	for (int r = 1; r < n; r++) {
		int here = replica_count_same(all, n, all[r].data);

		if (here > n / 2 && here > *same) {
			model = r;
			*same = here;
		}
	}
	return model;
}

/* "rank 1 on h1, rank 3 on h2 and 5 more ranks" */
static void replica_name_others(struct ddp_comm *c, const struct replica *all,
				uint64_t data, int others, char *out,
				size_t room)
{
	char name[DDP__NAME_MAX];
	int named = 0;
	size_t at = 0;

	for (int r = 0; r < c->size && named < NAMED_MAX; r++) {
		if (all[r].data == data)
			continue;
		at += (size_t)snprintf(out + at, room - at, "%s%s",
				       !named ? ""
				       : named + 1 == others ? " and " : ", ",
				       ddp__name_rank(c, r, name));
		named++;
	}
	if (others > named)
		snprintf(out + at, room - at, " and %d more rank%s",
			 others - named, others - named == 1 ? "" : "s");
}

/* Collective. Sets *first to the first span in which any two ranks differ; n
 * if a span changed meanwhile. */
static int replica_find_span(struct ddp_comm *c, const struct ddp_span *spans,
			     int n, int *first)
{
	uint64_t mine[BATCH];
	uint64_t *all = malloc(sizeof(mine) * (size_t)c->size);
	int rc = all ? 0 : err_no_memory(ddp__last_error(),
					 "ddp_check_replicas: %d ranks",
					 c->size);

	*first = n;
	for (int at = 0; !rc && *first == n && at < n; at += BATCH) {
		int k = n - at < BATCH ? n - at : BATCH;

		memset(mine, 0, sizeof(mine));
		for (int i = 0; i < k; i++)
			mine[i] = replica_hash_span(&spans[at + i]);
		rc = ddp__host_gather(c, DDP__CHECK_REPLICAS, mine, all,
				      sizeof(mine));
		for (int i = 0; !rc && i < k && *first == n; i++)
			for (int r = 1; r < c->size; r++)
				if (all[(size_t)r * BATCH + (size_t)i] !=
				    all[i])
					*first = at + i;
	}
	free(all);
	return rc;
}

/* Collective: all ranks set the same error. */
static int replica_differ(struct ddp_comm *c, const struct replica *all,
			  const struct ddp_span *spans, int n)
{
	char others[(DDP__NAME_MAX + 8) * (NAMED_MAX + 1)];
	char name[DDP__NAME_MAX], most[DDP__NAME_MAX + 64];
	int same, model = replica_find_model(all, c->size, &same), first;
	int rc = replica_find_span(c, spans, n, &first);

	if (rc)
		return rc;
	replica_name_others(c, all, all[model].data, c->size - same, others,
			    sizeof(others));
	if (same > c->size / 2)
		snprintf(most, sizeof(most), "the other %d ranks", same);
	else
		snprintf(most, sizeof(most), "%s, and no %d ranks agree",
			 ddp__name_rank(c, model, name), c->size / 2 + 1);
	return err_set(ddp__last_error(), ERR_DATA,
		       "ddp_check_replicas: the data of %s differs from that "
		       "of %s, first in span %d of %d: a rank missed an update "
		       "or a broadcast, or its memory is faulty",
		       others, most, first, n);
}

static int replica_compare(struct ddp_comm *c, const struct replica *all,
			   const struct ddp_span *spans, int n)
{
	char name[DDP__NAME_MAX];

	for (int r = 1; r < c->size; r++)
		if (all[r].layout != all[0].layout)
			return err_set(ddp__last_error(), ERR_ARGUMENT,
				       "ddp_check_replicas: %s and rank 0 "
				       "differ in the number of spans, a count "
				       "or a type: all ranks must give the "
				       "same",
				       ddp__name_rank(c, r, name));
	if (replica_count_same(all, c->size, all[0].data) == c->size)
		return 0;
	return replica_differ(c, all, spans, n);
}

int ddp_check_replicas(ddp_comm *c, const struct ddp_span *spans, int n)
{
	struct err *e = ddp__last_error();
	int rc = ddp__check_spans(c, "ddp_check_replicas", spans, n, e);
	struct replica mine, *all;

	if (rc || !c->state)
		return rc;
	all = malloc(sizeof(*all) * (size_t)c->size);
	if (!all)
		return err_no_memory(e, "ddp_check_replicas: %d ranks",
				     c->size);
	mine = replica_of(spans, n);
	rc = ddp__host_gather(c, DDP__CHECK_REPLICAS, &mine, all, sizeof(mine));
	if (!rc)
		rc = replica_compare(c, all, spans, n);
	free(all);
	return rc;
}
