/* remote_input.c: one piece at a time. */
#include "launcher/ssh/remote_input.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

enum { PIECE = 32 << 10, READS = 1, BUSY = 2 };

void remote_input_init(struct remote_input *in, uv_loop_t *loop, long rank,
		       void (*on_bytes)(void *arg, uint32_t host,
					struct slice bytes), void *arg)
{
	*in = (struct remote_input){.loop = loop, .rank = rank,
				    .on_bytes = on_bytes, .arg = arg};
}

static void hand_out(struct remote_input *in, struct slice bytes)
{
	for (uint32_t i = 0; i < in->n; i++) {
		if (!in->reads[i])
			continue;
		in->reads[i] |= BUSY;
		in->on_bytes(in->arg, i, bytes);
	}
}

/* How many hosts read; how many of them are to be waited for. */
static uint32_t readers(const struct remote_input *in, uint8_t mask)
{
	uint32_t n = 0;

	for (uint32_t i = 0; i < in->n; i++)
		n += (in->reads[i] & mask) != 0;
	return n;
}

static void on_alloc(uv_handle_t *h, size_t hint, uv_buf_t *b)
{
	struct remote_input *in = h->data;

	*b = uv_buf_init(in->piece, PIECE);
}

static void close_pipe(struct remote_input *in)
{
	if (in->open)
		uv_close((uv_handle_t *)&in->pipe, NULL);
	in->open = 0;
}

static void finish(struct remote_input *in)
{
	in->ended = 1;
	hand_out(in, SLICE("", 0));
	close_pipe(in);
}

static void on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *b)
{
	struct remote_input *in = s->data;

	if (n == 0)
		return;
	uv_read_stop(s);
	if (n > 0) {
		hand_out(in, SLICE(in->piece, (size_t)n));
		return;
	}
	finish(in);
}

static void go_on(struct remote_input *in)
{
	int rc;

	if (!in->open || readers(in, BUSY))
		return;
	if (!readers(in, READS)) {
		remote_input_close(in);
		return;
	}
	rc = uv_read_start((uv_stream_t *)&in->pipe, on_alloc, on_read);
	if (rc < 0 && rc != UV_EALREADY) {
		log_warn("cannot read standard input: %s; the workers get its "
			 "end", uv_strerror(rc));
		finish(in);
	}
}

/* Ranks are prefix sums over the hosts' numbers of workers. */
static void find_readers(struct remote_input *in,
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
		return err_set(e, -ENOMEM, "out of memory for stdin");
	find_readers(in, hosts);
	/* as for all: it is pumped into a pipe, whatever it is */
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
		return err_set(e, rc, "stdin cannot be read: %s",
			       uv_strerror(rc));
	}
	go_on(in);
	return 0;
}

void remote_input_took(struct remote_input *in, uint32_t host, int is_read)
{
	if (!in->started || host >= in->n)
		return;
	in->reads[host] &= is_read ? READS : 0;
	go_on(in);
}

void remote_input_lost(struct remote_input *in, uint32_t host)
{
	remote_input_took(in, host, 0);
}

void remote_input_close(struct remote_input *in)
{
	if (!in->started)
		return;
	in->started = 0;
	close_pipe(in);
	input_close(&in->input);
	free(in->reads);
	free(in->piece);
	in->reads = NULL;
	in->piece = NULL;
	in->n = 0;
}
