/* check.c: at each answer, tries all orders of the acts under way that explain
 * it. The result is the set of states in which the key may be. */
#include "tests/fuzz_store/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SLOTS = 64, CONFIGS_MAX = 1 << 18 };

/* A state of the key, and which acts (bits of slots) have led to it. */
struct config {
	struct state state;
	uint64_t done;
};

struct set {
	struct config *list;
	size_t n, cap;
	uint32_t *table; /* index + 1 by hash; 0: free */
	size_t slots;
};

struct event {
	uint64_t at;
	uint32_t act;
	int is_end;
};

/* ---- a set of configurations ---- */

static uint64_t hash_of(const struct config *c)
{
	const uint64_t *p = (const uint64_t *)(const void *)c;
	uint64_t h = 0x9e3779b97f4a7c15;

	for (size_t i = 0; i < sizeof(*c) / sizeof(*p); i++)
		h = (h ^ p[i]) * 0xff51afd7ed558ccd, h ^= h >> 32;
	return h;
}

static void *need(void *p)
{
	if (!p) {
		fprintf(stderr, "fuzz_store: out of memory\n");
		exit(3);
	}
	return p;
}

static void set_clear(struct set *s)
{
	if (s->slots)
		memset(s->table, 0, s->slots * sizeof(*s->table));
	s->n = 0;
}

static void set_free(struct set *s)
{
	free(s->list);
	free(s->table);
}

static void rehash(struct set *s)
{
	size_t slots = s->slots ? 2 * s->slots : 64;

	free(s->table);
	s->table = need(calloc(slots, sizeof(*s->table)));
	s->slots = slots;
	for (size_t i = 0; i < s->n; i++) {
		size_t at = hash_of(&s->list[i]) & (slots - 1);

		while (s->table[at])
			at = (at + 1) & (slots - 1);
		s->table[at] = (uint32_t)i + 1;
	}
}

static void set_add(struct set *s, const struct config *c)
{
	size_t at;

	if (2 * (s->n + 1) > s->slots)
		rehash(s);
	at = hash_of(c) & (s->slots - 1);
	for (; s->table[at]; at = (at + 1) & (s->slots - 1))
		if (!memcmp(&s->list[s->table[at] - 1], c, sizeof(*c)))
			return;
	if (s->n == s->cap) {
		s->cap = s->cap ? 2 * s->cap : 64;
		s->list = need(realloc(s->list, s->cap * sizeof(*s->list)));
	}
	s->table[at] = (uint32_t)s->n + 1;
	s->list[s->n++] = *c;
}

/* ---- the search ---- */

struct search {
	const struct act *acts;
	uint32_t pending[SLOTS]; /* act + 1; 0: free */
	struct set now, next, seen;
};

static int slot_of(const struct search *s, uint32_t act_1)
{
	int i = 0;

	while (i < SLOTS && s->pending[i] != act_1)
		i++;
	return i;
}

/* From each state, finds all states in which the act in this slot has happened;
 * the other acts under way may have happened before it. */
static int explain(struct search *s, int slot)
{
	uint64_t bit = UINT64_C(1) << slot;

	set_clear(&s->next);
	set_clear(&s->seen);
	for (size_t i = 0; i < s->now.n; i++)
		set_add(&s->seen, &s->now.list[i]);
	for (size_t i = 0; i < s->seen.n && i < CONFIGS_MAX; i++) {
		struct config c = s->seen.list[i], after;

		if (c.done & bit) {
			c.done &= ~bit;
			set_add(&s->next, &c);
			continue;
		}
		for (int j = 0; j < SLOTS; j++) {
			if (!s->pending[j] || c.done >> j & 1)
				continue;
			after = c;
			if (!model_apply(&after.state,
					 &s->acts[s->pending[j] - 1]))
				continue;
			after.done |= UINT64_C(1) << j;
			set_add(&s->seen, &after);
		}
	}
	return s->seen.n < CONFIGS_MAX;
}

/* An act without an answer can no longer happen: it has happened, or never
 * will. */
static void expire(struct search *s, int slot)
{
	explain(s, slot);
	for (size_t i = 0; i < s->now.n; i++) {
		struct config c = s->now.list[i];

		c.done &= ~(UINT64_C(1) << slot);
		set_add(&s->next, &c);
	}
}

static void swap(struct set *a, struct set *b)
{
	struct set c = *a;

	*a = *b;
	*b = c;
}

static int by_begin(const void *x, const void *y)
{
	const struct act *a = x, *b = y;

	return a->began != b->began ? (a->began > b->began) -
	       (a->began < b->began) : (a->number > b->number) -
	       (a->number < b->number);
}

static int by_time(const void *x, const void *y)
{
	const struct event *a = x, *b = y;

	if (a->at != b->at)
		return a->at < b->at ? -1 : 1;
	return a->is_end != b->is_end ? a->is_end - b->is_end :
	       (a->act > b->act) - (a->act < b->act);
}

static struct event *events_of(const struct act *acts, size_t n)
{
	struct event *e = need(calloc(2 * n + 1, sizeof(*e)));

	for (size_t i = 0; i < n; i++) {
		e[2 * i] = (struct event){acts[i].began, (uint32_t)i, 0};
		e[2 * i + 1] = (struct event){acts[i].ended, (uint32_t)i, 1};
	}
	qsort(e, 2 * n, sizeof(*e), by_time);
	return e;
}

enum check_result check_key(struct act *acts, size_t n, size_t *at,
			    size_t *most)
{
	struct config first = {.done = 0};
	struct search s = {.acts = acts};
	enum check_result r = CHECK_OK;
	struct event *events;

	qsort(acts, n, sizeof(*acts), by_begin);
	events = events_of(acts, n);
	set_add(&s.now, &first);
	for (size_t i = 0; i < 2 * n && r == CHECK_OK; i++) {
		const struct event *e = &events[i];
		int slot = slot_of(&s, e->is_end ? e->act + 1 : 0);

		*at = e->act;
		if (slot == SLOTS) {
			r = CHECK_GAVE_UP;
		} else if (!e->is_end) {
			s.pending[slot] = e->act + 1;
		} else {
			if (!explain(&s, slot))
				r = CHECK_GAVE_UP;
			if (acts[e->act].answer == ACT_UNKNOWN)
				expire(&s, slot);
			s.pending[slot] = 0;
			swap(&s.now, &s.next);
			if (s.now.n > *most)
				*most = s.now.n;
			if (!s.now.n && r == CHECK_OK)
				r = CHECK_WRONG;
		}
	}
	set_free(&s.now);
	set_free(&s.next);
	set_free(&s.seen);
	free(events);
	return r;
}
