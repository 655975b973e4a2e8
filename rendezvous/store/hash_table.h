/* hash_table.h: an intrusive hash table, keyed by bytes. Grows a few slots at a
 * time, so that no insert is slow, however large the table is. Owns its slots;
 * the users own the items. */
#ifndef RENDEZVOUS_HASH_TABLE_H
#define RENDEZVOUS_HASH_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct hash_item {
	struct hash_item *next;
	uint64_t hash;
	struct slice key; /* borrowed while the item is in the table */
};

struct hash_table {
	struct hash_item **slots;
	size_t size; /* a power of two, or 0 */
	size_t items;
	struct hash_item **old; /* being moved to slots, or NULL */
	size_t old_size;
	size_t moved; /* slots of old that are empty already */
};

void hash_table_init(struct hash_table *t); /* or all zeroes */
/* Frees the slots, not the items: hash_table_pop them first. */
void hash_table_release(struct hash_table *t);

struct hash_item *hash_table_find(struct hash_table *t, struct slice key);
/* item->key is set, and not in the table. 0 or -ENOMEM. */
int hash_table_insert(struct hash_table *t, struct hash_item *item);
void hash_table_remove(struct hash_table *t, struct hash_item *item);
/* Iterates in no particular order: NULL begins and ends. The table must not
 * change meanwhile. */
struct hash_item *hash_table_next(struct hash_table *t,
				  struct hash_item *after);
/* Removes and returns any item, or NULL; O(1) amortised over a whole emptying.
 */
struct hash_item *hash_table_pop(struct hash_table *t);

#endif
