/* shm_p2p.c: messages through the pair's lines and ring, and by reading the
 * sender's memory. */
#include "worker-sdk/shm/shm_p2p.h"

#include <errno.h>
#include <sched.h>
#include <string.h>
#include <sys/uio.h>

#include "base/clock.h"
#include "worker-sdk/shm/shm_chunk.h"

enum {
	LINES = 32,
	INLINE = 32,	     /* bytes that fit a line */
	EAGER = 16 << 10,    /* up to here all goes into the ring */
	PIECE = 32 << 10,    /* what the sender copies at a time, */
	READ = 256 << 10,    /* what the receiver copies, */
	READ_ALONE = 2 << 20, /* and what it copies if it copies alone */
	PATIENCE_NS = 20000, /* how long it leaves the copying to the sender */
	LOOK_FIRST_MS = 4,
	LOOK_MS = 100
};

enum { FRESH, OPEN };

/* The kind of message in a line, in the low bits of its stamp. */
enum { TINY, WHOLE, LARGE, PART };

struct line {
	_Atomic uint64_t stamp; /* (its position + 1) * 4 + its kind */
	uint64_t call, number;
	uint64_t size; /* bytes of the message, or of the part */
	union {
		unsigned char data[INLINE];
		uint64_t at; /* a part's offset; else its address */
	};
};

/* One direction between two ranks; the ring follows. */
struct pair {
	struct line lines[LINES];
	/* the receiver's */
	_Alignas(64) _Atomic uint64_t taken; /* lines, */
	_Atomic uint64_t drained;	     /* and bytes of the ring */
	_Atomic uint64_t finished;	     /* large messages */
	_Atomic uint64_t back_size;	     /* bytes claimed by the receiver */
	uint64_t back_at;		     /* that the sender has to put */
	/* both sides': bytes of the large message claimed by one side */
	_Alignas(64) _Atomic uint64_t claimed;
};

_Static_assert(sizeof(struct pair) <= DDP__SHM_CONTROL, "a pair's first page");

static struct pair *pair_of(const struct ddp__shm *s, int from, int to)
{
	size_t stride = DDP__SHM_CONTROL + s->ring;

	return (struct pair *)(void *)(s->pairs + ((size_t)from * (size_t)s->n +
						   (size_t)to) * stride);
}

static struct pair *msg_pair(const struct ddp__shm_msg *m)
{
	return m->receives ? pair_of(m->s, m->peer, m->s->me)
			   : pair_of(m->s, m->s->me, m->peer);
}

static struct ddp__shm_lane *msg_lane(const struct ddp__shm_msg *m)
{
	return &m->s->lanes[2 * m->peer + m->receives];
}

/* Copy between a buffer and the ring. Positions in the ring only grow. */
static void ring_put(struct ddp__shm *s, struct pair *p, uint64_t at,
		     const char *from, size_t size)
{
	char *ring = (char *)p + DDP__SHM_CONTROL;
	size_t begin = at % s->ring, first = min_size(size, s->ring - begin);

	ddp__put(&s->put, ring + begin, from, first);
	ddp__put(&s->put, ring, from + first, size - first);
}

static void ring_take(const struct ddp__shm *s, struct pair *p, uint64_t at,
		      char *to, size_t size)
{
	const char *ring = (char *)p + DDP__SHM_CONTROL;
	size_t begin = at % s->ring, first = min_size(size, s->ring - begin);

	ddp__copy_plain(to, ring + begin, first);
	ddp__copy_plain(to + first, ring, size - first);
}

/* Wakes the peer after a sequentially consistent store that it may wait for. */
static void peer_wake(struct ddp__shm *s, int i)
{
	_Atomic uint32_t *dozing = &ddp__shm_control(s, i)->dozing;
	struct ddp__shm_control *mine = ddp__shm_control(s, s->me);
	uint32_t cpu = (uint32_t)sched_getcpu();

	if (atomic_load_explicit(&mine->cpu, memory_order_relaxed) != cpu)
		atomic_store_explicit(&mine->cpu, cpu, memory_order_relaxed);
	if (atomic_load(dozing) && atomic_exchange(dozing, 0))
		ddp__shm_wake(dozing);
	if (atomic_load(&s->header->armed))
		ddp__shm_ring(s);
}

/* ---- the sender */

static int msg_has_room(const struct ddp__shm_msg *m, size_t bytes)
{
	struct ddp__shm_lane *l = msg_lane(m);
	struct pair *p = msg_pair(m);

	if (l->line - l->taken >= LINES)
		l->taken = atomic_load_explicit(&p->taken,
						memory_order_acquire);
	if (l->byte + bytes - l->drained > m->s->ring)
		l->drained = atomic_load_explicit(&p->drained,
						  memory_order_acquire);
	return l->line - l->taken < LINES &&
	       l->byte + bytes - l->drained <= m->s->ring;
}

static struct line *msg_line(const struct ddp__shm_msg *m)
{
	return &msg_pair(m)->lines[msg_lane(m)->line % LINES];
}

static void msg_publish(struct ddp__shm_msg *m, struct line *line, int what)
{
	atomic_store(&line->stamp, ++msg_lane(m)->line * 4 + (unsigned)what);
	peer_wake(m->s, m->peer);
}

static void msg_put(struct ddp__shm_msg *m, size_t at, size_t size)
{
	struct ddp__shm_lane *l = msg_lane(m);

	ring_put(m->s, msg_pair(m), l->byte, m->buf + at, size);
	l->byte += size;
}

static int msg_announce(struct ddp__shm_msg *m)
{
	struct line *line = msg_line(m);
	int what = m->size <= INLINE ? TINY : m->size <= EAGER ? WHOLE : LARGE;

	if (!msg_has_room(m, what == WHOLE ? m->size : 0))
		return 0;
	line->call = ddp__call_pack(m->call);
	line->number = m->call->number;
	line->size = m->size;
	if (what == TINY && m->size) {
		memcpy(line->data, m->buf, m->size);
	} else if (what == WHOLE) {
		msg_put(m, 0, m->size);
	} else if (what == LARGE) {
		line->at = (uintptr_t)m->buf;
		atomic_store(&msg_pair(m)->claimed, 0);
		m->state = OPEN;
	}
	msg_publish(m, line, what);
	return what != LARGE;
}

/* 1 if the sender copies too. If the receiver can read and there are too few
 * CPUs, the receiver copies alone, and once instead of twice. */
static int shm_puts_parts(const struct ddp__shm *s)
{
	return s->spins || atomic_load_explicit(&s->header->no_reading,
						memory_order_relaxed);
}

static int msg_has_part(const struct ddp__shm_msg *m)
{
	struct pair *p = msg_pair(m);

	return atomic_load(&p->back_size) ||
	       (shm_puts_parts(m->s) && atomic_load(&p->claimed) < m->size);
}

static void msg_put_part(struct ddp__shm_msg *m)
{
	struct line *line = msg_line(m);
	struct pair *p = msg_pair(m);
	size_t size = atomic_load(&p->back_size), at = p->back_at;

	if (size) {
		size = min_size(size, PIECE);
		p->back_at += size;
		atomic_fetch_sub(&p->back_size, size);
	} else {
		at = atomic_fetch_add(&p->claimed, PIECE);
		if (at >= m->size)
			return;
		size = min_size(PIECE, m->size - at);
	}
	line->size = size;
	line->at = at;
	msg_put(m, at, size);
	msg_publish(m, line, PART);
}

static int msg_finished(const struct ddp__shm_msg *m)
{
	return atomic_load_explicit(&msg_pair(m)->finished,
				    memory_order_acquire) > msg_lane(m)->large;
}

static int msg_advance_send(struct ddp__shm_msg *m)
{
	if (m->state == FRESH && msg_announce(m))
		return 1;
	if (m->state == FRESH)
		return 0;
	while (msg_has_part(m) && msg_has_room(m, PIECE))
		msg_put_part(m);
	if (!msg_finished(m))
		return 0;
	msg_lane(m)->large++;
	return 1;
}

/* ---- the receiver */

/* The next line, if the sender has filled it. */
static struct line *msg_arrived(const struct ddp__shm_msg *m)
{
	struct line *line = msg_line(m);
	uint64_t stamp = atomic_load_explicit(&line->stamp,
					      memory_order_acquire);

	return stamp / 4 == msg_lane(m)->line + 1 ? line : NULL;
}

/* Returns the line and its bytes of the ring to the sender, but notifies the
 * sender only when it may need them. */
static void msg_consume(struct ddp__shm_msg *m, size_t bytes)
{
	struct ddp__shm_lane *l = msg_lane(m);
	struct pair *p = msg_pair(m);

	l->line++;
	l->byte += bytes;
	if (l->line - l->taken < LINES / 2 &&
	    l->byte - l->drained < m->s->ring / 4)
		return;
	l->taken = l->line;
	l->drained = l->byte;
	/* both sequentially consistent: a sender sleeps until either */
	atomic_store(&p->drained, l->byte);
	atomic_store(&p->taken, l->line);
	peer_wake(m->s, m->peer);
}

static int msg_fail_differs(struct ddp__shm_msg *m, const struct line *line,
			    struct err *e)
{
	const struct ddp__peers *names = m->s->peers;
	char mine[DDP__CALL_TEXT], theirs[DDP__CALL_TEXT];
	char my_name[DDP__NAME_MAX], their_name[DDP__NAME_MAX];
	struct ddp__call call;

	ddp__call_unpack(&call, line->call, line->number);
	err_set(e, ERR_ARGUMENT,
		"%s called %s, but %s called %s: a receive must have the count "
		"and type of its send",
		names->name(names->owner, m->s->ranks[m->s->me], my_name),
		ddp__call_text(m->call, mine),
		names->name(names->owner, m->s->ranks[m->peer], their_name),
		ddp__call_text(&call, theirs));
	return ddp__shm_fail(m->s, e);
}

/* Handles the first line of the message. */
static int msg_accept(struct ddp__shm_msg *m, struct line *line, struct err *e)
{
	int what = atomic_load_explicit(&line->stamp, memory_order_relaxed) % 4;

	if (!ddp__is_same_data(line->call, m->call) || line->size != m->size)
		return msg_fail_differs(m, line, e);
	if (what == LARGE) {
		m->remote = line->at;
		m->state = OPEN;
		m->got = 0;
		m->idle = 0;
		msg_consume(m, 0);
		return 0;
	}
	if (what == TINY && m->size)
		memcpy(m->buf, line->data, m->size);
	else if (what == WHOLE)
		ring_take(m->s, msg_pair(m), msg_lane(m)->byte, m->buf,
			  m->size);
	msg_consume(m, what == WHOLE ? m->size : 0);
	return 1;
}

static int msg_may_read(const struct ddp__shm_msg *m)
{
	return !atomic_load_explicit(&m->s->header->no_reading,
				     memory_order_relaxed) &&
	       atomic_load_explicit(&msg_pair(m)->claimed,
				    memory_order_relaxed) < m->size;
}

/* Reads size bytes at `remote` of peer i, and the peer's probe, which shows
 * that the process with this pid is still the peer. 0 or -errno. */
static int peer_read(struct ddp__shm *s, int i, void *to, uint64_t remote,
		     size_t size)
{
	struct ddp__shm_control *peer = ddp__shm_control(s, i);
	unsigned char probe[DDP__COOKIE];

	for (size_t done = 0; done < size;) {
		struct iovec mine[2] = {{probe, sizeof(probe)},
					{(char *)to + done, size - done}};
		struct iovec its[2] = {
			{(void *)(uintptr_t)peer->probe_at, sizeof(probe)},
			{(void *)(uintptr_t)(remote + done), size - done}};
		ssize_t n = process_vm_readv((pid_t)peer->pid, mine, 2, its, 2,
					     0);

		if (n < 0)
			return -errno;
		if ((size_t)n <= sizeof(probe))
			return -EFAULT;
		if (memcmp(probe, s->header->cookie, sizeof(probe)))
			return -ESRCH;
		done += (size_t)n - sizeof(probe);
	}
	return 0;
}

/* Claims and reads a piece; if it cannot be read, the sender puts all the
 * rest. */
static void msg_read_piece(struct ddp__shm_msg *m)
{
	struct pair *p = msg_pair(m);
	size_t most = shm_puts_parts(m->s) ? READ : READ_ALONE;
	size_t at = atomic_fetch_add(&p->claimed, most), size;
	int rc;

	if (at >= m->size)
		return;
	size = min_size(most, m->size - at);
	rc = peer_read(m->s, m->peer, m->buf + at, m->remote + at, size);
	if (!rc) {
		m->got += size;
		return;
	}
	p->back_at = at;
	atomic_store(&m->s->header->no_reading, 1);
	atomic_store(&p->back_size, size);
	peer_wake(m->s, m->peer);
}

static void msg_take_part(struct ddp__shm_msg *m, struct line *line)
{
	size_t size = line->size;

	ring_take(m->s, msg_pair(m), msg_lane(m)->byte, m->buf + line->at,
		  size);
	m->got += size;
	m->idle = 0;
	msg_consume(m, size);
}

/* Takes the sender's parts first, so that two CPUs copy, and reads only when
 * the sender does not put any. */
static int msg_advance_open(struct ddp__shm_msg *m)
{
	while (m->got < m->size) {
		struct line *line = msg_arrived(m);
		uint64_t now;

		if (line) {
			msg_take_part(m, line);
			continue;
		}
		if (!msg_may_read(m))
			return 0;
		now = m->s->spins ? clock_ns() : 0;
		if (m->s->spins && !m->idle)
			m->idle = now;
		if (m->s->spins && now - m->idle < PATIENCE_NS)
			return 0;
		msg_read_piece(m);
	}
	/* a sender that gave up may have reused the memory before we read it */
	if (ddp__shm_aborted(m->s))
		return 0;
	atomic_fetch_add(&msg_pair(m)->finished, 1);
	peer_wake(m->s, m->peer);
	return 1;
}

static int msg_advance_recv(struct ddp__shm_msg *m, struct err *e)
{
	if (m->state == FRESH) {
		struct line *line = msg_arrived(m);
		int rc = line ? msg_accept(m, line, e) : 0;

		if (rc || m->state == FRESH)
			return rc;
	}
	return msg_advance_open(m);
}

/* ---- both */

static void msg_prepare(struct ddp__shm_msg *m, struct ddp__shm *s,
			const struct ddp__call *call, void *buf, size_t size,
			int peer, int receives)
{
	*m = (struct ddp__shm_msg){.s = s,
				   .call = call,
				   .buf = buf,
				   .size = size,
				   .peer = peer,
				   .receives = receives};
}

void ddp__shm_send(void *msg, void *shm, const struct ddp__call *call,
		   const void *buf, size_t size, int to)
{
	msg_prepare(msg, shm, call, (void *)(uintptr_t)buf, size, to, 0);
}

void ddp__shm_recv(void *msg, void *shm, const struct ddp__call *call,
		   void *buf, size_t size, int from)
{
	msg_prepare(msg, shm, call, buf, size, from, 1);
}

static int msg_is_ready(const struct ddp__shm_msg *m)
{
	if (m->receives)
		return msg_arrived(m) || (m->state == OPEN && msg_may_read(m));
	if (m->state == FRESH)
		return msg_has_room(
			m, m->size > INLINE && m->size <= EAGER ? m->size : 0);
	return msg_finished(m) || (msg_has_part(m) && msg_has_room(m, PIECE));
}

int ddp__shm_msgs_ready(const struct ddp__shm *s)
{
	for (struct ddp__shm_msg *m = s->msgs; m; m = m->next)
		if (msg_is_ready(m))
			return 1;
	return 0;
}

static void msg_unlink(struct ddp__shm_msg *m)
{
	struct ddp__shm_msg **at = &m->s->msgs;

	while (*at && *at != m)
		at = &(*at)->next;
	if (*at)
		*at = m->next;
	m->linked = 0;
}

int ddp__shm_msg_advance(void *msg, struct err *e)
{
	struct ddp__shm_msg *m = msg;
	int rc = m->receives ? msg_advance_recv(m, e) : msg_advance_send(m);

	if (!rc && ddp__shm_aborted(m->s))
		rc = ddp__shm_fail(m->s, e);
	if (!rc && !m->linked) {
		m->linked = 1;
		m->next = m->s->msgs;
		m->s->msgs = m;
		ddp__shm_entered(m->s, ddp__call_pack(m->call),
				 m->call->number);
	}
	if (rc && m->linked)
		msg_unlink(m);
	return rc;
}

int ddp__shm_msg_check(void *msg, uint64_t waited_ns, struct err *e)
{
	struct ddp__shm_msg *m = msg;
	struct ddp__shm *s = m->s;
	char call[DDP__CALL_TEXT], last[DDP__CALL_TEXT], name[DDP__NAME_MAX];

	if (ddp__shm_aborted(s))
		return ddp__shm_fail(s, e);
	if (s->timeout_ms >= 0 &&
	    waited_ns > (uint64_t)s->timeout_ms * 1000000u) {
		err_set(e, ERR_TIMEOUT,
			"%s: %s has not %s it for %.1f s; last seen entering "
			"%s",
			ddp__call_text(m->call, call),
			s->peers->name(s->peers->owner, s->ranks[m->peer],
				       name),
			m->receives ? "sent" : "received",
			(double)waited_ns / 1e9,
			ddp__shm_last(s, m->peer, last));
		return ddp__shm_fail(s, e);
	}
	/* The peer may have sent its message and left since. */
	if (ddp__shm_check_rank(s, m->peer, m->call, e) && !msg_is_ready(m))
		return ddp__shm_fail(s, e);
	return 0;
}

uint64_t ddp__shm_msg_either_moved(const void *msg)
{
	const struct ddp__shm_msg *m = msg;

	return m->state == FRESH
		       ? 0
		       : 1 + m->got + msg_lane(m)->line +
				 atomic_load_explicit(&msg_pair(m)->claimed,
						      memory_order_relaxed);
}

static void msg_doze(struct ddp__shm_msg *m, int ms)
{
	_Atomic uint32_t *dozing = &ddp__shm_control(m->s, m->s->me)->dozing;

	atomic_store(dozing, 1);
	/* msg_is_ready reads with acquire: keep it behind this store */
	atomic_thread_fence(memory_order_seq_cst);
	if (!msg_is_ready(m) && !ddp__shm_aborted(m->s))
		ddp__shm_sleep(dozing, 1, ms);
	atomic_store(dozing, 0);
}

/* Spins until the message is ready (1) or it is time to sleep (0). */
static int msg_spin(struct ddp__shm_msg *m, uint64_t start)
{
	do {
		for (int k = 0; k < 32; k++) {
			if (msg_is_ready(m))
				return 1;
			ddp__shm_relax();
		}
	} while (ddp__shm_patience(m->s, m->peer, start));
	return 0;
}

static int msg_wait(struct ddp__shm_msg *m, struct err *e)
{
	uint64_t start = clock_ns(), moves = ddp__shm_msg_either_moved(m);
	int ms = LOOK_FIRST_MS, rc;

	if (msg_spin(m, start))
		return 0;
	for (;;) {
		uint64_t slept = clock_ns();

		msg_doze(m, ms);
		if (msg_is_ready(m))
			return 0;
		/* a receiver that copies alone wakes us only at the end */
		if (ddp__shm_msg_either_moved(m) != moves ||
		    clock_was_stopped(slept, ms)) {
			moves = ddp__shm_msg_either_moved(m);
			start = clock_ns();
		}
		rc = ddp__shm_msg_check(m, clock_ns() - start, e);
		if (rc)
			return rc;
		ms = ms * 2 < LOOK_MS ? ms * 2 : LOOK_MS;
	}
}

int ddp__shm_msg_run(void *msg, struct err *e)
{
	struct ddp__shm_msg *m = msg;
	int rc;

	do {
		rc = ddp__shm_msg_advance(m, e);
		if (!rc && !msg_is_ready(m))
			rc = msg_wait(m, e);
	} while (!rc);
	if (rc < 0 && m->linked)
		msg_unlink(m);
	return rc < 0 ? rc : 0;
}

void ddp__shm_probe_reading(struct ddp__shm *s)
{
	unsigned char got[DDP__COOKIE];
	int i = (s->me + 1) % s->n;

	if (s->n > 1 &&
	    peer_read(s, i, got, ddp__shm_control(s, i)->probe_at, sizeof(got)))
		atomic_store(&s->header->no_reading, 1);
}
