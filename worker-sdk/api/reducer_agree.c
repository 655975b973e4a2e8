/* reducer_agree.c: compares the ranks' reducers before the first step.
 * Different reducers would average the wrong values or wait for ever. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker-sdk/api/reducer.h"
#include "worker-sdk/core/last_error.h"

/* The values that the ranks compare. */
struct head {
	uint64_t counts; /* their hash */
	uint64_t first, later;
	int32_t n, type, spans, bf16, unused, hook;
	int32_t bad; /* nonzero: this rank's arguments are wrong */
};

enum { BLOCK = 256 };

static uint64_t reducer_hash_counts(const size_t *counts, int n)
{
	uint64_t h = 0xcbf29ce484222325u;

	for (int i = 0; i < n; i++) {
		h = (h ^ counts[i]) * 0x9e3779b97f4a7c15u;
		h ^= h >> 29;
	}
	return h;
}

struct pair {
	ddp_comm *c;
	int rank; /* the rank that differs from rank 0 */
};

static int reducer_differ_error(const struct pair *p, const char *what,
				long long a, long long b)
{
	char zero[DDP__NAME_MAX], other[DDP__NAME_MAX];

	return err_set(ddp__last_error(), ERR_ARGUMENT,
		       "ddp_reducer_new: %s: %lld on %s, %lld on %s; all ranks "
		       "must give the same", what, a,
		       ddp__name_rank(p->c, 0, zero), b,
		       ddp__name_rank(p->c, p->rank, other));
}

/* Collective: finds the first parameter whose count differs. All ranks compare
 * the same counts, block by block, so all stop together. */
static int reducer_find_difference(const struct pair *p, const size_t *counts,
				   int n)
{
	size_t size = BLOCK * sizeof(uint64_t);
	uint64_t mine[BLOCK], *all = malloc(size * (size_t)p->c->size);
	char what[64];
	int rc = 0;

	if (!all)
		return err_no_memory(ddp__last_error(), "ddp_reducer_new");
	for (int at = 0; at < n && !rc; at += BLOCK) {
		const uint64_t *other = all + (size_t)p->rank * BLOCK;

		memset(mine, 0, sizeof(mine));
		for (int i = at; i < n && i < at + BLOCK; i++)
			mine[i - at] = counts[i];
		rc = ddp__host_gather(p->c, DDP__REDUCER, mine, all, size);
		for (int i = 0; i < BLOCK && !rc; i++) {
			if (all[i] == other[i])
				continue;
			snprintf(what, sizeof(what), "elements of parameter %d",
				 at + i);
			rc = reducer_differ_error(p, what, (long long)all[i],
						  (long long)other[i]);
		}
	}
	free(all);
	return rc ? rc : reducer_differ_error(p, "the counts' hash", 0, 1);
}

static int reducer_compare(const struct pair *p, const struct head *a,
			   const struct head *b, const size_t *counts, int n)
{
	const struct {
		const char *what;
		long long a, b;
	} values[] = {
		{"parameters", a->n, b->n},
		{"type", a->type, b->type},
		{"in spans", a->spans, b->spans},
		{NULL, a->counts != b->counts, 0},
		{"bytes of first_bucket", (long long)a->first,
		 (long long)b->first},
		{"bytes of bucket", (long long)a->later, (long long)b->later},
		{"bf16", a->bf16, b->bf16},
		{"find_unused", a->unused, b->unused},
		{"hook", a->hook, b->hook},
	}, *v = values;

	for (; v < values + sizeof(values) / sizeof(*values); v++)
		if (v->a != v->b)
			return v->what ? reducer_differ_error(p, v->what, v->a,
							      v->b)
				       : reducer_find_difference(p, counts, n);
	return 0;
}

int ddp__reducer_agree(ddp_comm *c, const struct ddp_reducer *r,
		       const size_t *counts, int n, const struct err *ours)
{
	const struct ddp_reducer_options *o = &r->o;
	struct err *e = ddp__last_error();
	struct head *all = calloc((size_t)c->size, sizeof(*all)), mine = {
		.first = o->first_bucket, .later = o->bucket, .n = n,
		.type = (int)r->type, .spans = r->apart, .bf16 = o->bf16 != 0,
		.unused = o->find_unused != 0, .hook = o->hook != NULL,
		.bad = ours->code,
	};
	char name[DDP__NAME_MAX];
	int rc;

	if (!all)
		return err_no_memory(e, "ddp_reducer_new");
	if (!ours->code)
		mine.counts = reducer_hash_counts(counts, n);
	rc = ddp__host_gather(c, DDP__REDUCER, &mine, all, sizeof(mine));
	if (ours->code) { /* our own error says more than the other ranks'
			   * report */
		*e = *ours;
		rc = e->code;
	}
	for (int i = 0; i < c->size && !rc; i++)
		if (all[i].bad)
			rc = err_set(e, ERR_ARGUMENT,
				     "ddp_reducer_new failed on %s (%s), so it "
				     "fails here as well",
				     ddp__name_rank(c, i, name),
				     err_name(all[i].bad));
	for (int i = 1; i < c->size && !rc; i++)
		if (memcmp(&all[i], &all[0], sizeof(mine)))
			rc = reducer_compare(&(struct pair){c, i}, &all[0],
					     &all[i], counts, n);
	free(all);
	return rc;
}
