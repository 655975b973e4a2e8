/* table.h: a hash table of items that its users embed, keyed by bytes.
 * Grows a few slots at a time, so that no insert takes long however large it
 * is. Owns its slots; knows nothing of what the items are. */
#ifndef RENDEZVOUS_TABLE_H
#define RENDEZVOUS_TABLE_H

#include <stddef.h>
#include <stdint.h>

#include "base/buf.h"

struct table_item {
	struct table_item *next;
	uint64_t hash;
	struct slice key; /* borrowed from the user, while the item is in */
};

struct table {
	struct table_item **slots;
	size_t size; /* a power of two, or 0 */
	size_t items;
	struct table_item **old; /* being moved to slots, or NULL */
	size_t old_size;
	size_t moved; /* slots of old that are empty by now */
};

void table_init(struct table *t); /* all zero is right too */
/* Frees the slots. The items are the user's: table_pop them before. */
void table_release(struct table *t);

struct table_item *table_find(struct table *t, struct slice key);
/* item->key is set and not in the table yet. 0 or -ENOMEM. */
int table_insert(struct table *t, struct table_item *item);
void table_remove(struct table *t, struct table_item *item);
/* The next of all, in any order, NULL at the end; NULL begins. Nothing may be
 * inserted or removed on the way. */
struct table_item *table_next(struct table *t, struct table_item *after);
/* Removes and returns any item, NULL when there is none; O(1) amortised when
 * called until NULL. */
struct table_item *table_pop(struct table *t);

#endif
