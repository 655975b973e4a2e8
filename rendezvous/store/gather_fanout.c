/* gather_fanout.c: the places, in rank order, form a tree with a heap's layout:
 * place n gets the list from place (n - 1) / SHARE_FANOUT. */
#include "rendezvous/store/gather_fanout.h"

#include <errno.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>

_Static_assert(WIRE_HASH_SIZE == crypto_generichash_BYTES, "BLAKE2b-256");

/* The number of places with a lower rank. */
static uint32_t gather_fanout_count_below(const struct share *s, uint32_t rank)
{
	uint32_t low = 0, high = s->n;

	while (low < high) {
		uint32_t middle = (low + high) / 2;

		if (s->places[middle].rank < rank)
			low = middle + 1;
		else
			high = middle;
	}
	return low;
}

static int gather_fanout_is_passing_on(const struct share *s, uint32_t at,
				       uint32_t rank)
{
	return at < s->n && s->places[at].rank == rank;
}

static int gather_fanout_make_room(struct share *s, struct err *e)
{
	uint32_t cap = s->cap ? 2 * s->cap : 16;
	void *p;

	if (s->n < s->cap)
		return 0;
	p = realloc(s->places, cap * sizeof(*s->places));
	if (!p)
		return err_set(e, -ENOMEM,
			       "the rendezvous server is out of memory");
	s->places = p;
	s->cap = cap;
	return 0;
}

int gather_fanout_is_offer(const struct wire_share *m, struct err *e)
{
	if (m->port && m->addr.len && m->token.len == WIRE_TOKEN_SIZE &&
	    !memchr(m->addr.data, 0, m->addr.len))
		return 1;
	if (!m->port && !m->addr.len && !m->token.len)
		return 0;
	return err_set(e, ERR_PROTOCOL,
		       "SHARE: half an offer to pass the list on");
}

int gather_fanout_offer(struct share *s, uint32_t rank,
			const struct wire_share *m, struct err *e)
{
	uint32_t at = gather_fanout_count_below(s, rank);
	struct share_place *p;
	char *addr;

	if (gather_fanout_make_room(s, e) < 0)
		return -ENOMEM;
	addr = strndup(m->addr.data, m->addr.len);
	if (!addr)
		return err_set(e, -ENOMEM,
			       "the rendezvous server is out of memory");
	p = &s->places[at];
	memmove(p + 1, p, (s->n - at) * sizeof(*p));
	s->n++;
	*p = (struct share_place){.rank = rank, .port = m->port, .addr = addr};
	memcpy(p->token, m->token.data, sizeof(p->token));
	return 0;
}

void gather_fanout_withdraw(struct share *s, uint32_t rank)
{
	uint32_t at = gather_fanout_count_below(s, rank);
	struct share_place *p = s->places + at;

	if (!gather_fanout_is_passing_on(s, at, rank))
		return;
	free(p->addr);
	memmove(p, p + 1, (--s->n - at) * sizeof(*p));
}

void gather_fanout_release(struct share *s)
{
	while (s->n)
		free(s->places[--s->n].addr);
	free(s->places);
	*s = (struct share){0};
}

static uint32_t gather_fanout_depth(uint32_t at)
{
	uint32_t depth = 0;

	for (; at; at = (at - 1) / SHARE_FANOUT)
		depth++;
	return depth;
}

/* The number of places that get the list from this one. */
static uint32_t gather_fanout_children(const struct share *s, uint32_t at)
{
	uint32_t first = at * SHARE_FANOUT + 1;

	if (first >= s->n)
		return 0;
	return s->n - first < SHARE_FANOUT ? s->n - first : SHARE_FANOUT;
}

/* The number of ranks between this place and the next, which pass nothing on.
 * The first place also serves the ranks before it. */
static uint32_t gather_fanout_count_others(const struct share *s, uint32_t at,
					   uint32_t size)
{
	uint32_t from = at ? s->places[at].rank : 0;
	uint32_t to = at + 1 < s->n ? s->places[at + 1].rank : size;

	return to - from - 1;
}

struct share_part gather_fanout_part_of(const struct share *s, uint32_t rank,
				uint32_t size)
{
	struct share_part part = {NULL, 0, 0};
	uint32_t at;

	if (!s->n)
		return part;
	at = gather_fanout_count_below(s, rank);
	if (gather_fanout_is_passing_on(s, at, rank)) {
		part.depth = gather_fanout_depth(at);
		part.comers = gather_fanout_children(s, at) +
			      gather_fanout_count_others(s, at, size);
		if (at)
			part.from = &s->places[(at - 1) / SHARE_FANOUT];
		return part;
	}
	at = at ? at - 1 : 0;
	part.depth = gather_fanout_depth(at) + 1;
	part.from = &s->places[at];
	return part;
}

void gather_fanout_digest(struct share *s, const struct slice *values,
			  uint32_t n)
{
	crypto_generichash_state hash;

	if (s->digested)
		return;
	s->digested = 1;
	crypto_generichash_init(&hash, NULL, 0, WIRE_HASH_SIZE);
	for (uint32_t i = 0; i < n; i++) {
		uint32_t len = (uint32_t)values[i].len;
		const unsigned char head[4] = {
			(unsigned char)len, (unsigned char)(len >> 8),
			(unsigned char)(len >> 16), (unsigned char)(len >> 24)};

		crypto_generichash_update(&hash, head, sizeof(head));
		crypto_generichash_update(
			&hash, (const unsigned char *)values[i].data, len);
		s->bytes += (uint32_t)sizeof(head) + len;
	}
	crypto_generichash_final(&hash, (unsigned char *)s->hash,
				 WIRE_HASH_SIZE);
}
