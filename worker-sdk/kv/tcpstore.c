/* tcpstore.c: a connection to PyTorch's TCPStore, after
 * torch/csrc/distributed/c10d/TCPStore.cpp. */
#include "worker-sdk/kv/tcpstore.h"

#include <errno.h>
#include <poll.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"

enum { ADDRS_MAX = 8, RETRY_MS = 100, OUT_MAX = 32 << 20 };

/* ---- bytes ---- */

static int tcpstore_left_ms(uint64_t deadline)
{
	uint64_t now = clock_ms();

	if (deadline == UINT64_MAX)
		return -1;
	return deadline <= now		      ? 0
	       : deadline - now > 1 << 30 ? 1 << 30
					      : (int)(deadline - now);
}

static uint64_t tcpstore_deadline(int ms)
{
	return ms < 0 ? UINT64_MAX : clock_ms() + (uint64_t)ms;
}

/* A connection that failed stays closed: its state is unknown. */
int ddp__torch_broke(struct ddp__torch *s, int code, const char *what,
		     struct err *e)
{
	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
	return err_set(e, code, "PyTorch's store at %s: %s", s->at, what);
}

static int tcpstore_wait_for(struct ddp__torch *s, short events,
			     uint64_t deadline, struct err *e)
{
	struct pollfd p = {s->fd, events, 0};
	int rc;

	do {
		rc = poll(&p, 1, tcpstore_left_ms(deadline));
		if (rc < 0 && errno != EINTR)
			return ddp__torch_broke(s, -errno, strerror(errno), e);
	} while (rc < 0 || (rc == 0 && tcpstore_left_ms(deadline)));
	return rc > 0 ? 0 : ERR_TIMEOUT;
}

int ddp__torch_send(struct ddp__torch *s, struct err *e)
{
	uint64_t deadline = tcpstore_deadline(DDP__TORCH_ANSWER_MS);
	size_t sent = 0;
	ssize_t n;

	if (s->fd < 0)
		return err_set(e, ERR_REMOTE,
			       "PyTorch's store at %s: the connection was lost "
			       "earlier",
			       s->at);
	if (s->out.failed)
		return err_set(e, s->out.failed,
			       "PyTorch's store at %s: the request is too "
			       "large, or memory ran out",
			       s->at);
	while (sent < s->out.len) {
		n = send(s->fd, s->out.data + sent, s->out.len - sent,
			 MSG_DONTWAIT | MSG_NOSIGNAL);
		if (n >= 0)
			sent += (size_t)n;
		else if (errno == EAGAIN &&
			 tcpstore_wait_for(s, POLLOUT, deadline, e))
			return ddp__torch_broke(
				s, ERR_TIMEOUT,
				"it does not read our request; is it stopped?",
				e);
		else if (errno != EAGAIN && errno != EINTR)
			return ddp__torch_broke(s, -errno, strerror(errno), e);
	}
	return 0;
}

/* Receives all of size bytes. ERR_TIMEOUT with nothing read leaves the
 * connection as it is; the caller sets the text. */
int ddp__torch_receive(struct ddp__torch *s, void *to, size_t size,
		   uint64_t deadline, struct err *e)
{
	size_t got = 0;
	ssize_t n;
	int rc;

	while (got < size) {
		n = recv(s->fd, (char *)to + got, size - got, MSG_DONTWAIT);
		if (n > 0) {
			got += (size_t)n;
			continue;
		}
		if (n == 0)
			return ddp__torch_broke(
				s, ERR_REMOTE,
				"it closed the connection; has the agent that "
				"hosts it ended?",
				e);
		if (errno == EINTR)
			continue;
		if (errno != EAGAIN)
			return ddp__torch_broke(s, -errno, strerror(errno), e);
		rc = tcpstore_wait_for(s, POLLIN, deadline, e);
		if (rc == ERR_TIMEOUT && got)
			return ddp__torch_broke(s, rc,
						"its reply stopped halfway", e);
		if (rc)
			return rc;
	}
	return 0;
}

/* Receives an answer that the store sends at once. */
int ddp__torch_answer(struct ddp__torch *s, void *to, size_t size,
		      struct err *e)
{
	uint64_t deadline = tcpstore_deadline(DDP__TORCH_ANSWER_MS);
	int rc = ddp__torch_receive(s, to, size, deadline, e);

	return rc == ERR_TIMEOUT && s->fd >= 0
		       ? ddp__torch_broke(s, rc, "no answer; is it stopped?",
					  e)
		       : rc;
}

/* ---- opening and closing ---- */

static int tcpstore_connect_any(struct ddp__torch *s, int timeout_ms,
				struct err *e)
{
	struct sock_addr addrs[ADDRS_MAX];
	int n = sock_resolve(&s->where, addrs, ADDRS_MAX, e), rc = n;

	for (int i = 0; i < n && s->fd < 0; i++)
		rc = s->fd = sock_connect(&addrs[i], timeout_ms, e);
	return rc < 0 ? rc : 0;
}

/* Finds out the store's generation. 2.2 and later read these bytes as VALIDATE
 * and four CANCEL_WAITs, and answer each with 1. 1.13 reads them as a SET whose
 * key has 10^18 bytes, and closes the connection. */
static int tcpstore_ask_generation(struct ddp__torch *s, uint64_t deadline,
				   struct err *e)
{
	static const unsigned char hello[] = {0,  0xce, 0xf7, 0x85, 0x3c,
					      12, 12,	12,   12};
	unsigned char says[4];
	int rc;

	buf_reset(&s->out);
	buf_put(&s->out, hello, sizeof(hello));
	rc = ddp__torch_send(s, e);
	if (!rc)
		rc = ddp__torch_receive(s, says, sizeof(says), deadline, e);
	if (rc == ERR_TIMEOUT && s->fd >= 0)
		return ddp__torch_broke(
			s, rc, "it does not reply; is this PyTorch's store?",
			e);
	if (rc == ERR_REMOTE || rc == -ECONNRESET || rc == -EPIPE) {
		s->modern = 0;
		return tcpstore_connect_any(s, tcpstore_left_ms(deadline), e);
	}
	if (!rc && memcmp(says, "\1\1\1\1", 4))
		return ddp__torch_broke(s, ERR_PROTOCOL,
					"another program answers there; are "
					"MASTER_ADDR and MASTER_PORT right?",
					e);
	s->modern = 1;
	return rc;
}

int ddp__torch_open(struct ddp__torch *s, const struct endpoint *where,
		    int timeout_ms, struct err *e)
{
	uint64_t deadline = tcpstore_deadline(timeout_ms);
	int rc;

	s->fd = -1;
	s->where = *where;
	endpoint_text(where, s->at);
	buf_init(&s->out, OUT_MAX);
	while ((rc = tcpstore_connect_any(s, tcpstore_left_ms(deadline), e)) ==
		       -ECONNREFUSED &&
	       tcpstore_left_ms(deadline))
		poll(NULL, 0, RETRY_MS);
	return rc ? rc : tcpstore_ask_generation(s, deadline, e);
}

int ddp__torch_reopen(struct ddp__torch *s, struct err *e)
{
	uint64_t deadline = tcpstore_deadline(DDP__TORCH_ANSWER_MS);
	int rc;

	if (s->fd >= 0)
		close(s->fd);
	s->fd = -1;
	rc = tcpstore_connect_any(s, tcpstore_left_ms(deadline), e);
	return rc || !s->modern ? rc : tcpstore_ask_generation(s, deadline, e);
}

void ddp__torch_close(struct ddp__torch *s)
{
	if (s->fd >= 0)
		close(s->fd);
	buf_release(&s->out);
}
