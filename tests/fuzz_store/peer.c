/* peer.c: HELLO with a session, or PyTorch's VALIDATE; blocking sockets. */
#include "tests/fuzz_store/peer.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "rendezvous/auth/client_handshake.h"

enum { ANSWER_S = 20, CONNECT_MS = 2000, READ = 64 << 10, MOST = 32 << 20 };

int job_place_find(struct job_place *p, struct err *e)
{
	const char *at = getenv("DDP_RDZV_ENDPOINT"), *round;
	const char *host = getenv("MASTER_ADDR"), *port = getenv("MASTER_PORT");

	p->job = getenv("DDP_JOB_ID");
	round = getenv("DDP_ROUND");
	if (!at || !host || !port || !p->job || !round ||
	    endpoint_parse(&p->ours, at, 0, e) < 0)
		return err_set(e, ERR_USAGE, "it is to be started by ddprun: "
			       "see tests/fuzz_store/run");
	snprintf(p->torch.host, sizeof(p->torch.host), "%s", host);
	p->torch.port = (uint16_t)atoi(port);
	p->round = (uint32_t)atoi(round);
	return auth_of_key(&p->auth, getenv("DDP_JOB_KEY"), e);
}

void peer_init(struct peer *p, uint8_t number, int torch, uint64_t session)
{
	*p = (struct peer){.number = number, .torch = torch, .fd = -1,
			   .session = session, .id = 1};
	buf_init(&p->in, MOST);
	buf_init(&p->records, MOST);
	buf_init(&p->out, MOST);
}

void peer_release(struct peer *p)
{
	peer_close(p);
	buf_release(&p->in);
	buf_release(&p->records);
	buf_release(&p->out);
}

void peer_close(struct peer *p)
{
	if (p->fd >= 0)
		close(p->fd);
	p->fd = -1;
	buf_reset(&p->in);
	buf_reset(&p->records);
	cipher_wipe(&p->cipher);
}

static int send_all(int fd, const char *data, size_t n)
{
	ssize_t sent;

	while (n) {
		sent = send(fd, data, n, MSG_NOSIGNAL);
		if (sent < 0 && errno != EINTR)
			return -1;
		if (sent > 0) {
			data += sent;
			n -= (size_t)sent;
		}
	}
	return 0;
}

int peer_send(struct peer *p, size_t n)
{
	struct buf sealed = BUF_INIT(CIPHER_SEALED_MAX(n));
	int rc;

	if (!p->cipher.on)
		return send_all(p->fd, p->out.data, n);
	cipher_seal(&p->cipher.out, SLICE(p->out.data, n), &sealed);
	rc = sealed.failed ? -1 : send_all(p->fd, sealed.data, sealed.len);
	buf_release(&sealed);
	return rc;
}

static int open_records(struct peer *p)
{
	struct err e = ERR_INIT;

	return cipher_take(&p->cipher.in, &p->records, &p->in, &e);
}

int peer_receive(struct peer *p)
{
	struct buf *in = p->cipher.on ? &p->records : &p->in;
	char *to = buf_reserve(in, READ);
	ssize_t n;

	do
		n = to ? recv(p->fd, to, READ, 0) : 0;
	while (n < 0 && errno == EINTR);
	if (n <= 0)
		return -1;
	in->len += (size_t)n;
	if (p->cipher.on && open_records(p) < 0)
		return -1;
	return 1;
}

/* ---- being let in ---- */

static int enter_ours(struct peer *p, const struct job_place *at)
{
	const struct wire_hello hello = {
		.role = WIRE_WORKER, .job = SLICE_STR(at->job),
		.host = SLICE_STR("fuzz"), .round = at->round,
		.rank = p->number, .session = p->session};
	struct buf out = BUF_INIT(1 << 16);
	struct wire_frame f, refusal;
	struct err e = ERR_INIT;
	struct handshake h;
	long n = handshake_init(&h, &at->auth, &hello, &e);
	int rc = -1;

	buf_put(&out, wire_preface, WIRE_PREFACE_SIZE);
	while (n == 0 && peer_receive(p) > 0)
		n = handshake_greeted(&h, SLICE(p->in.data, p->in.len), &out,
				      &e);
	if (n <= 0 || send_all(p->fd, out.data, out.len) < 0)
		goto out;
	buf_consume(&p->in, (size_t)n);
	while ((n = wire_cut(SLICE(p->in.data, p->in.len), WIRE_WELCOME_MAX,
			     &f, &e)) == 0)
		if (peer_receive(p) < 0)
			goto out;
	if (n > 0 && handshake_welcomed(&h, &f, &refusal, &e) == 1) {
		buf_consume(&p->in, (size_t)n);
		p->cipher = h.cipher;
		buf_put(&p->records, p->in.data, p->in.len);
		buf_reset(&p->in);
		rc = p->cipher.on ? open_records(p) : 0;
	}
out:
	handshake_release(&h);
	buf_release(&out);
	return rc;
}

/* VALIDATE, and a PING: its answer shows that the agent has vouched for us. */
static int enter_torch(struct peer *p)
{
	static const char hello[] = "\0\xce\xf7\x85\x3c\x0dping";

	if (send_all(p->fd, hello, sizeof(hello) - 1) < 0)
		return -1;
	while (p->in.len < 4)
		if (peer_receive(p) < 0)
			return -1;
	if (memcmp(p->in.data, "ping", 4))
		return -1;
	buf_consume(&p->in, 4);
	return 0;
}

int peer_open(struct peer *p, const struct job_place *at)
{
	const struct timeval patience = {.tv_sec = ANSWER_S};
	struct err e = ERR_INIT;
	struct sock_addr a;

	peer_close(p);
	if (sock_resolve(p->torch ? &at->torch : &at->ours, &a, 1, &e) < 0)
		return -1;
	p->fd = sock_connect(&a, CONNECT_MS, &e);
	if (p->fd < 0) {
		p->fd = -1;
		return -1;
	}
	setsockopt(p->fd, SOL_SOCKET, SO_RCVTIMEO, &patience,
		   sizeof(patience));
	if ((p->torch ? enter_torch(p) : enter_ours(p, at)) == 0)
		return 0;
	peer_close(p);
	return -1;
}
