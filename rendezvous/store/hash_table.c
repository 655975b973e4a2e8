/* hash_table.c: chained buckets, growing incrementally.
 * While it grows there are two arrays; each insert moves a few chains. */
#include "rendezvous/store/hash_table.h"

#include <assert.h>
#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "base/random.h"

enum {
	FIRST_SIZE = 16,
	MOVES = 4 /* chains moved by an insert: all, before the next growth */
};

static_assert(crypto_shorthash_BYTES == sizeof(uint64_t), "SipHash's size");

void hash_table_init(struct hash_table *t)
{
	memset(t, 0, sizeof(*t));
}

void hash_table_release(struct hash_table *t)
{
	free(t->slots);
	free(t->old);
	hash_table_init(t);
}

/* SipHash (Aumasson and Bernstein, 2012) with a secret key. Clients choose the
 * names that they store; with a known hash they could put many into one slot,
 * and each lookup there would compare them all. */
static uint64_t hash_table_hash(struct slice key)
{
	static unsigned char secret[crypto_shorthash_KEYBYTES];
	static int has_secret;
	uint64_t hash;

	if (!has_secret) {
		has_secret = 1;
		/* without random bytes, use a zero key: an ordinary hash */
		if (random_bytes(secret, sizeof(secret), NULL) < 0)
			memset(secret, 0, sizeof(secret));
	}
	crypto_shorthash((unsigned char *)&hash,
			 (const unsigned char *)key.data, key.len, secret);
	return hash;
}

static struct hash_item **hash_table_slot(struct hash_table *t, uint64_t hash)
{
	if (t->old) {
		size_t i = hash & (t->old_size - 1);

		if (i >= t->moved)
			return &t->old[i];
	}
	return &t->slots[hash & (t->size - 1)];
}

static void hash_table_move_some(struct hash_table *t)
{
	for (int n = 0; t->old && n < MOVES; n++) {
		struct hash_item *item = t->old[t->moved], *next;

		for (; item; item = next) {
			size_t i = item->hash & (t->size - 1);

			next = item->next;
			item->next = t->slots[i];
			t->slots[i] = item;
		}
		if (++t->moved == t->old_size) {
			free(t->old);
			t->old = NULL;
		}
	}
}

static int hash_table_start_growing(struct hash_table *t)
{
	size_t size = t->size ? t->size * 2 : FIRST_SIZE;
	struct hash_item **slots = calloc(size, sizeof(struct hash_item *));

	if (!slots)
		return -ENOMEM;
	t->old = t->slots; /* NULL the first time: nothing to move */
	t->old_size = t->size;
	t->moved = 0;
	t->slots = slots;
	t->size = size;
	return 0;
}

struct hash_item *hash_table_find(struct hash_table *t, struct slice key)
{
	uint64_t hash;
	struct hash_item *item;

	if (t->items == 0)
		return NULL;
	hash = hash_table_hash(key);
	for (item = *hash_table_slot(t, hash); item; item = item->next)
		if (item->hash == hash && item->key.len == key.len &&
		    !memcmp(item->key.data, key.data, key.len))
			return item;
	return NULL;
}

int hash_table_insert(struct hash_table *t, struct hash_item *item)
{
	struct hash_item **slot;
	int rc = 0;

	/* a full table that cannot grow still works, with longer chains */
	if (!t->old && t->items >= t->size)
		rc = hash_table_start_growing(t);
	if (rc < 0 && t->size == 0)
		return rc;
	hash_table_move_some(t);
	item->hash = hash_table_hash(item->key);
	slot = hash_table_slot(t, item->hash);
	item->next = *slot;
	*slot = item;
	t->items++;
	return 0;
}

void hash_table_remove(struct hash_table *t, struct hash_item *item)
{
	struct hash_item **p = hash_table_slot(t, item->hash);

	while (*p != item)
		p = &(*p)->next;
	*p = item->next;
	t->items--;
}

static struct hash_item *hash_table_pop_from(struct hash_item **slots,
					     size_t *from, size_t size)
{
	struct hash_item *item = NULL;

	while (*from < size && !slots[*from])
		++*from;
	if (*from < size) {
		item = slots[*from];
		slots[*from] = item->next;
	}
	return item;
}

struct hash_item *hash_table_pop(struct hash_table *t)
{
	struct hash_item *item = NULL;

	if (t->items == 0)
		return NULL;
	while (t->old)
		hash_table_move_some(t);
	/* nothing else uses `moved` now: it is the position of the emptying */
	if (t->moved > t->size || t->old_size != t->size) {
		t->moved = 0;
		t->old_size = t->size;
	}
	item = hash_table_pop_from(t->slots, &t->moved, t->size);
	if (!item) { /* inserted at a slot that we had passed */
		t->moved = 0;
		item = hash_table_pop_from(t->slots, &t->moved, t->size);
	}
	t->items--;
	return item;
}

struct hash_item *hash_table_next(struct hash_table *t, struct hash_item *after)
{
	struct hash_item *item = NULL;
	size_t slot = 0;

	while (t->old)
		hash_table_move_some(t);
	if (after) {
		item = after->next;
		slot = (after->hash & (t->size - 1)) + 1;
	}
	while (!item && slot < t->size)
		item = t->slots[slot++];
	return item;
}
