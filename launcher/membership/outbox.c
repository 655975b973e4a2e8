/* outbox.c: notices, kept as the frames that are sent. */
#include "launcher/membership/membership.h"

enum { OUTBOX_MAX = 256 << 20 };

void outbox_init(struct outbox *o)
{
	*o = (struct outbox){.is_urgent = 0};
	buf_init(&o->frames, OUTBOX_MAX);
}

void outbox_release(struct outbox *o)
{
	buf_release(&o->frames);
}

void outbox_clear(struct outbox *o)
{
	buf_reset(&o->frames);
	o->is_urgent = 0;
}

/* What was put after the first `from` bytes is a notice of its own. */
static int outbox_added(struct outbox *o, size_t from, int is_urgent,
			struct slice *frame, struct err *e)
{
	struct slice all;
	int rc = buf_bytes(&o->frames, &all);

	if (rc < 0)
		return err_set(e, rc,
			       "cannot keep a notice for the "
			       "rendezvous server: %s",
			       err_name(rc));
	o->is_urgent |= is_urgent;
	*frame = SLICE(all.data + from, all.len - from);
	return 0;
}

int outbox_add_exited(struct outbox *o, const struct wire_exited *x,
		      struct slice *frame, struct err *e)
{
	size_t from = o->frames.len;

	wire_put_exited(&o->frames, WIRE_EXITED, WIRE_NOTICE, 0, x);
	return outbox_added(o, from, x->code || x->signal, frame, e);
}

int outbox_add_failed(struct outbox *o, const struct wire_failed *x,
		      struct slice *frame, struct err *e)
{
	size_t from = o->frames.len;

	wire_put_failed(&o->frames, WIRE_FAILED, WIRE_NOTICE, 0, x);
	return outbox_added(o, from, 1, frame, e);
}

int outbox_add_stop(struct outbox *o, const struct wire_stop *x,
		    struct slice *frame, struct err *e)
{
	size_t from = o->frames.len;

	wire_put_stop(&o->frames, WIRE_STOP, WIRE_NOTICE, 0, x);
	return outbox_added(o, from, 1, frame, e);
}

struct slice outbox_unheard(const struct outbox *o, uint32_t heard)
{
	struct reader in;

	reader_init(&in, SLICE(o->frames.data, o->frames.len));
	while (heard-- && reader_left(&in) >= WIRE_HEADER_SIZE) {
		const char *frame = in.p;
		size_t body = reader_u32(&in);

		in.p = frame + WIRE_HEADER_SIZE + body;
	}
	return SLICE(in.p, in.p < in.end ? (size_t)(in.end - in.p) : 0);
}
