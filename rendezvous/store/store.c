/* store.c: keys and values. An entry has waiters only while it has no value and
 * fewer queued values than waiters. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/store/store_internal.h"

struct store *store_new(const struct store_limits *limits)
{
	struct store *s = calloc(1, sizeof(*s));

	if (!s)
		return NULL;
	s->limits = *limits;
	s->limits.job = strdup(limits->job ? limits->job : "");
	if (!s->limits.job) {
		free(s);
		return NULL;
	}
	account_ref(s->limits.account);
	s->woken_tail = &s->woken;
	return s;
}

void store_free(struct store *s)
{
	struct hash_item *item;

	if (!s)
		return;
	while ((item = hash_table_pop(&s->entries))) {
		struct store_entry *en = (struct store_entry *)item;

		store_queues_release(en);
		free(en->value);
		free(en);
	}
	hash_table_release(&s->entries);
	meetings_release(&s->meetings);
	account_sub(s->limits.account, s->bytes + s->taken);
	account_unref(s->limits.account);
	free((char *)s->limits.job);
	free(s);
}

void store_limit(struct store *s, size_t keys, size_t bytes)
{
	s->limits.keys = keys;
	s->limits.bytes = bytes;
}

size_t store_keys(const struct store *s)
{
	return s->values;
}

size_t store_bytes(const struct store *s)
{
	return s->bytes;
}

int store_next_key(struct store *s, struct hash_item **at, struct slice *key)
{
	const struct store_entry *en;

	while ((*at = hash_table_next(&s->entries, *at))) {
		en = (const struct store_entry *)*at;
		*key = (*at)->key;
		if (en->exists)
			return 1;
	}
	return 0;
}

/* Ignores the limits while the journal is replayed: what it contains was within
 * them when it was recorded. */
static int store_find_or_add(struct store *s, size_t n, struct err *e)
{
	if (s->limits.bytes != SIZE_MAX)
		return account_charge(s->limits.account, n, e);
	account_add(s->limits.account, n);
	return 0;
}

struct account *store_account(const struct store *s)
{
	return s->limits.account;
}

int store_reserve(struct store *s, size_t n, struct err *e)
{
	int rc = store_find_or_add(s, n, e);

	if (rc == 0)
		s->taken += n;
	return rc;
}

void store_unreserve(struct store *s, size_t n)
{
	s->taken -= n;
	account_sub(s->limits.account, n);
}

void *store_memory_new(struct store *s, size_t n, struct err *e)
{
	void *p = NULL;

	if (store_reserve(s, n, e) < 0)
		return NULL;
	p = calloc(1, n);
	if (!p) {
		store_unreserve(s, n);
		store_no_memory(e);
	}
	return p;
}

void store_memory_free(struct store *s, void *p, size_t n)
{
	free(p);
	store_unreserve(s, n);
}

int store_charge(struct store *s, size_t n, struct err *e)
{
	int rc;

	if (s->bytes > s->limits.bytes || n > s->limits.bytes - s->bytes)
		return err_set(e, ERR_REFUSED,
			       "the store of job '%s' is full: it holds %zu of "
			       "at most %zu bytes (--max-bytes of its ddprdzv)",
			       s->limits.job, s->bytes, s->limits.bytes);
	rc = store_find_or_add(s, n, e);
	if (rc == 0)
		s->bytes += n;
	return rc;
}

void store_discharge(struct store *s, size_t n)
{
	s->bytes -= n;
	account_sub(s->limits.account, n);
}

void store_put_quoted(struct buf *out, struct slice key)
{
	size_t n = key.len < 64 ? key.len : 64;

	buf_put_u8(out, '\'');
	for (size_t i = 0; i < n; i++) {
		unsigned char c = (unsigned char)key.data[i];

		buf_put_u8(out, c < 0x20 || c == 0x7f ? '?' : c);
	}
	buf_put(out, "...'", key.len > n ? 4 : 0);
	if (key.len <= n)
		buf_put_u8(out, '\'');
}

/* ---- entries ---- */

struct store_entry *store_find(struct store *s, struct slice key)
{
	return (struct store_entry *)hash_table_find(&s->entries, key);
}

void store_drop_if_unused(struct store *s, struct store_entry *en)
{
	if (en->exists || en->waiters.first || en->gate.first || en->queued)
		return;
	store_discharge(s, en->item.key.len);
	store_unreserve(s, sizeof(*en));
	hash_table_remove(&s->entries, &en->item);
	free(en->value);
	free(en);
}

int store_find_or_make(struct store *s, struct slice key,
		       struct store_entry **out, struct err *e)
{
	struct store_entry *en = store_find(s, key);
	int rc;

	*out = en;
	if (en)
		return 0;
	if (s->entries.items >= s->limits.keys)
		return err_set(e, ERR_REFUSED,
			       "the store of job '%s' is full: it has %zu "
			       "keys, its limit (--max-keys of its ddprdzv)",
			       s->limits.job, s->limits.keys);
	rc = store_reserve(s, sizeof(*en), e);
	if (rc < 0)
		return rc;
	rc = store_charge(s, key.len, e);
	if (rc < 0) {
		store_unreserve(s, sizeof(*en));
		return rc;
	}
	en = calloc(1, sizeof(*en) + key.len);
	if (en && key.len)
		memcpy(en->key, key.data, key.len);
	if (en)
		en->item.key = SLICE(en->key, key.len);
	if (!en || hash_table_insert(&s->entries, &en->item) < 0) {
		free(en);
		store_discharge(s, key.len);
		store_unreserve(s, sizeof(*en));
		return store_no_memory(e);
	}
	*out = en;
	return 0;
}

static void store_wake_waiters(struct store *s, struct store_entry *en)
{
	s->values += !en->exists;
	en->exists = 1;
	store_wake_all_of(en);
}

static int store_check_value(struct store *s, size_t len, struct err *e)
{
	if (len > s->limits.value)
		return err_set(e, ERR_ARGUMENT,
			       "the value has %zu bytes, but the limit is %zu",
			       len, s->limits.value);
	return 0;
}

/* Makes room for a value of len bytes with capacity cap; keeps the old
 * value. */
static int store_resize(struct store *s, struct store_entry *en, size_t len,
			size_t cap, struct err *e)
{
	size_t grow = cap > en->cap ? cap - en->cap : 0;
	char *p;
	int rc = store_check_value(s, len, e);

	if (rc < 0 || !grow)
		return rc;
	rc = store_charge(s, grow, e);
	if (rc < 0)
		return rc;
	p = realloc(en->value, cap);
	if (!p) {
		store_discharge(s, grow);
		return store_no_memory(e);
	}
	en->value = p;
	en->cap = cap;
	return 0;
}

/* Frees most of a large buffer that now holds a small value. */
static void store_shrink(struct store *s, struct store_entry *en)
{
	char *p;

	if (en->cap < 256 || en->len > en->cap / 4)
		return;
	p = realloc(en->value, en->len ? en->len : 1);
	if (!p)
		return;
	store_discharge(s, en->cap - en->len);
	en->value = p;
	en->cap = en->len;
}

static int store_put_value(struct store *s, struct store_entry *en,
			   struct slice value, struct err *e)
{
	int rc = store_resize(s, en, value.len, value.len, e);

	if (rc < 0) {
		store_drop_if_unused(s, en);
		return rc;
	}
	if (value.len)
		memcpy(en->value, value.data, value.len);
	en->len = value.len;
	store_shrink(s, en);
	store_wake_waiters(s, en);
	return 0;
}

/* ---- operations ---- */

int store_set(struct store *s, struct slice key, struct slice value,
	      struct err *e)
{
	struct store_entry *en;
	int rc = store_find_or_make(s, key, &en, e);

	return rc < 0 ? rc : store_put_value(s, en, value, e);
}

int store_get(struct store *s, struct slice key, struct slice *value)
{
	struct store_entry *en = store_find(s, key);

	if (!en || !en->exists) {
		*value = SLICE("", 0);
		return 0;
	}
	*value = SLICE(en->value ? en->value : "", en->len);
	return 1;
}

/* Parses the whole value as decimal text, as store_add writes it. Hand-written,
 * as is the formatting below: counters are the most frequent request, and
 * libc's functions would take longer than the rest of it. */
static int store_parse_number(const struct store_entry *en, int64_t *out)
{
	int negative = en->exists && en->len && en->value[0] == '-';
	size_t i = (size_t)negative;
	unsigned digit;

	*out = 0;
	if (!en->exists)
		return 0;
	if (en->len == i || en->len > i + 22)
		return -1;
	for (; i < en->len; i++) {
		digit = (unsigned char)en->value[i] - (unsigned)'0';
		/* count down, so that INT64_MIN fits as well */
		if (digit > 9 || __builtin_mul_overflow(*out, 10, out) ||
		    __builtin_sub_overflow(*out, (int64_t)digit, out))
			return -1;
	}
	return !negative && __builtin_sub_overflow(0, *out, out) ? -1 : 0;
}

struct slice store_number_text(int64_t v, char room[STORE_NUMBER_MAX])
{
	uint64_t left = v < 0 ? 0 - (uint64_t)v : (uint64_t)v;
	char *p = room + STORE_NUMBER_MAX;

	do
		*--p = (char)('0' + left % 10);
	while (left /= 10);
	if (v < 0)
		*--p = '-';
	return SLICE(p, (size_t)(room + STORE_NUMBER_MAX - p));
}

int store_add(struct store *s, struct slice key, int64_t delta, int64_t *sum,
	      struct err *e)
{
	struct store_entry *en;
	char text[STORE_NUMBER_MAX];
	int rc = store_find_or_make(s, key, &en, e);
	struct buf name = BUF_INIT(256);

	if (rc < 0)
		return rc;
	if (store_parse_number(en, sum) == 0 &&
	    !__builtin_add_overflow(*sum, delta, sum))
		return store_put_value(s, en, store_number_text(*sum, text), e);
	store_put_quoted(&name, key);
	rc = err_set(e, ERR_ARGUMENT,
		     "cannot add %" PRId64
		     " to key %.*s: its value is not a number, or the sum does "
		     "not fit in 64 bits",
		     delta, (int)name.len, name.data);
	buf_release(&name);
	return rc;
}

int store_compare_set(struct store *s, struct slice key, struct slice expected,
		      struct slice desired, struct err *e)
{
	struct slice now;
	int rc, found = store_get(s, key, &now);

	if (!found && expected.len)
		return 0;
	if (found && (now.len != expected.len ||
		      memcmp(now.data, expected.data, now.len)))
		return 0;
	rc = store_set(s, key, desired, e);
	return rc < 0 ? rc : 1;
}

int64_t store_append(struct store *s, struct slice key, struct slice value,
		     struct err *e)
{
	struct store_entry *en;
	size_t len, cap;
	int rc = store_find_or_make(s, key, &en, e);

	if (rc < 0)
		return rc;
	len = en->len + value.len;
	/* double, so that n appends copy O(n) bytes; stay within the limit */
	cap = len <= en->cap ? en->cap : en->len ? len * 2 : len;
	rc = store_resize(s, en, len, cap, NULL);
	if (rc < 0)
		rc = store_resize(s, en, len, len, e);
	if (rc < 0) {
		store_drop_if_unused(s, en);
		return rc;
	}
	if (value.len)
		memcpy(en->value + en->len, value.data, value.len);
	en->len = len;
	store_wake_waiters(s, en);
	return (int64_t)len;
}

int store_delete(struct store *s, struct slice key)
{
	struct store_entry *en = store_find(s, key);

	if (!en || !en->exists)
		return 0;
	en->exists = 0;
	s->values--;
	store_discharge(s, en->cap);
	/* the entry stays while its queue is not empty */
	free(en->value);
	en->value = NULL;
	en->len = en->cap = 0;
	store_drop_if_unused(s, en);
	return 1;
}

/* Does everything that can fail before it changes anything. */
int store_multi_set(struct store *s, const struct slice *keys,
		    const struct slice *values, uint32_t n, struct err *e)
{
	char **copies = calloc(n ? n : 1, sizeof(char *));
	struct store_entry *en;
	uint32_t made = 0;
	size_t charged = 0;
	int rc = copies ? 0 : store_no_memory(e);

	for (uint32_t i = 0; rc == 0 && i < n; i++) {
		rc = store_check_value(s, values[i].len, e);
		if (rc == 0)
			rc = store_charge(s, values[i].len, e);
		if (rc < 0)
			break;
		charged += values[i].len;
		rc = store_find_or_make(s, keys[i], &en, e);
		if (rc < 0)
			break;
		made = i + 1;
		copies[i] = malloc(values[i].len ? values[i].len : 1);
		if (!copies[i])
			rc = store_no_memory(e);
	}
	for (uint32_t i = 0; rc == 0 && i < n; i++) {
		en = store_find(s, keys[i]);
		store_discharge(s, en->cap);
		free(en->value);
		en->value = copies[i];
		en->len = en->cap = values[i].len;
		if (en->len)
			memcpy(en->value, values[i].data, en->len);
		store_wake_waiters(s, en);
	}
	if (rc < 0) {
		store_discharge(s, charged);
		for (uint32_t i = 0; i < made; i++) {
			free(copies[i]);
			en = store_find(s, keys[i]);
			if (en) /* a key may occur twice */
				store_drop_if_unused(s, en);
		}
	}
	free(copies);
	return rc;
}
