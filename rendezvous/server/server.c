/* server.c: the lists of a server's peers and jobs. Nobody else walks them by
 * hand. */
#include "rendezvous/server/server.h"

#include "rendezvous/server/hosted_job.h"

/* ---- peers ---- */

void server_add_peer(struct server *s, struct peer *p)
{
	p->server = s;
	p->next = s->peers;
	if (p->next)
		p->next->pprev = &p->next;
	p->pprev = &s->peers;
	s->peers = p;
}

void server_remove_peer(struct peer *p)
{
	*p->pprev = p->next;
	if (p->next)
		p->next->pprev = p->pprev;
}

struct peer *server_next_peer(const struct server *s, const struct peer *after)
{
	return after ? after->next : s->peers;
}

/* ---- jobs ---- */

/* A walk first ends a move of the table's items, which changes nothing that
 * others see. */
static struct hash_item *server_next_item(const struct hash_table *t,
					  struct hash_item *after)
{
	return hash_table_next((struct hash_table *)t, after);
}

static struct hosted_job *server_numbered(struct hash_item *item)
{
	return item ? (struct hosted_job *)((char *)item -
					    offsetof(struct hosted_job,
						     numbered))
		    : NULL;
}

struct hosted_job *server_next_job(const struct server *s,
				   struct hosted_job *after)
{
	return server_numbered(server_next_item(
		&s->by_number, after ? &after->numbered : NULL));
}

struct hosted_job *server_next_named_job(const struct server *s,
					 struct hosted_job *after)
{
	return (struct hosted_job *)server_next_item(
		&s->jobs, after ? &after->item : NULL);
}

struct hosted_job *server_find_job(struct server *s, uint64_t number)
{
	struct slice key = SLICE((const char *)&number, sizeof(number));

	return server_numbered(hash_table_find(&s->by_number, key));
}

struct hosted_job *server_find_named_job(struct server *s, struct slice id)
{
	return (struct hosted_job *)hash_table_find(&s->jobs, id);
}

size_t server_count_jobs(const struct server *s)
{
	return s->by_number.items;
}

size_t server_count_named_jobs(const struct server *s)
{
	return s->jobs.items;
}

int server_add_job(struct server *s, struct hosted_job *h)
{
	if (!h->number)
		h->number = ++s->last_number;
	h->numbered.key = SLICE((const char *)&h->number, sizeof(h->number));
	return hash_table_insert(&s->by_number, &h->numbered);
}

int server_name_job(struct server *s, struct hosted_job *h)
{
	return hash_table_insert(&s->jobs, &h->item);
}

void server_unname_job(struct hosted_job *h)
{
	hash_table_remove(&h->server->jobs, &h->item);
}

void server_remove_job(struct hosted_job *h)
{
	hash_table_remove(&h->server->by_number, &h->numbered);
}

void server_drop_jobs(struct server *s)
{
	for (struct hosted_job *h; (h = server_next_job(s, NULL));)
		hosted_job_drop(h);
}

void server_release_lists(struct server *s)
{
	hash_table_release(&s->by_number);
	hash_table_release(&s->jobs);
	hash_table_release(&s->tenants);
}
