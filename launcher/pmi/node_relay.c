/* node_relay.c: the side that has the list, or waits for it. The list is sealed
 * once; each node gets the same bytes. */
#include "launcher/pmi/node_relay.h"

#include <sodium.h>
#include <stdlib.h>
#include <string.h>

#include "base/local_addrs.h"
#include "base/random.h"

enum { CHUNK = 256 << 10 }; /* written at once; its end counts as progress */

/* A connection. After a valid hello it stays in the list when it is closed, so
 * that the hello is valid once. */
struct node_relay_peer {
	struct node_relay_peer *next;
	struct node_relay *relay;
	uv_tcp_t tcp;
	uv_write_t write;
	/* and a byte that nobody should send, so that there is always room for
	 * libuv to notice the end */
	unsigned char hello[CIPHER_RELAY_HELLO + 1];
	size_t heard, sent;
	int is_known, is_writing;
};

/* ---- closing ---- */

static void node_relay_check_closed(struct node_relay *r)
{
	if (!r->is_closing || r->open_handles)
		return;
	while (r->peers) {
		struct node_relay_peer *p = r->peers;

		r->peers = p->next;
		free(p);
	}
	buf_release(&r->sealed);
	sodium_memzero(r->token, sizeof(r->token));
	r->on_closed(r);
}

static void node_relay_on_handle_closed(uv_handle_t *h)
{
	struct node_relay *r = h->data;

	r->open_handles--;
	node_relay_check_closed(r);
}

static void node_relay_remove(struct node_relay_peer *p)
{
	struct node_relay_peer **at = &p->relay->peers;

	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	p->relay->npeers--;
	free(p);
}

static void node_relay_on_peer_closed(uv_handle_t *h)
{
	struct node_relay_peer *p = h->data;
	struct node_relay *r = p->relay;

	if (!p->is_known)
		node_relay_remove(p);
	r->open_handles--;
	node_relay_check_closed(r);
}

static void node_relay_close_peer(struct node_relay_peer *p)
{
	if (!uv_is_closing((uv_handle_t *)&p->tcp))
		uv_close((uv_handle_t *)&p->tcp, node_relay_on_peer_closed);
}

void node_relay_close(struct node_relay *r)
{
	if (r->is_closing)
		return;
	r->is_closing = 1;
	for (struct node_relay_peer *p = r->peers; p; p = p->next)
		node_relay_close_peer(p);
	uv_close((uv_handle_t *)&r->listener, node_relay_on_handle_closed);
	uv_close((uv_handle_t *)&r->timer, node_relay_on_handle_closed);
}

static void node_relay_on_timer(uv_timer_t *t)
{
	node_relay_close(t->data);
}

static void node_relay_note_progress(struct node_relay *r)
{
	if (r->has_list && !r->is_closing)
		uv_timer_start(&r->timer, node_relay_on_timer, NODE_RELAY_MS,
			       0);
}

/* It has the list, or has given up. */
static void node_relay_end_peer(struct node_relay_peer *p)
{
	struct node_relay *r = p->relay;
	int counts = p->is_known && !uv_is_closing((uv_handle_t *)&p->tcp);

	node_relay_close_peer(p);
	if (!counts || !r->has_list)
		return;
	r->left -= r->left > 0;
	node_relay_note_progress(r);
	if (!r->left)
		node_relay_close(r);
}

/* ---- sending ---- */

static void node_relay_on_sent(uv_write_t *w, int status);

static void node_relay_send(struct node_relay_peer *p)
{
	const struct buf *all = &p->relay->sealed;
	size_t n = all->len - p->sent;
	uv_buf_t b;

	if (!n) {
		node_relay_end_peer(p);
		return;
	}
	n = n < CHUNK ? n : CHUNK;
	b = uv_buf_init(all->data + p->sent, (unsigned)n);
	p->write.data = p;
	if (uv_write(&p->write, (uv_stream_t *)&p->tcp, &b, 1,
		     node_relay_on_sent) < 0) {
		node_relay_end_peer(p);
		return;
	}
	p->is_writing = 1;
	p->sent += n;
}

static void node_relay_on_sent(uv_write_t *w, int status)
{
	struct node_relay_peer *p = w->data;

	p->is_writing = 0;
	if (uv_is_closing((uv_handle_t *)&p->tcp))
		return;
	node_relay_note_progress(p->relay);
	if (status < 0)
		node_relay_end_peer(p);
	else
		node_relay_send(p);
}

/* ---- connections ---- */

static int node_relay_is_new(const struct node_relay_peer *p)
{
	for (const struct node_relay_peer *x = p->relay->peers; x; x = x->next)
		if (x != p && x->is_known &&
		    !memcmp(x->hello, p->hello, CIPHER_RELAY_RANDOM))
			return 0;
	return 1;
}

static void node_relay_alloc(uv_handle_t *h, size_t size, uv_buf_t *b)
{
	struct node_relay_peer *p = h->data;

	*b = uv_buf_init((char *)p->hello + p->heard,
			 (unsigned)(sizeof(p->hello) - p->heard));
	(void)size;
}

static void node_relay_on_hello(uv_stream_t *s, ssize_t n, const uv_buf_t *b)
{
	struct node_relay_peer *p = s->data;
	struct node_relay *r = p->relay;

	(void)b;
	p->heard += n > 0 ? (size_t)n : 0;
	if (n < 0 || p->heard > CIPHER_RELAY_HELLO) {
		node_relay_end_peer(p);
		return;
	}
	if (p->heard < CIPHER_RELAY_HELLO || p->is_known)
		return;
	if (!cipher_is_relay_hello(p->hello, r->token) ||
	    !node_relay_is_new(p)) {
		node_relay_close_peer(p);
		return;
	}
	p->is_known = 1;
	node_relay_note_progress(r);
	if (r->has_list)
		node_relay_send(p);
}

/* Closes the oldest connection that has not proved itself. */
static void node_relay_make_room(struct node_relay *r)
{
	struct node_relay_peer *oldest = NULL;

	for (struct node_relay_peer *p = r->peers; p; p = p->next)
		if (!p->is_known && !uv_is_closing((uv_handle_t *)&p->tcp))
			oldest = p;
	if (oldest)
		node_relay_close_peer(oldest);
}

static void node_relay_on_connection(uv_stream_t *s, int status)
{
	struct node_relay *r = s->data;
	struct node_relay_peer *p;

	if (status < 0 || r->is_closing)
		return;
	p = calloc(1, sizeof(*p));
	if (!p) /* the node asks the server */
		return;
	if (r->npeers >= r->peers_max)
		node_relay_make_room(r);
	p->relay = r;
	p->next = r->peers;
	r->peers = p;
	r->npeers++;
	uv_tcp_init(r->loop, &p->tcp);
	p->tcp.data = p;
	r->open_handles++;
	if (uv_accept(s, (uv_stream_t *)&p->tcp) < 0 ||
	    uv_read_start((uv_stream_t *)&p->tcp, node_relay_alloc,
			  node_relay_on_hello) < 0)
		node_relay_close_peer(p);
}

/* ---- start ---- */

/* At the address where other nodes reach this one, if that is one of ours;
 * else, behind NAT, at any. */
static int node_relay_listen(struct node_relay *r, const char *addr,
			     struct err *e)
{
	struct sock_addr a[SOCK_LISTEN_MAX];
	struct endpoint ep = {.port = 0};
	int n, is_ours, i = 0;

	snprintf(ep.host, sizeof(ep.host), "%.*s", SOCK_HOST_MAX - 1, addr);
	n = local_addrs_of(&ep, a, SOCK_LISTEN_MAX, e);
	is_ours = n > 0;
	if (n == 0)
		n = sock_resolve(&ep, a, 1, e);
	if (n < 0)
		return n;
	while (i < n - 1 && sock_addr_is_loopback(&a[i]))
		i++;
	sock_addr_host(&a[i], r->addr);
	if (!is_ours)
		sock_addr_number(a->ss.ss_family == AF_INET6 ? "::" : "0.0.0.0",
				 0, a);
	sock_addr_set_port(&a[i], 0);
	n = sock_listen(&a[i], e);
	r->port = sock_addr_port(&a[i]);
	return n;
}

int node_relay_start(struct node_relay *r, uv_loop_t *loop, const char *addr,
		     uint32_t nnodes, struct err *e)
{
	*r = (struct node_relay){.owner = r->owner, .on_closed = r->on_closed,
				 .loop = loop,
				 .peers_max = nnodes + NODE_RELAY_STRANGERS};
	int rc = random_bytes(r->token, sizeof(r->token), e), fd;

	if (rc < 0)
		return rc;
	fd = node_relay_listen(r, addr, e);
	if (fd < 0)
		return fd;
	uv_tcp_init(loop, &r->listener);
	uv_timer_init(loop, &r->timer);
	r->listener.data = r->timer.data = r;
	r->open_handles = 2;
	rc = uv_tcp_open(&r->listener, fd);
	if (rc < 0)
		close(fd);
	else
		rc = uv_listen((uv_stream_t *)&r->listener, SOMAXCONN,
			       node_relay_on_connection);
	if (rc < 0)
		node_relay_close(r);
	return 0;
}

void node_relay_offer(const struct node_relay *r, struct wire_share *m)
{
	if (r->is_closing)
		return;
	m->addr = SLICE_STR(r->addr);
	m->port = r->port;
	m->token = SLICE(r->token, sizeof(r->token));
}

/* 0 or -ENOMEM. */
static int node_relay_seal(struct node_relay *r, struct slice list)
{
	struct err e = ERR_INIT;
	struct cipher_way way;
	char salt[CIPHER_RELAY_RANDOM];

	buf_init(&r->sealed, sizeof(salt) + CIPHER_SEALED_MAX(list.len));
	if (random_bytes(salt, sizeof(salt), &e) < 0)
		return e.code;
	cipher_relay_way(&way, r->token, salt);
	buf_put(&r->sealed, salt, sizeof(salt));
	cipher_seal(&way, list, &r->sealed);
	sodium_memzero(&way, sizeof(way));
	return r->sealed.failed;
}

void node_relay_pass_on(struct node_relay *r, struct slice list,
			uint32_t comers)
{
	if (r->is_closing)
		return;
	if (!comers || node_relay_seal(r, list) < 0) {
		node_relay_close(r);
		return;
	}
	r->has_list = 1;
	r->left = comers;
	node_relay_note_progress(r);
	for (struct node_relay_peer *p = r->peers; p; p = p->next)
		if (p->is_known && !p->is_writing &&
		    !uv_is_closing((uv_handle_t *)&p->tcp))
			node_relay_send(p);
}
