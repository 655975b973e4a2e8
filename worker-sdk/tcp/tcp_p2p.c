/* tcp_p2p.c: messages between two ranks, over the pair's socket. */
#include "worker-sdk/tcp/tcp_p2p.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"

#define SPIN_NS 100000u

enum {
	LOOK_MS = 500,
	POLLS_MAX = 256,
	TURN_MAX = 4 << 20 /* bytes moved before the other messages get their
			    * turn */
};

int ddp__tcp_p2p_init(struct ddp__tcp_p2p *p,
		      const struct ddp__tcp_p2p_setup *setup, struct err *e)
{
	size_t n = (size_t)setup->n;
	int secure = ddp__secure_wanted(e);

	memset(p, 0, sizeof(*p));
	p->me = setup->me;
	p->n = setup->n;
	p->listener = setup->listener;
	p->peers = setup->peers;
	p->spins = 1;
	p->timeout_ms = ddp__tcp_timeout(setup->timeout_ms);
	memcpy(p->key, setup->key, sizeof(p->key));
	p->round = setup->round;
	p->secure = secure > 0 ? (uint32_t)secure : 0;
	p->where = malloc(n * sizeof(*p->where));
	if (secure >= 0 && p->where && !ddp__pairs_init(p, e)) {
		memcpy(p->where, setup->where, n * sizeof(*p->where));
		return 0;
	}
	ddp__tcp_p2p_close(p);
	return secure < 0 ? secure
			  : err_no_memory(e, "%zu ranks", n);
}

static void msg_unlink(struct ddp__tcp_msg *m)
{
	struct ddp__pair *pair = &m->p->pairs[m->peer];

	if (!m->linked)
		return;
	*(m->receives ? &pair->in : &pair->out) = NULL;
	*m->link = m->next;
	if (m->next)
		m->next->link = m->link;
	m->linked = 0;
}

void ddp__tcp_p2p_close(struct ddp__tcp_p2p *p)
{
	if (!p->peers)
		return;
	while (p->active)
		msg_unlink(p->active);
	ddp__pairs_close(p);
	ddp__listen_close(&p->listener);
	free(p->where);
	memset(p, 0, sizeof(*p));
}

static int pair_is_torn(const struct ddp__pair *pair)
{
	const struct ddp__tcp_msg *out = pair->out;

	return (out && out->moved && out->moved < DDP__FRAME + out->size) ||
	       ddp__secure_is_torn(pair->secure);
}

void ddp__tcp_p2p_abort(struct ddp__tcp_p2p *p, const struct err *e)
{
	unsigned char frame[DDP__FRAME];
	struct iovec iov[2] = {{frame, DDP__FRAME},
			       {(void *)e->text, strlen(e->text)}};

	if (p->broken || !p->peers)
		return;
	p->broken = 1;
	ddp__frame_put_abort(frame, e);
	for (int i = 0; i < p->n; i++) {
		struct ddp__pair *pair = &p->pairs[i];

		if (pair->state != DDP__PAIR_READY)
			continue;
		if (!pair_is_torn(pair))
			ddp__secure_post(pair->secure, pair->fd, iov, 2);
		shutdown(pair->fd, SHUT_WR);
	}
	while (p->active)
		msg_unlink(p->active);
}

static void msg_prepare(struct ddp__tcp_msg *m, struct ddp__tcp_p2p *p,
			const struct ddp__call *call, void *buf, size_t size,
			int peer)
{
	memset(m, 0, sizeof(*m));
	m->p = p;
	m->call = *call;
	m->buf = buf;
	m->size = size;
	m->peer = peer;
}

void ddp__tcp_send(void *msg, void *p2p, const struct ddp__call *call,
		   const void *buf, size_t size, int peer)
{
	struct ddp__tcp_msg *m = msg;

	msg_prepare(m, p2p, call, (void *)buf, size, peer);
	ddp__frame_put(m->frame, call, size, NULL);
}

void ddp__tcp_recv(void *msg, void *p2p, const struct ddp__call *call,
		   void *buf, size_t size, int peer)
{
	struct ddp__tcp_msg *m = msg;

	msg_prepare(m, p2p, call, buf, size, peer);
	m->receives = 1;
}

/* 1: this message is the pair's current one in its direction; 0: it has to
 * wait. */
static int msg_begin(struct ddp__tcp_msg *m)
{
	struct ddp__pair *pair = &m->p->pairs[m->peer];
	struct ddp__tcp_msg **mine = m->receives ? &pair->in : &pair->out;

	if (m->linked)
		return 1;
	if (*mine)
		return 0;
	*mine = m;
	m->next = m->p->active;
	m->link = &m->p->active;
	if (m->next)
		m->next->link = &m->next;
	m->p->active = m;
	m->linked = 1;
	return 1;
}

static int msg_lost(struct ddp__tcp_msg *m, int error, struct err *e)
{
	struct ddp__pair *pair = &m->p->pairs[m->peer];
	char call[DDP__CALL_TEXT], name[DDP__NAME_MAX], seen[384];
	char how[DDP__BROKE_TEXT];
	int rc = 0;

	if (!pair->in || !pair->in->moved)
		rc = ddp__frame_receive_abort(pair->secure, pair->fd, e);
	if (rc)
		return rc;
	ddp__tcp_p2p_name(m->p, m->peer, name);
	if (error == EBADMSG || ddp__secure_is_broken(pair->secure))
		return ddp__tcp_tampered(&m->call, name, pair->fd, e);
	snprintf(seen, sizeof(seen), "%s: %s %s",
		 ddp__call_text(&m->call, call), name,
		 ddp__tcp_broke(error, how));
	return m->p->peers->fate(m->p->peers->owner, m->peer, seen, e);
}

/* Checks that the message on the socket fits this receive. */
static int msg_check_frame(struct ddp__tcp_msg *m, struct err *e)
{
	char mine[DDP__CALL_TEXT], theirs[DDP__CALL_TEXT], name[DDP__NAME_MAX];
	struct ddp__call other;
	struct ddp__frame f;
	size_t least;

	memcpy(&f, m->frame, sizeof(f));
	ddp__call_unpack(&other, f.call, f.number);
	least = other.count * ddp_type_size(other.type);
	ddp__call_text(&m->call, mine);
	ddp__tcp_p2p_name(m->p, m->peer, name);
	if (!ddp__frame_is(&f, DDP__FRAME_DATA) || other.kind != DDP__SEND ||
	    other.root != m->p->me || f.size < least ||
	    (f.size > least && other.count < FLIGHT_COUNT_MOST))
		return err_set(e, ERR_PROTOCOL,
			       "%s: %s sent an invalid message", mine, name);
	if (ddp__is_same_data(f.call, &m->call) && f.size == m->size)
		return 0;
	return err_set(e, ERR_ARGUMENT,
		       "%s called %s, but this rank called %s: both must give "
		       "the same count and type",
		       name, ddp__call_text(&other, theirs), mine);
}

/* The remaining bytes of m, starting with its frame. */
static int msg_rest(struct ddp__tcp_msg *m, struct iovec iov[2])
{
	size_t at = m->moved < DDP__FRAME ? 0 : m->moved - DDP__FRAME;
	size_t left = m->size - at;
	int n = 0;

	if (m->moved < DDP__FRAME)
		iov[n++] = (struct iovec){m->frame + m->moved,
					  DDP__FRAME - m->moved};
	if (left)
		iov[n++] = (struct iovec){m->buf + at,
					  left < TURN_MAX ? left : TURN_MAX};
	return n;
}

static long msg_push(struct ddp__tcp_msg *m, const struct ddp__pair *pair,
		     struct err *e)
{
	struct iovec iov[2];
	struct pollfd gone = {pair->fd, POLLRDHUP, 0};
	ssize_t n =
		ddp__secure_send(pair->secure, pair->fd, iov, msg_rest(m, iov));

	if (n >= 0)
		return n;
	if (errno != EAGAIN && errno != EINTR)
		return msg_lost(m, errno, e);
	/* a peer that stops reading shuts down its side */
	return poll(&gone, 1, 0) > 0 ? msg_lost(m, 0, e) : 0;
}

static long msg_pull(struct ddp__tcp_msg *m, const struct ddp__pair *pair,
		     struct err *e)
{
	struct iovec iov[2];
	size_t have;
	ssize_t n =
		ddp__secure_recv(pair->secure, pair->fd, iov, msg_rest(m, iov));
	int rc = 0;

	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0)
		return msg_lost(m, n ? errno : 0, e);
	have = m->moved + (size_t)n;
	if (m->moved < DDP__FRAME && have >= DDP__FRAME) {
		rc = ddp__frame_read_abort(pair->secure, pair->fd, m->frame,
					   m->buf, have - DDP__FRAME, e);
		if (!rc)
			rc = msg_check_frame(m, e);
	}
	return rc ? rc : n;
}

int ddp__tcp_msg_advance(void *msg, struct err *e)
{
	struct ddp__tcp_msg *m = msg;
	struct ddp__tcp_p2p *p = m->p;
	const struct ddp__pair *pair = &p->pairs[m->peer];
	int rc;
	long n = 0;

	if (p->broken)
		return err_set(e, ERR_ABORTED,
			       "the connections between hosts were closed "
			       "after an earlier error");
	if (!msg_begin(m))
		return 0;
	rc = ddp__pair_ready(m, e);
	if (rc > 0) {
		do {
			n = m->receives ? msg_pull(m, pair, e)
					: msg_push(m, pair, e);
			m->moved += n > 0 ? (size_t)n : 0;
		} while (n > 0 && m->moved < DDP__FRAME + m->size);
		rc = n < 0 ? (int)n : n > 0;
	}
	if (rc)
		msg_unlink(m);
	else
		ddp__pairs_serve(p);
	return rc;
}

int ddp__tcp_p2p_polls(const struct ddp__tcp_p2p *p, struct pollfd *out,
		       int max)
{
	int n = 0;

	if (!p->active)
		return 0;
	n = ddp__pairs_polls(p, out, max);
	for (struct ddp__tcp_msg *m = p->active; m && n < max; m = m->next) {
		const struct ddp__pair *pair = &p->pairs[m->peer];
		short events = POLLIN;

		if (pair->state == DDP__PAIR_CONNECTING)
			events = POLLOUT;
		else if (pair->state == DDP__PAIR_READY && !m->receives)
			events = POLLOUT | POLLRDHUP;
		if (pair->fd >= 0)
			out[n++] = (struct pollfd){pair->fd, events, 0};
	}
	return n;
}

/* Data that a rank sent before it ended has arrived by now; it may be the last
 * part of its proof. */
static int msg_has_arrived(struct ddp__tcp_msg *m)
{
	ddp__pairs_serve(m->p);
	return m->p->pairs[m->peer].state == DDP__PAIR_READY ||
	       m->p->pairs[m->peer].state == DDP__PAIR_DIFFERS;
}

uint64_t ddp__tcp_msg_moved(const void *msg)
{
	const struct ddp__tcp_msg *m = msg;

	return m->moved;
}

int ddp__tcp_msg_check(void *msg, uint64_t waited_ns, struct err *e)
{
	struct ddp__tcp_msg *m = msg;
	const struct ddp__tcp_p2p *p = m->p;
	char call[DDP__CALL_TEXT], name[DDP__NAME_MAX], at[SOCK_TEXT_MAX];
	int met = p->pairs[m->peer].state == DDP__PAIR_READY, rc;

	/* on a connection the kernel reports its end */
	rc = met ? 0 : p->peers->fate(p->peers->owner, m->peer, NULL, e);
	if (rc)
		return msg_has_arrived(m) ? 0 : rc;
	if (p->timeout_ms < 0 || waited_ns < (uint64_t)p->timeout_ms * 1000000u)
		return 0;
	return err_set(
		e, ERR_TIMEOUT, "%s: %s %s at %s for %.1f s%s",
		ddp__call_text(&m->call, call),
		!met	      ? "no connection with"
		: m->receives ? "no data from"
			      : "no data read by",
		ddp__tcp_p2p_name(p, m->peer, name),
		endpoint_text(&p->where[m->peer], at), (double)waited_ns / 1e9,
		m->receives ? ": it has not sent" : ": it is not receiving");
}

int ddp__tcp_msg_run(void *msg, struct err *e)
{
	struct ddp__tcp_msg *m = msg;
	struct pollfd polls[POLLS_MAX];
	uint64_t last = 0, now;
	size_t before = 0;
	int rc = ddp__tcp_msg_advance(m, e);

	while (!rc) {
		now = clock_ns();
		if (!last || m->moved != before)
			last = now;
		before = m->moved;
		if (m->p->spins && now - last < SPIN_NS) {
			sched_yield(); /* the peer may need this CPU */
		} else {
			int n = ddp__tcp_p2p_polls(m->p, polls, POLLS_MAX);
			int ready = poll(polls, (nfds_t)n, LOOK_MS);

			if (clock_was_stopped(now, LOOK_MS))
				last = clock_ns();
			if (!ready)
				rc = ddp__tcp_msg_check(m, clock_ns() - last,
							e);
		}
		if (!rc)
			rc = ddp__tcp_msg_advance(m, e);
	}
	if (rc < 0)
		msg_unlink(m);
	return rc < 0 ? rc : 0;
}
