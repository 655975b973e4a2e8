/* barrier_gather.c: barriers and gathers. A meeting has its key until it
 * completes or fails. Then the key is free, and the meeting stays, unnamed,
 * until the last of its woken callers has read the result. */
#include "rendezvous/store/store_internal.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/store/gather_fanout.h"

enum meeting_kind {
	MEETING_BARRIER,
	MEETING_GATHER,
	MEETING_GATHER_OF_NODES, /* a rank that leaves does not fail it */
};

struct barrier_gather {
	struct hash_item item; /* first: the table's items are meetings */
	int named;              /* in the table, and in the list of gathers */
	enum meeting_kind kind;
	struct barrier_gather *next, **pprev; /* the list of gathers */
	uint32_t size;
	uint32_t here; /* callers that wait or read; other holders */
	size_t taken;  /* in the store's account */
	struct held_tag tag; /* the holder's, if it is held */
	struct store_waiter *waiters;
	struct slice *values; /* a gather's, size of them; data NULL: none
			       * yet */
	struct share share; /* a gather's: the ranks that pass it on */
	char *error;
	char key[];
};

static const char *meeting_name(enum meeting_kind kind)
{
	static const char *const names[] = {"barrier", "gather",
					    "gather of nodes"};

	return names[kind];
}

void meetings_release(struct meetings *m)
{
	for (size_t i = 0; i < m->nleft; i++)
		free(m->left[i].how);
	free(m->left);
	free(m->left_at);
	hash_table_release(&m->table);
}

static void barrier_gather_list_remove(struct barrier_gather *m)
{
	*m->pprev = m->next;
	if (m->next)
		m->next->pprev = m->pprev;
	m->pprev = NULL;
}

static void barrier_gather_list_add(struct barrier_gather **list,
				    struct barrier_gather *m)
{
	m->next = *list;
	if (m->next)
		m->next->pprev = &m->next;
	m->pprev = list;
	*list = m;
}

/* Frees the key: the next caller with this key begins another meeting. */
static void barrier_gather_remove_name(struct store *s,
				       struct barrier_gather *m)
{
	if (!m->named)
		return;
	hash_table_remove(&s->meetings.table, &m->item);
	m->named = 0;
	if (m->kind != MEETING_BARRIER)
		barrier_gather_list_remove(m);
}

static int barrier_gather_add_name(struct store *s, struct barrier_gather *m)
{
	struct meetings *ms = &s->meetings;

	if (hash_table_insert(&ms->table, &m->item) < 0)
		return -ENOMEM;
	m->named = 1;
	if (m->kind != MEETING_BARRIER)
		barrier_gather_list_add(&ms->gathers, m);
	return 0;
}

static void barrier_gather_free(struct store *s, struct barrier_gather *m)
{
	barrier_gather_remove_name(s, m);
	if (m->pprev)
		barrier_gather_list_remove(m);
	for (uint32_t i = 0; m->values && i < m->size; i++) {
		store_discharge(s, m->values[i].len);
		free((char *)m->values[i].data);
	}
	store_unreserve(s, m->taken);
	gather_fanout_release(&m->share);
	free(m->values);
	free(m->error);
	free(m);
}

/* A meeting's memory besides the values, including room for each rank's offer
 * to pass them on. */
static size_t barrier_gather_cost_bytes(struct slice key, uint32_t size,
					enum meeting_kind kind)
{
	size_t each = sizeof(struct slice) + sizeof(struct share_place);

	return sizeof(struct barrier_gather) + key.len +
	       (kind != MEETING_BARRIER ? size * each : 0);
}

static int barrier_gather_new(struct store *s, struct slice key, uint32_t size,
			      enum meeting_kind kind,
			      struct barrier_gather **out, struct err *e)
{
	size_t taken = barrier_gather_cost_bytes(key, size, kind);
	struct barrier_gather *m;
	int rc = store_reserve(s, taken, e);

	if (rc < 0)
		return rc;
	*out = m = calloc(1, sizeof(*m) + key.len);
	if (!m) {
		store_unreserve(s, taken);
		return store_no_memory(e);
	}
	m->taken = taken;
	m->size = size;
	m->kind = kind;
	if (key.len)
		memcpy(m->key, key.data, key.len);
	m->item.key = SLICE(m->key, key.len);
	if (kind != MEETING_BARRIER)
		m->values = calloc(size, sizeof(*m->values));
	if ((kind != MEETING_BARRIER && !m->values) ||
	    barrier_gather_add_name(s, m) < 0) {
		free(m->values);
		free(m);
		*out = NULL;
		store_unreserve(s, taken);
		return store_no_memory(e);
	}
	return 0;
}

/* Finds or begins the key's meeting; an error if the caller's size or kind
 * differs from the others'. */
static int barrier_gather_find_or_begin(struct store *s, struct slice key,
					uint32_t size, enum meeting_kind kind,
					struct barrier_gather **out,
					struct err *e)
{
	struct barrier_gather *m = (struct barrier_gather *)hash_table_find(
		&s->meetings.table, key);
	struct buf name = BUF_INIT(256);
	int rc = 0;

	*out = m;
	if (m && m->kind == kind && m->size == size)
		return 0;
	store_put_quoted(&name, key);
	if (m)
		rc = err_set(e, ERR_ARGUMENT,
			     "%.*s is a %s of %u for the other callers, but a "
			     "%s of %u for this one",
			     (int)name.len, name.data,
			     meeting_name(m->kind), m->size,
			     meeting_name(kind), size);
	else if (size == 0)
		rc = err_set(e, ERR_ARGUMENT,
			     "a %s of no ranks: %.*s has size 0",
			     meeting_name(kind), (int)name.len,
			     name.data);
	else
		rc = barrier_gather_new(s, key, size, kind, out, e);
	buf_release(&name);
	return rc;
}

/* Wakes all callers with the result and frees the key. */
static void barrier_gather_finish(struct store *s, struct barrier_gather *m,
				  int code)
{
	struct store_waiter *w;

	barrier_gather_remove_name(s, m);
	while ((w = m->waiters)) {
		m->waiters = w->next;
		if (m->waiters)
			m->waiters->pprev = &m->waiters;
		store_wake(w, code);
	}
}

static void barrier_gather_fail(struct store *s, struct barrier_gather *m,
				const char *how)
{
	struct buf text = BUF_INIT(ERR_TEXT_MAX);

	buf_printf(&text, "%.700s before it reached ", how);
	store_put_quoted(&text, m->item.key);
	buf_put_u8(&text, 0);
	m->error = text.data;
	barrier_gather_finish(s, m, ERR_REMOTE);
}

static void barrier_gather_add_caller(struct store *s, struct barrier_gather *m,
				      struct store_waiter *w)
{
	w->store = s;
	w->state = WAITER_MEETING;
	w->meeting = m;
	w->next = m->waiters;
	if (w->next)
		w->next->pprev = &w->next;
	w->pprev = &m->waiters;
	m->waiters = w;
	m->here++;
}

int store_barrier(struct store *s, struct slice key, uint32_t size,
		  struct store_waiter *w, struct err *e)
{
	struct barrier_gather *m;
	int rc = barrier_gather_find_or_begin(s, key, size, MEETING_BARRIER,
					      &m, e);

	if (rc < 0)
		return rc;
	barrier_gather_add_caller(s, m, w);
	if (m->here == m->size)
		barrier_gather_finish(s, m, 0);
	return 0;
}

static const struct departure *barrier_gather_find_departed(
	const struct meetings *ms, uint32_t size)
{
	for (size_t i = 0; i < ms->nleft; i++)
		if (ms->left[i].rank < size)
			return &ms->left[i];
	return NULL;
}

static const char *barrier_gather_departure_text(const struct meetings *ms,
						 uint32_t rank)
{
	uint32_t at = ms->left_at ? ms->left_at[rank] : 0;

	return at ? ms->left[at - 1].how : NULL;
}

static int barrier_gather_set_value(struct store *s, struct barrier_gather *m,
				    uint32_t rank, struct slice value,
				    struct err *e)
{
	char *copy;
	int rc;

	if (rank >= m->size)
		return err_set(e, ERR_ARGUMENT,
			       "rank %u cannot join a gather of ranks 0 to %u",
			       rank, m->size - 1);
	if (m->values[rank].data)
		return err_set(e, ERR_ARGUMENT,
			       "rank %u has already joined this gather", rank);
	rc = store_charge(s, value.len, e);
	if (rc < 0)
		return rc;
	copy = malloc(value.len ? value.len : 1);
	if (!copy) {
		store_discharge(s, value.len);
		return store_no_memory(e);
	}
	if (value.len)
		memcpy(copy, value.data, value.len);
	m->values[rank] = SLICE(copy, value.len);
	return 0;
}

static int barrier_gather_join(struct store *s, struct slice key,
			       uint32_t size, enum meeting_kind kind,
			       uint32_t rank, struct slice value,
			       struct store_waiter *w, struct err *e)
{
	const struct departure *gone = NULL;
	struct barrier_gather *m;
	int rc;

	if (size > s->limits.ranks)
		return err_set(e, ERR_ARGUMENT,
			       "a gather of %u ranks: this round has only %u",
			       size, s->limits.ranks);
	rc = barrier_gather_find_or_begin(s, key, size, kind, &m, e);
	if (rc < 0)
		return rc;
	rc = barrier_gather_set_value(s, m, rank, value, e);
	if (rc < 0) {
		if (m->here == 0)
			barrier_gather_free(s, m);
		return rc;
	}
	w->rank = rank;
	barrier_gather_add_caller(s, m, w);
	/* check once, when the gather begins, for ranks that have left already;
	 * store_rank_left handles those that leave later */
	if (m->here == 1 && kind == MEETING_GATHER)
		gone = barrier_gather_find_departed(&s->meetings, size);
	if (gone)
		barrier_gather_fail(s, m, gone->how);
	else if (m->here == m->size)
		barrier_gather_finish(s, m, 0);
	return 0;
}

int store_gather(struct store *s, struct slice key, uint32_t size,
		 uint32_t rank, struct slice value, struct store_waiter *w,
		 struct err *e)
{
	return barrier_gather_join(s, key, size, MEETING_GATHER, rank, value,
				   w, e);
}

int store_gather_of_nodes(struct store *s, struct slice key, uint32_t size,
			  uint32_t node, struct slice value,
			  struct store_waiter *w, struct err *e)
{
	return barrier_gather_join(s, key, size, MEETING_GATHER_OF_NODES, node,
				   value, w, e);
}

int store_offer(struct store_waiter *w, const struct wire_share *m,
		struct err *e)
{
	return gather_fanout_offer(&w->meeting->share, w->rank, m, e);
}

struct share *store_share(struct barrier_gather *m)
{
	return &m->share;
}

/* A rank that left fails only the gathers that lack its value. */
static void barrier_gather_fail_incomplete(struct store *s, uint32_t rank,
					   const char *how)
{
	struct barrier_gather *m, *next;

	for (m = s->meetings.gathers; m; m = next) {
		next = m->next;
		if (m->kind == MEETING_GATHER && rank < m->size &&
		    !m->values[rank].data)
			barrier_gather_fail(s, m, how);
	}
}

int store_rank_left(struct store *s, uint32_t rank, const char *how)
{
	struct meetings *ms = &s->meetings;
	char *copy;

	if (rank >= s->limits.ranks || barrier_gather_departure_text(ms, rank))
		return 0;
	if (!ms->left_at)
		ms->left_at = calloc(s->limits.ranks, sizeof(*ms->left_at));
	if (!ms->left_at)
		return -ENOMEM;
	if (ms->nleft == ms->cap) {
		size_t cap = ms->cap ? ms->cap * 2 : 8;
		void *p = realloc(ms->left, cap * sizeof(*ms->left));

		if (!p)
			return -ENOMEM;
		ms->left = p;
		ms->cap = cap;
	}
	copy = strdup(how);
	if (!copy)
		return -ENOMEM;
	ms->left[ms->nleft++] = (struct departure){rank, copy};
	ms->left_at[rank] = (uint32_t)ms->nleft;
	barrier_gather_fail_incomplete(s, rank, how);
	return 0;
}

int store_left_at(const struct store *s, size_t i, uint32_t *rank)
{
	if (i >= s->meetings.nleft)
		return 0;
	*rank = s->meetings.left[i].rank;
	return 1;
}

/* A caller that still waits gives up its place, and the gather fails at once if
 * its rank is known to be gone. A woken caller is one reader less. */
void barrier_gather_leave(struct store_waiter *w)
{
	struct barrier_gather *m = w->meeting;
	struct store *s = w->store;
	const char *how;

	w->meeting = NULL;
	m->here--;
	if (w->state == WAITER_MEETING) {
		*w->pprev = w->next;
		if (w->next)
			w->next->pprev = w->pprev;
		if (m->kind != MEETING_BARRIER) {
			store_discharge(s, m->values[w->rank].len);
			free((char *)m->values[w->rank].data);
			m->values[w->rank] = SLICE(NULL, 0);
			gather_fanout_withdraw(&m->share, w->rank);
			how = barrier_gather_departure_text(&s->meetings,
							    w->rank);
			if (how && m->here && m->kind == MEETING_GATHER)
				barrier_gather_fail(s, m, how);
		}
	}
	if (m->here == 0)
		barrier_gather_free(s, m);
}

const char *store_waiter_text(const struct store_waiter *w)
{
	return w->meeting && w->meeting->error ? w->meeting->error : "";
}

void barrier_gather_awaited(const struct store_waiter *w,
			    struct store_awaited *a)
{
	const struct barrier_gather *m = w->meeting;

	/* nodes are not named: the caller may know ranks only */
	a->kind = m->kind == MEETING_GATHER ? STORE_AWAITS_GATHER
					    : STORE_AWAITS_BARRIER;
	a->key = m->item.key;
	a->missing = m->size - m->here;
	a->of = m->size;
}

void store_arrived(const struct store_waiter *w, uint8_t *came, uint32_t n)
{
	const struct store_waiter *x = w->meeting ? w->meeting->waiters : NULL;

	for (; x; x = x->next)
		if (x->rank < n)
			came[x->rank] = 1;
}

/* ---- results that are held ---- */

struct barrier_gather *store_hold(struct store_waiter *w)
{
	struct barrier_gather *m = w->meeting;

	w->meeting = NULL;
	if (!m->pprev)
		barrier_gather_list_add(&w->store->meetings.held, m);
	return m;
}

struct barrier_gather *store_hold_again(struct barrier_gather *m)
{
	m->here++;
	return m;
}

void store_drop_held(struct store *s, struct barrier_gather *m)
{
	if (--m->here == 0)
		barrier_gather_free(s, m);
}

const struct slice *store_held(const struct barrier_gather *m, uint32_t *size)
{
	*size = m->size;
	return m->values;
}

struct held_tag *store_held_tag(struct barrier_gather *m)
{
	return &m->tag;
}

struct barrier_gather *store_find_held(struct store *s, uint32_t number)
{
	struct barrier_gather *m = s->meetings.held;

	while (m && m->tag.number != number)
		m = m->next;
	return m;
}

struct barrier_gather *store_remake(struct store *s, const struct slice *values,
			     uint32_t size)
{
	struct barrier_gather *m = calloc(1, sizeof(*m));

	if (m)
		m->values = calloc(size ? size : 1, sizeof(*m->values));
	if (!m || !m->values) {
		free(m);
		return NULL;
	}
	m->size = size;
	m->kind = MEETING_GATHER;
	m->taken = barrier_gather_cost_bytes(SLICE("", 0), size,
					     MEETING_GATHER);
	if (store_reserve(s, m->taken, NULL) < 0)
		m->taken = 0;
	barrier_gather_list_add(&s->meetings.held, m);
	for (uint32_t i = 0; i < size; i++) {
		if (barrier_gather_set_value(s, m, i, values[i], NULL) < 0) {
			barrier_gather_free(s, m);
			return NULL;
		}
	}
	return m;
}
