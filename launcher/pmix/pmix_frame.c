/* pmix_frame.c: a length and three numbers. */
#include "launcher/pmix/pmix_frame.h"

enum { LENGTH = 4 };

void pmix_frame_put(struct buf *b, const struct pmix_frame *f)
{
	buf_put_u32(b, (uint32_t)(PMIX_FRAME_HEAD - LENGTH + f->data.len));
	buf_put_u8(b, f->type);
	buf_put_u32(b, f->id);
	buf_put_u32(b, (uint32_t)f->code);
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
