/* journal_writer.c: collects records in a batch, commits batches to the
 * journal, and replaces a long journal by a snapshot. */
#include "rendezvous/journal/journal_writer.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "rendezvous/journal/journal.h"
#include "rendezvous/journal/journal_etcd.h"
#include "rendezvous/journal/journal_file.h"

enum {
	AGAIN_MS = 10000, /* a full disk may have space again by then */
	WAITING_MAX = 8 << 20, /* a batch, while etcd writes another */
};

static uint64_t journal_writer_now(const struct journal_writer *w)
{
	return uv_now(w->pool->loop);
}

/* A journal with a gap must not be continued. */
static int journal_writer_is_lost(const struct journal_writer *w)
{
	return w->file && journal_file_is_lost(w->file);
}

static struct buf *record_begin(struct journal_writer *w, uint8_t type,
				uint64_t job, size_t *mark)
{
	if (!w || !w->writes || w->mute || journal_writer_is_lost(w))
		return NULL;
	*mark = journal_begin(&w->batch, type);
	buf_put_u64(&w->batch, job);
	return &w->batch;
}

void journal_writer_opened(struct journal_writer *w, uint64_t job,
			   uint32_t first_round, const char *id)
{
	size_t mark;
	struct buf *b = record_begin(w, RECORD_OPENED, job, &mark);

	if (!b)
		return;
	buf_put_u32(b, first_round);
	buf_put_slice(b, SLICE_STR(id));
	journal_end(b, mark);
}

void journal_writer_event(struct journal_writer *w, uint64_t job,
			  struct slice node_id, const struct wire_frame *f)
{
	size_t mark;
	struct buf *b = record_begin(w, RECORD_EVENT, job, &mark);

	if (!b)
		return;
	buf_put_slice(b, node_id);
	buf_put_u8(b, (uint8_t)f->type);
	buf_put_slice(b, f->body);
	journal_end(b, mark);
}

void journal_writer_lost(struct journal_writer *w, uint64_t job,
			 struct slice node_id, const char *why)
{
	size_t mark;
	struct buf *b = record_begin(w, RECORD_LOST, job, &mark);

	if (!b)
		return;
	buf_put_slice(b, node_id);
	buf_put_slice(b, SLICE_STR(why));
	journal_end(b, mark);
}

void journal_writer_called(struct journal_writer *w, uint64_t job)
{
	size_t mark;
	struct buf *b = record_begin(w, RECORD_CALLED, job, &mark);

	if (b)
		journal_end(b, mark);
}

void journal_writer_stopped(struct journal_writer *w, uint64_t job,
			    const char *why)
{
	size_t mark;
	struct buf *b = record_begin(w, RECORD_STOPPED, job, &mark);

	if (!b)
		return;
	buf_put_slice(b, SLICE_STR(why));
	journal_end(b, mark);
}

void journal_writer_torch(struct journal_writer *w, uint64_t job, uint16_t port,
			  const struct sock_addr *at, int n)
{
	size_t mark;
	struct buf *b = record_begin(w, RECORD_TORCH, job, &mark);

	if (!b)
		return;
	record_put_torch(b, port, at, n);
	journal_end(b, mark);
}

void journal_writer_torched(struct journal_writer *w, uint64_t job,
			    enum torch_generation g, struct slice request)
{
	size_t mark;
	struct buf *b = record_begin(w, RECORD_TORCHED, job, &mark);

	if (!b)
		return;
	buf_put_u8(b, (uint8_t)g);
	buf_put_slice(b, request);
	journal_end(b, mark);
}

void journal_writer_changed(struct reply_cache *round, uint64_t session,
			    uint32_t rank, const struct wire_frame *f)
{
	size_t mark;
	struct buf *b =
		record_begin(round->writer, RECORD_REQUEST, round->job, &mark);

	if (!b)
		return;
	buf_put_u64(b, session);
	buf_put_u32(b, rank);
	buf_put_u32(b, f->id);
	buf_put_u8(b, (uint8_t)f->type);
	buf_put_slice(b, f->body);
	journal_end(b, mark);
}

void journal_writer_met(struct reply_cache *round, struct cached_reply *r)
{
	struct journal_writer *w = round->writer;

	if (!w || !w->writes || w->mute || journal_writer_is_lost(w))
		return;
	if (r->met && !store_held_tag(r->met)->number)
		record_put_gathered(&w->batch, round, r->met);
	record_put_past(&w->batch, round, r);
}

void journal_writer_sealed(struct journal_writer *w, const char *sealed_key)
{
	if (w->writes)
		record_put_seal(&w->batch, sealed_key);
}

/* ---- bodies ---- */

void record_put_torch(struct buf *b, uint16_t port, const struct sock_addr *at,
		      int n)
{
	char text[SOCK_TEXT_MAX];

	buf_put_u16(b, port);
	buf_put_u32(b, (uint32_t)n);
	for (int i = 0; i < n; i++)
		buf_put_slice(b, SLICE_STR(sock_addr_scoped(&at[i], text)));
}

void record_put_gathered(struct buf *b, struct reply_cache *round,
			 struct barrier_gather *met)
{
	uint32_t n;
	const struct slice *values = store_held(met, &n);
	struct held_tag *tag = store_held_tag(met);
	size_t mark = journal_begin(b, RECORD_GATHERED);

	if (!tag->number)
		tag->number = ++round->writer->met;
	buf_put_u64(b, round->job);
	buf_put_u32(b, tag->number);
	buf_put_u32(b, n);
	for (uint32_t i = 0; i < n; i++)
		buf_put_slice(b, values[i]);
	journal_end(b, mark);
}

void record_put_past(struct buf *b, const struct reply_cache *round,
		     const struct cached_reply *p)
{
	size_t mark = journal_begin(b, RECORD_PAST);

	buf_put_u64(b, round->job);
	buf_put_u64(b, p->session);
	buf_put_u32(b, p->rank);
	buf_put_u32(b, p->id);
	buf_put_u8(b, p->type);
	buf_put_u64(b, (uint64_t)p->value);
	buf_put_u32(b, p->met ? store_held_tag(p->met)->number : 0);
	journal_end(b, mark);
}

void record_put_seal(struct buf *b, const char *sealed_key)
{
	size_t mark = journal_begin(b, RECORD_SEAL);

	buf_put_slice(b, SLICE_STR(sealed_key));
	journal_end(b, mark);
}

/* ---- committing ---- */

/* Tells etcd's journal whether every job is over, if there are any. */
static void journal_writer_mark_over(struct journal_writer *w)
{
	int over = w->calls->jobs_over(w->owner);

	if (over >= 0)
		journal_etcd_set_ended(w->etcd, over);
}

const char *journal_writer_where(const struct journal_writer *w)
{
	return w->path ? w->path : w->etcd ? "in etcd" : "in memory";
}

int journal_writer_snapshot(struct journal_writer *w, int in_place,
			    struct err *e)
{
	struct snapshot snapshot;
	int rc = w->calls->snapshot(w->owner, &snapshot);

	if (rc < 0)
		err_set(e, rc, "journal %s: cannot create a snapshot: %s",
			journal_writer_where(w), strerror(-rc));
	else if (w->etcd)
		journal_writer_mark_over(w);
	if (rc == 0 && w->etcd)
		journal_etcd_snapshot(w->etcd, snapshot.slices, snapshot.n);
	if (rc == 0 && w->file)
		rc = journal_file_snapshot(w->file, snapshot.slices, snapshot.n,
					   e);
	if (rc < 0 && snapshot.n && in_place) {
		journal_file_lose(w->file);
		rc = journal_file_snapshot(w->file, snapshot.slices, snapshot.n,
					   e);
	}
	snapshot_release(&snapshot);
	return rc;
}

void journal_writer_complain(struct journal_writer *w, const struct err *e)
{
	w->again_ms = journal_writer_now(w) + AGAIN_MS;
	if (!w->has_complained)
		log_warn(
			"%s; continuing without it, and retrying: until that "
			"succeeds, the death of this server would end its jobs",
			e->text);
	w->has_complained = 1;
}

static void journal_writer_drop_batch(struct journal_writer *w)
{
	buf_reset(&w->batch);
	if (w->batch.cap > 1 << 20)
		buf_release(&w->batch);
}

/* Writes a lost journal again: a snapshot contains everything. */
static void journal_writer_retry(struct journal_writer *w)
{
	struct err e = ERR_INIT;

	journal_writer_drop_batch(w);
	if (journal_writer_now(w) < w->again_ms)
		return;
	if (journal_writer_snapshot(w, 0, &e) < 0) {
		journal_writer_complain(w, &e);
		return;
	}
	w->has_complained = 0;
	log_info("journal %s: it can be written again",
		 journal_writer_where(w));
}

/* If compaction finds no space, the journal keeps growing and the next attempt
 * follows later. */
static int journal_writer_compact(struct journal_writer *w)
{
	struct err e = ERR_INIT;
	uint64_t now = journal_writer_now(w);

	if (now < w->again_ms)
		return -EAGAIN;
	if (journal_writer_snapshot(w, 0, &e) == 0) {
		w->again_ms = 0;
		return 0;
	}
	w->again_ms = now + AGAIN_MS;
	log_debug("%s: postponing the compaction of the journal", e.text);
	return e.code;
}

/* The journal must not miss a batch. If an append fails, writes a snapshot, in
 * place of the old one if necessary. If that fails too, empties the journal for
 * the next server. */
static void journal_writer_commit_file(struct journal_writer *w)
{
	struct err e = ERR_INIT;
	struct slice batch;

	if (journal_file_is_lost(w->file)) {
		journal_writer_retry(w);
		return;
	}
	if (!w->batch.len && !w->batch.failed)
		return;
	batch = SLICE(w->batch.data, w->batch.len);
	if (!(journal_file_is_long(w->file) &&
	      journal_writer_compact(w) == 0) &&
	    (w->batch.failed || journal_file_append(w->file, batch, &e) < 0) &&
	    journal_writer_snapshot(w, 1, &e) < 0) {
		journal_file_lose(w->file);
		journal_writer_complain(w, &e);
	}
	journal_writer_drop_batch(w);
}

static void journal_writer_write_etcd(struct journal_writer *w)
{
	struct err e = ERR_INIT;

	if (journal_etcd_is_long(w->etcd) && journal_writer_compact(w) == 0) {
		journal_writer_drop_batch(w);
		return;
	}
	if (w->batch.failed && journal_writer_snapshot(w, 0, &e) < 0) {
		w->calls->on_failure(w->owner, &e);
		return;
	}
	if (!w->batch.failed) {
		journal_writer_mark_over(w);
		journal_etcd_append(w->etcd,
				    SLICE(w->batch.data, w->batch.len));
	}
	journal_writer_drop_batch(w);
}

/* One batch at a time: records that come while etcd writes one go into the
 * next, and output that depends on them waits. */
static int journal_writer_commit_etcd(struct journal_writer *w)
{
	struct conn_pool *pool = w->pool;

	if (pool->held || !journal_etcd_is_kept(w->etcd) ||
	    !w->calls->is_leader(w->owner))
		return w->batch.len > WAITING_MAX ? 2 : 1;
	if (!w->batch.len && !w->batch.failed)
		return 0;
	conn_hold_output(pool);
	journal_writer_write_etcd(w);
	return 1;
}

int journal_writer_settle(struct journal_writer *w)
{
	if (!journal_etcd_is_kept(w->etcd))
		return 1;
	if (!w->batch.len && !w->batch.failed)
		return 0;
	journal_writer_write_etcd(w);
	return 1;
}

void journal_writer_kept(struct journal_writer *w)
{
	struct conn_pool *pool = w->pool;

	if (!journal_etcd_is_kept(w->etcd) || !w->calls->is_leader(w->owner))
		return;
	conn_release_held(pool);
	conn_flush_all(pool);
}

int journal_writer_commit(void *writer)
{
	struct journal_writer *w = writer;

	if (!w->writes || w->mute)
		return 0;
	if (w->etcd)
		return journal_writer_commit_etcd(w);
	journal_writer_commit_file(w);
	return 0;
}

void journal_writer_close(struct journal_writer *w)
{
	journal_file_close(w->file);
	w->file = NULL;
	w->etcd = NULL;
	w->writes = 0;
	buf_release(&w->batch);
}

void snapshot_release(struct snapshot *s)
{
	while (s->n)
		buf_release(&s->parts[--s->n]);
}
