/* gather_relay.c: one source, several receivers. Data from the source is sealed
 * once and sent to each receiver as it arrives. The list is accepted if it has
 * the hash that the authenticated server announced. */
#include "worker-sdk/kv/gather_relay.h"

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
	STRANGERS_MAX = 16, /* connected, but have not shown the token yet */
	ACCEPTED_MAX = 8, /* per turn: all their hellos are read before one is
			   * dropped */
	/* How often a source may hang up before it has sent anything: strangers
	 * may crowd out a rank that has not sent its hello yet. */
	CROWDED_OUT_MAX = 8,
	/* A rank gives up a source that is silent for this long times the
	 * list's hops to the rank: the rank next to the source is first. */
	SOURCE_MS = 3000,
	/* Time limit for receivers that do not connect, or do not read. */
	RECEIVERS_MS = 5000,
};

/* A receiver of the list. */
struct receiver {
	int fd; /* -1: unused */
	unsigned number; /* in the order of connecting */
	size_t heard; /* bytes of the hello */
	size_t sent;
	unsigned char hello[CIPHER_RELAY_HELLO];
};

/* The bytes that receivers get: the salt, and the records under its key. */
struct sealed {
	struct cipher_way way;
	struct buf bytes;
	size_t text; /* bytes of the list sealed so far */
};

/* The rank from which this one receives the list. */
struct source {
	int fd; /* -1: none, or no longer one */
	int connecting;
	struct sock_addr at[ADDRESSES_MAX];
	int n, next;
	int crowded_out; /* times */
	char token[WIRE_TOKEN_SIZE];
	struct cipher_way way;
	struct buf raw; /* the salt, or a record: the bytes received so far */
	int salted; /* way is set */
};

struct relaying {
	const struct ddp__relay *relay;
	struct client *client;
	uint32_t size; /* values of the list */
	char *list;
	size_t bytes, got;
	char hash[WIRE_HASH_SIZE];
	struct source source;
	struct sealed out;
	struct receiver *receivers; /* room for all ranks, and strangers */
	size_t room;
	unsigned came;
	unsigned char (*known)[CIPHER_RELAY_RANDOM]; /* random parts of hellos
						   * seen */
	size_t nknown; /* at most room */
	uint32_t left; /* expected ranks that have neither received it nor given
			* up */
	uint64_t moved; /* clock_ms of the last progress */
	uint64_t patience;
	struct pollfd *polls;
	struct err *e;
};

void ddp__relay_open(struct ddp__relay *relay, const char *addr,
		    struct wire_share *m)
{
	struct err ignored = ERR_INIT;
	uint16_t port;

	relay->listener.n = 0;
	m->addr = m->token = SLICE("", 0);
	m->port = 0;
	if (!addr ||
	    random_bytes(relay->token, sizeof(relay->token), &ignored) < 0 ||
	    ddp__listen(&relay->listener, addr, &port, &ignored) < 0)
		return;
	m->addr = SLICE(addr, strcspn(addr, "%")); /* no scope */
	m->port = port;
	m->token = SLICE(relay->token, sizeof(relay->token));
}

void ddp__relay_close(struct ddp__relay *relay)
{
	ddp__listen_close(&relay->listener);
	sodium_memzero(relay->token, sizeof(relay->token));
}

/* ---- the bytes for the receivers ---- */

static void relay_hang_up(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static int relay_is_known(const struct receiver *c)
{
	return c->heard == sizeof(c->hello);
}

/* For a receiver that has the list, or has given up. */
static void relay_end_receiver(struct relaying *p, struct receiver *c)
{
	relay_hang_up(&c->fd);
	if (relay_is_known(c) && p->left)
		p->left--;
}

/* Starts with a fresh salt, so that no key ever seals two texts as the same
 * record. */
static int relay_start_sealing(struct relaying *p)
{
	unsigned char salt[CIPHER_RELAY_RANDOM];
	int rc = random_bytes(salt, sizeof(salt), p->e);

	if (rc < 0)
		return rc;
	cipher_relay_way(&p->out.way, p->relay->token, salt);
	p->out.text = 0;
	buf_reset(&p->out.bytes);
	buf_put(&p->out.bytes, salt, sizeof(salt));
	return 0;
}

/* Seals the bytes that have arrived since, in full records; at the end of the
 * list, the rest as well. */
static int relay_seal_more(struct relaying *p)
{
	size_t n = p->got - p->out.text;

	if (!p->room)
		return 0;
	if (p->got < p->bytes)
		n -= n % CIPHER_TEXT_MAX;
	cipher_seal(&p->out.way, SLICE(p->list + p->out.text, n),
		    &p->out.bytes);
	p->out.text += n;
	if (p->out.bytes.failed)
		return err_no_memory(p->e, "ddp_init");
	return 0;
}

/* The bytes relayed so far were wrong. Receivers that have begun to read them
 * are disconnected and ask the server; later ones get the right list from its
 * start. */
static int relay_seal_again(struct relaying *p)
{
	for (size_t i = 0; i < p->room; i++)
		if (p->receivers[i].fd >= 0 && p->receivers[i].sent)
			relay_end_receiver(p, &p->receivers[i]);
	return p->room ? relay_start_sealing(p) : 0;
}

/* ---- the source ---- */

/* No rank relays to this one: the server sends the list, or reports why it
 * cannot. */
static int relay_ask_server(struct relaying *p)
{
	struct slice whole;
	int rc;

	relay_hang_up(&p->source.fd);
	rc = client_whole(p->client, p->size, &whole, p->e);
	if (rc < 0)
		return rc;
	if (whole.len != p->bytes)
		return err_set(p->e, ERR_PROTOCOL,
			       "ddp_init: the server's list has %zu bytes, not "
			       "the announced %zu", whole.len, p->bytes);
	if (memcmp(p->list, whole.data, p->got))
		rc = relay_seal_again(p);
	if (rc < 0)
		return rc;
	memcpy(p->list, whole.data, whole.len);
	p->got = p->bytes;
	p->moved = clock_ms();
	return relay_seal_more(p);
}

/* Starts a connection to the next of the source's addresses. */
static int relay_connect_source(struct relaying *p)
{
	struct source *s = &p->source;

	relay_hang_up(&s->fd);
	while (s->next < s->n) {
		int fd = sock_begin_connect(&s->at[s->next++]);

		if (fd < 0)
			continue;
		s->fd = fd;
		s->connecting = 1;
		return 0;
	}
	return relay_ask_server(p);
}

static int relay_on_connected(struct relaying *p)
{
	struct source *s = &p->source;
	unsigned char hello[CIPHER_RELAY_HELLO];
	socklen_t size = sizeof(int);
	int error = 0, rc = cipher_relay_hello(hello, s->token, p->e);

	if (rc < 0)
		return rc;
	s->connecting = 0;
	getsockopt(s->fd, SOL_SOCKET, SO_ERROR, &error, &size);
	/* a fresh socket takes the whole hello */
	if (error || send(s->fd, hello, sizeof(hello),
			  MSG_DONTWAIT | MSG_NOSIGNAL) != sizeof(hello))
		return relay_connect_source(p);
	return 0;
}

static int relay_is_valid(const struct relaying *p)
{
	unsigned char hash[WIRE_HASH_SIZE];

	crypto_generichash(hash, sizeof(hash), (const unsigned char *)p->list,
			   p->bytes, NULL, 0);
	return !memcmp(hash, p->hash, sizeof(hash));
}

static int relay_is_crowded_out(struct relaying *p, ssize_t n)
{
	return !p->got && !p->source.salted && !p->source.raw.len &&
	       (!n || errno == ECONNRESET) &&
	       p->source.crowded_out++ < CROWDED_OUT_MAX;
}

/* Opens the record that raw begins with. Returns its size; 0: it is incomplete;
 * ERR_REMOTE: it is invalid, or longer than the list. */
static long relay_open_record(struct relaying *p, struct slice raw)
{
	struct source *s = &p->source;
	struct err ignored = ERR_INIT;
	long n = cipher_size(&s->way, raw, &ignored);

	if (n <= 0 || raw.len < (size_t)n)
		return n < 0 ? n : 0;
	if ((size_t)n - CIPHER_EXTRA > p->bytes - p->got ||
	    cipher_open(&s->way, SLICE(raw.data, (size_t)n), p->list + p->got,
			&ignored) < 0)
		return ERR_REMOTE;
	p->got += (size_t)n - CIPHER_EXTRA;
	p->moved = clock_ms();
	return n;
}

/* Takes the complete records from raw: 0, or ERR_REMOTE. */
static int relay_read_records(struct relaying *p)
{
	struct source *s = &p->source;
	size_t used = 0;
	long n = 1;

	if (!s->salted && s->raw.len >= CIPHER_RELAY_RANDOM) {
		cipher_relay_way(&s->way, s->token, s->raw.data);
		s->salted = 1;
		used = CIPHER_RELAY_RANDOM;
	}
	while (s->salted && n > 0 && p->got < p->bytes) {
		n = relay_open_record(p, SLICE(s->raw.data + used,
					       s->raw.len - used));
		used += n > 0 ? (size_t)n : 0;
	}
	buf_consume(&s->raw, used);
	return n < 0 ? (int)n : 0;
}

static int relay_on_source(struct relaying *p)
{
	struct source *s = &p->source;
	ssize_t n;

	if (s->connecting)
		return relay_on_connected(p);
	/* raw always has room: complete records are removed */
	n = recv(s->fd, s->raw.data + s->raw.len, s->raw.cap - s->raw.len,
		 MSG_DONTWAIT);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0 && relay_is_crowded_out(p, n)) {
		s->next = 0;
		return relay_connect_source(p);
	}
	s->raw.len += n > 0 ? (size_t)n : 0;
	if (n <= 0 || relay_read_records(p) < 0)
		return relay_ask_server(p);
	if (p->got < p->bytes)
		return relay_seal_more(p);
	relay_hang_up(&s->fd);
	return relay_is_valid(p) ? relay_seal_more(p) : relay_ask_server(p);
}

/* ---- receivers ---- */

/* The slot for the next connection. If all are taken, drops the oldest
 * connection that has not proved itself. */
static struct receiver *relay_place_for(struct relaying *p)
{
	struct receiver *stranger = NULL;

	for (size_t i = 0; i < p->room; i++) {
		struct receiver *c = &p->receivers[i];

		if (c->fd < 0)
			return c;
		if (!relay_is_known(c) &&
		    (!stranger || c->number < stranger->number))
			stranger = c;
	}
	if (stranger)
		relay_hang_up(&stranger->fd);
	return stranger;
}

static void relay_accept(struct relaying *p)
{
	for (int i = 0; i < ACCEPTED_MAX; i++) {
		int fd = ddp__listen_accept(&p->relay->listener);
		struct receiver *c = fd < 0 ? NULL : relay_place_for(p);

		if (c)
			*c = (struct receiver){.fd = fd, .number = p->came++};
		else if (fd >= 0)
			close(fd);
	}
}

/* 1 if the hello is valid and new. A copy of an earlier hello is refused. */
static int relay_is_welcome(struct relaying *p, const struct receiver *c)
{
	if (p->nknown == p->room ||
	    !cipher_is_relay_hello(c->hello, p->relay->token))
		return 0;
	for (size_t i = 0; i < p->nknown; i++)
		if (!memcmp(p->known[i], c->hello, CIPHER_RELAY_RANDOM))
			return 0;
	memcpy(p->known[p->nknown++], c->hello, CIPHER_RELAY_RANDOM);
	return 1;
}

static void relay_read_hello(struct relaying *p, struct receiver *c)
{
	char more;
	ssize_t n = relay_is_known(c)
			    ? recv(c->fd, &more, 1, MSG_DONTWAIT)
			    : recv(c->fd, c->hello + c->heard,
				   sizeof(c->hello) - c->heard, MSG_DONTWAIT);

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return;
	if (n <= 0 || relay_is_known(c)) {
		relay_end_receiver(p, c); /* nothing follows a hello */
		return;
	}
	c->heard += (size_t)n;
	if (relay_is_known(c) && !relay_is_welcome(p, c))
		relay_hang_up(&c->fd);
}

static void relay_send_to(struct relaying *p, struct receiver *c)
{
	const struct buf *out = &p->out.bytes;
	ssize_t n = 0;

	while (c->sent < out->len) {
		n = send(c->fd, out->data + c->sent, out->len - c->sent,
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
	if (n < 0 || p->out.text == p->bytes)
		relay_end_receiver(p, c);
}

static void relay_on_receiver(struct relaying *p, struct receiver *c,
			      short events)
{
	if (events & (POLLIN | POLLHUP | POLLERR))
		relay_read_hello(p, c);
	if (c->fd >= 0 && relay_is_known(c))
		relay_send_to(p, c);
}

/* ---- source and receivers ---- */

static nfds_t relay_add_polls(const struct relaying *p)
{
	const struct source *s = &p->source;
	nfds_t n = 0;

	p->polls[n++] = (struct pollfd){s->fd,
					s->connecting ? POLLOUT : POLLIN, 0};
	for (size_t i = 0; i < p->room; i++) {
		const struct receiver *c = &p->receivers[i];
		int more = relay_is_known(c) && c->sent < p->out.bytes.len;

		p->polls[n++] = (struct pollfd){
			c->fd, (short)(more ? POLLIN | POLLOUT : POLLIN), 0};
	}
	return n + (nfds_t)ddp__listen_polls(&p->relay->listener, p->polls + n,
					     DDP__LISTEN_MAX);
}

/* Waits for events and handles them. */
static int relay_turn(struct relaying *p)
{
	int comes = p->got < p->bytes;
	uint64_t end = p->moved + (comes ? p->patience : RECEIVERS_MS);
	uint64_t now = clock_ms();
	nfds_t n = relay_add_polls(p);
	int rc = 0, heard = 0;

	if (now >= end && comes)
		return relay_ask_server(p);
	if (now >= end) {
		p->left = 0;
		return 0;
	}
	if (poll(p->polls, n, (int)(end - now)) <= 0)
		return 0;
	if (p->polls[0].revents)
		rc = relay_on_source(p);
	for (size_t i = 0; i < p->room && !rc; i++)
		if (p->receivers[i].fd >= 0 &&
		    (p->polls[i + 1].revents || comes))
			relay_on_receiver(p, &p->receivers[i],
					  p->polls[i + 1].revents);
	for (nfds_t i = p->room + 1; i < n; i++)
		heard |= p->polls[i].revents;
	if (heard && !rc)
		relay_accept(p);
	return rc;
}

static int relay_find_source(struct relaying *p,
			     const struct wire_shared *answer)
{
	struct source *s = &p->source;
	struct err ignored = ERR_INIT;
	char text[SOCK_HOST_MAX];
	struct endpoint at;

	memcpy(p->hash, answer->hash.data, sizeof(p->hash));
	memcpy(s->token, answer->token.data, sizeof(s->token));
	if (answer->addr.len >= sizeof(text))
		return relay_ask_server(p);
	memcpy(text, answer->addr.data, answer->addr.len);
	text[answer->addr.len] = '\0';
	if (endpoint_parse(&at, text, 0, &ignored) < 0)
		return relay_ask_server(p);
	at.port = answer->port;
	s->n = sock_resolve(&at, s->at, ADDRESSES_MAX, &ignored);
	return relay_connect_source(p);
}

/* 0 or -ENOMEM. */
static int relay_make_room(struct relaying *p)
{
	p->list = malloc(p->bytes + 1);
	p->receivers = calloc(p->room + 1, sizeof(*p->receivers));
	p->known = calloc(p->room + 1, sizeof(*p->known));
	p->polls = calloc(p->room + DDP__LISTEN_MAX + 1, sizeof(*p->polls));
	buf_init(&p->out.bytes,
		 CIPHER_RELAY_RANDOM + CIPHER_SEALED_MAX(p->bytes));
	buf_init(&p->source.raw, 2 * CIPHER_RECORD_MAX);
	for (size_t i = 0; p->receivers && i < p->room; i++)
		p->receivers[i].fd = -1;
	if (!p->list || !p->receivers || !p->known || !p->polls ||
	    !buf_reserve(&p->source.raw, 2 * CIPHER_RECORD_MAX))
		return err_no_memory(p->e, "ddp_init");
	return 0;
}

static int relay_begin(struct relaying *p, const struct wire_shared *answer)
{
	int whole = answer->values.count > 0, rc;

	p->bytes = whole ? answer->values.bytes.len : answer->bytes;
	p->patience = (uint64_t)SOURCE_MS * (answer->depth ? answer->depth : 1);
	p->left = p->relay->listener.n ? answer->comers : 0;
	p->room = p->left ? p->left + STRANGERS_MAX : 0;
	p->moved = clock_ms();
	rc = relay_make_room(p);
	if (!rc && p->room)
		rc = relay_start_sealing(p);
	if (rc < 0)
		return rc;
	if (!whole)
		return relay_find_source(p, answer);
	memcpy(p->list, answer->values.bytes.data, p->bytes);
	p->got = p->bytes;
	return relay_seal_more(p);
}

static void relay_release(struct relaying *p)
{
	relay_hang_up(&p->source.fd);
	for (size_t i = 0; p->receivers && i < p->room; i++)
		relay_hang_up(&p->receivers[i].fd);
	free(p->receivers);
	free(p->known);
	free(p->polls);
	buf_release(&p->out.bytes);
	buf_release(&p->source.raw);
	sodium_memzero(p, sizeof(*p));
}

int ddp__relay_on(const struct ddp__relay *relay, struct client *c,
		 const struct wire_shared *answer, uint32_t size, char **list,
		 size_t *bytes, struct err *e)
{
	struct relaying p = {.relay = relay, .client = c, .size = size, .e = e,
			    .source = {.fd = -1}};
	int rc = relay_begin(&p, answer);

	while (!rc && (p.got < p.bytes || p.left))
		rc = relay_turn(&p);
	if (rc) {
		free(p.list);
	} else {
		*list = p.list;
		*bytes = p.bytes;
	}
	relay_release(&p);
	return rc;
}
