/* waiter.c: waiters for keys and gates, and the queue of woken waiters. */
#include <assert.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>

#include "rendezvous/store/store_internal.h"

/* ---- lines of waiters ---- */

static void waiter_link_add(struct store_line *line, struct store_link *link,
			    struct store_entry *en, struct store_waiter *w)
{
	if (!line->first)
		line->end = &line->first;
	link->line = line;
	link->entry = en;
	link->waiter = w;
	link->next = NULL;
	link->pprev = line->end;
	*line->end = link;
	line->end = &link->next;
}

static void waiter_unlink_from(struct store_link *link)
{
	if (link->next)
		link->next->pprev = link->pprev;
	else
		link->line->end = link->pprev;
	*link->pprev = link->next;
	link->pprev = NULL;
}

static void waiter_link_remove(struct store *s, struct store_link *link)
{
	if (!link->pprev)
		return;
	waiter_unlink_from(link);
	store_drop_if_unused(s, link->entry);
}

/* ---- waking ---- */

void store_wake(struct store_waiter *w, int code)
{
	struct store *s = w->store;

	w->state = WAITER_WOKEN;
	w->code = code;
	w->next = NULL;
	w->pprev = s->woken_tail;
	*s->woken_tail = w;
	s->woken_tail = &w->next;
}

/* Whether each key that w still waits for has a queued value. */
static int waiter_is_ready(const struct store_waiter *w)
{
	for (uint32_t i = 0; i < w->nlinks; i++) {
		if (w->links[i].pprev && !w->links[i].entry->queued)
			return 0;
	}
	return 1;
}

void store_wake_all_of(struct store_entry *en)
{
	struct store_link *link;
	struct store_waiter *w;

	while ((link = en->waiters.first)) {
		w = link->waiter;
		waiter_unlink_from(link);
		assert(en->waiters.first != link);
		w->missing--;
		if (w->state == WAITER_KEYS &&
		    (!w->missing || (w->store->queues && waiter_is_ready(w))))
			store_wake(w, 0);
	}
}

void store_wake_one_of(struct store_entry *en)
{
	struct store_link *link = en->waiters.first;

	while (link && (link->waiter->state != WAITER_KEYS ||
			!waiter_is_ready(link->waiter)))
		link = link->next;
	if (link)
		store_wake(link->waiter, 0);
}

static void waiter_leave_woken(struct store_waiter *w)
{
	*w->pprev = w->next;
	if (w->next)
		w->next->pprev = w->pprev;
	else
		w->store->woken_tail = w->pprev;
	w->pprev = NULL;
}

struct store_waiter *store_woken(struct store *s)
{
	struct store_waiter *w = s->woken;

	if (w) {
		waiter_leave_woken(w);
		w->state = WAITER_IDLE;
	}
	return w;
}

void store_answer_all(struct store *s)
{
	struct store_waiter *w;

	while ((w = store_woken(s)))
		w->answer(w);
}

static size_t waiter_links_bytes(uint32_t n)
{
	return (n ? n : 1) * sizeof(struct store_link);
}

void store_waiter_release(struct store_waiter *w)
{
	if (!w->store)
		return;
	if (w->state == WAITER_WOKEN)
		waiter_leave_woken(w);
	for (uint32_t i = 0; i < w->nlinks; i++)
		waiter_link_remove(w->store, &w->links[i]);
	if (w->links)
		store_discharge(w->store, waiter_links_bytes(w->links_max));
	free(w->links);
	w->links = NULL;
	w->nlinks = 0;
	if (w->meeting)
		barrier_gather_leave(w);
	w->state = WAITER_IDLE;
}

/* ---- waiting ---- */

static int waiter_is_there(struct store *s, struct slice key)
{
	const struct store_entry *en = store_find(s, key);

	return en && (en->exists || en->queued);
}

int store_has(struct store *s, const struct slice *keys, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++) {
		if (!waiter_is_there(s, keys[i]))
			return 0;
	}
	return 1;
}

static int waiter_start(struct store *s, struct store_waiter *w, uint32_t n,
			struct err *e)
{
	int rc = store_charge(s, waiter_links_bytes(n), e);

	w->store = s;
	if (rc < 0)
		return rc;
	w->links = calloc(1, waiter_links_bytes(n));
	if (!w->links) {
		store_discharge(s, waiter_links_bytes(n));
		return store_no_memory(e);
	}
	w->links_max = n;
	w->state = WAITER_KEYS;
	w->missing = 0;
	w->nlinks = 0;
	w->nkeys = n;
	return 0;
}

static_assert(offsetof(struct store_link, next) == 0, "a line ends in a link");

/* True if w is already the last in the line: a key that a request names twice
 * is waited for once. */
static int waiter_is_last_of(const struct store_line *line,
			     const struct store_waiter *w)
{
	const struct store_link *last;

	if (!line->first)
		return 0;
	last = (const struct store_link *)(const void *)line->end;
	return last->waiter == w;
}

int store_wait(struct store *s, const struct slice *keys, uint32_t n,
	       struct store_waiter *w, struct err *e)
{
	struct store_entry *en;
	int rc = waiter_start(s, w, n, e);

	for (uint32_t i = 0; rc == 0 && i < n; i++) {
		rc = store_find_or_make(s, keys[i], &en, e);
		if (rc < 0) {
			store_waiter_release(w);
			return rc;
		}
		if (en->exists || waiter_is_last_of(&en->waiters, w))
			continue;
		waiter_link_add(&en->waiters, &w->links[w->nlinks++], en, w);
		w->missing++;
	}
	if (rc == 0 && waiter_is_ready(w))
		store_wake(w, 0);
	return rc;
}

static void waiter_open_gate(struct store_entry *en)
{
	struct store_link *link;
	struct store_waiter *w;

	while ((link = en->gate.first)) {
		w = link->waiter;
		waiter_unlink_from(link);
		assert(en->gate.first != link);
		w->missing--;
		store_wake(w, 0);
	}
}

int store_arrive(struct store *s, struct slice key, int64_t size,
		 struct store_waiter *w, struct err *e)
{
	struct store_entry *en;
	int64_t here;
	int rc = waiter_start(s, w, 1, e);

	if (rc == 0)
		rc = store_add(s, key, 1, &here, e);
	if (rc) {
		store_waiter_release(w);
		return rc;
	}
	en = store_find(s, key);
	if (here < size) {
		w->nkeys = size > UINT32_MAX ? UINT32_MAX : (uint32_t)size;
		waiter_link_add(&en->gate, &w->links[w->nlinks++], en, w);
		w->missing++;
		return 0;
	}
	waiter_open_gate(en);
	store_wake(w, 0);
	return 0;
}

/* ---- what a waiter waits for ---- */

/* The key may have been set to a negative number or deleted, so missing is at
 * most all callers. */
static void waiter_gate_awaited(const struct store_waiter *w,
				struct store_awaited *a)
{
	const struct store_entry *en = w->links[0].entry;
	char text[32];
	long long here;

	snprintf(text, sizeof(text), "%.*s", (int)en->len,
		 en->value ? en->value : "");
	here = strtoll(text, NULL, 10);
	a->kind = STORE_AWAITS_BARRIER;
	a->key = en->item.key;
	a->missing = here < 0 || here > a->of ? a->of : a->of - (uint32_t)here;
}

void store_awaited(const struct store_waiter *w, struct store_awaited *a)
{
	*a = (struct store_awaited){.kind = STORE_AWAITS_KEYS,
				    .missing = w->missing, .of = w->nkeys};
	if (w->meeting)
		barrier_gather_awaited(w, a);
	else if (w->nlinks && w->links[0].line == &w->links[0].entry->gate)
		waiter_gate_awaited(w, a);
}

int store_next_missing(const struct store_waiter *w, uint32_t *at,
		       struct slice *key)
{
	while (*at < w->nlinks) {
		const struct store_link *link = &w->links[(*at)++];

		if (!link->pprev)
			continue;
		*key = link->entry->item.key;
		return 1;
	}
	return 0;
}
