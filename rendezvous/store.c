/* store.c: keys, values, and waiting for keys. Barriers and gathers are in
 * meeting.c. An entry has waiters exactly as long as it has no value. */
#include "rendezvous/store.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/meeting.h"

struct store_entry {
	struct table_item item; /* first: the table's items are entries */
	struct store_link *waiters;
	char *value;
	size_t len, cap;
	int exists;
	char key[];
};

struct store {
	struct table entries;
	struct meetings meetings;
	struct store_limits limits;
	size_t bytes;
	struct store_waiter *woken, **woken_tail;
};

struct store *store_new(const struct store_limits *limits)
{
	struct store *s = calloc(1, sizeof *s);

	if (!s)
		return NULL;
	s->limits = *limits;
	s->woken_tail = &s->woken;
	return s;
}

void store_free(struct store *s)
{
	struct table_item *item;

	if (!s)
		return;
	while ((item = table_pop(&s->entries))) {
		struct store_entry *en = (struct store_entry *)item;

		free(en->value);
		free(en);
	}
	table_release(&s->entries);
	meetings_release(&s->meetings);
	free(s);
}

struct meetings *store_meetings(struct store *s)
{
	return &s->meetings;
}

const struct store_limits *store_limit(const struct store *s)
{
	return &s->limits;
}

size_t store_keys(const struct store *s)
{
	return s->entries.items;
}

int store_charge(struct store *s, size_t n, struct err *e)
{
	if (n > s->limits.bytes - s->bytes)
		return err_set(e, ERR_REFUSED,
			       "this round's store is full: it holds %zu of at "
			       "most %zu bytes",
			       s->bytes, s->limits.bytes);
	s->bytes += n;
	return 0;
}

void store_discharge(struct store *s, size_t n)
{
	s->bytes -= n;
}

static int no_memory(struct err *e)
{
	return err_set(e, -ENOMEM, "the rendezvous server is out of memory");
}

void put_quoted(struct buf *out, struct slice key)
{
	size_t i, n = key.len < 64 ? key.len : 64;

	buf_put_u8(out, '\'');
	for (i = 0; i < n; i++) {
		unsigned char c = (unsigned char)key.data[i];

		buf_put_u8(out, c < 0x20 || c == 0x7f ? '?' : c);
	}
	buf_put(out, "...'", key.len > n ? 4 : 0);
	if (key.len <= n)
		buf_put_u8(out, '\'');
}

/* ---- entries ---- */

static struct store_entry *find(struct store *s, struct slice key)
{
	return (struct store_entry *)table_find(&s->entries, key);
}

static void drop_if_unused(struct store *s, struct store_entry *en)
{
	if (en->exists || en->waiters)
		return;
	store_discharge(s, en->item.key.len);
	table_remove(&s->entries, &en->item);
	free(en->value);
	free(en);
}

/* The entry of key, made without a value where there is none. */
static int find_or_make(struct store *s, struct slice key,
			struct store_entry **out, struct err *e)
{
	struct store_entry *en = find(s, key);
	int rc;

	*out = en;
	if (en)
		return 0;
	if (s->entries.items >= s->limits.keys)
		return err_set(e, ERR_REFUSED,
			       "this round's store is full: it has %zu keys "
			       "and may have no more",
			       s->limits.keys);
	rc = store_charge(s, key.len, e);
	if (rc < 0)
		return rc;
	en = calloc(1, sizeof *en + key.len);
	if (en && key.len)
		memcpy(en->key, key.data, key.len);
	if (en)
		en->item.key = SLICE(en->key, key.len);
	if (!en || table_insert(&s->entries, &en->item) < 0) {
		free(en);
		store_discharge(s, key.len);
		return no_memory(e);
	}
	*out = en;
	return 0;
}

/* The entry has a value now: wakes those who waited for nothing else. */
static void now_exists(struct store_entry *en)
{
	struct store_link *link;

	en->exists = 1;
	while ((link = en->waiters)) {
		en->waiters = link->next;
		link->pprev = NULL;
		if (--link->waiter->missing == 0)
			store_wake(link->waiter, 0);
	}
}

static int check_value(struct store *s, size_t len, struct err *e)
{
	if (len > s->limits.value)
		return err_set(e, ERR_ARGUMENT,
			       "a value of %zu bytes: at most %zu are allowed",
			       len, s->limits.value);
	return 0;
}

/* Makes room for len bytes in the entry, of which it keeps those it has. */
static int resize(struct store *s, struct store_entry *en, size_t len,
		  size_t cap, struct err *e)
{
	size_t grow = cap > en->cap ? cap - en->cap : 0;
	char *p;
	int rc = check_value(s, len, e);

	if (rc < 0 || !grow)
		return rc;
	rc = store_charge(s, grow, e);
	if (rc < 0)
		return rc;
	p = realloc(en->value, cap);
	if (!p) {
		store_discharge(s, grow);
		return no_memory(e);
	}
	en->value = p;
	en->cap = cap;
	return 0;
}

/* A small value does not keep a large one's memory. */
static void shrink(struct store *s, struct store_entry *en)
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

static int put_value(struct store *s, struct store_entry *en,
		     struct slice value, struct err *e)
{
	int rc = resize(s, en, value.len, value.len, e);

	if (rc < 0) {
		drop_if_unused(s, en);
		return rc;
	}
	if (value.len)
		memcpy(en->value, value.data, value.len);
	en->len = value.len;
	shrink(s, en);
	now_exists(en);
	return 0;
}

/* ---- operations ---- */

int store_set(struct store *s, struct slice key, struct slice value,
	      struct err *e)
{
	struct store_entry *en;
	int rc = find_or_make(s, key, &en, e);

	return rc < 0 ? rc : put_value(s, en, value, e);
}

int store_get(struct store *s, struct slice key, struct slice *value)
{
	struct store_entry *en = find(s, key);

	if (!en || !en->exists) {
		*value = SLICE("", 0);
		return 0;
	}
	*value = SLICE(en->value ? en->value : "", en->len);
	return 1;
}

/* Decimal text, whole, as store_add writes it. */
static int parse_number(const struct store_entry *en, int64_t *out)
{
	char text[24], *end;

	*out = 0;
	if (!en->exists)
		return 0;
	if (en->len == 0 || en->len >= sizeof text)
		return -1;
	memcpy(text, en->value, en->len);
	text[en->len] = '\0';
	if (text[0] != '-' && (text[0] < '0' || text[0] > '9'))
		return -1;
	errno = 0;
	*out = strtoll(text, &end, 10);
	return errno || *end || end != text + en->len ? -1 : 0;
}

int store_add(struct store *s, struct slice key, int64_t delta, int64_t *sum,
	      struct err *e)
{
	struct store_entry *en;
	char text[24];
	int n, rc = find_or_make(s, key, &en, e);
	struct buf name = BUF_INIT(256);

	if (rc < 0)
		return rc;
	if (parse_number(en, sum) == 0 &&
	    !__builtin_add_overflow(*sum, delta, sum)) {
		n = snprintf(text, sizeof text, "%" PRId64, *sum);
		return put_value(s, en, SLICE(text, (size_t)n), e);
	}
	put_quoted(&name, key);
	rc = err_set(e, ERR_ARGUMENT,
		     "cannot add %" PRId64 " to key %.*s: what it holds is not "
		     "a number, or the sum does not fit in 64 bits",
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
	int rc = find_or_make(s, key, &en, e);

	if (rc < 0)
		return rc;
	len = en->len + value.len;
	/* Doubling, so that n appends copy O(n) bytes; never past a limit */
	cap = len <= en->cap ? en->cap : en->len ? len * 2 : len;
	rc = resize(s, en, len, cap, NULL);
	if (rc < 0)
		rc = resize(s, en, len, len, e);
	if (rc < 0) {
		drop_if_unused(s, en);
		return rc;
	}
	if (value.len)
		memcpy(en->value + en->len, value.data, value.len);
	en->len = len;
	now_exists(en);
	return (int64_t)len;
}

int store_delete(struct store *s, struct slice key)
{
	struct store_entry *en = find(s, key);

	if (!en || !en->exists)
		return 0;
	en->exists = 0;
	store_discharge(s, en->cap);
	drop_if_unused(s, en);
	return 1;
}

/* First all that can fail, then all that changes something. */
int store_multi_set(struct store *s, const struct slice *keys,
		    const struct slice *values, uint32_t n, struct err *e)
{
	char **copies = calloc(n ? n : 1, sizeof(char *));
	struct store_entry *en;
	uint32_t i, made = 0;
	size_t charged = 0;
	int rc = copies ? 0 : no_memory(e);

	for (i = 0; rc == 0 && i < n; i++) {
		rc = check_value(s, values[i].len, e);
		if (rc == 0)
			rc = store_charge(s, values[i].len, e);
		if (rc < 0)
			break;
		charged += values[i].len;
		rc = find_or_make(s, keys[i], &en, e);
		if (rc < 0)
			break;
		made = i + 1;
		copies[i] = malloc(values[i].len ? values[i].len : 1);
		if (!copies[i])
			rc = no_memory(e);
	}
	for (i = 0; rc == 0 && i < n; i++) {
		en = find(s, keys[i]);
		store_discharge(s, en->cap);
		free(en->value);
		en->value = copies[i];
		en->len = en->cap = values[i].len;
		if (en->len)
			memcpy(en->value, values[i].data, en->len);
		now_exists(en);
	}
	if (rc < 0) {
		store_discharge(s, charged);
		for (i = 0; i < made; i++) {
			free(copies[i]);
			en = find(s, keys[i]);
			if (en) /* a key may be named twice */
				drop_if_unused(s, en);
		}
	}
	free(copies);
	return rc;
}

/* ---- waiting ---- */

int store_has(struct store *s, const struct slice *keys, uint32_t n)
{
	struct slice value;
	uint32_t i;

	for (i = 0; i < n; i++)
		if (!store_get(s, keys[i], &value))
			return 0;
	return 1;
}

static void link_add(struct store_link *link, struct store_entry *en,
		     struct store_waiter *w)
{
	link->entry = en;
	link->waiter = w;
	link->next = en->waiters;
	if (link->next)
		link->next->pprev = &link->next;
	link->pprev = &en->waiters;
	en->waiters = link;
}

static void link_remove(struct store *s, struct store_link *link)
{
	if (!link->pprev)
		return;
	*link->pprev = link->next;
	if (link->next)
		link->next->pprev = link->pprev;
	link->pprev = NULL;
	drop_if_unused(s, link->entry);
}

int store_wait(struct store *s, const struct slice *keys, uint32_t n,
	       struct store_waiter *w, struct err *e)
{
	struct store_entry *en;
	uint32_t i;
	int rc = 0;

	w->store = s;
	w->links = calloc(n ? n : 1, sizeof *w->links);
	if (!w->links)
		return no_memory(e);
	w->state = WAITER_KEYS;
	w->missing = 0;
	w->nlinks = 0;
	for (i = 0; i < n; i++) {
		rc = find_or_make(s, keys[i], &en, e);
		if (rc < 0) {
			store_waiter_release(w);
			return rc;
		}
		if (en->exists)
			continue;
		link_add(&w->links[w->nlinks++], en, w);
		w->missing++;
	}
	if (w->missing == 0)
		store_wake(w, 0);
	return 0;
}

void store_wake(struct store_waiter *w, int code)
{
	struct store *s = w->store;

	w->state = WAITER_WOKEN;
	w->code = code;
	w->next = NULL;
	w->pprev = s->woken_tail;
	*s->woken_tail = w;
	s->woken_tail = &w->next;
}

static void leave_woken(struct store_waiter *w)
{
	*w->pprev = w->next;
	if (w->next)
		w->next->pprev = w->pprev;
	else
		w->store->woken_tail = w->pprev;
	w->pprev = NULL;
}

struct store_waiter *store_woken(struct store *s)
{
	struct store_waiter *w = s->woken;

	if (w) {
		leave_woken(w);
		w->state = WAITER_IDLE;
	}
	return w;
}

void store_waiter_release(struct store_waiter *w)
{
	uint32_t i;

	if (!w->store)
		return;
	if (w->state == WAITER_WOKEN)
		leave_woken(w);
	for (i = 0; i < w->nlinks; i++)
		link_remove(w->store, &w->links[i]);
	free(w->links);
	w->links = NULL;
	w->nlinks = 0;
	if (w->meeting)
		meeting_leave(w);
	w->state = WAITER_IDLE;
}

static void explain_keys(const struct store_waiter *w, struct buf *out)
{
	enum { NAMED = 3 };
	uint32_t i, said = 0;

	for (i = 0; i < w->nlinks && said < NAMED; i++) {
		if (!w->links[i].pprev)
			continue;
		buf_printf(out, said ? ", " : "nobody has set key ");
		put_quoted(out, w->links[i].entry->item.key);
		said++;
	}
	if (w->missing > said)
		buf_printf(out, " and %u more", w->missing - said);
}

int store_explain(const struct store_waiter *w, uint64_t waited_ms,
		  struct err *e)
{
	struct buf text = BUF_INIT(ERR_TEXT_MAX);

	if (w->state == WAITER_KEYS)
		explain_keys(w, &text);
	else if (w->meeting)
		meeting_explain(w, &text);
	err_set(e, ERR_TIMEOUT, "waited %.1f s: %.*s", (double)waited_ms / 1e3,
		(int)text.len, text.data ? text.data : "");
	buf_release(&text);
	return ERR_TIMEOUT;
}
