/* tcp.c: messages between leaders. */
#include "worker-sdk/tcp.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/clock.h"

/* Waking from poll costs more than most messages take. */
#define SPIN_NS 100000u

enum {
	LOOK_MS = 500, /* asleep: how often to look at the other hosts */
	FRAME_MAGIC = 0x31706464, /* "ddp1" */
	FRAME_DATA = 0,
	FRAME_ABORT = 1
};

/* Before each message: u32 magic, u32 kind, u64 call, u64 number of the call
 * (abort: its code), u64 bytes that follow, u64 zero; in host order, which
 * must be the same on all hosts as the data's must. */
struct frame {
	uint32_t magic, kind;
	uint64_t call, number, size, zero;
};

static void frame_put(unsigned char out[DDP__FRAME], uint32_t kind,
		      uint64_t call, uint64_t number, uint64_t size)
{
	struct frame f = {FRAME_MAGIC, kind, call, number, size, 0};

	_Static_assert(sizeof(f) == DDP__FRAME, "a frame has no holes");
	memcpy(out, &f, sizeof(f));
}

struct ddp__transfer *ddp__transfer_init(struct ddp__transfer *x, int host)
{
	memset(x, 0, sizeof(*x));
	x->host = host;
	return x;
}

void ddp__transfer_send(struct ddp__transfer *x, const void *data, size_t size)
{
	x->sends = 1;
	x->out = data;
	x->out_len = size;
}

void ddp__transfer_receive(struct ddp__transfer *x, void *data, size_t size)
{
	x->receives = 1;
	x->in = data;
	x->in_len = size;
}

char *ddp__tcp_scratch(struct ddp__tcp *t, size_t size)
{
	char *p;

	if (size <= t->scratch_size)
		return t->scratch;
	p = realloc(t->scratch, size);
	if (!p)
		return NULL;
	t->scratch = p;
	t->scratch_size = size;
	return p;
}

void ddp__tcp_close(struct ddp__tcp *t)
{
	for (int i = 0; i < t->n && t->fd; i++)
		if (t->fd[i] >= 0)
			close(t->fd[i]);
	free(t->fd);
	free(t->leaders);
	free(t->transfers);
	free(t->polls);
	free(t->scratch);
	memset(t, 0, sizeof(*t));
}

void ddp__tcp_abort(struct ddp__tcp *t, const struct err *e)
{
	size_t len = strlen(e->text);
	unsigned char frame[DDP__FRAME];
	struct iovec iov[2] = {{frame, DDP__FRAME}, {(void *)e->text, len}};
	struct msghdr msg = {.msg_iov = iov, .msg_iovlen = 2};

	if (t->broken)
		return;
	frame_put(frame, FRAME_ABORT, 0, (uint64_t)(int64_t)e->code, len);
	for (int i = 0; i < t->n; i++) {
		if (t->fd[i] < 0)
			continue;
		sendmsg(t->fd[i], &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
		shutdown(t->fd[i], SHUT_WR);
	}
	t->broken = 1;
}

static int done(const struct ddp__transfer *x)
{
	return (!x->sends || x->sent == DDP__FRAME + x->out_len) &&
	       (!x->receives || x->got == DDP__FRAME + x->in_len);
}

static char *name_of(struct ddp__tcp *t, int host, char *out)
{
	return t->peers->name(t->peers->owner, t->leaders[host], out);
}

/* The two parts of a message from byte `from` on. */
static int rest_of(struct iovec iov[2], unsigned char *frame, char *data,
		   size_t len, size_t from)
{
	int n = 0;

	if (from < DDP__FRAME)
		iov[n++] = (struct iovec){frame + from, DDP__FRAME - from};
	from = from < DDP__FRAME ? 0 : from - DDP__FRAME;
	if (from < len)
		iov[n++] = (struct iovec){data + from, len - from};
	return n;
}

/* The peer is in trouble and says so: at most 2 s to hear all of its text. The
 * first bytes of it may have been read as data. */
static int hear_abort(struct ddp__tcp *t, struct ddp__transfer *x,
		      const struct frame *f, struct err *e)
{
	size_t have = x->got - DDP__FRAME;
	size_t size = f->size < ERR_TEXT_MAX ? (size_t)f->size
					     : ERR_TEXT_MAX - 1;
	char text[ERR_TEXT_MAX];
	uint64_t start = clock_ns();
	int code = (int)(int64_t)f->number;

	if (have > size)
		have = size;
	if (have)
		memcpy(text, x->in, have);
	while (have < size && clock_ns() - start < 2000000000u) {
		struct pollfd p = {t->fd[x->host], POLLIN, 0};
		ssize_t n;

		poll(&p, 1, 200);
		n = recv(t->fd[x->host], text + have, size - have,
			 MSG_DONTWAIT);
		if (n == 0 || (n < 0 && errno != EAGAIN && errno != EINTR))
			break;
		if (n > 0)
			have += (size_t)n;
	}
	/* it comes from the network: no error may read as success */
	return err_set(e, code < 0 ? code : ERR_REMOTE, "%.*s", (int)have,
		       text);
}

static int lost(struct ddp__tcp *t, struct ddp__transfer *x, const char *how,
		struct err *e)
{
	char call[DDP__CALL_TEXT], name[DDP__NAME_MAX], seen[256];

	snprintf(seen, sizeof(seen), "%s: %s %s", ddp__call_text(t->call, call),
		 name_of(t, x->host, name), how);
	return t->peers->fate(t->peers->owner, t->leaders[x->host], seen, e);
}

/* A whole frame has come. */
static int check_frame(struct ddp__tcp *t, struct ddp__transfer *x,
		       struct err *e)
{
	char mine[DDP__CALL_TEXT], theirs[DDP__CALL_TEXT], name[DDP__NAME_MAX];
	struct ddp__call other;
	struct frame f;

	memcpy(&f, x->in_frame, sizeof(f));
	name_of(t, x->host, name);
	if (f.magic != FRAME_MAGIC || f.kind > FRAME_ABORT)
		return err_set(e, ERR_PROTOCOL,
			       "%s sent something that is no message of ours",
			       name);
	if (f.kind == FRAME_ABORT)
		return hear_abort(t, x, &f, e);
	if (f.call == ddp__call_pack(t->call) && f.number == t->call->number &&
	    f.size == x->in_len)
		return 0;
	ddp__call_unpack(&other, f.call, f.number);
	return err_set(e, ERR_ARGUMENT,
		       "%s called %s, but here it is %s: all ranks must make "
		       "the same calls in the same order",
		       name, ddp__call_text(&other, theirs),
		       ddp__call_text(t->call, mine));
}

/* Returns bytes moved, 0 if the socket would block, or an error. */
static long push(struct ddp__tcp *t, struct ddp__transfer *x, struct err *e)
{
	struct iovec iov[2];
	struct msghdr msg = {.msg_iov = iov};
	ssize_t n;

	msg.msg_iovlen = (size_t)rest_of(iov, x->out_frame, (char *)x->out,
					 x->out_len, x->sent);
	n = sendmsg(t->fd[x->host], &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
	if (n >= 0) {
		x->sent += (size_t)n;
		return n;
	}
	if (errno == EAGAIN || errno == EINTR)
		return 0;
	if (errno != EPIPE && errno != ECONNRESET)
		return lost(t, x, strerror(errno), e);
	/* It may have said why before it closed. */
	if (recv(t->fd[x->host], x->in_frame, DDP__FRAME, MSG_DONTWAIT) ==
	    DDP__FRAME) {
		struct frame f;

		memcpy(&f, x->in_frame, sizeof(f));
		x->got = DDP__FRAME;
		if (f.magic == FRAME_MAGIC && f.kind == FRAME_ABORT)
			return hear_abort(t, x, &f, e);
	}
	return lost(t, x, "closed its connection", e);
}

static long pull(struct ddp__tcp *t, struct ddp__transfer *x, struct err *e)
{
	struct iovec iov[2];
	size_t before = x->got;
	ssize_t n;

	n = readv(t->fd[x->host], iov,
		  rest_of(iov, x->in_frame, x->in, x->in_len, x->got));
	if (n == 0)
		return lost(t, x, "closed its connection", e);
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n < 0)
		return lost(t, x,
			    errno == ECONNRESET ? "closed its connection"
						: strerror(errno), e);
	x->got += (size_t)n;
	if (before < DDP__FRAME && x->got >= DDP__FRAME) {
		int rc = check_frame(t, x, e);

		if (rc)
			return rc;
	}
	if (x->on_data && x->got > DDP__FRAME)
		x->on_data(x, x->got - DDP__FRAME);
	return n;
}

/* One round over all: bytes moved, or an error. */
static long move(struct ddp__tcp *t, struct ddp__transfer *x, int n,
		 int *left, struct err *e)
{
	long moved = 0, k;

	*left = 0;
	for (int i = 0; i < n; i++) {
		if (x[i].sends && x[i].sent < DDP__FRAME + x[i].out_len) {
			k = push(t, &x[i], e);
			if (k < 0)
				return k;
			moved += k;
		}
		if (x[i].receives && x[i].got < DDP__FRAME + x[i].in_len) {
			k = pull(t, &x[i], e);
			if (k < 0)
				return k;
			moved += k;
		}
		*left += !done(&x[i]);
	}
	return moved;
}

static int timed_out(struct ddp__tcp *t, struct ddp__transfer *x, int n,
		     uint64_t waited, struct err *e)
{
	char call[DDP__CALL_TEXT], name[DDP__NAME_MAX];
	int late = -1;

	/* One who has not sent says more than one who has not received. */
	for (int i = 0; i < n; i++)
		if (!done(&x[i]) && (late < 0 || x[i].receives))
			late = i;
	return err_set(e, ERR_TIMEOUT,
		       "%s: %s %s for %.1f s: it, or a rank that it waits for, "
		       "has not arrived",
		       ddp__call_text(t->call, call),
		       x[late].receives ? "nothing came from"
					: "nothing was taken by",
		       name_of(t, x[late].host, name), (double)waited / 1e9);
}

static void sleep_until_ready(struct ddp__tcp *t, struct ddp__transfer *x,
			      int n, uint64_t waited)
{
	int polls = 0, ms = LOOK_MS;

	for (int i = 0; i < n; i++) {
		short events = 0;

		if (x[i].sends && x[i].sent < DDP__FRAME + x[i].out_len)
			events |= POLLOUT;
		if (x[i].receives && x[i].got < DDP__FRAME + x[i].in_len)
			events |= POLLIN;
		if (events)
			t->polls[polls++] = (struct pollfd){
				t->fd[x[i].host], events, 0};
	}
	if (t->timeout_ms >= 0 && t->timeout_ms - (int)(waited / 1000000u) < ms)
		ms = t->timeout_ms - (int)(waited / 1000000u) + 1;
	poll(t->polls, (nfds_t)polls, ms);
}

static int is_awaited(const struct ddp__transfer *x, int n, int host)
{
	for (int i = 0; i < n; i++)
		if (x[i].host == host && x[i].receives)
			return 1;
	return 0;
}

/* Those from whom nothing is awaited may have something to say: that they stop,
 * or that they are in another call than I am, so that all wait in a circle. */
static int look(struct ddp__tcp *t, struct ddp__transfer *x, int n,
		struct err *e)
{
	for (int h = 0; h < t->n; h++) {
		struct ddp__transfer y;
		struct frame f;
		int rc;

		if (t->fd[h] < 0 || is_awaited(x, n, h) ||
		    recv(t->fd[h], &f, sizeof(f), MSG_PEEK | MSG_DONTWAIT) !=
			    (ssize_t)sizeof(f))
			continue;
		/* Early for a later call is fine. */
		if (f.kind == FRAME_DATA && f.number != t->call->number)
			continue;
		ddp__transfer_init(&y, h);
		y.in_len = f.size;
		y.got = DDP__FRAME;
		memcpy(y.in_frame, &f, sizeof(f));
		if (f.kind == FRAME_ABORT)
			recv(t->fd[h], &f, sizeof(f), MSG_DONTWAIT);
		rc = check_frame(t, &y, e);
		if (rc)
			return rc;
	}
	return 0;
}

/* A message that was half sent when things went wrong: that connection can say
 * nothing more. */
static void give_up_torn(struct ddp__tcp *t, struct ddp__transfer *x, int n)
{
	for (int i = 0; i < n; i++)
		if (x[i].sent && x[i].sent < DDP__FRAME + x[i].out_len)
			shutdown(t->fd[x[i].host], SHUT_WR);
}

int ddp__tcp_run(struct ddp__tcp *t, struct ddp__transfer *x, int n,
		 struct err *e)
{
	uint64_t word = ddp__call_pack(t->call), last = clock_ns();
	int left, rc = 0;

	if (t->broken)
		return err_set(e, ERR_ABORTED,
			       "the connections between hosts were closed "
			       "after an earlier error");
	for (int i = 0; i < n; i++)
		if (x[i].sends)
			frame_put(x[i].out_frame, FRAME_DATA, word,
				  t->call->number, x[i].out_len);
	for (;;) {
		long moved = move(t, x, n, &left, e);
		uint64_t now;

		if (moved < 0) {
			rc = (int)moved;
			break;
		}
		if (!left)
			return 0;
		now = clock_ns();
		if (moved)
			last = now;
		if (!moved && t->spins && now - last < SPIN_NS) {
			sched_yield(); /* whom I wait for may need this CPU */
			continue;
		}
		if (moved)
			continue;
		if (t->timeout_ms >= 0 &&
		    now - last > (uint64_t)t->timeout_ms * 1000000u) {
			rc = timed_out(t, x, n, now - last, e);
			break;
		}
		sleep_until_ready(t, x, n, now - last);
		if (now - last > LOOK_MS * 1000000u)
			rc = look(t, x, n, e);
		if (rc)
			break;
	}
	give_up_torn(t, x, n);
	return rc;
}
