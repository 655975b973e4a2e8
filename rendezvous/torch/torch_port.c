/* torch_port.c: listeners, and a torch_session for each connection. Freed when
 * its owner has closed it and the last handle is gone. */
#include "rendezvous/torch/torch_port.h"

#include <errno.h>
#include <stddef.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/log.h"
#include "rendezvous/net/listener.h"
#include "rendezvous/torch/torch_session.h"

/* PyTorch itself has up to three connections a rank: its store, a clone for a
 * watchdog, and before 2.2 another for watched keys. Programs may open stores
 * of their own. */
enum { CLIENTS_PER_RANK = 64, CLIENTS_MIN = 256 };

struct torch_client {
	struct conn conn; /* first: the connection's callbacks get it */
	struct torch_session session;
	struct torch_port *port;
	void *ticket; /* while it is held: not admitted yet */
	struct sock_addr from;
	uint64_t since; /* when it began to wait, while parked; loop time */
	int leaves;     /* it is closing: its place will be free */
	struct torch_client *next, **pprev;
};

struct torch_port {
	struct listener listeners[TORCH_ADDRS_MAX];
	int nlisteners;
	struct conn_pool *pool;
	struct store *store;
	struct torch_gate gate;
	struct torch_client *clients;
	uint32_t count, most;
	uint32_t asked;   /* those that are held: their owner is not known
			   * yet */
	uint32_t leaving; /* those that are being closed */
	int open;   /* the listeners are open */
	int begun;  /* it takes clients */
	int ended;  /* the round is over: we own the store */
	int listening; /* listeners that are not closed yet */
	int owned;  /* its owner may still call */
	int refused; /* a refusal was logged */
};

static void torch_port_free_if_gone(struct torch_port *p)
{
	if (p->ended && !p->count) {
		store_free(p->store);
		p->store = NULL;
	}
	if (!p->owned && !p->count && !p->listening)
		free(p);
}

static struct torch_client *torch_port_client(struct conn *c)
{
	return (struct torch_client *)c;
}

static struct torch_client *torch_port_peer_text(struct torch_session *t)
{
	return (struct torch_client *)
		((char *)t - offsetof(struct torch_client, session));
}

static struct buf *torch_port_out(struct torch_session *t)
{
	return conn_out(&torch_port_peer_text(t)->conn);
}

/* Changes to the store of a round that is over are not recorded. */
static void torch_port_on_changed(struct torch_session *t, struct slice request)
{
	const struct torch_port *p = torch_port_peer_text(t)->port;

	if (p->gate.on_change && !p->ended)
		p->gate.on_change(p->gate.owner, t->generation, request);
}

static void torch_port_get_wait(const struct torch_client *k,
				struct torch_wait *w)
{
	*w = (struct torch_wait){.client = k, .from = &k->from,
				 .since = k->since,
				 .waiter = &k->session.waiter};
}

int torch_port_next_wait(const struct torch_port *p, struct torch_client **at,
			 struct torch_wait *w)
{
	if (!p || p->ended)
		return 0;
	*at = *at ? (*at)->next : p->clients;
	while (*at && !(*at)->session.parked)
		*at = (*at)->next;
	if (*at)
		torch_port_get_wait(*at, w);
	return *at != NULL;
}

static void torch_port_on_gave_up(struct torch_session *t)
{
	struct torch_client *k = torch_port_peer_text(t);
	const struct torch_port *p = k->port;
	struct torch_wait w;

	torch_port_get_wait(k, &w);
	if (p->gate.on_gave_up && !p->ended)
		p->gate.on_gave_up(p->gate.owner, &w);
	k->since = uv_now(p->pool->loop); /* for another wait that follows at
					   * once */
}

/* ---- a client ---- */

static void torch_port_forget_wait(struct torch_client *k)
{
	k->port->leaving += !k->leaves;
	k->leaves = 1;
}

/* The protocol has no error replies, so the log gets the reason. */
static void torch_port_log_disconnected(const char *why)
{
	log_warn("disconnected a client of PyTorch's store: %s", why);
}

static size_t torch_port_on_bytes(struct conn *c, struct slice in,
				  size_t *wants)
{
	struct torch_client *k = torch_port_client(c);
	const struct torch_gate *gate = &k->port->gate;
	struct err e;
	int waited = k->session.parked;
	long n;

	err_init(&e);
	/* set first: a wait may begin and be given up within these bytes */
	if (!waited)
		k->since = uv_now(k->port->pool->loop);
	n = torch_session_take(&k->session, in, &e);
	store_answer_all(k->port->store);
	if (k->session.parked && !waited && gate->on_wait)
		gate->on_wait(gate->owner);
	if (n < 0) {
		torch_port_log_disconnected(e.text);
		torch_session_release(&k->session);
		store_answer_all(k->port->store);
		torch_port_forget_wait(k);
		conn_finish(c);
		return in.len;
	}
	in.data += n;
	in.len -= (size_t)n;
	*wants = torch_session_wants(&k->session, in);
	return (size_t)n;
}

/* Removes and returns its ticket, or NULL. */
static void *torch_port_release_ticket(struct torch_client *k)
{
	void *ticket = k->ticket;

	k->port->asked -= ticket != NULL;
	k->ticket = NULL;
	return ticket;
}

static void torch_port_on_due(struct conn *c)
{
	struct torch_client *k = torch_port_client(c);
	void *ticket = torch_port_release_ticket(k);

	if (ticket)
		k->port->gate.on_late(ticket);
}

/* A place is free, or no place may become free soon: clients that wait can be
 * taken or refused. */
static void torch_port_accept_waiting(struct torch_port *p)
{
	for (int i = 0; i < p->nlisteners && p->open; i++)
		listener_again(&p->listeners[i]);
}

static void torch_port_on_gone(struct conn *c, const char *why)
{
	struct torch_client *k = torch_port_client(c);

	if (c->out.failed)
		torch_port_log_disconnected(why);
	torch_port_forget_wait(k);
	torch_session_release(&k->session);
	store_answer_all(k->port->store);
}

static void torch_port_on_closed(struct conn *c)
{
	struct torch_client *k = torch_port_client(c);
	struct torch_port *p = k->port;

	if (p->store) /* on_gone was not called if we dropped it */
		torch_session_release(&k->session);
	*k->pprev = k->next;
	if (k->next)
		k->next->pprev = k->pprev;
	p->count--;
	p->leaving -= (uint32_t)k->leaves;
	free(k);
	torch_port_accept_waiting(p);
	torch_port_free_if_gone(p);
}

static const struct conn_events client_events = {
	.on_bytes = torch_port_on_bytes,
	.on_due = torch_port_on_due,
	.on_gone = torch_port_on_gone,
	.on_closed = torch_port_on_closed,
};

void torch_client_hold(struct torch_client *k, void *ticket, uint64_t ms)
{
	k->ticket = ticket;
	k->port->asked++;
	conn_due(&k->conn, uv_now(k->port->pool->loop) + ms);
}

int torch_client_to(const struct torch_client *k, struct sock_addr *to)
{
	struct sock_addr from;

	return conn_addrs(&k->conn, &from, to);
}

/* Charges its buffers to its job. */
static void torch_port_charge(struct torch_client *k)
{
	conn_charge_to(&k->conn, store_account(k->port->store), sizeof(*k));
}

void torch_client_admit(struct torch_client *k)
{
	torch_port_release_ticket(k);
	conn_due(&k->conn, CONN_NEVER);
	torch_port_charge(k);
	conn_resume(&k->conn);
	if (!k->port->asked)
		torch_port_accept_waiting(k->port);
}

void torch_client_refuse(struct torch_client *k)
{
	torch_port_release_ticket(k);
	torch_port_forget_wait(k);
	conn_drop(&k->conn);
}

/* Pauses the connection before its first read, so that nothing is lost. */
static void torch_port_admit(struct torch_client *k)
{
	const struct torch_gate *gate = &k->port->gate;
	struct sock_addr to;

	if (conn_addrs(&k->conn, &k->from, &to) < 0) {
		torch_port_forget_wait(k);
		conn_drop(&k->conn);
		return;
	}
	if (!gate->on_come) {
		torch_port_charge(k);
		return;
	}
	conn_pause(&k->conn);
	gate->on_come(gate->owner, k, &k->from, &to);
	conn_flush_all(k->port->pool);
}

/* ---- the port ---- */

/* Accepts and closes it; otherwise the listener would not offer the next. */
static enum listener_answer torch_port_refuse_client(struct torch_port *p,
						     int fd)
{
	if (!p->refused)
		log_warn("PyTorch's store refuses connections: it has %u, more "
			 "than its ranks can need",
			 p->count);
	p->refused = 1;
	close(fd);
	return LISTENER_TOOK;
}

/* Takes fd, or returns LISTENER_NO_MEMORY. */
static enum listener_answer torch_port_add_client(struct torch_port *p, int fd)
{
	struct torch_client *k = calloc(1, sizeof(*k));

	if (!k)
		return LISTENER_NO_MEMORY;
	k->port = p;
	torch_session_init(&k->session, p->store, torch_port_out);
	k->session.changed = torch_port_on_changed;
	k->session.gave_up = torch_port_on_gave_up;
	k->next = p->clients;
	if (k->next)
		k->next->pprev = &k->next;
	k->pprev = &p->clients;
	p->clients = k;
	p->count++;
	if (conn_open(&k->conn, p->pool, &client_events, TORCH_REQUEST_MAX,
		      fd) == 0)
		torch_port_admit(k);
	else
		torch_port_forget_wait(k);
	return LISTENER_TOOK;
}

/* Ignores scarce: the protocol cannot tell clients the reason. */
static enum listener_answer torch_port_on_connection(struct listener *l, int fd,
						     int scarce)
{
	struct torch_port *p = l->owner;

	/* the others may be a stranger's, and this one a worker's */
	if (p->count == p->most && (p->asked || p->leaving))
		return LISTENER_WAITS;
	if (p->count == p->most)
		return torch_port_refuse_client(p, fd);
	return torch_port_add_client(p, fd);
}

int torch_port_take(struct torch_port *p, int fd)
{
	if (!p->open || !p->begun || p->count == p->most)
		return -EBUSY;
	return torch_port_add_client(p, fd) == LISTENER_TOOK ? 0 : -ENOMEM;
}

static void torch_port_on_listener_closed(struct listener *l)
{
	struct torch_port *p = l->owner;

	p->listening--;
	torch_port_free_if_gone(p);
}

static void torch_port_stop_listening(struct torch_port *p)
{
	if (!p->open)
		return;
	p->open = 0;
	for (int i = 0; i < p->nlisteners; i++)
		listener_close(&p->listeners[i]);
}

static int torch_port_listen_with(struct torch_port *p, int fd)
{
	struct listener *l = &p->listeners[p->nlisteners++];

	sock_set_silence_limit(fd, p->pool->silent_ms);
	*l = (struct listener){.owner = p,
			       .whose = "PyTorch's store",
			       .on_connection = torch_port_on_connection,
			       .on_closed = torch_port_on_listener_closed};
	p->listening++;
	return listener_open(l, p->pool->loop, fd);
}

static int torch_port_listen_at(struct torch_port *p,
				const struct sock_addr *at, int n,
				uint16_t *port, struct err *e)
{
	struct sock_addr own[TORCH_ADDRS_MAX];
	int fds[TORCH_ADDRS_MAX], rc;

	if (!n)
		return 0;
	for (int i = 0; i < n; i++) {
		own[i] = at[i];
		sock_addr_set_port(&own[i], *port);
	}
	rc = sock_listen_all(own, n, fds, e);
	if (rc < 0)
		return rc;
	*port = sock_addr_port(&own[0]);
	for (int i = 0; i < n; i++) {
		if (rc == 0)
			rc = torch_port_listen_with(p, fds[i]);
		else
			close(fds[i]);
	}
	return rc < 0 ? err_set(e, rc, "cannot listen for PyTorch's clients: "
				"%s", uv_strerror(rc)) : 0;
}

int torch_port_open(struct torch_port **out, struct conn_pool *pool,
		    struct store *store, const struct sock_addr *at, int n,
		    uint32_t ranks, const struct torch_gate *gate,
		    uint16_t *port, struct err *e)
{
	struct torch_port *p = calloc(1, sizeof(*p));
	int rc;

	*out = NULL;
	if (!p)
		return err_no_memory(e, "PyTorch's store");
	p->pool = pool;
	p->store = store;
	p->gate = *gate;
	p->most = ranks * CLIENTS_PER_RANK;
	if (p->most < CLIENTS_MIN)
		p->most = CLIENTS_MIN;
	p->open = p->owned = 1;
	rc = torch_port_listen_at(p, at, n, port, e);
	if (rc < 0) {
		p->owned = 0;
		torch_port_stop_listening(p);
		torch_port_free_if_gone(p);
		return rc;
	}
	*out = p;
	return 0;
}

int torch_port_begin(struct torch_port *p, struct err *e)
{
	int rc = 0;

	if (p->begun || !p->open)
		return 0;
	for (int i = 0; i < p->nlisteners && rc == 0; i++)
		rc = listener_start(&p->listeners[i]);
	p->begun = 1;
	return rc < 0 ? err_set(e, rc, "cannot listen for PyTorch's clients: "
				"%s", uv_strerror(rc)) : 0;
}

void torch_port_end(struct torch_port *p)
{
	p->ended = 1;
	torch_port_stop_listening(p);
	torch_port_free_if_gone(p);
}

void torch_port_close(struct torch_port *p)
{
	if (!p)
		return;
	for (struct torch_client *k = p->clients, *next; k; k = next) {
		void *ticket = torch_port_release_ticket(k);

		next = k->next;
		if (ticket)
			p->gate.on_gone(ticket);
		conn_drop(&k->conn);
	}
	p->owned = 0;
	torch_port_free_if_gone(p);
}
