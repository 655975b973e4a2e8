/* tcp_steps.c: moves the messages of a step over the sockets, in pieces. */
#include "worker-sdk/tcp/tcp_steps.h"

#include <errno.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "base/clock.h"
#include "worker-sdk/math/reduce.h"

/* Waking from poll takes longer than most messages do. */
#define SPIN_NS 100000u

enum {
	/* While asleep: how often to check the other hosts; more often at
	 * first, when they may be about to report that they are blocked. */
	LOOK_MS = 500,
	LOOK_FIRST_MS = 100,
	FIRST_MS = 3000,
	/* The least size of a piece of a long message. */
	PIECE_MIN = 128 << 10,
	/* Bytes that are folded at once: they stay in the cache. */
	WINDOW = 256 << 10,
	/* The least that is worth a system call to forward. */
	FOLLOW_MIN = 64 << 10,
	/* The most that one socket moves before the others get their turn. */
	TURN_MAX = 1 << 20,
	FEW_STREAMS = 4, /* up to here trying each is faster than poll */
	POLLS_MAX = 2 * DDP__RAILS_MAX * 64
};

static int step_no_memory(const struct ddp__schedule *s, size_t size,
			  struct err *e)
{
	char text[DDP__CALL_TEXT];

	return err_no_memory(e, "%s: %zu bytes", ddp__call_text(&s->call, text),
			     size);
}

void ddp__tcp_step_begin(struct ddp__schedule *s)
{
	struct ddp__tcp *t = s->endpoint;

	s->me = t->me;
	s->n = t->n;
	s->ranks = t->ranks;
	s->before = t->before;
	ddp__tcp_begin(t, &s->call);
}

int ddp__tcp_step_scratch(struct ddp__schedule *s, size_t size, struct err *e)
{
	struct ddp__tcp *t = s->endpoint;
	char *p = t->scratch;

	if (size > t->scratch_size || !p) {
		p = malloc(size ? size : 1);
		if (!p)
			return step_no_memory(s, size, e);
		free(t->scratch);
		t->scratch = p;
		t->scratch_size = size;
	}
	s->scratch = p;
	return 0;
}

int ddp__tcp_step_reserve(struct ddp__schedule *s, int messages, int streams,
			  struct err *e)
{
	struct ddp__tcp *t = s->endpoint;
	messages *= t->rails;
	streams *= t->rails;
	t->pieces_used = t->busy = 0;
	if (messages > t->pieces_room) {
		free(t->pieces);
		t->pieces = malloc((size_t)messages * sizeof(*t->pieces));
		t->pieces_room = t->pieces ? messages : 0;
	}
	if (streams > t->streams_room) {
		free(t->streams);
		t->streams = malloc((size_t)streams * sizeof(*t->streams));
		t->streams_room = t->streams ? streams : 0;
	}
	if (!t->pieces || !t->streams)
		return step_no_memory(s, (size_t)messages * sizeof(*t->pieces),
				      e);
	return 0;
}

static struct ddp__stream *stream_for(struct ddp__schedule *s, int link,
				      int sends)
{
	struct ddp__tcp *t = s->endpoint;
	struct ddp__stream *st = t->streams;

	for (int i = 0; i < t->busy; i++, st++)
		if (st->link == link && st->sends == sends)
			return st;
	*st = (struct ddp__stream){.link = link, .sends = sends};
	t->busy++;
	return st;
}

/* The offset of piece i of n, at a whole element of any type. */
static size_t piece_begin(size_t size, int n, int i)
{
	return i == n ? size : size / (size_t)n / 64 * 64 * (size_t)i;
}

static struct ddp__piece *step_add(struct ddp__schedule *s, int host, int sends,
				   char *data, size_t size)
{
	struct ddp__tcp *t = s->endpoint;
	struct ddp__piece *first = &t->pieces[t->pieces_used];
	int n = t->rails;

	while (n > 1 && size / (size_t)n < PIECE_MIN)
		n--;
	for (int i = 0; i < n; i++) {
		int link = host * t->links + 1 + i;
		struct ddp__piece *m = &t->pieces[t->pieces_used++];
		struct ddp__stream *st = stream_for(s, link, sends);
		size_t from = piece_begin(size, n, i);

		*m = (struct ddp__piece){.size = piece_begin(size, n, i + 1) -
						 from};
		if (m->size)
			m->data = data + from;
		if (sends)
			ddp__frame_put(m->frame, &s->call, m->size, t);
		if (st->tail)
			st->tail->next = m;
		else
			st->head = m;
		st->tail = m;
	}
	return first;
}

void *ddp__tcp_step_send(struct ddp__schedule *s, int host, const void *data,
			 size_t size, const void *after)
{
	struct ddp__tcp *t = s->endpoint;
	struct ddp__piece *m = step_add(s, host, 1, (char *)data, size);
	const struct ddp__piece *first = after;

	for (int i = 0; first && &m[i] < &t->pieces[t->pieces_used]; i++)
		m[i].after = &first[i];
	return m;
}

void *ddp__tcp_step_recv(struct ddp__schedule *s, int host, void *data,
			 size_t size)
{
	return step_add(s, host, 0, data, size);
}

void *ddp__tcp_step_fold(struct ddp__schedule *s, int host, void *data,
			 size_t size, int ranks, int last)
{
	struct ddp__tcp *t = s->endpoint;
	int divides = last && s->call.op == DDP_AVG;
	struct ddp__piece *m = step_add(s, host, 0, data, size);

	for (int i = 0; &m[i] < &t->pieces[t->pieces_used]; i++) {
		m[i].folds = 1;
		m[i].divisor = divides ? s->divisor : 1;
		m[i].ranks[0] = t->ranks[t->me];
		m[i].ranks[1] = ranks;
	}
	return m;
}

void ddp__tcp_step_release(struct ddp__schedule *s)
{
	struct ddp__tcp *t = s->endpoint;

	if (t->schedule == s)
		t->schedule = NULL;
	s->scratch = NULL;
}

/* The bytes of m that may be sent now. */
static size_t piece_sendable(const struct ddp__piece *m)
{
	size_t have;

	if (!m->after)
		return DDP__FRAME + m->size;
	/* wait for an empty message as well: its frame has to arrive first */
	have = m->after->moved;
	if (have < DDP__FRAME + m->size && have < m->moved + FOLLOW_MIN)
		return m->moved;
	return have < DDP__FRAME ? 0 : have;
}

static long stream_lost(struct ddp__schedule *s, int link, int error,
			struct err *e)
{
	struct ddp__tcp *t = s->endpoint;
	return ddp__tcp_lost(t, &s->call, ddp__tcp_host(t, link), error, e);
}

/* Returns bytes moved, 0 if the socket would block, or an error. */
static long stream_send(struct ddp__schedule *s, struct ddp__stream *st,
			struct err *e)
{
	struct ddp__tcp *t = s->endpoint;
	struct ddp__piece *m = st->head;
	size_t end = piece_sendable(m), from = m->moved, data;
	struct iovec iov[2];
	int parts = 0;
	ssize_t n;

	if (end <= from)
		return 0;
	if (end > from + TURN_MAX)
		end = from + TURN_MAX;
	if (from < DDP__FRAME)
		iov[parts++] =
			(struct iovec){m->frame + from, DDP__FRAME - from};
	data = from < DDP__FRAME ? 0 : from - DDP__FRAME;
	if (end > DDP__FRAME + data)
		iov[parts++] =
			(struct iovec){m->data + data, end - DDP__FRAME - data};
	n = ddp__secure_send(t->secure[st->link], t->fd[st->link], iov, parts);
	if (n < 0)
		return errno == EAGAIN || errno == EINTR
			       ? 0
			       : stream_lost(s, st->link, errno, e);
	m->moved += (size_t)n;
	return n;
}

static int stream_window(struct ddp__schedule *s, struct ddp__stream *st,
			 struct err *e)
{
	struct ddp__tcp *t = s->endpoint;
	/* Streams are reserved before the first moves: they stay in place. */
	size_t each = WINDOW + 64;

	if (!t->windows)
		t->windows = malloc(each * (size_t)t->rails);
	if (!t->windows)
		return step_no_memory(s, each * (size_t)t->rails, e);
	/* Only one host at a time is folded from: the rail picks the window. */
	st->window = t->windows + (size_t)(st->link % t->links - 1) * each;
	return 0;
}

/* Reduces the whole elements in the window. */
static void stream_fold(struct ddp__schedule *s, struct ddp__stream *st,
			struct ddp__piece *m)
{
	const struct ddp__call *c = &s->call;
	size_t n = st->unfolded / s->elem, size = n * s->elem;
	char *own = m->data + m->moved - DDP__FRAME;
	const void *src[] = {own, st->window};

	if (!n)
		return;
	if (s->scaled)
		ddp__add_scaled(own, src, m->ranks, 2, n, c->type, m->divisor);
	else
		ddp__reduce(own, src, 2, n, c->type, c->op, m->divisor);
	st->unfolded -= size;
	if (st->unfolded)
		memmove(st->window, st->window + size, st->unfolded);
	m->moved += size;
}

/* The place for the next bytes of m. */
static int stream_iov(const struct ddp__stream *st, struct ddp__piece *m,
		      struct iovec iov[2])
{
	size_t got = st->got < DDP__FRAME ? 0 : st->got - DDP__FRAME;
	size_t left = m->size - got, most;
	int n = 0;

	if (st->got < DDP__FRAME)
		iov[n++] = (struct iovec){m->frame + st->got,
					  DDP__FRAME - st->got};
	most = m->folds ? WINDOW - st->unfolded : TURN_MAX;
	if (left)
		iov[n++] = (struct iovec){m->folds ? st->window + st->unfolded
						   : m->data + got,
					  left < most ? left : most};
	return n;
}

static long stream_recv(struct ddp__schedule *s, struct ddp__stream *st,
			struct err *e)
{
	struct ddp__tcp *t = s->endpoint;
	struct ddp__piece *m = st->head;
	struct iovec iov[2];
	size_t before = st->got, data;
	ssize_t n;

	if (m->folds && !st->window && stream_window(s, st, e))
		return e->code;
	n = ddp__secure_recv(t->secure[st->link], t->fd[st->link], iov,
			     stream_iov(st, m, iov));
	if (n < 0 && (errno == EAGAIN || errno == EINTR))
		return 0;
	if (n <= 0)
		return stream_lost(s, st->link, n ? errno : 0, e);
	st->got += (size_t)n;
	data = st->got < DDP__FRAME ? 0 : st->got - DDP__FRAME;
	st->unfolded += data - (before < DDP__FRAME ? 0 : before - DDP__FRAME);
	if (st->got < DDP__FRAME)
		return n;
	if (before < DDP__FRAME) {
		int rc = ddp__tcp_check(t, &s->call, ddp__tcp_host(t, st->link),
					m->frame, m->size, e);

		if (rc)
			return rc;
		m->moved = DDP__FRAME;
	}
	if (m->folds) {
		stream_fold(s, st, m);
	} else {
		m->moved = st->got;
		st->unfolded = 0;
	}
	return n;
}

/* For receiving: 1 if a decrypted record is not used up yet. */
static int stream_has_more(const struct ddp__schedule *s,
			   const struct ddp__stream *st)
{
	struct ddp__tcp *t = s->endpoint;
	return !st->sends && ddp__secure_has(t->secure[st->link]);
}

/* Moves as much as possible on one socket in one direction. */
static long stream_move(struct ddp__schedule *s, struct ddp__stream *st,
			struct err *e)
{
	long moved = 0;

	while (st->head && moved < TURN_MAX) {
		struct ddp__piece *m = st->head;
		long n = st->sends ? stream_send(s, st, e)
				   : stream_recv(s, st, e);

		if (n < 0)
			return n;
		moved += n;
		if (m->moved < DDP__FRAME + m->size && stream_has_more(s, st))
			continue;
		if (m->moved < DDP__FRAME + m->size)
			break; /* the socket has no more data, or no more
				* room */
		st->head = m->next;
		st->got = st->unfolded = 0;
	}
	return moved;
}

static short stream_events(const struct ddp__stream *st)
{
	if (!st->sends)
		return POLLIN;
	return piece_sendable(st->head) > st->head->moved ? POLLOUT : 0;
}

/* With many sockets: finds those for which a system call pays. */
static void streams_poll(struct ddp__schedule *s, struct pollfd *polls)
{
	struct ddp__tcp *t = s->endpoint;
	for (int i = 0; i < t->busy; i++) {
		const struct ddp__stream *st = &t->streams[i];
		short events = stream_events(st);

		polls[i] = (struct pollfd){events ? t->fd[st->link] : -1,
					   events, 0};
	}
	poll(polls, (nfds_t)t->busy, 0);
}

/* One round over all streams: bytes moved, or an error. */
static long step_move(struct ddp__schedule *s, struct err *e)
{
	struct ddp__tcp *t = s->endpoint;
	struct pollfd polls[POLLS_MAX];
	int many = t->busy > FEW_STREAMS && t->busy <= POLLS_MAX, left = 0;
	long moved = 0;

	if (many)
		streams_poll(s, polls);
	for (int i = 0; i < t->busy; i++) {
		struct ddp__stream *st = &t->streams[i];
		long n = 0;

		if (!many || polls[i].revents || stream_has_more(s, st))
			n = stream_move(s, st, e);
		if (n < 0)
			return n;
		moved += n;
		if (st->head)
			t->streams[left++] = *st;
	}
	t->busy = left;
	return moved;
}

static int step_start(struct ddp__schedule *s, struct err *e)
{
	struct ddp__tcp *t = s->endpoint;

	if (t->broken)
		return err_set(e, ERR_ABORTED,
			       "the connections between hosts were closed "
			       "after an earlier error");
	t->schedule = s;
	t->busy = t->noticed = 0;
	t->probed_ns = 0;
	ddp__tcp_count_before(t);
	return 0;
}

int ddp__tcp_step_advance(struct ddp__schedule *s, struct err *e)
{
	struct ddp__tcp *t = s->endpoint;
	int rc = t->schedule == s && !t->broken ? 0 : step_start(s, e);

	while (!rc) {
		long moved;

		if (!t->busy) {
			rc = s->step(s, e);
			s->turn++;
			if (rc)
				break;
		}
		moved = step_move(s, e);
		if (moved < 0)
			return (int)moved;
		s->moved |= moved > 0;
		if (!moved && t->busy)
			return 0;
	}
	if (rc > 0)
		t->schedule = NULL;
	return rc;
}

int ddp__tcp_step_polls(const struct ddp__tcp *t, struct pollfd *out, int max)
{
	const struct ddp__schedule *s = t->schedule;
	int n = 0;

	for (int i = 0; s && i < t->busy && n < max; i++) {
		short events = stream_events(&t->streams[i]);

		if (events)
			out[n++] = (struct pollfd){t->fd[t->streams[i].link],
						   events, 0};
	}
	return n;
}

static int step_check_asleep(struct ddp__schedule *s, struct ddp__standstill *w,
			     uint64_t waited, struct err *e)
{
	struct ddp__tcp *t = s->endpoint;
	int rc = ddp__tcp_step_check(t, waited, e);

	return rc ? rc
		  : ddp__stands_still(w, &s->call, DDP__FROM_OTHERS, waited, e);
}

static int step_sleep(struct ddp__schedule *s, uint64_t now, uint64_t *last,
		      struct ddp__standstill *w, struct err *e)
{
	struct ddp__tcp *t = s->endpoint;
	struct pollfd polls[POLLS_MAX];
	int64_t waited = (int64_t)(now - *last), left, most = LOOK_MS;
	int ready;

	if (waited < FIRST_MS * INT64_C(1000000))
		most = LOOK_FIRST_MS;
	left = most;
	if (t->timeout_ms >= 0)
		left = t->timeout_ms - waited / 1000000 + 1;
	if (left > most)
		left = most;
	if (left < 0)
		left = 0;
	ready = poll(polls, (nfds_t)ddp__tcp_step_polls(t, polls, POLLS_MAX),
		     (int)left);
	waited += left * 1000000;
	if (clock_was_stopped(now, (int)left)) {
		*last = clock_ns();
		waited = 0;
	}
	return ready ? 0 : step_check_asleep(s, w, (uint64_t)waited, e);
}

int ddp__tcp_step_wait(struct ddp__schedule *s, struct err *e)
{
	struct ddp__tcp *t = s->endpoint;
	struct ddp__standstill w = {t->peers, 0};
	uint64_t last = 0;
	int rc = ddp__tcp_step_advance(s, e);

	while (!rc) {
		uint64_t now = clock_ns();

		if (s->moved || !last)
			last = now;
		s->moved = 0;
		if (t->spins && now - last < SPIN_NS)
			sched_yield(); /* an awaited rank may need this CPU */
		else
			rc = step_sleep(s, now, &last, &w, e);
		if (!rc)
			rc = ddp__tcp_step_advance(s, e);
	}
	if (rc > 0)
		ddp__goes_on(&w);
	return rc < 0 ? rc : 0;
}
