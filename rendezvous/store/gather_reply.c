/* gather_reply.c: encodes lists of values, and parts of them. */
#include "rendezvous/store/gather_reply.h"

#include "rendezvous/store/gather_fanout.h"

enum { BESIDE_LIST = 32 }; /* bytes of a SHARE's reply before its list */

/* Returns 1, or 0 after an error reply: the list is too long for a frame. */
static int gather_reply_has_room(struct buf *out, enum wire_type type,
				 uint32_t id, const struct slice *values,
				 uint32_t n)
{
	const struct wire_error m = {
		ERR_ARGUMENT, SLICE_STR("the gathered values are more than a "
					"reply can hold: gather less at a "
					"time")};
	size_t size = type == WIRE_GATHER ? 4 : BESIDE_LIST;

	for (uint32_t i = 0; i < n; i++)
		size += 4 + values[i].len;
	if (size <= WIRE_BODY_MAX)
		return 1;
	wire_put_error(out, type, WIRE_ERROR_REPLY, id, &m);
	return 0;
}

void gather_reply_put_list(struct buf *out, enum wire_type type, uint32_t id,
		       const struct barrier_gather *m)
{
	uint32_t n;
	const struct slice *values = store_held(m, &n);
	size_t mark;

	if (!gather_reply_has_room(out, type, id, values, n))
		return;
	mark = wire_begin(out, type, WIRE_REPLY, id);
	buf_put_u32(out, n);
	for (uint32_t i = 0; i < n; i++)
		buf_put_slice(out, values[i]);
	wire_end(out, mark);
}

void gather_reply_put_shared(struct buf *out, uint32_t id,
			     struct barrier_gather *m, uint32_t rank)
{
	uint32_t n;
	const struct slice *values = store_held(m, &n);
	struct share *share = store_share(m);
	struct share_part part = gather_fanout_part_of(share, rank, n);
	struct wire_shared reply = {.comers = part.comers,
				    .depth = part.depth};
	struct buf items = BUF_INIT(WIRE_BODY_MAX);

	if (!gather_reply_has_room(out, WIRE_SHARE, id, values, n))
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
