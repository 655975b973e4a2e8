/* node_fetch.c: the side that gets the list. It is accepted as a whole. */
#include <errno.h>
#include <sodium.h>
#include <string.h>

#include "launcher/pmi/node_relay.h"

enum { READ_BYTES = 64 << 10 };

static void node_fetch_on_handle_closed(uv_handle_t *h)
{
	struct node_fetch *f = h->data;

	if (--f->open_handles)
		return;
	buf_release(&f->raw);
	buf_release(&f->list);
	sodium_memzero(f->token, sizeof(f->token));
	sodium_memzero(&f->way, sizeof(f->way));
	f->on_closed(f);
}

void node_fetch_close(struct node_fetch *f)
{
	if (f->is_closing)
		return;
	f->is_closing = 1;
	uv_close((uv_handle_t *)&f->tcp, node_fetch_on_handle_closed);
	uv_close((uv_handle_t *)&f->timer, node_fetch_on_handle_closed);
}

static void node_fetch_end(struct node_fetch *f, struct slice list)
{
	if (f->is_over || f->is_closing)
		return;
	f->is_over = 1;
	node_fetch_close(f);
	f->on_list(f, list);
}

static void node_fetch_give_up(struct node_fetch *f)
{
	node_fetch_end(f, SLICE(NULL, 0));
}

static void node_fetch_on_timer(uv_timer_t *t)
{
	node_fetch_give_up(t->data);
}

static void node_fetch_wait(struct node_fetch *f)
{
	uv_timer_start(&f->timer, node_fetch_on_timer, f->patience_ms, 0);
}

static int node_fetch_is_right(const struct node_fetch *f)
{
	unsigned char hash[WIRE_HASH_SIZE];

	crypto_generichash(hash, sizeof(hash),
			   (const unsigned char *)f->list.data, f->list.len,
			   NULL, 0);
	return !memcmp(hash, f->hash, sizeof(hash));
}

/* Opens the records in raw. */
static void node_fetch_take(struct node_fetch *f)
{
	struct err ignored = ERR_INIT;

	if (!f->has_salt && f->raw.len >= CIPHER_RELAY_RANDOM) {
		cipher_relay_way(&f->way, f->token, f->raw.data);
		buf_consume(&f->raw, CIPHER_RELAY_RANDOM);
		f->has_salt = 1;
	}
	/* a list that is longer than announced does not fit */
	if (f->has_salt &&
	    cipher_take(&f->way, &f->raw, &f->list, &ignored) < 0) {
		node_fetch_give_up(f);
		return;
	}
	node_fetch_wait(f);
	if (f->list.len < f->bytes)
		return;
	if (node_fetch_is_right(f))
		node_fetch_end(f, SLICE(f->list.data, f->list.len));
	else
		node_fetch_give_up(f);
}

static void node_fetch_alloc(uv_handle_t *h, size_t size, uv_buf_t *b)
{
	struct node_fetch *f = h->data;
	char *to = buf_reserve(&f->raw, READ_BYTES);

	(void)size;
	*b = uv_buf_init(to, to ? READ_BYTES : 0);
}

static void node_fetch_on_read(uv_stream_t *s, ssize_t n, const uv_buf_t *b)
{
	struct node_fetch *f = s->data;

	(void)b;
	if (n < 0) {
		node_fetch_give_up(f);
		return;
	}
	f->raw.len += (size_t)n;
	if (n > 0)
		node_fetch_take(f);
}

static void node_fetch_on_write(uv_write_t *w, int status)
{
	if (status < 0)
		node_fetch_give_up(w->data);
}

static void node_fetch_on_connect(uv_connect_t *c, int status)
{
	struct node_fetch *f = c->data;
	uv_buf_t b = uv_buf_init((char *)f->hello, sizeof(f->hello));
	struct err ignored = ERR_INIT;

	if (f->is_closing)
		return;
	f->write.data = f;
	if (status < 0 ||
	    cipher_relay_hello(f->hello, f->token, &ignored) < 0 ||
	    uv_write(&f->write, (uv_stream_t *)&f->tcp, &b, 1,
		     node_fetch_on_write) < 0 ||
	    uv_read_start((uv_stream_t *)&f->tcp, node_fetch_alloc,
			  node_fetch_on_read) < 0)
		node_fetch_give_up(f);
}

static int node_fetch_connect(struct node_fetch *f,
			      const struct wire_shared *from, const char *own)
{
	char text[SOCK_HOST_MAX];
	struct sock_addr at;

	if (from->addr.len >= sizeof(text))
		return -EINVAL;
	snprintf(text, sizeof(text), "%.*s", SLICE_FMT(from->addr));
	sock_host_scope(text, own);
	if (!sock_addr_scoped_number(text, from->port, &at))
		return -EINVAL;
	return uv_tcp_connect(&f->connect, &f->tcp,
			      (const struct sockaddr *)&at.ss,
			      node_fetch_on_connect);
}

void node_fetch_start(struct node_fetch *f, uv_loop_t *loop,
		      const struct wire_shared *from, const char *own)
{
	*f = (struct node_fetch){.owner = f->owner, .on_list = f->on_list,
				 .on_closed = f->on_closed,
				 .bytes = from->bytes};
	f->patience_ms = (uint64_t)NODE_FETCH_MS *
			 (from->depth ? from->depth : 1);
	memcpy(f->token, from->token.data, sizeof(f->token));
	memcpy(f->hash, from->hash.data, sizeof(f->hash));
	buf_init(&f->raw, READ_BYTES + CIPHER_RECORD_MAX);
	buf_init(&f->list, f->bytes);
	uv_tcp_init(loop, &f->tcp);
	uv_timer_init(loop, &f->timer);
	f->tcp.data = f->timer.data = f->connect.data = f;
	f->open_handles = 2;
	node_fetch_wait(f);
	/* the error is reported from the loop */
	if (node_fetch_connect(f, from, own) < 0)
		uv_timer_start(&f->timer, node_fetch_on_timer, 0, 0);
}
