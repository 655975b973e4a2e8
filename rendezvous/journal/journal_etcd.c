/* journal_etcd.c: writes batches to etcd in pieces, one transaction at a time.
 * Batches appended meanwhile go into the next transaction. */
#include "rendezvous/journal/journal_etcd.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

enum {
	PIECE_MAX = 1 << 20, /* etcd takes requests of 1.5 MiB */
	PAGE = 8,            /* pieces in a reply, which has them in base64 */
	QUEUE_MAX = JOURNAL_ETCD_READ_MAX,
	BODY_MAX = 4 << 20,
	KEY_MAX = 4096,
	LONG_BYTES = 4 << 20, /* no snapshot before that many bytes */
	GENERATION_MAX = 40,
};

_Static_assert(JOURNAL_ETCD_WRITTEN_MAX + JOURNAL_ETCD_BATCH_MAX <
	       JOURNAL_ETCD_READ_MAX, "what is written can be read");

struct journal_etcd {
	struct etcd *etcd;
	const struct journal_etcd_events *events;
	void *owner;
	struct buf folder, guard;
	int64_t guard_revision;
	uint64_t within_ms;
	/* "GUARD-COUNT" in hex: later generations sort after earlier ones, and
	 * different servers never use the same */
	char generation[GENERATION_MAX];
	uint32_t count;
	uint64_t number;   /* the generation's next piece */
	int counts;        /* `head` names this generation */
	int64_t head;      /* the revision of `head`; 0: there is none */
	int ended, ended_recorded; /* the job is over; etcd knows */
	struct buf queue;  /* a stream of batches that etcd has not kept yet */
	size_t left; /* bytes of it to send before `head`: a snapshot, or the
		      * first batch of a new journal */
	size_t sending;    /* bytes of it in the current transaction */
	int superseded;    /* a snapshot waits for the transaction's end */
	enum { KEEP, REMOVE, REVOKE, REMOVED } removing;
	uint64_t since, snapshot; /* bytes after the last snapshot; bytes of
				   * it */
	struct buf loaded;
	struct etcd_call *call;
	int64_t lease;
	uint32_t keep_s;
	int leased; /* the lease is granted: writing may begin */
	struct etcd_call *lease_call;
	uv_timer_t timer; /* the lease's next renewal */
	int over;
};

static void journal_etcd_load_next(struct journal_etcd *j);
static void journal_etcd_send_next(struct journal_etcd *j);

static void journal_etcd_fail(struct journal_etcd *j, const struct err *why)
{
	if (j->over)
		return;
	j->over = 1;
	j->events->on_lost(j->owner, why);
}

static void journal_etcd_send(struct journal_etcd *j, const char *path,
			      struct buf *body, etcd_done *done)
{
	struct err e = ERR_INIT;

	j->call = body->failed ? NULL :
		  etcd_send(j->etcd, path, SLICE(body->data, body->len),
			    j->within_ms, done, j);
	buf_release(body);
	if (j->call)
		return;
	err_set(&e, -ENOMEM, "out of memory for the journal in etcd");
	journal_etcd_fail(j, &e);
}

/* Appends the job's folder and the formatted text to `to`. */
static struct slice journal_etcd_key(const struct journal_etcd *j,
				     struct buf *to, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static struct slice journal_etcd_key(const struct journal_etcd *j,
				     struct buf *to, const char *fmt, ...)
{
	char name[128];
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(name, sizeof(name), fmt, ap);
	va_end(ap);
	buf_reset(to);
	buf_put(to, j->folder.data, j->folder.len);
	buf_put(to, name, strlen(name));
	return SLICE(to->data, to->len);
}

/* ---- the lease ---- */

static void journal_etcd_renew_lease(uv_timer_t *t);

/* A failed renewal is repeated after a third of the lease's time. */
static void journal_etcd_on_lease_renewed(void *owner,
					  const struct etcd_reply *r,
					  const struct err *why)
{
	struct journal_etcd *j = owner;
	struct err e = ERR_INIT;
	/* our agent's former process had the lease, and it may end soon */
	int was_there = r && !j->leased && r->code == ETCD_PRECONDITION;

	j->lease_call = NULL;
	if (!j->leased && (!r || r->error.len) && !was_there) {
		journal_etcd_fail(j, why);
		return;
	}
	if (r && !r->error.len && r->ttl_s <= 0) {
		err_set(&e, ERR_TIMEOUT,
			"etcd (%s) expired the lease of this job's journal",
			etcd_where(j->etcd));
		journal_etcd_fail(j, &e);
		return;
	}
	uv_timer_start(&j->timer, journal_etcd_renew_lease,
		       was_there ? 0 : j->keep_s * 1000ull / 3, 0);
	if (j->leased)
		return;
	j->leased = 1;
	if (!journal_etcd_is_kept(j))
		journal_etcd_send_next(j);
}

static void journal_etcd_query_lease(struct journal_etcd *j, const char *path,
				     struct buf *body)
{
	struct err e = ERR_INIT;

	j->lease_call =
		body->failed
			? NULL
			: etcd_send(j->etcd, path, SLICE(body->data, body->len),
				    j->within_ms, journal_etcd_on_lease_renewed,
				    j);
	buf_release(body);
	if (j->lease_call)
		return;
	err_set(&e, -ENOMEM, "out of memory for the journal in etcd");
	journal_etcd_fail(j, &e);
}

static void journal_etcd_renew_lease(uv_timer_t *t)
{
	struct journal_etcd *j = t->data;
	struct buf body = BUF_INIT(KEY_MAX);

	etcd_put_lease(&body, j->lease);
	journal_etcd_query_lease(j, ETCD_KEEPALIVE, &body);
}

/* ---- reading ---- */

/* Whether the key is that of the next piece; there are no gaps. */
static int journal_etcd_is_next(const struct journal_etcd *j, struct slice key)
{
	char end[24];
	int n = snprintf(end, sizeof(end), "/%016llx",
			 (unsigned long long)j->number);

	return key.len >= (size_t)n &&
	       memcmp(key.data + key.len - (size_t)n, end, (size_t)n) == 0;
}

/* 1, or 0 after reporting that the journal is lost. */
static int journal_etcd_is_answer(struct journal_etcd *j,
				  const struct etcd_reply *r,
				  const struct err *why)
{
	j->call = NULL;
	if (r && !r->error.len)
		return 1;
	journal_etcd_fail(j, why);
	return 0;
}

static void journal_etcd_on_pieces(void *owner, const struct etcd_reply *r,
				   const struct err *why)
{
	struct journal_etcd *j = owner;
	struct err e = ERR_INIT;

	if (!journal_etcd_is_answer(j, r, why))
		return;
	for (size_t i = 0; i < r->nkvs; i++) {
		if (!journal_etcd_is_next(j, r->kvs[i].key)) {
			err_set(&e, ERR_DATA,
				"the journal in etcd (%s) has %.*s in place of "
				"piece %llu",
				etcd_where(j->etcd), SLICE_FMT(r->kvs[i].key),
				(unsigned long long)j->number);
			journal_etcd_fail(j, &e);
			return;
		}
		buf_put(&j->loaded, r->kvs[i].value.data, r->kvs[i].value.len);
		j->number++;
	}
	if (j->loaded.failed) {
		err_set(&e, j->loaded.failed, j->loaded.failed == -ENOMEM ?
			"out of memory for the journal in etcd" :
			"the journal in etcd is larger than %d MiB",
			QUEUE_MAX >> 20);
		journal_etcd_fail(j, &e);
	} else if (r->more) {
		journal_etcd_load_next(j);
	} else {
		j->events->on_loaded(j->owner);
	}
}

static void journal_etcd_load_next(struct journal_etcd *j)
{
	struct buf from = BUF_INIT(KEY_MAX), to = BUF_INIT(KEY_MAX);
	struct buf body = BUF_INIT(BODY_MAX);

	etcd_put_range(&body,
		       journal_etcd_key(j, &from, "journal/%s/%016llx",
					j->generation,
					(unsigned long long)j->number),
		       journal_etcd_key(j, &to, "journal/%s0", j->generation),
		       PAGE, 0);
	buf_release(&from);
	buf_release(&to);
	journal_etcd_send(j, ETCD_RANGE, &body, journal_etcd_on_pieces);
}

static void journal_etcd_on_head(void *owner, const struct etcd_reply *r,
				 const struct err *why)
{
	struct journal_etcd *j = owner;
	struct err e = ERR_INIT;
	size_t n;

	if (!journal_etcd_is_answer(j, r, why))
		return;
	if (!r->nkvs) {
		j->events->on_loaded(j->owner);
		return;
	}
	n = r->kvs[0].value.len;
	if (n >= GENERATION_MAX) {
		err_set(&e, ERR_DATA,
			"etcd's key %.*s does not come from a ddprdzv: delete "
			"it, or choose another --rdzv-id",
			SLICE_FMT(r->kvs[0].key));
		journal_etcd_fail(j, &e);
		return;
	}
	memcpy(j->generation, r->kvs[0].value.data, n);
	j->generation[n] = '\0';
	j->head = r->kvs[0].modified;
	j->counts = 1;
	journal_etcd_load_next(j);
}

int journal_etcd_replay(struct journal_etcd *j,
			int (*take)(void *arg, struct slice batch), void *arg)
{
	struct reader r;
	struct slice batch;
	int n = 0, rc = 0;

	reader_init(&r, SLICE(j->loaded.data, j->loaded.len));
	while (rc >= 0 && reader_left(&r)) {
		batch = reader_slice(&r);
		if (r.bad)
			break; /* its later pieces were never written */
		rc = take(arg, batch);
		n++;
	}
	/* a generation named by `head` begins with a complete batch */
	if (rc >= 0 && j->counts && !n)
		rc = ERR_DATA;
	j->since = j->loaded.len;
	buf_release(&j->loaded);
	return rc < 0 ? rc : n;
}

/* ---- writing ---- */

static void journal_etcd_begin_generation(struct journal_etcd *j)
{
	j->superseded = 0;
	snprintf(j->generation, sizeof(j->generation), "%016llx-%08x",
		 (unsigned long long)j->guard_revision, ++j->count);
	j->number = 0;
	j->counts = 0;
}

/* A request that was repeated at a second member may have been executed by the
 * first, late. Then `head` has our value already, and this server was the
 * leader when it was written. */
static int journal_etcd_is_head_there(const struct journal_etcd *j,
				      const struct etcd_reply *r)
{
	return !j->sending && !j->removing && r->nkvs &&
	       r->kvs->value.len == strlen(j->generation) &&
	       !memcmp(r->kvs->value.data, j->generation, r->kvs->value.len);
}

static void journal_etcd_on_sent(void *owner, const struct etcd_reply *r,
				 const struct err *why)
{
	struct journal_etcd *j = owner;
	struct err e = ERR_INIT;

	if (j->removing == REMOVED) { /* keys are gone; the lease ends in any
				       * case */
		j->call = NULL;
		journal_etcd_send_next(j);
		return;
	}
	if (!journal_etcd_is_answer(j, r, why))
		return;
	if (!r->succeeded && !journal_etcd_is_head_there(j, r)) {
		err_set(&e, ERR_ABORTED,
			"another ddprdzv has become this job's server: etcd "
			"(%s) considered this one dead",
			etcd_where(j->etcd));
		journal_etcd_fail(j, &e);
		return;
	}
	if (j->sending) {
		j->number++;
		buf_consume(&j->queue, j->sending);
		if (!j->superseded)
			j->left -= j->left ? j->sending : 0;
	}
	if (!j->sending) {
		j->counts = 1;
		j->head = r->succeeded ? r->revision : r->kvs->modified;
	}
	j->sending = 0;
	if (j->superseded)
		journal_etcd_begin_generation(j);
	journal_etcd_send_next(j);
}

/* Tells processes that leave the job that it is over, in case this server
 * dies. */
static void journal_etcd_put_ended(struct journal_etcd *j, struct etcd_txn *t)
{
	struct buf name = BUF_INIT(KEY_MAX);

	if (j->ended)
		etcd_txn_put(t, journal_etcd_key(j, &name, "ended"),
			     SLICE("", 0), j->lease);
	else
		etcd_txn_delete(t, journal_etcd_key(j, &name, "ended"),
				SLICE("", 0));
	buf_release(&name);
	j->ended_recorded = j->ended;
}

static void journal_etcd_send_piece(struct journal_etcd *j, struct etcd_txn *t)
{
	struct buf name = BUF_INIT(KEY_MAX);
	size_t n = j->left ? j->left : j->queue.len;

	j->sending = n < PIECE_MAX ? n : PIECE_MAX;
	etcd_txn_put(t,
		     journal_etcd_key(j, &name, "journal/%s/%016llx",
				      j->generation,
				      (unsigned long long)j->number),
		     SLICE(j->queue.data, j->sending), j->lease);
	buf_release(&name);
	if (j->ended != j->ended_recorded)
		journal_etcd_put_ended(j, t);
}

/* The whole snapshot is written: makes it count. If `head` has changed by now,
 * this is a repetition of an older request of ours, whose pieces are removed:
 * it must fail. */
static void journal_etcd_send_head(struct journal_etcd *j, struct etcd_txn *t)
{
	struct buf name = BUF_INIT(KEY_MAX), end = BUF_INIT(KEY_MAX);

	etcd_txn_if_modified(t, journal_etcd_key(j, &name, "head"), j->head);
	etcd_txn_else_get(t, journal_etcd_key(j, &name, "head"), SLICE("", 0),
			  1);
	etcd_txn_put(t, journal_etcd_key(j, &name, "head"),
		     SLICE_STR(j->generation), j->lease);
	etcd_txn_delete(t, journal_etcd_key(j, &name, "journal/"),
			journal_etcd_key(j, &end, "journal/%s", j->generation));
	buf_release(&name);
	buf_release(&end);
	journal_etcd_put_ended(j, t);
}

static void journal_etcd_send_removal(struct journal_etcd *j,
				      struct etcd_txn *t)
{
	struct buf name = BUF_INIT(KEY_MAX), end = BUF_INIT(KEY_MAX);

	etcd_txn_delete(t, journal_etcd_key(j, &name, "ended"), SLICE("", 0));
	etcd_txn_delete(t, journal_etcd_key(j, &name, "head"), SLICE("", 0));
	etcd_txn_delete(t, journal_etcd_key(j, &name, "journal/"),
			journal_etcd_key(j, &end, "journal0"));
	buf_release(&name);
	buf_release(&end);
}

static void journal_etcd_send_next(struct journal_etcd *j)
{
	struct buf body = BUF_INIT(BODY_MAX);
	struct etcd_txn t;

	if (j->over || j->call || !j->leased)
		return;
	if (journal_etcd_is_kept(j)) {
		j->events->on_kept(j->owner);
		return;
	}
	if (j->removing == REVOKE) {
		j->removing = REMOVED;
		etcd_put_lease(&body, j->lease);
		journal_etcd_send(j, ETCD_REVOKE, &body, journal_etcd_on_sent);
		return;
	}
	etcd_txn_init(&t, BODY_MAX);
	etcd_txn_if_modified(&t, SLICE(j->guard.data, j->guard.len),
			     j->guard_revision);
	if (j->removing == REMOVE)
		journal_etcd_send_removal(j, &t);
	else if (!j->counts && !j->left)
		journal_etcd_send_head(j, &t);
	else
		journal_etcd_send_piece(j, &t);
	if (j->removing == REMOVE)
		j->removing = REVOKE;
	etcd_put_txn(&body, &t);
	etcd_txn_release(&t);
	journal_etcd_send(j, ETCD_TXN, &body, journal_etcd_on_sent);
}

static void journal_etcd_put_batch(struct journal_etcd *j, struct slice batch)
{
	struct err e = ERR_INIT;

	buf_put_slice(&j->queue, batch);
	if (!j->queue.failed)
		return;
	err_set(&e, j->queue.failed,
		"etcd (%s) accepts the journal more slowly than it grows: %zu "
		"MiB are waiting",
		etcd_where(j->etcd), j->queue.len >> 20);
	journal_etcd_fail(j, &e);
}

void journal_etcd_append(struct journal_etcd *j, struct slice batch)
{
	/* a journal's first batch is written like a snapshot: before `head` */
	if (!j->counts && !j->count) {
		journal_etcd_begin_generation(j);
		j->left = batch.len + 4;
	}
	j->since += batch.len + 4;
	journal_etcd_put_batch(j, batch);
	journal_etcd_send_next(j);
}

void journal_etcd_snapshot(struct journal_etcd *j, const struct slice *parts,
			   size_t n)
{
	j->queue.len = j->sending; /* the snapshot includes the queued
				    * batches */
	j->left = 0;
	for (size_t i = 0; i < n; i++) {
		j->left += parts[i].len + 4;
		journal_etcd_put_batch(j, parts[i]);
	}
	j->since = 0;
	j->snapshot = j->left;
	if (j->call)
		j->superseded = 1;
	else
		journal_etcd_begin_generation(j);
	journal_etcd_send_next(j);
}

void journal_etcd_set_ended(struct journal_etcd *j, int ended)
{
	j->ended = ended;
}

int journal_etcd_is_too_long(uint64_t snapshot, uint64_t since)
{
	return since > LONG_BYTES &&
	       (since > snapshot ||
		snapshot + since > JOURNAL_ETCD_WRITTEN_MAX);
}

int journal_etcd_is_long(const struct journal_etcd *j)
{
	return !j->left && journal_etcd_is_too_long(j->snapshot, j->since);
}

int journal_etcd_is_kept(const struct journal_etcd *j)
{
	if (j->removing)
		return j->removing == REMOVED && !j->call;
	return !j->queue.len && (j->counts || !j->count) && !j->call;
}

void journal_etcd_remove(struct journal_etcd *j)
{
	j->queue.len = j->sending;
	j->left = 0;
	j->removing = REMOVE;
	journal_etcd_send_next(j);
}

/* ---- begin and end ---- */

void journal_etcd_put_folder(struct buf *out, const char *job)
{
	buf_printf(out, "/ddprun/");
	for (const char *p = job; *p; p++) {
		if (*p == '/' || *p == '%')
			buf_printf(out, "%%%02x", (unsigned char)*p);
		else
			buf_put(out, p, 1);
	}
	buf_printf(out, "/");
}

int journal_etcd_open(struct journal_etcd **out, struct etcd *etcd,
		      uv_loop_t *loop, const struct journal_etcd_options *o,
		      const struct journal_etcd_events *events, void *owner,
		      struct err *e)
{
	struct journal_etcd *j = calloc(1, sizeof(*j));
	struct buf name = BUF_INIT(KEY_MAX), body = BUF_INIT(BODY_MAX);

	if (!j)
		return err_no_memory(e, "the journal in etcd");
	uv_timer_init(loop, &j->timer);
	j->timer.data = j;
	j->etcd = etcd;
	j->events = events;
	j->owner = owner;
	j->guard_revision = o->guard_revision;
	j->within_ms = o->within_ms;
	j->lease = o->lease;
	j->keep_s = o->keep_s;
	buf_init(&j->folder, KEY_MAX);
	buf_init(&j->guard, KEY_MAX);
	buf_init(&j->queue, QUEUE_MAX);
	buf_init(&j->loaded, QUEUE_MAX);
	journal_etcd_put_folder(&j->folder, o->job);
	buf_put(&j->guard, o->guard.data, o->guard.len);
	if (j->folder.failed || j->guard.failed) {
		journal_etcd_close(j);
		return err_no_memory(e, "the journal in etcd");
	}
	*out = j;
	etcd_put_grant(&body, j->lease, j->keep_s);
	journal_etcd_query_lease(j, ETCD_GRANT, &body);
	etcd_put_range(&body, journal_etcd_key(j, &name, "head"), SLICE("", 0),
		       1, 0);
	buf_release(&name);
	journal_etcd_send(j, ETCD_RANGE, &body, journal_etcd_on_head);
	return 0;
}

static void journal_etcd_on_closed(uv_handle_t *t)
{
	struct journal_etcd *j = t->data;

	buf_release(&j->folder);
	buf_release(&j->guard);
	buf_release(&j->queue);
	buf_release(&j->loaded);
	free(j);
}

void journal_etcd_close(struct journal_etcd *j)
{
	if (!j)
		return;
	j->over = 1;
	if (j->call)
		etcd_cancel(j->call);
	if (j->lease_call)
		etcd_cancel(j->lease_call);
	uv_close((uv_handle_t *)&j->timer, journal_etcd_on_closed);
}
