/* relay.c: back pressure. */
#include "launcher/ssh/launch_internal.h"

#include "base/log.h"

enum { FULL_BYTES = 1 << 20, ROOM_BYTES = 512 << 10 };

static void relay_set_full(struct relay *r, int full)
{
	if (r->full == full)
		return;
	r->full = full;
	r->on_full(r->arg, full);
}

static void relay_close_when_drained(struct relay *r)
{
	if (r->closing != 1 || writer_pair_pending(&r->own))
		return;
	r->closing = 2;
	log_set_sink(NULL, NULL);
	writer_pair_close(&r->own);
}

static void relay_on_room(void *arg)
{
	struct relay *r = arg;

	if (!r->closing && writer_pair_pending(&r->own) <= ROOM_BYTES)
		relay_set_full(r, 0);
	relay_close_when_drained(r);
}

void relay_put(struct relay *r, int is_stderr, struct slice text)
{
	writer_put(is_stderr ? r->own.err : r->own.out, text.data, text.len);
	writer_pair_flush(&r->own);
	if (!r->closing && writer_pair_pending(&r->own) > FULL_BYTES)
		relay_set_full(r, 1);
}

static void relay_on_log_line(void *arg, const char *line, unsigned long len)
{
	relay_put(arg, 1, SLICE(line, len));
}

void relay_init(struct relay *r, uv_loop_t *loop,
		void (*on_full)(void *arg, int full), void *arg)
{
	*r = (struct relay){.on_full = on_full, .arg = arg};
	writer_pair_init(&r->own, loop, relay_on_room, r);
	log_set_sink(relay_on_log_line, r);
}

void relay_close(struct relay *r)
{
	if (r->closing)
		return;
	r->closing = 1;
	writer_pair_flush(&r->own);
	relay_close_when_drained(r);
}

void relay_abandon(struct relay *r)
{
	writer_pair_abandon(&r->own);
	relay_close_when_drained(r);
}

void relay_release(struct relay *r)
{
	log_set_sink(NULL, NULL);
	writer_pair_release(&r->own);
}
