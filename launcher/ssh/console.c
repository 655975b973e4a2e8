/* console.c: the head's console: stdin goes to the hosts one piece at a time,
 * and the output of the hosts comes as fast as it is read. */
#include "launcher/ssh/launch_internal.h"

#include <signal.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"

enum {
	PIECE = 32 << 10,
	READS = 1, /* the host reads */
	BUSY = 2,  /* it has not acknowledged the last piece */
};

/* From FULL_BYTES of unwritten output on the hosts are not read, until no more
 * than ROOM_BYTES are left. */
enum { FULL_BYTES = 1 << 20, ROOM_BYTES = 512 << 10 };

/* ---- the terminal ---- */

/* Ctrl-] is ours; all other keys are the worker's. */
static int remote_input_on_keys(void *owner, char *keys, size_t n)
{
	struct remote_input *in = owner;
	size_t kept = 0;

	for (size_t i = 0; i < n; i++) {
		if (keys[i] == TERMINAL_ESCAPE)
			kill(getpid(), SIGINT);
		else
			keys[kept++] = keys[i];
	}
	if (!kept)
		return 1;
	in->on_bytes(in->arg, (uint32_t)in->lent_to, REMOTE_STDIN,
		     SLICE(keys, kept));
	return 0;
}

static void remote_input_on_resized(void *owner)
{
	const struct remote_input *in = owner;
	struct winsize size = terminal_size(&in->terminal);
	struct remote_window w = {size.ws_row, size.ws_col};
	struct buf b = BUF_INIT(sizeof(w));
	struct slice body;

	remote_window_put(&b, &w);
	if (buf_bytes(&b, &body) == 0)
		in->on_bytes(in->arg, (uint32_t)in->lent_to, REMOTE_WINDOW,
			     body);
	buf_release(&b);
}

static const struct terminal_events terminal_events = {
	.on_keys = remote_input_on_keys, .on_resized = remote_input_on_resized,
};

void remote_input_lend(struct remote_input *in, uint32_t host,
		       struct slice body)
{
	struct err e = ERR_INIT;

	if (!body.len || in->closed)
		return;
	if (body.data[body.len - 1] != '1') {
		if (in->lent_to == (long)host)
			terminal_take_back(&in->terminal);
		return;
	}
	in->lent_to = host;
	if (terminal_lend(&in->terminal, &e) < 0)
		log_warn("%s; the worker gets no keys", e.text);
}

/* ---- stdin ---- */

void remote_input_init(struct remote_input *in, uv_loop_t *loop, long rank,
		       void (*on_bytes)(void *arg, uint32_t host, uint8_t type,
					struct slice bytes), void *arg)
{
	*in = (struct remote_input){.loop = loop, .rank = rank,
				    .on_bytes = on_bytes, .arg = arg,
				    .lent_to = -1};
	terminal_init(&in->terminal, loop, NULL, &terminal_events, in);
}

static void remote_input_send(struct remote_input *in, struct slice bytes)
{
	for (uint32_t i = 0; i < in->n; i++) {
		if (!in->reads[i])
			continue;
		in->reads[i] |= BUSY;
		in->on_bytes(in->arg, i, REMOTE_STDIN, bytes);
	}
}

/* How many hosts have one of these flags. */
static uint32_t remote_input_count(const struct remote_input *in, uint8_t mask)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < in->n; i++)
		n += (in->reads[i] & mask) != 0;
	return n;
}

static void remote_input_on_alloc(uv_handle_t *h, size_t hint, uv_buf_t *b)
{
	struct remote_input *in = h->data;

	*b = uv_buf_init(in->piece, PIECE);
}

static void remote_input_close_pipe(struct remote_input *in)
{
	if (in->open)
		uv_close((uv_handle_t *)&in->pipe, NULL);
	in->open = 0;
}

static void remote_input_end(struct remote_input *in)
{
	in->ended = 1;
	remote_input_send(in, SLICE("", 0));
	remote_input_close_pipe(in);
}

static void remote_input_on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *b)
{
	struct remote_input *in = s->data;

	if (n == 0)
		return;
	uv_read_stop(s);
	if (n > 0) {
		remote_input_send(in, SLICE(in->piece, (size_t)n));
		return;
	}
	remote_input_end(in);
}

static void remote_input_resume(struct remote_input *in)
{
	int rc;

	if (!in->open || remote_input_count(in, BUSY))
		return;
	if (!remote_input_count(in, READS)) {
		remote_input_close(in);
		return;
	}
	rc = uv_read_start((uv_stream_t *)&in->pipe, remote_input_on_alloc,
			   remote_input_on_read);
	if (rc < 0 && rc != UV_EALREADY) {
		log_warn("cannot read standard input: %s; the workers get end "
			 "of file", uv_strerror(rc));
		remote_input_end(in);
	}
}

/* Ranks are prefix sums over the hosts' numbers of workers. */
static void remote_input_find_readers(struct remote_input *in,
				      const struct remote_host *hosts)
{
	long base = 0;

	for (uint32_t i = 0; i < in->n; i++) {
		if (hosts[i].state != HOST_RUNNING)
			continue;
		if (in->rank == INPUT_ALL ||
		    (in->rank >= base && in->rank < base + hosts[i].nproc))
			in->reads[i] = READS;
		base += hosts[i].nproc;
	}
}

int remote_input_start(struct remote_input *in, const struct remote_host *hosts,
		       uint32_t n, struct err *e)
{
	int fd = -1, rc;

	if (in->rank == INPUT_NONE)
		return 0;
	in->n = n;
	in->reads = calloc(n, sizeof(*in->reads));
	in->piece = malloc(PIECE);
	if (!in->reads || !in->piece)
		return err_no_memory(e, "stdin");
	remote_input_find_readers(in, hosts);
	/* INPUT_ALL: whatever stdin is, we read it through a pipe */
	input_init(&in->input, in->loop, INPUT_ALL);
	in->started = 1;
	rc = input_open(&in->input, 0, &fd, e);
	if (rc < 0 || fd < 0)
		return rc;
	uv_pipe_init(in->loop, &in->pipe, 0);
	in->pipe.data = in;
	in->open = 1;
	rc = uv_pipe_open(&in->pipe, fd);
	if (rc < 0) {
		close(fd);
		return err_set(e, rc, "cannot read stdin: %s",
			       uv_strerror(rc));
	}
	remote_input_resume(in);
	return 0;
}

void remote_input_acknowledge(struct remote_input *in, uint32_t host,
			      int is_read)
{
	if (in->lent_to == (long)host)
		terminal_listen(&in->terminal);
	if (!in->started || host >= in->n)
		return;
	in->reads[host] &= is_read ? READS : 0;
	remote_input_resume(in);
}

void remote_input_host_lost(struct remote_input *in, uint32_t host)
{
	remote_input_lend(in, host, SLICE("0", 1));
	remote_input_acknowledge(in, host, 0);
}

void remote_input_close(struct remote_input *in)
{
	if (!in->closed)
		terminal_close(&in->terminal);
	in->closed = 1;
	if (!in->started)
		return;
	in->started = 0;
	remote_input_close_pipe(in);
	input_close(&in->input);
	free(in->reads);
	free(in->piece);
	in->reads = NULL;
	in->piece = NULL;
	in->n = 0;
}

/* ---- the hosts' output ---- */

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

void relay_put_raw(struct relay *r, struct slice bytes)
{
	writer_put_raw(r->own.out, bytes);
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
