/* key_space.c: a hash table with open addressing; runs of nodes with the same
 * number of ranks. */
#include "launcher/pmi/key_space.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void key_space_init(struct key_space *k)
{
	*k = (struct key_space){.n = 0};
	buf_init(&k->added, KEY_SPACE_NEW_MAX);
}

void key_space_release(struct key_space *k)
{
	for (size_t i = 0; i < k->cap; i++)
		free(k->entries[i].key);
	free(k->entries);
	buf_release(&k->added);
	key_space_init(k);
}

/* FNV-1a */
static size_t key_space_hash(struct slice key)
{
	uint64_t h = 14695981039346656037u;

	for (size_t i = 0; i < key.len; i++)
		h = (h ^ (unsigned char)key.data[i]) * 1099511628211u;
	return (size_t)(h ^ h >> 32);
}

/* The key's entry, or the free one where it belongs. cap is a power of two. */
static struct key_entry *key_space_find(const struct key_space *k,
					struct slice key)
{
	size_t at = key_space_hash(key);

	for (;; at++) {
		struct key_entry *x = &k->entries[at & (k->cap - 1)];

		if (!x->key || (x->key_len == key.len &&
				!memcmp(x->key, key.data, key.len)))
			return x;
	}
}

static int key_space_grow(struct key_space *k)
{
	struct key_space wider = {.cap = k->cap ? 2 * k->cap : 64};

	if (2 * (k->n + 1) <= k->cap)
		return 0;
	wider.entries = calloc(wider.cap, sizeof(*wider.entries));
	if (!wider.entries)
		return -ENOMEM;
	for (size_t i = 0; i < k->cap; i++) {
		const struct key_entry *x = &k->entries[i];

		if (x->key)
			*key_space_find(&wider, SLICE(x->key, x->key_len)) = *x;
	}
	free(k->entries);
	k->entries = wider.entries;
	k->cap = wider.cap;
	return 0;
}

static int key_space_check(const struct key_space *k, struct slice key,
			   struct slice value, struct err *e)
{
	if (!key.len || key.len >= KEY_SPACE_KEY_MAX)
		return err_set(e, ERR_ARGUMENT,
			       "a key has %zu bytes, but 1 to %d are allowed",
			       key.len, KEY_SPACE_KEY_MAX - 1);
	if (value.len >= KEY_SPACE_VALUE_MAX)
		return err_set(e, ERR_ARGUMENT,
			       "a value has %zu bytes, but at most %d are "
			       "allowed",
			       value.len, KEY_SPACE_VALUE_MAX - 1);
	if (k->bytes + key.len + value.len > KEY_SPACE_BYTES_MAX)
		return err_set(e, ERR_ARGUMENT, "the keys take more than %d "
			       "bytes", KEY_SPACE_BYTES_MAX);
	return 0;
}

static int key_space_add(struct key_space *k, struct slice key,
			 struct slice value, struct err *e)
{
	struct key_entry *x;
	int rc = key_space_check(k, key, value, e);
	char *copy;

	if (rc < 0)
		return rc;
	if (key_space_grow(k) < 0)
		return err_no_memory(e, "a key of PMI");
	x = key_space_find(k, key);
	if (x->key)
		return err_set(e, ERR_ARGUMENT, "the key %.*s exists",
			       SLICE_FMT(key));
	copy = malloc(key.len + value.len + 1);
	if (!copy)
		return err_no_memory(e, "a key of PMI");
	memcpy(copy, key.data, key.len);
	if (value.len)
		memcpy(copy + key.len, value.data, value.len);
	*x = (struct key_entry){copy, (uint32_t)key.len, (uint32_t)value.len};
	k->n++;
	k->bytes += key.len + value.len;
	return 0;
}

int key_space_put(struct key_space *k, struct slice key, struct slice value,
		  struct err *e)
{
	int rc = key_space_add(k, key, value, e);

	if (rc < 0)
		return rc;
	buf_put_slice(&k->added, key);
	buf_put_slice(&k->added, value);
	if (k->added.failed == -ENOMEM)
		return err_no_memory(e, "a key of PMI");
	return k->added.failed ? err_set(e, k->added.failed,
					 "put a key with which the ranks of "
					 "this node exceed %d bytes before a "
					 "barrier",
					 KEY_SPACE_NEW_MAX) : 0;
}

int key_space_get(const struct key_space *k, struct slice key,
		  struct slice *value)
{
	const struct key_entry *x = k->cap ? key_space_find(k, key) : NULL;

	if (!x || !x->key)
		return 0;
	*value = SLICE(x->key + x->key_len, x->value_len);
	return 1;
}

void key_space_take_new(struct key_space *k, struct buf *out)
{
	buf_put(out, k->added.data, k->added.len);
	buf_reset(&k->added);
}

int key_space_merge(struct key_space *k, struct reader *from, struct err *e)
{
	while (reader_left(from)) {
		struct slice key = reader_slice(from);
		struct slice value = reader_slice(from);
		int rc;

		if (from->bad)
			return err_set(e, ERR_PROTOCOL,
				       "malformed keys of another node");
		rc = key_space_add(k, key, value, e);
		if (rc < 0)
			return rc;
	}
	return 0;
}

/* ---- PMI_process_mapping ---- */

int process_mapping_put(const uint32_t *ranks, uint32_t nodes, char *out,
			size_t size)
{
	size_t at = (size_t)snprintf(out, size, "(vector");
	uint32_t first = 0;

	for (uint32_t i = 1; i <= nodes; i++) {
		if (i < nodes && ranks[i] == ranks[first])
			continue;
		if (at < size)
			at += (size_t)snprintf(out + at, size - at,
					       ",(%u,%u,%u)", first, i - first,
					       ranks[first]);
		first = i;
	}
	if (at < size)
		at += (size_t)snprintf(out + at, size - at, ")");
	return at < size;
}
