/* hash_table.h: a hash table of items that its users embed, keyed by bytes.
 * Grows a few slots at a time, so that no insert takes long however large it
 * is. Owns its slots; knows nothing of what the items are. */
#ifndef RENDEZVOUS_HASH_TABLE_H
#define RENDEZVOUS_HASH_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct hash_item {
	struct hash_item *next;
	uint64_t hash;
	struct slice key; /* borrowed from the user, while the item is in */
};

struct hash_table {
	struct hash_item **slots;
	size_t size; /* a power of two, or 0 */
	size_t items;
	struct hash_item **old; /* being moved to slots, or NULL */
	size_t old_size;
	size_t moved; /* slots of old that are empty by now */
};

void hash_table_init(struct hash_table *t); /* all zero is right too */
/* Frees the slots. The items are the user's: table_pop them before. */
void hash_table_release(struct hash_table *t);

struct hash_item *hash_table_find(struct hash_table *t, struct slice key);
/* item->key is set and not in the table yet. 0 or -ENOMEM. */
int hash_table_insert(struct hash_table *t, struct hash_item *item);
void hash_table_remove(struct hash_table *t, struct hash_item *item);
/* The next of all, in any order, NULL at the end; NULL begins. Nothing may be
 * inserted or removed on the way. */
struct hash_item *hash_table_next(struct hash_table *t,
				  struct hash_item *after);
/* Removes and returns any item, NULL when there is none; O(1) amortised when
 * called until NULL. */
struct hash_item *hash_table_pop(struct hash_table *t);

#endif
