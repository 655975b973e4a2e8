/* addr_book.c: a table of addresses, each with a list of its claims. */
#include "rendezvous/torch/addr_book.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

struct addr_at {
	struct hash_item item; /* first: by key */
	struct addr_claim *claims;
	char key[ADDR_KEY_SIZE];
};

static struct slice addr_book_key(const struct sock_addr *of, char *key)
{
	struct sock_addr a = *of;
	const struct sockaddr_in *v4 = (const struct sockaddr_in *)&a.ss;
	const struct sockaddr_in6 *v6 = (const struct sockaddr_in6 *)&a.ss;

	memset(key, 0, ADDR_KEY_SIZE);
	sock_addr_unmap(&a);
	if (sock_addr_is_loopback(&a))
		return SLICE(key, ADDR_KEY_SIZE);
	key[0] = a.ss.ss_family == AF_INET ? 4 : 6;
	if (a.ss.ss_family == AF_INET)
		memcpy(key + 1, &v4->sin_addr, sizeof(v4->sin_addr));
	else
		memcpy(key + 1, &v6->sin6_addr, sizeof(v6->sin6_addr));
	return SLICE(key, ADDR_KEY_SIZE);
}

static struct addr_at *addr_book_entry_for(struct addr_book *b,
					   struct slice key)
{
	struct addr_at *at = (struct addr_at *)hash_table_find(&b->addrs, key);

	if (at)
		return at;
	at = calloc(1, sizeof(*at));
	if (!at)
		return NULL;
	memcpy(at->key, key.data, ADDR_KEY_SIZE);
	at->item.key = SLICE(at->key, ADDR_KEY_SIZE);
	if (hash_table_insert(&b->addrs, &at->item) == 0)
		return at;
	free(at);
	return NULL;
}

static void addr_book_drop_if_empty(struct addr_book *b, struct addr_at *at)
{
	if (at->claims)
		return;
	hash_table_remove(&b->addrs, &at->item);
	free(at);
}

int addr_book_add(struct addr_book *b, struct addr_owner *owner,
		  const struct sock_addr *a)
{
	char key[ADDR_KEY_SIZE];
	struct addr_at *at = addr_book_entry_for(b, addr_book_key(a, key));
	struct addr_claim *c;

	if (!at)
		return -ENOMEM;
	for (c = owner->claims; c; c = c->owner_next)
		if (c->at == at)
			return 0;
	c = calloc(1, sizeof(*c));
	if (!c) {
		addr_book_drop_if_empty(b, at);
		return -ENOMEM;
	}
	*c = (struct addr_claim){owner, at->claims, &at->claims,
				 owner->claims, at};
	if (c->next)
		c->next->pprev = &c->next;
	at->claims = c;
	owner->claims = c;
	return 0;
}

void addr_book_forget(struct addr_book *b, struct addr_owner *owner)
{
	struct addr_claim *c;

	while ((c = owner->claims)) {
		owner->claims = c->owner_next;
		*c->pprev = c->next;
		if (c->next)
			c->next->pprev = c->pprev;
		addr_book_drop_if_empty(b, c->at);
		free(c);
	}
}

void addr_book_move(struct addr_book *b, struct addr_owner *from,
		    struct addr_owner *to)
{
	addr_book_forget(b, to);
	to->claims = from->claims;
	from->claims = NULL;
	for (struct addr_claim *c = to->claims; c; c = c->owner_next)
		c->owner = to;
}

struct addr_claim *addr_book_find(struct addr_book *b,
				  const struct sock_addr *a)
{
	char key[ADDR_KEY_SIZE];
	struct addr_at *at = (struct addr_at *)hash_table_find(
		&b->addrs, addr_book_key(a, key));

	return at ? at->claims : NULL;
}

void addr_book_release(struct addr_book *b)
{
	hash_table_release(&b->addrs);
}
