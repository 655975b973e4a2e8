/* pmix_frame.c: a length and three numbers. */
#include "launcher/pmix/pmix_frame.h"

#include <endian.h>
#include <string.h>

enum { LENGTH = 4 };

static uint8_t *pmix_frame_head_u32(uint8_t *at, uint32_t v)
{
	v = htole32(v);
	memcpy(at, &v, sizeof(v));
	return at + sizeof(v);
}

void pmix_frame_head(const struct pmix_frame *f, uint8_t head[PMIX_FRAME_HEAD])
{
	uint8_t *at = head;

	at = pmix_frame_head_u32(at, (uint32_t)(PMIX_FRAME_HEAD - LENGTH +
						f->data.len));
	*at++ = f->type;
	at = pmix_frame_head_u32(at, f->id);
	pmix_frame_head_u32(at, (uint32_t)f->code);
}

void pmix_frame_put(struct buf *b, const struct pmix_frame *f)
{
	uint8_t head[PMIX_FRAME_HEAD];

	pmix_frame_head(f, head);
	buf_put(b, head, sizeof(head));
	buf_put(b, f->data.data, f->data.len);
}

long pmix_frame_cut(struct slice in, struct pmix_frame *f, struct err *e)
{
	struct reader r;
	uint32_t length;

	if (in.len < PMIX_FRAME_HEAD)
		return 0;
	reader_init(&r, in);
	length = reader_u32(&r);
	f->type = reader_u8(&r);
	f->id = reader_u32(&r);
	f->code = (int32_t)reader_u32(&r);
	if (length < PMIX_FRAME_HEAD - LENGTH || length > PMIX_FRAME_MAX ||
	    !f->type || f->type >= HELPER_TYPES)
		return err_set(e, ERR_PROTOCOL, "a frame of type %u with %u "
			       "bytes between ddprun and its PMIx helper",
			       f->type, length);
	if (in.len - LENGTH < length)
		return 0;
	f->data = SLICE(in.data + PMIX_FRAME_HEAD,
			length - (PMIX_FRAME_HEAD - LENGTH));
	return LENGTH + (long)length;
}
