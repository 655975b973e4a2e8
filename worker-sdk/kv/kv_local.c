/* kv_local.c: the store of a world of one rank: a list, as one process has few
 * keys. No other process could set a missing key, so no call waits. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker-sdk/kv/kv.h"

enum { VALUE_MAX = 8 << 20 };

struct entry {
	struct entry *next;
	struct buf value;
	size_t key_len;
	char key[];
};

struct local_kv {
	struct ddp__kv kv;
	struct entry *first;
};

static void local_free(struct ddp__kv *kv)
{
	struct local_kv *s = (struct local_kv *)kv;

	while (s->first) {
		struct entry *e = s->first;

		s->first = e->next;
		buf_release(&e->value);
		free(e);
	}
	free(s);
}

/* The link that points to the entry, or the end of the list. */
static struct entry **local_find(struct ddp__kv *kv, struct slice key)
{
	struct entry **at = &((struct local_kv *)kv)->first;

	while (*at && ((*at)->key_len != key.len ||
		       memcmp((*at)->key, key.data, key.len)))
		at = &(*at)->next;
	return at;
}

static struct entry *local_find_or_add(struct ddp__kv *kv, struct slice key)
{
	struct entry **at = local_find(kv, key), *entry = *at;

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

static int local_append(struct ddp__kv *kv, struct slice key,
			struct slice value, struct err *e)
{
	struct entry *entry = local_find_or_add(kv, key);

	if (entry && entry->value.len + value.len > VALUE_MAX)
		return err_set(e, ERR_REFUSED,
			       "store: the value of %.*s would have more than "
			       "%d bytes", SLICE_FMT(key), VALUE_MAX);
	if (entry)
		buf_put(&entry->value, value.data, value.len);
	if (!entry || entry->value.failed)
		return err_no_memory(e, "store: %.*s", SLICE_FMT(key));
	return 0;
}

static int local_set(struct ddp__kv *kv, struct slice key, struct slice value,
		     struct err *e)
{
	struct entry *entry = *local_find(kv, key);

	if (entry)
		buf_reset(&entry->value);
	return local_append(kv, key, value, e);
}

static int local_get(struct ddp__kv *kv, struct slice key, int timeout_ms,
		     struct slice *value, struct err *e)
{
	struct entry *entry = *local_find(kv, key);

	if (!entry)
		return 0;
	*value = SLICE(entry->value.data, entry->value.len);
	return 1;
}

static int local_refuse_sum(struct slice key, struct err *e)
{
	return err_set(e, ERR_ARGUMENT,
		       "ddp_store_add: the value of %.*s is not a number, or "
		       "the sum does not fit in 64 bits",
		       SLICE_FMT(key));
}

static int local_add(struct ddp__kv *kv, struct slice key, int64_t delta,
		     int64_t *sum, struct err *e)
{
	struct slice old;
	char text[32] = "0", *end;

	if (local_get(kv, key, 0, &old, e) && old.len) {
		if (old.len >= sizeof(text))
			return local_refuse_sum(key, e);
		memcpy(text, old.data, old.len);
		text[old.len] = 0;
	}
	errno = 0;
	*sum = strtoll(text, &end, 10);
	if (*end || errno || __builtin_add_overflow(*sum, delta, sum))
		return local_refuse_sum(key, e);
	snprintf(text, sizeof(text), "%lld", (long long)*sum);
	return local_set(kv, key, SLICE_STR(text), e);
}

static int local_compare_set(struct ddp__kv *kv, struct slice key,
			     struct slice expected, struct slice desired,
			     struct slice *now, struct err *e)
{
	int found = local_get(kv, key, 0, now, e), rc;

	if (found ? !slice_is_equal(*now, expected) : expected.len != 0)
		return found;
	rc = local_set(kv, key, desired, e);
	return rc ? rc : local_get(kv, key, 0, now, e);
}

static int local_delete(struct ddp__kv *kv, struct slice key, struct err *e)
{
	struct entry **at = local_find(kv, key), *entry = *at;

	if (!entry)
		return 0;
	*at = entry->next;
	buf_release(&entry->value);
	free(entry);
	return 1;
}

static int local_gather(struct ddp__kv *kv, struct slice key, int rank,
			int size, int timeout_ms, struct slice mine,
			struct slice *values, struct err *e)
{
	values[0] = mine; /* a world of one rank */
	return 0;
}

static const struct ddp__kv_ops local_ops = {
	.free = local_free,
	.set = local_set,
	.get = local_get,
	.add = local_add,
	.compare_set = local_compare_set,
	.append = local_append,
	.delete = local_delete,
	.gather = local_gather,
};

int ddp__kv_local(struct ddp__kv **out, struct err *e)
{
	struct local_kv *s = calloc(1, sizeof(*s));

	if (!s)
		return err_no_memory(e, "ddp_init");
	s->kv.ops = &local_ops;
	*out = &s->kv;
	return 0;
}
