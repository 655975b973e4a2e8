/* pass.c: one source, some comers, and what has come so far, which each comer
 * is sent at once. What a source sent is believed when its hash is right: the
 * server, which has proved itself, said what that is. */
#include "worker-sdk/pass.h"

#include <errno.h>
#include <poll.h>
#include <sodium.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/random.h"

enum {
	ADDRESSES_MAX = 8,
	STRANGERS_MAX = 16, /* connected, and have not said the token */
	ACCEPTED_MAX = 8, /* a turn: they are heard before one of them goes */
	/* How often a source may hang up before it has sent anything. It does
	 * so where strangers crowd out a rank that has yet to say its token. */
	CROWDED_OUT_MAX = 8,
	/* A source that is silent for so long is given up, times the hands that
	 * the list goes through: it is first to lose patience with its own. */
	SOURCE_MS = 3000,
	/* Comers that do not come, or take nothing, for so long. */
	COMERS_MS = 5000,
};

/* One that has the list from here. */
struct comer {
	int fd; /* -1: nobody */
	unsigned number; /* in the order of coming */
	size_t heard; /* of the token */
	size_t sent;
	char token[WIRE_TOKEN_SIZE];
};

/* Where this rank has it from. */
struct source {
	int fd; /* -1: there is none (any more) */
	int connecting;
	struct sock_addr at[ADDRESSES_MAX];
	int n, next;
	int crowded_out; /* times */
	char token[WIRE_TOKEN_SIZE];
};

struct passing {
	const struct ddp__pass *pass;
	struct client *client;
	uint32_t size; /* values of the list */
	char *list;
	size_t bytes, got;
	char hash[WIRE_HASH_SIZE];
	struct source source;
	struct comer *comers; /* room for all, and strangers */
	size_t room;
	unsigned came;
	uint32_t left; /* comers who have neither got it nor given up */
	uint64_t moved; /* clock_ms: something has come, or gone on */
	uint64_t patience;
	struct pollfd *polls;
	struct err *e;
};

void ddp__pass_open(struct ddp__pass *pass, const char *addr,
		    struct wire_share *m)
{
	struct err ignored = ERR_INIT;
	uint16_t port;

	pass->listener.n = 0;
	m->addr = m->token = SLICE("", 0);
	m->port = 0;
	if (!addr ||
	    random_bytes(pass->token, sizeof(pass->token), &ignored) < 0 ||
	    ddp__listen(&pass->listener, addr, &port, &ignored) < 0)
		return;
	m->addr = SLICE(addr, strcspn(addr, "%")); /* no scope */
	m->port = port;
	m->token = SLICE(pass->token, sizeof(pass->token));
}

void ddp__pass_close(struct ddp__pass *pass)
{
	ddp__listen_close(&pass->listener);
}

/* ---- the source ---- */

static void hang_up(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

/* No rank gives it to this one: the server does, or says why nobody does. */
static int ask_server(struct passing *p)
{
	struct slice whole;
	int rc;

	hang_up(&p->source.fd);
	rc = client_whole(p->client, p->size, &whole, p->e);
	if (rc < 0)
		return rc;
	if (whole.len != p->bytes)
		return err_set(p->e, ERR_PROTOCOL,
			       "ddp_init: the server's list has %zu bytes, and "
			       "not the %zu that it said", whole.len, p->bytes);
	memcpy(p->list, whole.data, whole.len);
	p->got = p->bytes;
	p->moved = clock_ms();
	return 0;
}

/* Starts a connection to the next of its addresses. */
static int call_source(struct passing *p)
{
	struct source *s = &p->source;

	hang_up(&s->fd);
	while (s->next < s->n) {
		const struct sock_addr *a = &s->at[s->next++];

		s->fd = socket(a->ss.ss_family,
			       SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
		s->connecting = 1;
		if (s->fd >= 0 &&
		    (!connect(s->fd, (const struct sockaddr *)&a->ss, a->len) ||
		     errno == EINPROGRESS))
			return 0;
		hang_up(&s->fd);
	}
	return ask_server(p);
}

static int on_connected(struct passing *p)
{
	struct source *s = &p->source;
	socklen_t size = sizeof(int);
	int error = 0;

	s->connecting = 0;
	getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &error, &size);
	/* a fresh socket takes it whole */
	if (error || send(s->fd, s->token, sizeof(s->token),
			  MSG_DONTWAIT | MSG_NOSIGNAL) != sizeof(s->token))
		return call_source(p);
	return 0;
}

static int is_right(const struct passing *p)
{
	unsigned char hash[WIRE_HASH_SIZE];

	crypto_generichash(hash, sizeof(hash), (const unsigned char *)p->list,
			   p->bytes, NULL, 0);
	return !memcmp(hash, p->hash, sizeof(hash));
}

static int is_crowded_out(struct passing *p, ssize_t n)
{
	return !p->got && (!n || errno == ECONNRESET) &&
	       p->source.crowded_out++ < CROWDED_OUT_MAX;
}

static int on_source(struct passing *p)
{
	struct source *s = &p->source;
	ssize_t n;

	if (s->connecting)
		return on_connected(p);
	n = recv(s->fd, p->list + p->got, p->bytes - p->got, MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0 && is_crowded_out(p, n)) {
		s->next = 0;
		return call_source(p);
	}
	if (n <= 0)
		return ask_server(p);
	p->got += (size_t)n;
	p->moved = clock_ms();
	if (p->got < p->bytes)
		return 0;
	hang_up(&s->fd);
	return is_right(p) ? 0 : ask_server(p);
}

/* ---- comers ---- */

static int is_known(const struct comer *c)
{
	return c->heard == sizeof(c->token);
}

/* The place of the next one: of strangers, who say nothing, the first goes. */
static struct comer *place_for(struct passing *p)
{
	struct comer *stranger = NULL;

	for (size_t i = 0; i < p->room; i++) {
		struct comer *c = &p->comers[i];

		if (c->fd < 0)
			return c;
		if (!is_known(c) &&
		    (!stranger || c->number < stranger->number))
			stranger = c;
	}
	if (stranger)
		hang_up(&stranger->fd);
	return stranger;
}

static void take_comers(struct passing *p)
{
	for (int i = 0; i < ACCEPTED_MAX; i++) {
		int fd = ddp__listen_accept(&p->pass->listener);
		struct comer *c = fd < 0 ? NULL : place_for(p);

		if (c)
			*c = (struct comer){.fd = fd, .number = p->came++};
		else if (fd >= 0)
			close(fd);
	}
}

/* Has it, or has given up. */
static void end_comer(struct passing *p, struct comer *c)
{
	hang_up(&c->fd);
	if (is_known(c) && p->left)
		p->left--;
}

static void hear(struct passing *p, struct comer *c)
{
	char more;
	ssize_t n = is_known(c)
			    ? recv(c->fd, &more, 1, MSG_DONTWAIT)
			    : recv(c->fd, c->token + c->heard,
				   sizeof(c->token) - c->heard, MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0 || is_known(c)) {
		end_comer(p, c); /* it has nothing more to say */
		return;
	}
	c->heard += (size_t)n;
	if (is_known(c) &&
	    sodium_memcmp(c->token, p->pass->token, sizeof(c->token)))
		hang_up(&c->fd);
}

static void send_to(struct passing *p, struct comer *c)
{
	ssize_t n = 0;

	while (c->sent < p->got) {
		n = send(c->fd, p->list + c->sent, p->got - c->sent,
			 MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN)
			return;
		if (n < 0)
			break;
		c->sent += (size_t)n;
		if (p->got == p->bytes)
			p->moved = clock_ms();
	}
	if (n < 0 || c->sent == p->bytes)
		end_comer(p, c);
}

static void on_comer(struct passing *p, struct comer *c, short events)
{
	if (events & (POLLIN | POLLHUP | POLLERR))
		hear(p, c);
	if (c->fd >= 0 && is_known(c))
		send_to(p, c);
}

/* ---- both ---- */

static nfds_t put_polls(const struct passing *p)
{
	const struct source *s = &p->source;
	nfds_t n = 0;

	p->polls[n++] = (struct pollfd){s->fd,
					s->connecting ? POLLOUT : POLLIN, 0};
	for (size_t i = 0; i < p->room; i++) {
		const struct comer *c = &p->comers[i];
		int more = is_known(c) && c->sent < p->got;

		p->polls[n++] = (struct pollfd){
			c->fd, (short)(more ? POLLIN | POLLOUT : POLLIN), 0};
	}
	return n + (nfds_t)ddp__listen_polls(&p->pass->listener, p->polls + n,
					     DDP__LISTEN_MAX);
}

/* Waits for what is there to do, and does it. */
static int turn(struct passing *p)
{
	int comes = p->got < p->bytes;
	uint64_t end = p->moved + (comes ? p->patience : COMERS_MS);
	uint64_t now = clock_ms();
	nfds_t n = put_polls(p);
	int rc = 0, heard = 0;

	if (now >= end && comes)
		return ask_server(p);
	if (now >= end) {
		p->left = 0;
		return 0;
	}
	if (poll(p->polls, n, (int)(end - now)) <= 0)
		return 0;
	if (p->polls[0].revents)
		rc = on_source(p);
	for (size_t i = 0; i < p->room && !rc; i++)
		if (p->comers[i].fd >= 0 && (p->polls[i + 1].revents || comes))
			on_comer(p, &p->comers[i], p->polls[i + 1].revents);
	for (nfds_t i = p->room + 1; i < n; i++)
		heard |= p->polls[i].revents;
	if (heard && !rc)
		take_comers(p);
	return rc;
}

static int find_source(struct passing *p, const struct wire_shared *told)
{
	struct source *s = &p->source;
	struct err ignored = ERR_INIT;
	char text[SOCK_HOST_MAX];
	struct endpoint at;

	memcpy(p->hash, told->hash.data, sizeof(p->hash));
	memcpy(s->token, told->token.data, sizeof(s->token));
	if (told->addr.len >= sizeof(text))
		return ask_server(p);
	memcpy(text, told->addr.data, told->addr.len);
	text[told->addr.len] = '\0';
	if (endpoint_parse(&at, text, 0, &ignored) < 0)
		return ask_server(p);
	at.port = told->port;
	s->n = sock_resolve(&at, s->at, ADDRESSES_MAX, &ignored);
	return call_source(p);
}

static int begin(struct passing *p, const struct wire_shared *told)
{
	int whole = told->values.count > 0;

	p->bytes = whole ? told->values.bytes.len : told->bytes;
	p->patience = (uint64_t)SOURCE_MS * (told->depth ? told->depth : 1);
	p->left = p->pass->listener.n ? told->comers : 0;
	p->room = p->left ? p->left + STRANGERS_MAX : 0;
	p->moved = clock_ms();
	p->list = malloc(p->bytes + 1);
	p->comers = calloc(p->room + 1, sizeof(*p->comers));
	p->polls = calloc(p->room + DDP__LISTEN_MAX + 1, sizeof(*p->polls));
	if (!p->list || !p->comers || !p->polls)
		return err_set(p->e, -ENOMEM, "ddp_init: no memory");
	for (size_t i = 0; i < p->room; i++)
		p->comers[i].fd = -1;
	if (!whole)
		return find_source(p, told);
	memcpy(p->list, told->values.bytes.data, p->bytes);
	p->got = p->bytes;
	return 0;
}

int ddp__pass_on(const struct ddp__pass *pass, struct client *c,
		 const struct wire_shared *told, uint32_t size, char **list,
		 size_t *bytes, struct err *e)
{
	struct passing p = {.pass = pass, .client = c, .size = size, .e = e,
			    .source = {.fd = -1}};
	int rc = begin(&p, told);

	while (!rc && (p.got < p.bytes || p.left))
		rc = turn(&p);
	hang_up(&p.source.fd);
	for (size_t i = 0; p.comers && i < p.room; i++)
		hang_up(&p.comers[i].fd);
	free(p.comers);
	free(p.polls);
	if (rc) {
		free(p.list);
		return rc;
	}
	*list = p.list;
	*bytes = p.bytes;
	return 0;
}
