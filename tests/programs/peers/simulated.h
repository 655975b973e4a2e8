/* simulated.h: thousands of clients of ddprdzv in one process: the socket,
 * handshake and frames of each, without the rest of ddprun or libddp. With
 * DDP_TOKEN in the environment they authenticate; without it the server needs
 * --auth none. One function sends a client's first messages. */
#ifndef TESTS_PEERS_SIMULATED_H
#define TESTS_PEERS_SIMULATED_H

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/sock.h"
#include "rendezvous/auth/client_handshake.h"

enum {
	SIM_IN = 1024,    /* the largest incomplete frame or record of a
			   * client */
	SIM_READ = 64 << 10,
	SIM_EVENTS = 512,
	/* Connections from one source address to one port: the kernel has some
	 * 28,000 ports for them, and a closed one waits a minute. */
	SIM_A_SOURCE = 10000,
};

struct sim {
	int fd, epoll;
	int greeted; /* the server's greeting has arrived */
	int over;    /* an error reply ends the program */
	uint32_t role, round, rank;
	struct cipher cipher;    /* for what follows it */
	struct handshake *proof; /* under way; NULL: none */
	struct buf later;        /* waits for the end of the handshake */
	size_t len;
	char in[SIM_IN];
};

static inline void sim_die(const char *what)
{
	fprintf(stderr, "simulated: %s: %s\n", what,
		errno ? strerror(errno) : "wrong");
	exit(1);
}

static inline void sim_send(struct sim *s, const struct buf *b)
{
	static _Thread_local struct buf sealed = BUF_INIT(1 << 20);

	if (s->proof && !s->greeted) { /* the preface is sent with HELLO */
		buf_put(&s->later, b->data, b->len);
		return;
	}
	if (s->cipher.on) {
		buf_reset(&sealed);
		cipher_seal(&s->cipher.out, SLICE(b->data, b->len), &sealed);
		b = &sealed;
	}
	if (b->failed || send(s->fd, b->data, b->len, MSG_NOSIGNAL) !=
			 (ssize_t)b->len)
		sim_die("sending");
}

/* NULL: without. */
static inline const struct auth *sim_auth(void)
{
	static struct auth auth;
	struct err e = ERR_INIT;

	if (!getenv("DDP_TOKEN"))
		return NULL;
	if (!auth.methods && auth_choose(&auth, "secret", NULL, &e) < 0)
		sim_die(e.text);
	return &auth;
}

/* The number of a connection chooses its source address: one address does not
 * have enough ports. */
static inline void sim_open(struct sim *s, const struct sockaddr_in *to,
			    uint32_t number, int epoll)
{
	struct sockaddr_in own = {.sin_family = AF_INET};
	struct epoll_event ev = {EPOLLIN, {.ptr = s}};
	int one = 1;

	own.sin_addr.s_addr = htonl(INADDR_LOOPBACK + number / SIM_A_SOURCE);
	s->epoll = epoll;
	s->len = 0;
	s->greeted = s->over = 0;
	s->proof = NULL;
	cipher_wipe(&s->cipher);
	s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (s->fd < 0)
		sim_die("a socket");
	setsockopt(s->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof(one));
	/* the first ones keep the usual source address */
	if (number >= SIM_A_SOURCE &&
	    (setsockopt(s->fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one,
			sizeof(one)) ||
	     bind(s->fd, (struct sockaddr *)&own, sizeof(own))))
		sim_die("binding");
	if (connect(s->fd, (const struct sockaddr *)to, sizeof(*to)))
		sim_die("connecting");
	epoll_ctl(epoll, EPOLL_CTL_ADD, s->fd, &ev);
}

/* Appends a client's messages before its first request. */
static inline void sim_greet_job(struct sim *s, const char *job,
				 struct buf *out)
{
	static const char nonce[WIRE_NONCE_SIZE];
	struct wire_hello hello = {
		.role = (uint8_t)s->role, .job = SLICE_STR(job),
		.host = SLICE_STR("simulated"), .round = s->round,
		.rank = s->rank, .method = WIRE_NO_PROOF,
		.nonce = SLICE(nonce, sizeof(nonce)), .proof = SLICE("", 0),
	};

	struct err e = ERR_INIT;

	buf_put(out, wire_preface, WIRE_PREFACE_SIZE);
	if (!sim_auth()) {
		wire_put_hello(out, WIRE_HELLO, WIRE_REQUEST, 1, &hello);
		return;
	}
	buf_init(&s->later, 1 << 16);
	s->proof = calloc(1, sizeof(*s->proof));
	if (!s->proof || handshake_init(s->proof, sim_auth(), &hello, &e) < 0)
		sim_die(e.text);
}

/* The greeting has arrived. */
static inline void sim_prove(struct sim *s, struct slice in)
{
	struct buf out = BUF_INIT(1 << 16);
	struct err e = ERR_INIT;

	buf_put(&out, s->later.data, WIRE_PREFACE_SIZE);
	buf_consume(&s->later, WIRE_PREFACE_SIZE);
	if (handshake_greeted(s->proof, in, &out, &e) <= 0)
		sim_die(e.text);
	sim_send(s, &out);
	buf_release(&out);
}

/* WELCOME has arrived: the server has authenticated. */
static inline void sim_welcomed(struct sim *s, struct wire_frame *f)
{
	struct wire_frame refusal;
	struct err e = ERR_INIT;

	if (handshake_welcomed(s->proof, f, &refusal, &e) != 1)
		sim_die(e.text);
	s->cipher = s->proof->cipher;
	handshake_release(s->proof);
	free(s->proof);
	s->proof = NULL;
	if (s->later.len)
		sim_send(s, &s->later);
	buf_release(&s->later);
}

static inline void sim_greet(struct sim *s, struct buf *out)
{
	sim_greet_job(s, "bench", out);
}

typedef void sim_on_frame(void *owner, struct sim *s,
			  const struct wire_frame *f);

static inline int sim_frame(struct sim *s, struct wire_frame *f, void *owner,
			    sim_on_frame *on_frame)
{
	struct wire_error error;
	struct err e = ERR_INIT;

	if (f->kind == WIRE_ERROR_REPLY && s->over)
		return 0;
	if (f->kind == WIRE_ERROR_REPLY && wire_get_error(f, &error, &e) == 0) {
		fprintf(stderr, "simulated: %.*s\n", SLICE_FMT(error.text));
		exit(1);
	}
	if (s->proof)
		sim_welcomed(s, f);
	on_frame(owner, s, f);
	return 1;
}

/* Delivers the complete frames in *in, up to the frame with the keys, and
 * leaves the rest. */
static inline int sim_frames(struct sim *s, struct slice *in, void *owner,
			     sim_on_frame *on_frame)
{
	int was_on = s->cipher.on;
	struct wire_frame f;
	struct err e = ERR_INIT;
	long n;

	while ((n = wire_cut(*in, SIM_READ, &f, &e)) > 0) {
		*in = SLICE(in->data + n, in->len - (size_t)n);
		if (!sim_frame(s, &f, owner, on_frame))
			return 0;
		if (s->cipher.on != was_on)
			return 1;
	}
	if (n < 0)
		sim_die(e.text);
	return 1;
}

/* The same for records: the server's records to these clients never cut a
 * frame. */
static inline int sim_records(struct sim *s, struct slice *in, void *owner,
			      sim_on_frame *on_frame)
{
	struct err e = ERR_INIT;
	struct slice text;
	long n;

	while ((n = cipher_size(&s->cipher.in, *in, &e)) > 0 &&
	       in->len >= (size_t)n) {
		text = SLICE(in->data + CIPHER_HEADER,
			     (size_t)n - CIPHER_EXTRA);
		if (cipher_open(&s->cipher.in, SLICE(in->data, (size_t)n),
				(char *)text.data, &e) < 0)
			sim_die(e.text);
		*in = SLICE(in->data + n, in->len - (size_t)n);
		if (!sim_frames(s, &text, owner, on_frame))
			return 0;
		if (text.len)
			sim_die("a frame in two records");
	}
	if (n < 0)
		sim_die(e.text);
	return 1;
}

static inline void sim_keep(struct sim *s, struct slice left)
{
	if (left.len > SIM_IN)
		sim_die("half a frame of more than SIM_IN");
	memcpy(s->in, left.data, left.len);
	s->len = left.len;
}

/* Reads what has arrived and delivers complete frames. An error reply ends the
 * program. 0: the server has closed. */
static inline int sim_read(struct sim *s, void *owner, sim_on_frame *on_frame)
{
	static _Thread_local char bytes[SIM_IN + SIM_READ];
	struct slice in = {bytes, s->len};
	ssize_t n = recv(s->fd, bytes + s->len, SIM_READ, 0);

	if (n <= 0)
		return 0;
	memcpy(bytes, s->in, s->len);
	in.len += (size_t)n;
	if (!s->greeted && in.len >= WIRE_GREETING_SIZE) {
		s->greeted = 1;
		if (s->proof)
			sim_prove(s, in);
		in = SLICE(in.data + WIRE_GREETING_SIZE,
			   in.len - WIRE_GREETING_SIZE);
	}
	if (s->greeted && !s->cipher.on &&
	    !sim_frames(s, &in, owner, on_frame))
		return 0;
	if (s->cipher.on && !sim_records(s, &in, owner, on_frame))
		return 0;
	sim_keep(s, in);
	return 1;
}

/* Allows as many descriptors as possible. */
static inline long sim_files(void)
{
	struct rlimit r;

	getrlimit(RLIMIT_NOFILE, &r);
	r.rlim_cur = r.rlim_max;
	setrlimit(RLIMIT_NOFILE, &r);
	return (long)r.rlim_max;
}

static inline struct sockaddr_in sim_address(const char *text)
{
	struct sockaddr_in a = {.sin_family = AF_INET};
	struct endpoint ep;
	struct err e = ERR_INIT;

	if (endpoint_parse(&ep, text, 0, &e) < 0 ||
	    inet_pton(AF_INET, ep.host, &a.sin_addr) != 1)
		sim_die(text);
	a.sin_port = htons(ep.port);
	return a;
}

/* The memory of a process, in bytes. */
static inline long sim_memory(int pid)
{
	char path[64];
	long pages = 0, skipped;
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/statm", pid);
	f = fopen(path, "r");
	if (!f || fscanf(f, "%ld %ld", &skipped, &pages) != 2)
		sim_die(path);
	fclose(f);
	return pages * sysconf(_SC_PAGESIZE);
}

/* The CPU time that a process has used. */
static inline uint64_t sim_cpu_ns(int pid)
{
	unsigned long long ns = 0;
	char path[64];
	FILE *f;

	snprintf(path, sizeof(path), "/proc/%d/schedstat", pid);
	f = fopen(path, "r");
	if (!f || fscanf(f, "%llu", &ns) != 1)
		sim_die(path);
	fclose(f);
	return ns;
}

#endif
