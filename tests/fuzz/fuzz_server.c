/* fuzz_server.c: a whole server in this process, with a loop and real sockets.
 * The agent of a running job, two of its workers, a tool and four strangers
 * send the input (server_input.h) in parts, and close or reset their
 * connections. Authenticated clients encrypt each segment as a record, unless
 * it has AS_IT_IS. Finds crashes, leaks, connections that do not end, replies
 * that are not frames, and a job that does not begin. */
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/sock.h"
#include "rendezvous/auth/auth.h"
#include "rendezvous/auth/client_handshake.h"
#include "rendezvous/daemon/daemon.h"
#include "rendezvous/wire.h"
#include "tests/fuzz/server_input.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct client {
	int fd; /* -1: not connected */
	struct buf in;
	int greeted;
	struct cipher cipher;
	struct buf records; /* received; the last record is incomplete */
};

static struct client clients[CLIENTS];
static int has_started; /* the agent has received START */
static struct sock_addr at;
static uv_loop_t loop;
static struct auth auth;

static void require(int ok)
{
	if (!ok)
		abort();
}

/* ---- what a client receives ---- */

/* The length of the first frame. */
static long check_reply(const struct client *c, struct slice in)
{
	struct wire_frame f;
	struct err e = ERR_INIT;
	long n = wire_cut(in, WIRE_BODY_MAX, &f, &e);

	require(n >= 0);
	if (n > 0 && c == &clients[AGENT] && f.type == WIRE_START)
		has_started = 1;
	return n;
}

static void check_replies(struct client *c)
{
	struct slice in = SLICE(c->in.data, c->in.len);
	struct err e = ERR_INIT;
	unsigned methods;
	long n = WIRE_GREETING_SIZE;

	if (!c->greeted && in.len < WIRE_GREETING_SIZE)
		return;
	if (!c->greeted)
		require(wire_get_greeting(in, &methods, &e) == 1);
	else
		n = 0;
	c->greeted = 1;
	do {
		in.data += n;
		in.len -= (size_t)n;
	} while ((n = check_reply(c, in)) > 0);
	buf_consume(&c->in, c->in.len - in.len);
}

static void open_records(struct client *c)
{
	struct err e = ERR_INIT;

	if (c->cipher.on)
		require(cipher_take(&c->cipher.in, &c->records, &c->in,
				    &e) == 0);
}

static void receive(struct client *c)
{
	struct buf *in = c->cipher.on ? &c->records : &c->in;
	ssize_t n = 1;
	char *to;

	while (c->fd >= 0 && n > 0) {
		to = buf_reserve(in, 65536);
		require(to != NULL);
		n = recv(c->fd, to, 65536, MSG_DONTWAIT);
		if (n > 0)
			in->len += (size_t)n;
	}
	open_records(c);
}

static void hear(struct client *c)
{
	receive(c);
	check_replies(c);
}

/* Delivers all that is under way: loopback is immediate. */
static void settle(void)
{
	for (int i = 0; i < 3; i++)
		uv_run(&loop, UV_RUN_NOWAIT);
	for (int i = 0; i < CLIENTS; i++)
		hear(&clients[i]);
}

/* ---- what a client sends ---- */

static void hang_up(struct client *c, int reset)
{
	struct linger none = {.l_onoff = 1, .l_linger = 0};

	if (c->fd < 0)
		return;
	if (reset)
		setsockopt(c->fd, SOL_SOCKET, SO_LINGER, &none, sizeof(none));
	close(c->fd);
	c->fd = -1;
	c->greeted = 0;
	buf_release(&c->in);
	buf_release(&c->records);
	cipher_wipe(&c->cipher);
}

static void say(struct client *c, const void *p, size_t n)
{
	if (c->fd >= 0 && n)
		(void)!send(c->fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void say_sealed(struct client *c, const void *p, size_t n)
{
	struct buf b = BUF_INIT(1 << 16);

	if (c->cipher.on) {
		cipher_seal(&c->cipher.out, SLICE(p, n), &b);
		say(c, b.data, b.len);
	} else {
		say(c, p, n);
	}
	buf_release(&b);
}

static void await_bytes(struct client *c)
{
	uv_run(&loop, UV_RUN_NOWAIT);
	receive(c);
}

/* From the preface to the server's answer, which has the keys. */
static void prove(struct client *c, const struct wire_hello *hello)
{
	struct buf out = BUF_INIT(1 << 16);
	struct wire_frame f, refusal;
	struct err e = ERR_INIT;
	struct handshake h;
	long n = 0;

	require(handshake_init(&h, &auth, hello, &e) == 0);
	buf_put(&out, wire_preface, WIRE_PREFACE_SIZE);
	for (int i = 0; i < 100 && n == 0; i++) {
		await_bytes(c);
		n = handshake_greeted(&h, SLICE(c->in.data, c->in.len), &out,
				      &e);
	}
	require(n >= 0);
	buf_consume(&c->in, (size_t)n);
	c->greeted = n > 0;
	say(c, out.data, n > 0 ? out.len : 0);
	for (int i = 0; i < 100; i++) {
		await_bytes(c);
		n = wire_cut(SLICE(c->in.data, c->in.len), WIRE_WELCOME_MAX,
			     &f, &e);
		if (n > 0)
			break;
	}
	if (n > 0 && handshake_welcomed(&h, &f, &refusal, &e) == 1) {
		buf_consume(&c->in, (size_t)n);
		c->cipher = h.cipher;
		buf_put(&c->records, c->in.data, c->in.len);
		buf_reset(&c->in);
		open_records(c);
	}
	handshake_release(&h);
	buf_release(&out);
}

/* An unauthenticated client need not wait for the greeting. */
static void greet(struct client *c, int role, uint32_t rank)
{
	static const char nonce[WIRE_NONCE_SIZE];
	struct wire_hello hello = {(uint8_t)role, SLICE_STR("j"),
				   SLICE_STR("h"), 0, rank, 1, WIRE_NO_PROOF,
				   SLICE(nonce, sizeof(nonce)), SLICE_STR("")};
	struct wire_join join = {
		.node_id = SLICE_STR("n"), .host = SLICE_STR("h"),
		.addr = SLICE_STR("10.0.0.1"), .node_rank = -1,
		.min_nodes = 1, .max_nodes = 2, .nproc = 3, .max_restarts = 2,
		.role = SLICE_STR("r"), .lease_ms = 3600000};
	struct buf b = BUF_INIT(4096);

	if (auth.methods == WIRE_BY_SECRET) {
		prove(c, &hello);
	} else {
		buf_put(&b, wire_preface, WIRE_PREFACE_SIZE);
		wire_put_hello(&b, WIRE_HELLO, WIRE_REQUEST, 1, &hello);
	}
	if (role == WIRE_AGENT)
		wire_put_join(&b, WIRE_JOIN, WIRE_REQUEST, 2, &join);
	say_sealed(c, b.data, b.len);
	buf_release(&b);
}

/* libFuzzer's timer may interrupt it; then it continues. */
static int is_connected(int fd)
{
	struct pollfd p = {fd, POLLOUT, 0};

	if (connect(fd, (struct sockaddr *)&at.ss, at.len) == 0)
		return 1;
	if (errno != EINTR)
		return 0;
	while (poll(&p, 1, -1) < 0)
		;
	return p.revents == POLLOUT;
}

static void dial(int i)
{
	struct client *c = &clients[i];

	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	require(c->fd >= 0 && is_connected(c->fd));
	if (i == AGENT)
		greet(c, WIRE_AGENT, 0);
	else if (i < TOOL)
		greet(c, WIRE_WORKER, (uint32_t)(i - WORKERS));
	else if (i == TOOL)
		greet(c, WIRE_TOOL, 0);
	else if (i < CLIENTS - 2) /* the server greets first */
		say(c, wire_preface, WIRE_PREFACE_SIZE);
}

static void play(const uint8_t *data, size_t size)
{
	while (size >= 2) {
		struct client *c = &clients[data[0] & WHOSE];
		size_t n = data[1] < size - 2 ? data[1] : size - 2;

		if (c->fd < 0)
			dial(data[0] & WHOSE);
		settle();
		if (data[0] & AS_IT_IS)
			say(c, data + 2, n);
		else
			say_sealed(c, data + 2, n);
		if (data[0] & (CLOSES | RESETS)) {
			if (data[0] & CLOSES)
				settle();
			hang_up(c, data[0] & RESETS);
		}
		settle();
		data += 2 + n;
		size -= 2 + n;
	}
}

/* ---- its life ---- */

/* The server leaves these to its parent, which is the fuzzer here. */
static void with_signals(void (*f)(void *), void *arg)
{
	static const int numbers[] = {SIGINT, SIGTERM, SIGALRM, SIGHUP,
				      SIGUSR1, SIGUSR2, SIGXFSZ};
	enum { N = sizeof(numbers) / sizeof(*numbers) };
	struct sigaction old[N];

	for (int i = 0; i < N; i++)
		sigaction(numbers[i], NULL, &old[i]);
	f(arg);
	for (int i = 0; i < N; i++)
		sigaction(numbers[i], &old[i], NULL);
}

static struct server *server;

static void start(void *options)
{
	struct err e = ERR_INIT;

	require(daemon_new(&server, &loop, options, &e) == 0);
}

/* Without it, inputs would reach little of the server. */
static void start_job(void)
{
	dial(AGENT);
	for (int i = 0; i < 1000 && !has_started; i++)
		settle();
	require(has_started);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct proof secret;
	struct daemon_options o = {.lease_ms = 3600000, .hello_ms = 3600000,
				   .silent_ms = 60000, .auth = &auth,
				   .max_connections = 64, .max_jobs = 4,
				   .max_keys = 1000, .max_bytes = 1 << 20,
				   .accounts = {.job_bytes = 1 << 24,
						.tenant_bytes = 1 << 24,
						.tenant_jobs = 4,
						.tenant_connections = 64},
				   .idle_ms = 3600000};
	struct err e = ERR_INIT;
	int parent[2], fd;

	auth_none(&auth);
	if (size & 1)
		auth_of_secret(&auth, &secret, "the fuzzer");
	at.len = sizeof(struct sockaddr_in);
	*(struct sockaddr_in *)&at.ss = (struct sockaddr_in){
		.sin_family = AF_INET, .sin_addr = {htonl(INADDR_LOOPBACK)}};
	fd = sock_listen(&at, &e);
	o.listen_fds = &fd;
	o.listeners = 1;
	require(fd >= 0 && pipe2(parent, O_CLOEXEC) == 0);
	o.parent_fd = parent[0];
	require(uv_loop_init(&loop) == 0);
	with_signals(start, &o);
	for (int i = 0; i < CLIENTS; i++) {
		clients[i] = (struct client){.fd = -1};
		buf_init(&clients[i].in, 1 << 26);
		buf_init(&clients[i].records, 1 << 26);
	}
	has_started = 0;
	start_job();
	play(data, size);
	for (int i = 0; i < CLIENTS; i++)
		hang_up(&clients[i], i & 1);
	settle();
	close(parent[1]);
	daemon_run(server);
	daemon_free(server);
	require(uv_loop_close(&loop) == 0);
	return 0;
}
