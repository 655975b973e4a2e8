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
		       "SHARE: the offer to relay the list is incomplete");
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

uint32_t gather_fanout_place(const struct wire_share *m, uint32_t rank)
{
	return m->of_nodes ? m->node : rank;
}

int gather_fanout_join(struct store *store, const struct wire_share *m,
		       uint32_t rank, struct store_waiter *w, struct err *e)
{
	int offers = gather_fanout_is_offer(m, e), rc = offers;

	if (rc >= 0)
		rc = (m->of_nodes ? store_gather_of_nodes : store_gather)(
			store, m->key, m->size, gather_fanout_place(m, rank),
			m->value, w, e);
	return rc == 0 && offers ? store_offer(w, m, e) : rc;
}

void gather_fanout_withdraw(struct share *s, uint32_t rank)
{
	uint32_t at = gather_fanout_count_below(s, rank);
	struct share_place *p;

	if (!gather_fanout_is_passing_on(s, at, rank))
		return;
	p = &s->places[at];
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

/* ---- replies ---- */

enum { BESIDE_LIST = 32 }; /* bytes of a SHARE's reply before its list */

/* Returns 1, or 0 after an error reply: the list is too long for a frame. */
static int gather_fanout_has_room(struct buf *out, enum wire_type type,
				  uint32_t id, const struct slice *values,
				  uint32_t n)
{
	const struct wire_error m = {
		ERR_ARGUMENT, SLICE_STR("the gathered values do not fit in one "
					"reply: gather less at a time")};
	size_t size = type == WIRE_GATHER ? 4 : BESIDE_LIST;

	for (uint32_t i = 0; i < n; i++)
		size += 4 + values[i].len;
	if (size <= WIRE_BODY_MAX)
		return 1;
	wire_put_error(out, type, WIRE_ERROR_REPLY, id, &m);
	return 0;
}

void gather_fanout_put_list(struct buf *out, enum wire_type type, uint32_t id,
		       const struct barrier_gather *m)
{
	uint32_t n;
	const struct slice *values = store_held(m, &n);
	size_t mark;

	if (!gather_fanout_has_room(out, type, id, values, n))
		return;
	mark = wire_begin(out, type, WIRE_REPLY, id);
	buf_put_u32(out, n);
	for (uint32_t i = 0; i < n; i++)
		buf_put_slice(out, values[i]);
	wire_end(out, mark);
}

void gather_fanout_put_shared(struct buf *out, uint32_t id,
			      struct barrier_gather *m, uint32_t rank)
{
	uint32_t n;
	const struct slice *values = store_held(m, &n);
	struct share *share = store_share(m);
	struct share_part part = gather_fanout_part_of(share, rank, n);
	struct wire_shared reply = {.comers = part.comers,
				    .depth = part.depth};
	struct buf items = BUF_INIT(WIRE_BODY_MAX);

	if (!gather_fanout_has_room(out, WIRE_SHARE, id, values, n))
		return;
	if (part.from) {
		gather_fanout_digest(share, values, n);
		reply.bytes = share->bytes;
		reply.hash = SLICE(share->hash, sizeof(share->hash));
		reply.addr = SLICE_STR(part.from->addr);
		reply.port = part.from->port;
		reply.token = SLICE(part.from->token, sizeof(part.from->token));
	} else {
		for (uint32_t i = 0; i < n; i++)
			buf_put_slice(&items, values[i]);
		if (items.failed) /* out of memory: fails out, which closes the
				   * connection */
			out->failed = items.failed;
		reply.values.count = n;
		reply.values.bytes = SLICE(items.data, items.len);
	}
	wire_put_shared(out, WIRE_SHARE, WIRE_REPLY, id, &reply);
	buf_release(&items);
}
