/* twin_store.h: a second store, to which what PyTorch's clients change in the
 * first is done again, as by who reads a journal: both are the same. */
#ifndef TESTS_TWIN_STORE_H
#define TESTS_TWIN_STORE_H

#include <string.h>

#include "rendezvous/torch/torch_session.h"

static struct store *twin;
static int twin_failed;

static void twin_follows(struct torch_session *t, struct slice request)
{
	struct err e = ERR_INIT;

	twin_failed |= torch_session_replay(twin, t->generation, request,
					    &e) < 0;
}

static int twin_same_text(struct slice a, struct slice b)
{
	return a.len == b.len && !memcmp(a.data, b.data, a.len);
}

/* What is queued under the key is the same in both, in its order. */
static int twin_same_queue(struct store *s, struct slice key)
{
	struct slice a, b;
	uint64_t n = store_queued(s, key, &a);

	while (n && store_queued(twin, key, &b) == n && twin_same_text(a, b)) {
		store_pop(s, key);
		store_pop(twin, key);
		n = store_queued(s, key, &a);
	}
	return !n && !store_queued(twin, key, &b);
}

/* Empties the queues of both. */
static int twin_is(struct store *s)
{
	struct hash_item *at = NULL;
	const struct queued *q = NULL;
	struct slice key, value, other;
	char name[TORCH_KEY_MAX];
	size_t n;

	if (twin_failed || store_keys(s) != store_keys(twin))
		return 0;
	while (store_next_key(s, &at, &key)) {
		store_get(s, key, &value);
		if (!store_get(twin, key, &other) ||
		    !twin_same_text(value, other))
			return 0;
	}
	at = NULL;
	while (store_next_queued(s, &at, &q, &key, &value)) {
		n = key.len; /* its entry may go with the last one */
		memcpy(name, key.data, n);
		if (!twin_same_queue(s, SLICE(name, n)))
			return 0;
		at = NULL;
		q = NULL;
	}
	at = NULL;
	q = NULL;
	return !store_next_queued(twin, &at, &q, &key, &value);
}

#endif
