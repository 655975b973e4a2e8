/* local_store.c: a list of keys; one process keeps few. */
#include "worker-sdk/local_store.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

enum { VALUE_MAX = 8 << 20 };

struct entry {
	struct entry *next;
	struct buf value;
	size_t key_len;
	char key[];
};

struct ddp__local_store {
	struct entry *first;
};

struct ddp__local_store *ddp__local_store_new(void)
{
	return calloc(1, sizeof(struct ddp__local_store));
}

void ddp__local_store_free(struct ddp__local_store *s)
{
	while (s && s->first) {
		struct entry *e = s->first;

		s->first = e->next;
		buf_release(&e->value);
		free(e);
	}
	free(s);
}

/* Where the entry is linked, or the end of the list. */
static struct entry **find(struct ddp__local_store *s, struct slice key)
{
	struct entry **at = &s->first;

	while (*at && ((*at)->key_len != key.len ||
		       memcmp((*at)->key, key.data, key.len)))
		at = &(*at)->next;
	return at;
}

static struct entry *find_or_add(struct ddp__local_store *s, struct slice key)
{
	struct entry **at = find(s, key), *entry = *at;

	if (entry)
		return entry;
	entry = calloc(1, sizeof(*entry) + key.len);
	if (!entry)
		return NULL;
	memcpy(entry->key, key.data, key.len);
	entry->key_len = key.len;
	buf_init(&entry->value, VALUE_MAX);
	*at = entry;
	return entry;
}

int ddp__local_store_append(struct ddp__local_store *s, struct slice key,
			    struct slice value, struct err *e)
{
	struct entry *entry = find_or_add(s, key);

	if (entry && entry->value.len + value.len > VALUE_MAX)
		return err_set(e, ERR_REFUSED,
			       "store: the value of %.*s would have more than "
			       "%d bytes", SLICE_FMT(key), VALUE_MAX);
	if (entry)
		buf_put(&entry->value, value.data, value.len);
	if (!entry || entry->value.failed)
		return err_set(e, -ENOMEM, "store: no memory for %.*s",
			       SLICE_FMT(key));
	return 0;
}

int ddp__local_store_set(struct ddp__local_store *s, struct slice key,
			 struct slice value, struct err *e)
{
	struct entry *entry = *find(s, key);

	if (entry)
		buf_reset(&entry->value);
	return ddp__local_store_append(s, key, value, e);
}

int ddp__local_store_get(struct ddp__local_store *s, struct slice key,
			 struct slice *value)
{
	struct entry *entry = *find(s, key);

	if (!entry)
		return 0;
	*value = SLICE(entry->value.data, entry->value.len);
	return 1;
}

int ddp__local_store_delete(struct ddp__local_store *s, struct slice key)
{
	struct entry **at = find(s, key), *entry = *at;

	if (!entry)
		return 0;
	*at = entry->next;
	buf_release(&entry->value);
	free(entry);
	return 1;
}
