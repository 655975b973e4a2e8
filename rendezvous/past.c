/* past.c: sessions by their number. */
#include "rendezvous/past.h"

#include <stdlib.h>

struct past *past_find(struct pasts *ps, uint64_t session)
{
	struct slice key = SLICE((const char *)&session, sizeof session);

	return (struct past *)table_find(&ps->table, key);
}

struct past *past_find_or_make(struct pasts *ps, uint64_t session,
			       uint32_t rank)
{
	struct past *p = past_find(ps, session);

	if (p)
		return p;
	p = calloc(1, sizeof *p);
	if (!p)
		return NULL;
	p->session = session;
	p->rank = rank;
	p->item.key = SLICE((const char *)&p->session, sizeof p->session);
	if (table_insert(&ps->table, &p->item) < 0) {
		free(p);
		return NULL;
	}
	return p;
}

int past_is_gather(uint8_t type)
{
	return type == WIRE_GATHER || type == WIRE_SHARE;
}

void past_set(struct past *p, struct store *s, uint32_t id, uint8_t type,
	      int64_t value, struct meeting *met)
{
	struct meeting *before = p->met;

	p->id = id;
	p->type = type;
	p->value = value;
	p->met = met;
	if (before)
		store_let_go(s, before);
}

void pasts_release(struct pasts *ps, struct store *s)
{
	struct past *p;

	while ((p = (struct past *)table_pop(&ps->table))) {
		if (p->met)
			store_let_go(s, p->met);
		free(p);
	}
	table_release(&ps->table);
}
