/* tcp_op.c: moving the messages of an operation. */
#include "worker-sdk/tcp/tcp_op.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base/clock.h"
#include "worker-sdk/math/reduce.h"

/* Waking from poll costs more than most messages take. */
#define SPIN_NS 100000u

enum {
	/* asleep: how often to look at the other hosts; at first they may be
	 * about to say that they are blocked */
	LOOK_MS = 500,
	LOOK_FIRST_MS = 100,
	FIRST_MS = 3000,
	/* After so long without progress those awaited are sent a notice. */
	NOTICE_MS = 400,
	/* A piece of a long message is at least so long. */
	PIECE_MIN = 128 << 10,
	/* What is folded at once: it stays in the cache. */
	WINDOW = 256 << 10,
	/* So much must have come before it is worth a call to send it on. */
	FOLLOW_MIN = 64 << 10,
	/* At most so much on one socket before the others have their turn. */
	TURN_MAX = 1 << 20,
	FEW_STREAMS = 4, /* up to here asking each is faster than poll */
	POLLS_MAX = 2 * DDP__RAILS_MAX * 64
};

static int no_memory(const struct ddp__tcp_op *op, size_t size, struct err *e)
{
	char text[DDP__CALL_TEXT];

	return err_set(e, -ENOMEM, "%s: no memory for %zu bytes",
		       ddp__call_text(&op->call, text), size);
}

int ddp__tcp_scratch(struct ddp__tcp_op *op, size_t size, struct err *e)
{
	struct ddp__tcp *t = op->t;
	char *p = t->scratch;

	if (size > t->scratch_size || !p) {
		p = malloc(size ? size : 1);
		if (!p)
			return no_memory(op, size, e);
		free(t->scratch);
		t->scratch = p;
		t->scratch_size = size;
	}
	op->scratch = p;
	return 0;
}

int ddp__tcp_reserve(struct ddp__tcp_op *op, int messages, int streams,
		     struct err *e)
{
	messages *= op->t->rails;
	streams *= op->t->rails;
	op->used = op->busy = 0;
	if (messages > op->room) {
		free(op->messages);
		op->messages = malloc((size_t)messages *
				      sizeof(*op->messages));
		op->room = op->messages ? messages : 0;
	}
	if (streams > op->streams_room) {
		free(op->streams);
		op->streams = malloc((size_t)streams * sizeof(*op->streams));
		op->streams_room = op->streams ? streams : 0;
	}
	if (!op->messages || !op->streams)
		return no_memory(op, (size_t)messages * sizeof(*op->messages),
				 e);
	return 0;
}

static struct ddp__stream *stream_for(struct ddp__tcp_op *op, int link,
				      int sends)
{
	struct ddp__stream *s = op->streams;

	for (int i = 0; i < op->busy; i++, s++)
		if (s->link == link && s->sends == sends)
			return s;
	*s = (struct ddp__stream){.link = link, .sends = sends};
	op->busy++;
	return s;
}

/* Where piece i of n begins: at a whole element of any type. */
static size_t piece(size_t size, int n, int i)
{
	return i == n ? size : size / (size_t)n / 64 * 64 * (size_t)i;
}

static struct ddp__message *add(struct ddp__tcp_op *op, int host, int sends,
				char *data, size_t size)
{
	struct ddp__message *first = &op->messages[op->used];
	int n = op->t->rails;

	while (n > 1 && size / (size_t)n < PIECE_MIN)
		n--;
	for (int i = 0; i < n; i++) {
		int link = host * op->t->links + 1 + i;
		struct ddp__message *m = &op->messages[op->used++];
		struct ddp__stream *s = stream_for(op, link, sends);
		size_t from = piece(size, n, i);

		*m = (struct ddp__message){
			.size = piece(size, n, i + 1) - from};
		if (m->size)
			m->data = data + from;
		if (sends)
			ddp__frame_put(m->frame, &op->call, m->size, op->t);
		if (s->tail)
			s->tail->next = m;
		else
			s->head = m;
		s->tail = m;
	}
	return first;
}

struct ddp__message *ddp__tcp_send_to(struct ddp__tcp_op *op, int host,
				      const void *data, size_t size,
				      const struct ddp__message *after)
{
	struct ddp__message *m = add(op, host, 1, (char *)data, size);

	for (int i = 0; after && &m[i] < &op->messages[op->used]; i++)
		m[i].after = &after[i];
	return m;
}

struct ddp__message *ddp__tcp_receive_from(struct ddp__tcp_op *op, int host,
					   void *data, size_t size)
{
	return add(op, host, 0, data, size);
}

struct ddp__message *ddp__tcp_fold_from(struct ddp__tcp_op *op, int host,
					void *data, size_t size, int ranks,
					int last)
{
	int divides = last && op->call.op == DDP_AVG;
	struct ddp__message *m = add(op, host, 0, data, size);

	for (int i = 0; &m[i] < &op->messages[op->used]; i++) {
		m[i].folds = 1;
		m[i].divisor = divides ? op->divisor : 1;
		m[i].ranks[0] = op->t->ranks[op->t->me];
		m[i].ranks[1] = ranks;
	}
	return m;
}

void ddp__tcp_op_release(struct ddp__tcp_op *op)
{
	if (op->t && op->t->op == op)
		op->t->op = NULL;
	free(op->messages);
	free(op->streams);
	free(op->ranges);
	op->messages = NULL;
	op->streams = NULL;
	op->scratch = NULL;
	op->ranges = NULL;
	op->used = op->room = op->busy = op->streams_room = 0;
}

/* The bytes of m that may be sent now. */
static size_t may_send(const struct ddp__message *m)
{
	size_t have;

	if (!m->after)
		return DDP__FRAME + m->size;
	/* an empty one comes, too: nothing is sent before it */
	have = m->after->moved;
	if (have < DDP__FRAME + m->size && have < m->moved + FOLLOW_MIN)
		return m->moved;
	return have < DDP__FRAME ? 0 : have;
}

static long broke(struct ddp__tcp_op *op, int link, int error, struct err *e)
{
	return ddp__tcp_lost(op->t, &op->call, ddp__tcp_host(op->t, link),
			     error, e);
}

/* Returns bytes moved, 0 if the socket would block, or an error. */
static long push(struct ddp__tcp_op *op, struct ddp__stream *s, struct err *e)
{
	struct ddp__message *m = s->head;
	size_t end = may_send(m), from = m->moved, data;
	struct iovec iov[2];
	int parts = 0;
	ssize_t n;

	if (end <= from)
		return 0;
	if (end > from + TURN_MAX)
		end = from + TURN_MAX;
	if (from < DDP__FRAME)
		iov[parts++] = (struct iovec){m->frame + from,
					      DDP__FRAME - from};
	data = from < DDP__FRAME ? 0 : from - DDP__FRAME;
	if (end > DDP__FRAME + data)
		iov[parts++] = (struct iovec){m->data + data,
					      end - DDP__FRAME - data};
	n = ddp__secure_send(op->t->secure[s->link], op->t->fd[s->link], iov,
			     parts);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR
			       ? 0
			       : broke(op, s->link, errno, e);
	m->moved += (size_t)n;
	return n;
}

static int window_for(struct ddp__tcp_op *op, struct ddp__stream *s,
		      struct err *e)
{
	/* Streams are reserved before the first moves: they stay in place. */
	size_t each = WINDOW + 64;

	if (!op->t->windows)
		op->t->windows = malloc(each * (size_t)op->t->rails);
	if (!op->t->windows)
		return no_memory(op, each * (size_t)op->t->rails, e);
	/* One host at a time is folded from, so the rail tells them apart. */
	s->window = op->t->windows +
		    (size_t)(s->link % op->t->links - 1) * each;
	return 0;
}

/* Reduces the whole elements that the window has. */
static void fold(struct ddp__tcp_op *op, struct ddp__stream *s,
		 struct ddp__message *m)
{
	const struct ddp__call *c = &op->call;
	size_t n = s->unfolded / op->elem, size = n * op->elem;
	char *own = m->data + m->moved - DDP__FRAME;
	const void *src[] = {own, s->window};

	if (!n)
		return;
	if (op->scaled)
		ddp__add_scaled(own, src, m->ranks, 2, n, c->type,
				m->divisor);
	else
		ddp__reduce(own, src, 2, n, c->type, c->op, m->divisor);
	s->unfolded -= size;
	if (s->unfolded)
		memmove(s->window, s->window + size, s->unfolded);
	m->moved += size;
}

/* Where the next bytes of m go. */
static int place(const struct ddp__stream *s, struct ddp__message *m,
		 struct iovec iov[2])
{
	size_t got = s->got < DDP__FRAME ? 0 : s->got - DDP__FRAME;
	size_t left = m->size - got, most;
	int n = 0;

	if (s->got < DDP__FRAME)
		iov[n++] = (struct iovec){m->frame + s->got,
					  DDP__FRAME - s->got};
	most = m->folds ? WINDOW - s->unfolded : TURN_MAX;
	if (left)
		iov[n++] = (struct iovec){m->folds ? s->window + s->unfolded
						   : m->data + got,
					  left < most ? left : most};
	return n;
}

static long pull(struct ddp__tcp_op *op, struct ddp__stream *s, struct err *e)
{
	struct ddp__message *m = s->head;
	struct iovec iov[2];
	size_t before = s->got, data;
	ssize_t n;

	if (m->folds && !s->window && window_for(op, s, e))
		return e->code;
	n = ddp__secure_recv(op->t->secure[s->link], op->t->fd[s->link], iov,
			     place(s, m, iov));
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0)
		return broke(op, s->link, n ? errno : 0, e);
	s->got += (size_t)n;
	data = s->got < DDP__FRAME ? 0 : s->got - DDP__FRAME;
	s->unfolded += data - (before < DDP__FRAME ? 0 : before - DDP__FRAME);
	if (s->got < DDP__FRAME)
		return n;
	if (before < DDP__FRAME) {
		int rc = ddp__tcp_check(op->t, &op->call,
					ddp__tcp_host(op->t, s->link),
					m->frame, m->size, e);

		if (rc)
			return rc;
		m->moved = DDP__FRAME;
	}
	if (m->folds) {
		fold(op, s, m);
	} else {
		m->moved = s->got;
		s->unfolded = 0;
	}
	return n;
}

/* To receive: a record has been read, and was not taken whole. */
static int has_more(const struct ddp__tcp_op *op, const struct ddp__stream *s)
{
	return !s->sends && ddp__secure_has(op->t->secure[s->link]);
}

/* Moves what can be moved on one socket in one way. */
static long move_stream(struct ddp__tcp_op *op, struct ddp__stream *s,
			struct err *e)
{
	long moved = 0;

	while (s->head && moved < TURN_MAX) {
		struct ddp__message *m = s->head;
		long n = s->sends ? push(op, s, e) : pull(op, s, e);

		if (n < 0)
			return n;
		moved += n;
		if (m->moved < DDP__FRAME + m->size && has_more(op, s))
			continue;
		if (m->moved < DDP__FRAME + m->size)
			break; /* the socket has no more, or no more room */
		s->head = m->next;
		s->got = s->unfolded = 0;
	}
	return moved;
}

static short events_of(const struct ddp__stream *s)
{
	if (!s->sends)
		return POLLIN;
	return may_send(s->head) > s->head->moved ? POLLOUT : 0;
}

/* With many sockets: which of them are worth a system call. */
static void ask(struct ddp__tcp_op *op, struct pollfd *polls)
{
	for (int i = 0; i < op->busy; i++) {
		const struct ddp__stream *s = &op->streams[i];
		short events = events_of(s);

		polls[i] = (struct pollfd){
			events ? op->t->fd[s->link] : -1, events, 0};
	}
	poll(polls, (nfds_t)op->busy, 0);
}

/* One round over all: bytes moved, or an error. */
static long move(struct ddp__tcp_op *op, struct err *e)
{
	struct pollfd polls[POLLS_MAX];
	int many = op->busy > FEW_STREAMS && op->busy <= POLLS_MAX, left = 0;
	long moved = 0;

	if (many)
		ask(op, polls);
	for (int i = 0; i < op->busy; i++) {
		struct ddp__stream *s = &op->streams[i];
		long n = 0;

		if (!many || polls[i].revents || has_more(op, s))
			n = move_stream(op, s, e);
		if (n < 0)
			return n;
		moved += n;
		if (s->head)
			op->streams[left++] = *s;
	}
	op->busy = left;
	return moved;
}

static int begin(struct ddp__tcp_op *op, struct err *e)
{
	struct ddp__tcp *t = op->t;

	if (t->broken)
		return err_set(e, ERR_ABORTED,
			       "the connections between hosts were closed "
			       "after an earlier error");
	t->op = op;
	return 0;
}

int ddp__tcp_advance(struct ddp__tcp_op *op, struct err *e)
{
	int rc = op->t->op == op && !op->t->broken ? 0 : begin(op, e);

	while (!rc) {
		long moved;

		if (!op->busy) {
			rc = op->step(op, e);
			op->turn++;
			if (rc)
				break;
		}
		moved = move(op, e);
		if (moved < 0)
			return (int)moved;
		op->moved |= moved > 0;
		if (!moved && op->busy)
			return 0;
	}
	if (rc > 0)
		op->t->op = NULL;
	return rc;
}

int ddp__tcp_polls(const struct ddp__tcp *t, struct pollfd *out, int max)
{
	const struct ddp__tcp_op *op = t->op;
	int n = 0;

	for (int i = 0; op && i < op->busy && n < max; i++) {
		short events = events_of(&op->streams[i]);

		if (events)
			out[n++] = (struct pollfd){
				t->fd[op->streams[i].link], events, 0};
	}
	return n;
}

static int is_awaited(void *arg, int link)
{
	const struct ddp__tcp_op *op = arg;

	for (int i = 0; i < op->busy; i++)
		if (op->streams[i].link == link && !op->streams[i].sends)
			return 1;
	return 0;
}

static int timed_out(const struct ddp__tcp_op *op, uint64_t waited,
		     struct err *e)
{
	char call[DDP__CALL_TEXT], name[DDP__NAME_MAX];
	const struct ddp__stream *late = &op->streams[0];

	/* One who has not sent says more than one who has not received. */
	for (int i = 1; i < op->busy && late->sends; i++)
		late = &op->streams[i];
	return err_set(e, ERR_TIMEOUT,
		       "%s: %s %s for %.1f s: it, or a rank that it waits for, "
		       "has not arrived",
		       ddp__call_text(&op->call, call),
		       late->sends ? "nothing was taken by"
				   : "nothing came from",
		       ddp__tcp_name(op->t, ddp__tcp_host(op->t, late->link),
				     name),
		       (double)waited / 1e9);
}

/* A host may wait for this one in another call, where neither sends. */
static void notify(struct ddp__tcp_op *op)
{
	int last = -1;

	for (int i = 0; i < op->busy && op->noticed < op->turn; i++) {
		const struct ddp__stream *s = &op->streams[i];
		int host = ddp__tcp_host(op->t, s->link);

		if (s->sends || host == last)
			continue;
		ddp__tcp_send_waits(op->t, &op->call, host);
		last = host;
	}
	op->noticed = op->turn;
}

int ddp__tcp_look(struct ddp__tcp *t, uint64_t waited_ns, struct err *e)
{
	struct ddp__tcp_op *op = t->op;
	int rc;

	if (!op || !op->busy)
		return 0;
	rc = ddp__tcp_look_at_all(t, &op->call, is_awaited, op, e);
	if (!rc && waited_ns >= NOTICE_MS * UINT64_C(1000000))
		notify(op);
	if (!rc && t->timeout_ms >= 0 &&
	    waited_ns >= (uint64_t)t->timeout_ms * 1000000u)
		rc = timed_out(op, waited_ns, e);
	return rc;
}

static int look_asleep(struct ddp__tcp_op *op, struct ddp__standstill *w,
		       uint64_t waited, struct err *e)
{
	int rc = ddp__tcp_look(op->t, waited, e);

	return rc ? rc
		  : ddp__stands_still(w, &op->call, DDP__FROM_OTHERS, waited,
				      e);
}

static int sleep_until_ready(struct ddp__tcp_op *op, uint64_t now,
			     uint64_t *last, struct ddp__standstill *w,
			     struct err *e)
{
	struct pollfd polls[POLLS_MAX];
	int64_t waited = (int64_t)(now - *last), left, most = LOOK_MS;
	int ready;

	if (waited < FIRST_MS * INT64_C(1000000))
		most = LOOK_FIRST_MS;
	left = most;
	if (op->t->timeout_ms >= 0)
		left = op->t->timeout_ms - waited / 1000000 + 1;
	if (left > most)
		left = most;
	if (left < 0)
		left = 0;
	ready = poll(polls, (nfds_t)ddp__tcp_polls(op->t, polls, POLLS_MAX),
		     (int)left);
	waited += left * 1000000;
	if (clock_was_stopped(now, (int)left)) {
		*last = clock_ns();
		waited = 0;
	}
	return ready ? 0 : look_asleep(op, w, (uint64_t)waited, e);
}

int ddp__tcp_run(struct ddp__tcp_op *op, struct err *e)
{
	struct ddp__standstill w = {op->t->peers, 0};
	uint64_t last = 0;
	int rc = ddp__tcp_advance(op, e);

	while (!rc) {
		uint64_t now = clock_ns();

		if (op->moved || !last)
			last = now;
		op->moved = 0;
		if (op->t->spins && now - last < SPIN_NS)
			sched_yield(); /* whom I wait for may need this CPU */
		else
			rc = sleep_until_ready(op, now, &last, &w, e);
		if (!rc)
			rc = ddp__tcp_advance(op, e);
	}
	if (rc > 0)
		ddp__goes_on(&w);
	ddp__tcp_op_release(op);
	return rc < 0 ? rc : 0;
}
