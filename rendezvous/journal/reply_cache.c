/* reply_cache.c: sessions, found by their number. */
#include "rendezvous/journal/reply_cache.h"

#include <stdlib.h>

void reply_cache_limit(struct reply_cache *ps, uint32_t ranks)
{
	ps->most_gone = (size_t)ranks * REPLY_CACHE_PER_RANK + REPLY_CACHE_MORE;
}

static void reply_cache_list_append(struct reply_list *l,
				    struct cached_reply *p)
{
	if (!l->first)
		l->end = &l->first;
	p->next = NULL;
	p->pprev = l->end;
	*l->end = p;
	l->end = &p->next;
}

static void reply_cache_list_remove(struct reply_list *l,
				    struct cached_reply *p)
{
	*p->pprev = p->next;
	if (p->next)
		p->next->pprev = p->pprev;
	else
		l->end = p->pprev;
}

static void reply_cache_add_gone(struct reply_cache *ps, struct cached_reply *p)
{
	reply_cache_list_append(&ps->gone, p);
	ps->ngone++;
}

static void reply_cache_remove_gone(struct reply_cache *ps,
				    struct cached_reply *p)
{
	reply_cache_list_remove(&ps->gone, p);
	ps->ngone--;
}

struct cached_reply *reply_cache_find(struct reply_cache *ps, uint64_t session)
{
	struct slice key = SLICE((const char *)&session, sizeof(session));

	return (struct cached_reply *)hash_table_find(&ps->table, key);
}

struct cached_reply *reply_cache_find_or_make(struct reply_cache *ps,
					      uint64_t session, uint32_t rank)
{
	struct cached_reply *p = reply_cache_find(ps, session);

	if (p)
		return p;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->session = session;
	p->rank = rank;
	p->item.key = SLICE((const char *)&p->session, sizeof(p->session));
	if (hash_table_insert(&ps->table, &p->item) < 0) {
		free(p);
		return NULL;
	}
	reply_cache_add_gone(ps, p);
	return p;
}

static void reply_cache_free(struct cached_reply *p, struct store *s)
{
	if (p->met)
		store_drop_held(s, p->met);
	free(p);
}

static void reply_cache_forget(struct reply_cache *ps, struct store *s,
			       struct cached_reply *p)
{
	reply_cache_remove_gone(ps, p);
	hash_table_remove(&ps->table, &p->item);
	reply_cache_free(p, s);
}

static void reply_cache_forget_oldest(struct reply_cache *ps, struct store *s)
{
	while (ps->most_gone && ps->ngone > ps->most_gone)
		reply_cache_forget(ps, s, ps->gone.first);
}

void reply_cache_take(struct reply_cache *ps, struct cached_reply *p,
		      void *owner)
{
	if (!p->owner) {
		reply_cache_remove_gone(ps, p);
		reply_cache_list_append(&ps->here, p);
	}
	p->owner = owner;
}

void reply_cache_leave(struct reply_cache *ps, struct store *s,
		       struct cached_reply *p)
{
	reply_cache_list_remove(&ps->here, p);
	p->owner = NULL;
	reply_cache_add_gone(ps, p);
	if (!p->type)
		reply_cache_forget(ps, s, p);
	reply_cache_forget_oldest(ps, s);
}

int reply_cache_is_gather(uint8_t type)
{
	return type == WIRE_GATHER || type == WIRE_SHARE;
}

void reply_cache_set(struct reply_cache *ps, struct cached_reply *p,
		     struct store *s, uint32_t id, uint8_t type, int64_t value,
		     struct barrier_gather *met)
{
	struct barrier_gather *before = p->met;

	p->id = id;
	p->type = type;
	p->value = value;
	p->met = met;
	if (before)
		store_drop_held(s, before);
	if (p->owner)
		return;
	/* during replay: it becomes the last to be forgotten */
	reply_cache_remove_gone(ps, p);
	reply_cache_add_gone(ps, p);
	reply_cache_forget_oldest(ps, s);
}

const struct cached_reply *reply_cache_next(const struct reply_cache *ps,
					    const struct cached_reply *after)
{
	if (!after)
		return ps->gone.first ? ps->gone.first : ps->here.first;
	if (after->next || after->owner)
		return after->next;
	return ps->here.first;
}

void reply_cache_release(struct reply_cache *ps, struct store *s)
{
	struct cached_reply *p;

	while ((p = (struct cached_reply *)hash_table_pop(&ps->table)))
		reply_cache_free(p, s);
	hash_table_release(&ps->table);
	ps->here = ps->gone = (struct reply_list){0};
	ps->ngone = 0;
}
