/* torch_port.c: a listener, and a torch_session for each connection. It lives
 * until its owner has closed it and the last handle is gone. */
#include "rendezvous/torch_port.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "rendezvous/torch_session.h"

/* PyTorch has up to three connections a rank: its store, a clone of it for a
 * watchdog, and before 2.2 one for what is watched. */
enum { CLIENTS_PER_RANK = 8, CLIENTS_MIN = 64 };

struct client {
	struct conn conn; /* first: the connection's callbacks get it */
	struct torch_session session;
	struct torch_port *port;
	struct client *next, **pprev;
};

struct torch_port {
	uv_tcp_t listener;
	struct conn_pool *pool;
	struct store *store;
	struct client *clients;
	uint32_t count, most;
	int open;   /* the listener is */
	int ended;  /* the store is ours */
	int handles; /* that are not closed yet, of ours */
	int owned;  /* its owner may still call */
	int refused; /* has been said */
};

static void free_if_gone(struct torch_port *p)
{
	if (p->ended && !p->count) {
		store_free(p->store);
		p->store = NULL;
	}
	if (!p->owned && !p->count && !p->handles)
		free(p);
}

static struct client *client_of(struct conn *c)
{
	return (struct client *)c;
}

static struct buf *out_of(struct torch_session *t)
{
	struct client *k = (struct client *)
		((char *)t - offsetof(struct client, session));

	return conn_out(&k->conn);
}

/* ---- a client ---- */

/* The protocol has no words for an error: the log has. */
static size_t on_bytes(struct conn *c, struct slice in, size_t *wants)
{
	struct client *k = client_of(c);
	struct err e = ERR_INIT;
	long n = torch_session_take(&k->session, in, &e);

	store_answer_all(k->port->store);
	if (n < 0) {
		log_warn("a client of the PyTorch store was disconnected: %s",
			 e.text);
		torch_session_release(&k->session);
		store_answer_all(k->port->store);
		conn_finish(c);
		return in.len;
	}
	in.data += n;
	in.len -= (size_t)n;
	*wants = torch_session_wants(&k->session, in);
	return (size_t)n;
}

static void on_gone(struct conn *c, const char *why)
{
	struct client *k = client_of(c);

	torch_session_release(&k->session);
	store_answer_all(k->port->store);
}

static void on_closed(struct conn *c)
{
	struct client *k = client_of(c);
	struct torch_port *p = k->port;

	if (p->store) /* dropped by us */
		torch_session_release(&k->session);
	*k->pprev = k->next;
	if (k->next)
		k->next->pprev = k->pprev;
	p->count--;
	free(k);
	free_if_gone(p);
}

static const struct conn_events client_events = {
	.on_bytes = on_bytes, .on_gone = on_gone, .on_closed = on_closed,
};

/* ---- the port ---- */

static void on_refused(uv_handle_t *h)
{
	free(h);
}

/* Taken, and closed: else no other would be offered. */
static void refuse(struct torch_port *p)
{
	uv_tcp_t *tcp = malloc(sizeof *tcp);

	if (!p->refused)
		log_warn("the PyTorch store refuses connections: it has %u, "
			 "more than its ranks could need", p->count);
	p->refused = 1;
	if (!tcp)
		return;
	uv_tcp_init(p->pool->loop, tcp);
	uv_accept((uv_stream_t *)&p->listener, (uv_stream_t *)tcp);
	uv_close((uv_handle_t *)tcp, on_refused);
}

static void on_connection(uv_stream_t *listener, int status)
{
	struct torch_port *p = listener->data;
	struct client *k;

	if (status < 0) {
		log_warn("the PyTorch store cannot take a connection: %s",
			 uv_strerror(status));
		return;
	}
	if (p->count == p->most) {
		refuse(p);
		return;
	}
	k = calloc(1, sizeof *k);
	if (!k) {
		log_warn("the PyTorch store is out of memory for a client");
		return;
	}
	k->port = p;
	torch_session_init(&k->session, p->store, out_of);
	k->next = p->clients;
	if (k->next)
		k->next->pprev = &k->next;
	k->pprev = &p->clients;
	p->clients = k;
	p->count++;
	conn_open(&k->conn, p->pool, &client_events, TORCH_REQUEST_MAX,
		  listener);
}

static void on_listener_closed(uv_handle_t *h)
{
	struct torch_port *p = h->data;

	p->handles--;
	free_if_gone(p);
}

static void stop_listening(struct torch_port *p)
{
	if (!p->open)
		return;
	p->open = 0;
	uv_close((uv_handle_t *)&p->listener, on_listener_closed);
}

static int listen_at(struct torch_port *p, const struct sock_addr *at,
		     uint16_t *port, struct err *e)
{
	struct sock_addr own = *at;
	int rc, fd = sock_listen(&own, e);

	if (fd < 0)
		return fd;
	sock_end_when_silent(fd, p->pool->silent_ms);
	rc = uv_tcp_open(&p->listener, fd);
	if (rc < 0)
		close(fd);
	else
		rc = uv_listen((uv_stream_t *)&p->listener, SOMAXCONN,
			       on_connection);
	*port = sock_addr_port(&own);
	return rc < 0 ? err_set(e, rc, "cannot listen for PyTorch's clients: "
				"%s", uv_strerror(rc)) : 0;
}

int torch_port_open(struct torch_port **out, struct conn_pool *pool,
		    struct store *store, const struct sock_addr *at,
		    uint32_t ranks, uint16_t *port, struct err *e)
{
	struct torch_port *p = calloc(1, sizeof *p);
	int rc;

	*out = NULL;
	if (!p)
		return err_set(e, -ENOMEM, "out of memory");
	p->pool = pool;
	p->store = store;
	p->most = ranks * CLIENTS_PER_RANK;
	if (p->most < CLIENTS_MIN)
		p->most = CLIENTS_MIN;
	p->open = p->handles = p->owned = 1;
	uv_tcp_init(pool->loop, &p->listener);
	p->listener.data = p;
	rc = listen_at(p, at, port, e);
	if (rc < 0) {
		p->owned = 0;
		stop_listening(p);
		return rc;
	}
	*out = p;
	return 0;
}

void torch_port_end(struct torch_port *p)
{
	p->ended = 1;
	stop_listening(p);
	free_if_gone(p);
}

void torch_port_close(struct torch_port *p)
{
	if (!p)
		return;
	for (struct client *k = p->clients, *next; k; k = next) {
		next = k->next;
		conn_drop(&k->conn);
	}
	p->owned = 0;
	free_if_gone(p);
}
