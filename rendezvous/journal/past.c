/* past.c: sessions by their number. */
#include "rendezvous/journal/past.h"

#include <stdlib.h>

void pasts_limit(struct pasts *ps, uint32_t ranks)
{
	ps->most_gone = (size_t)ranks * PASTS_OF_RANK + PASTS_MORE;
}

static void list_append(struct past_list *l, struct past *p)
{
	if (!l->first)
		l->end = &l->first;
	p->next = NULL;
	p->pprev = l->end;
	*l->end = p;
	l->end = &p->next;
}

static void list_remove(struct past_list *l, struct past *p)
{
	*p->pprev = p->next;
	if (p->next)
		p->next->pprev = p->pprev;
	else
		l->end = p->pprev;
}

static void become_gone(struct pasts *ps, struct past *p)
{
	list_append(&ps->gone, p);
	ps->ngone++;
}

static void leave_gone(struct pasts *ps, struct past *p)
{
	list_remove(&ps->gone, p);
	ps->ngone--;
}

struct past *past_find(struct pasts *ps, uint64_t session)
{
	struct slice key = SLICE((const char *)&session, sizeof(session));

	return (struct past *)table_find(&ps->table, key);
}

struct past *past_find_or_make(struct pasts *ps, uint64_t session,
			       uint32_t rank)
{
	struct past *p = past_find(ps, session);

	if (p)
		return p;
	p = calloc(1, sizeof(*p));
	if (!p)
		return NULL;
	p->session = session;
	p->rank = rank;
	p->item.key = SLICE((const char *)&p->session, sizeof(p->session));
	if (table_insert(&ps->table, &p->item) < 0) {
		free(p);
		return NULL;
	}
	become_gone(ps, p);
	return p;
}

static void past_free(struct past *p, struct store *s)
{
	if (p->met)
		store_let_go(s, p->met);
	free(p);
}

static void forget(struct pasts *ps, struct store *s, struct past *p)
{
	leave_gone(ps, p);
	table_remove(&ps->table, &p->item);
	past_free(p, s);
}

static void forget_oldest(struct pasts *ps, struct store *s)
{
	while (ps->most_gone && ps->ngone > ps->most_gone)
		forget(ps, s, ps->gone.first);
}

void past_take(struct pasts *ps, struct past *p, void *owner)
{
	if (!p->owner) {
		leave_gone(ps, p);
		list_append(&ps->here, p);
	}
	p->owner = owner;
}

void past_leave(struct pasts *ps, struct store *s, struct past *p)
{
	list_remove(&ps->here, p);
	p->owner = NULL;
	become_gone(ps, p);
	if (!p->type)
		forget(ps, s, p);
	forget_oldest(ps, s);
}

int past_is_gather(uint8_t type)
{
	return type == WIRE_GATHER || type == WIRE_SHARE;
}

void past_set(struct pasts *ps, struct past *p, struct store *s, uint32_t id,
	      uint8_t type, int64_t value, struct meeting *met)
{
	struct meeting *before = p->met;

	p->id = id;
	p->type = type;
	p->value = value;
	p->met = met;
	if (before)
		store_let_go(s, before);
	if (p->owner)
		return;
	/* of a journal that is read: the last to be forgotten */
	leave_gone(ps, p);
	become_gone(ps, p);
	forget_oldest(ps, s);
}

const struct past *past_next(const struct pasts *ps, const struct past *after)
{
	if (!after)
		return ps->gone.first ? ps->gone.first : ps->here.first;
	if (after->next || after->owner)
		return after->next;
	return ps->here.first;
}

void pasts_release(struct pasts *ps, struct store *s)
{
	struct past *p;

	while ((p = (struct past *)table_pop(&ps->table)))
		past_free(p, s);
	table_release(&ps->table);
	ps->here = ps->gone = (struct past_list){0};
	ps->ngone = 0;
}
