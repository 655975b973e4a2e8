/* endpoint_record.c: converts the record to bytes and back. */
#include "worker-sdk/comm/endpoint_record.h"

#include <string.h>

/* The version of this format; add 1 when a field changes. */
enum { RECORD_VERSION = 2 };

void ddp__endpoint_record_put(struct buf *b,
			      const struct ddp__endpoint_record *c)
{
	buf_put_u32(b, RECORD_VERSION);
	buf_put_slice(b, c->version);
	buf_put_slice(b, c->backend);
	buf_put_u32(b, c->world_size);
	buf_put_slice(b, c->host_id);
	buf_put_slice(b, c->host_name);
	buf_put_u64(b, (uint64_t)c->pid);
	buf_put_u32(b, (uint32_t)c->memory);
	buf_put(b, c->cookie, sizeof(c->cookie));
	buf_put_slice(b, c->addr);
	buf_put_u16(b, c->port);
	buf_put_u16(b, c->p2p_port);
}

int ddp__endpoint_record_get(struct ddp__endpoint_record *c, struct slice s,
			     struct err *e)
{
	struct reader r;
	uint32_t version;

	memset(c, 0, sizeof(*c));
	reader_init(&r, s);
	version = reader_u32(&r);
	c->version = reader_slice(&r);
	/* In a record of another version, the version of libddp is still
	 * readable. */
	if (!r.bad && version != RECORD_VERSION)
		return err_set(
			e, ERR_USAGE,
			"a rank runs libddp %.*s, which is incompatible with "
			"this rank's: start all ranks with the same libddp",
			SLICE_FMT(c->version));
	c->backend = reader_slice(&r);
	c->world_size = reader_u32(&r);
	c->host_id = reader_slice(&r);
	c->host_name = reader_slice(&r);
	c->pid = (int64_t)reader_u64(&r);
	c->memory = (int32_t)reader_u32(&r);
	for (int i = 0; i < DDP__COOKIE; i++)
		c->cookie[i] = reader_u8(&r);
	c->addr = reader_slice(&r);
	c->port = reader_u16(&r);
	c->p2p_port = reader_u16(&r);
	if (r.bad || reader_left(&r))
		return err_set(e, ERR_PROTOCOL,
			       "ddp_init: a rank's endpoint record does not "
			       "parse: start all ranks with the same libddp");
	return 0;
}

int ddp__endpoint_record_agree(const struct ddp__endpoint_record *mine,
			       int my_rank,
			       const struct ddp__endpoint_record *other,
			       int rank, struct err *e)
{
	if (!slice_is_equal(mine->version, other->version))
		return err_set(e, ERR_USAGE,
			       "rank %d on %.*s runs libddp %.*s, rank %d on "
			       "%.*s runs %.*s: start all ranks with the same "
			       "libddp",
			       rank, SLICE_FMT(other->host_name),
			       SLICE_FMT(other->version), my_rank,
			       SLICE_FMT(mine->host_name),
			       SLICE_FMT(mine->version));
	if (!slice_is_equal(mine->backend, other->backend))
		return err_set(e, ERR_USAGE,
			       "rank %d on %.*s uses backend %.*s, rank %d on "
			       "%.*s uses %.*s: give all the same --backend or "
			       "DDP_BACKEND",
			       rank, SLICE_FMT(other->host_name),
			       SLICE_FMT(other->backend), my_rank,
			       SLICE_FMT(mine->host_name),
			       SLICE_FMT(mine->backend));
	if (mine->world_size != other->world_size)
		return err_set(e, ERR_USAGE,
			       "rank %d on %.*s has WORLD_SIZE %u, rank %d on "
			       "%.*s has %u: start them in one ddprun job",
			       rank, SLICE_FMT(other->host_name),
			       other->world_size, my_rank,
			       SLICE_FMT(mine->host_name), mine->world_size);
	return 0;
}
