/* queue.c: queues of values, first in, first out. A name's queue and its value
 * are independent; only waiting considers both. */
#include <stdlib.h>
#include <string.h>

#include "rendezvous/store/store_internal.h"

/* A queued value's bytes, including our own overhead. */
static size_t queue_item_bytes(size_t len)
{
	return sizeof(struct queued) + len;
}

static struct queued *queue_item_new(struct store *s, struct slice value,
				     struct err *e)
{
	struct queued *q = NULL;

	if (value.len > s->limits.value) {
		err_set(e, ERR_ARGUMENT,
			"the value has %zu bytes, but the limit is %zu",
			value.len, s->limits.value);
		return NULL;
	}
	if (store_charge(s, queue_item_bytes(value.len), e) < 0)
		return NULL;
	q = malloc(sizeof(*q) + value.len);
	if (!q) {
		store_discharge(s, queue_item_bytes(value.len));
		store_no_memory(e);
		return NULL;
	}
	q->next = NULL;
	q->len = value.len;
	if (value.len)
		memcpy(q->value, value.data, value.len);
	return q;
}

int store_push(struct store *s, struct slice key, struct slice value,
	       struct err *e)
{
	struct store_entry *en;
	struct queued *q;
	int rc = store_find_or_make(s, key, &en, e);

	if (rc < 0)
		return rc;
	q = queue_item_new(s, value, e);
	if (!q) {
		store_drop_if_unused(s, en);
		return e->code;
	}
	if (!en->head) {
		en->tail = &en->head;
		s->queues++;
	}
	*en->tail = q;
	en->tail = &q->next;
	en->queued++;
	store_wake_one_of(en);
	return 0;
}

uint64_t store_queued(struct store *s, struct slice key, struct slice *value)
{
	const struct store_entry *en = store_find(s, key);

	if (!en || !en->head)
		return 0;
	*value = SLICE(en->head->value, en->head->len);
	return en->queued;
}

int store_next_queued(struct store *s, struct hash_item **at,
		      const struct queued **q, struct slice *key,
		      struct slice *value)
{
	if (*q)
		*q = (*q)->next;
	while (!*q) {
		*at = hash_table_next(&s->entries, *at);
		if (!*at)
			return 0;
		*q = ((const struct store_entry *)*at)->head;
	}
	*key = (*at)->key;
	*value = SLICE((*q)->value, (*q)->len);
	return 1;
}

void store_pop(struct store *s, struct slice key)
{
	struct store_entry *en = store_find(s, key);
	struct queued *q = en->head;

	en->head = q->next;
	en->queued--;
	s->queues -= !en->head;
	store_discharge(s, queue_item_bytes(q->len));
	free(q);
	store_drop_if_unused(s, en);
}

void store_nudge(struct store *s, struct slice key)
{
	struct store_entry *en = store_find(s, key);

	if (en && en->queued)
		store_wake_one_of(en);
}

void store_queues_release(struct store_entry *en)
{
	struct queued *q;

	while ((q = en->head)) {
		en->head = q->next;
		free(q);
	}
}
