/* history.c: records into a batch, batches into the journal, and a snapshot of
 * everything when that has grown long. */
#include "rendezvous/server/history.h"

#include <errno.h>
#include <string.h>

#include "base/log.h"
#include "rendezvous/journal/journal.h"
#include "rendezvous/journal/journal_etcd.h"
#include "rendezvous/journal/journal_file.h"
#include "rendezvous/server/hosted.h"
#include "rendezvous/server/place.h"
#include "rendezvous/server/resume.h"

enum {
	AGAIN_MS = 10000, /* a full disk may have been seen to */
	WAITING_MAX = 8 << 20, /* of a batch, while etcd keeps another */
};

/* Half a journal would be a wrong one. */
static int is_lost(const struct history *h)
{
	return h->file && journal_file_is_lost(h->file);
}

static struct buf *open_record(struct history *h, uint8_t type, uint64_t job,
			       size_t *mark)
{
	if (!h || !h->writes || h->mute || is_lost(h))
		return NULL;
	*mark = journal_begin(&h->batch, type);
	buf_put_u64(&h->batch, job);
	return &h->batch;
}

static struct history *of(struct hosted *job)
{
	return &job->server->history;
}

void history_opened(struct hosted *job, uint32_t first_round)
{
	size_t mark;
	struct buf *b = open_record(of(job), HISTORY_OPENED, job->number,
				    &mark);

	if (!b)
		return;
	buf_put_u32(b, first_round);
	buf_put_slice(b, SLICE_STR(job_id(job->job)));
	journal_end(b, mark);
}

void history_event(struct hosted *job, const struct job_node *node,
		   const struct wire_frame *f)
{
	size_t mark;
	struct buf *b = open_record(of(job), HISTORY_EVENT, job->number, &mark);

	if (!b)
		return;
	buf_put_slice(b, job_node_id(node));
	buf_put_u8(b, (uint8_t)f->type);
	buf_put_slice(b, f->body);
	journal_end(b, mark);
}

void history_lost(struct hosted *job, const struct job_node *node,
		  const char *why)
{
	size_t mark;
	struct buf *b = open_record(of(job), HISTORY_LOST, job->number, &mark);

	if (!b)
		return;
	buf_put_slice(b, job_node_id(node));
	buf_put_slice(b, SLICE_STR(why));
	journal_end(b, mark);
}

void history_called(struct hosted *job)
{
	size_t mark;
	struct buf *b = open_record(of(job), HISTORY_CALLED, job->number,
				    &mark);

	if (b)
		journal_end(b, mark);
}

void history_stopped(struct hosted *job, const char *why)
{
	size_t mark;
	struct buf *b = open_record(of(job), HISTORY_STOPPED, job->number,
				    &mark);

	if (!b)
		return;
	buf_put_slice(b, SLICE_STR(why));
	journal_end(b, mark);
}

void history_torch(struct hosted *job)
{
	size_t mark;
	struct buf *b = open_record(of(job), HISTORY_TORCH, job->number, &mark);

	if (!b)
		return;
	history_put_torch(b, job);
	journal_end(b, mark);
}

void history_torched(struct hosted *job, enum torch_generation g,
		     struct slice request)
{
	size_t mark;
	struct buf *b = open_record(of(job), HISTORY_TORCHED, job->number,
				    &mark);

	if (!b)
		return;
	buf_put_u8(b, (uint8_t)g);
	buf_put_slice(b, request);
	journal_end(b, mark);
}

void history_changed(struct pasts *round, uint64_t session, uint32_t rank,
		     const struct wire_frame *f)
{
	size_t mark;
	struct buf *b = open_record(round->history, HISTORY_REQUEST, round->job,
				    &mark);

	if (!b)
		return;
	buf_put_u64(b, session);
	buf_put_u32(b, rank);
	buf_put_u32(b, f->id);
	buf_put_u8(b, (uint8_t)f->type);
	buf_put_slice(b, f->body);
	journal_end(b, mark);
}

void history_met(struct pasts *round, struct past *p)
{
	struct history *h = round->history;

	if (!h || !h->writes || h->mute || is_lost(h))
		return;
	if (p->met && !store_held_tag(p->met)->number)
		history_put_gathered(&h->batch, round, p->met);
	history_put_past(&h->batch, round, p);
}

void history_sealed(struct history *h)
{
	if (h->writes)
		history_put_seal(&h->batch, h);
}

/* ---- committing ---- */

/* Jobs with nothing left to do do not change it. */
static void say_ended(struct history *h)
{
	struct table_item *at = NULL;
	int over = 1;

	if (!h->by_number.items)
		return;
	while ((at = table_next(&h->by_number, at)))
		over &= job_state(hosted_of_number(at)->job) == JOB_OVER;
	journal_etcd_say_ended(h->etcd, over);
}

static const char *where(const struct history *h)
{
	return h->path ? h->path : h->etcd ? "in etcd" : "in memory";
}

/* Keeps a snapshot, which says what the pending batch says, too. A failure
 * changes nothing: neither the journal nor the batch. in_place: where there is
 * room for no more than one state, the old one makes way first, and the journal
 * is lost where the new one still does not fit. */
static int write_snapshot(struct history *h, int in_place, struct err *e)
{
	struct snapshot snapshot;
	int rc = history_snapshot(h, &snapshot);

	if (rc < 0)
		err_set(e, rc, "journal %s: cannot make a snapshot: %s",
			where(h), strerror(-rc));
	else if (h->etcd)
		say_ended(h);
	if (rc == 0 && h->etcd)
		journal_etcd_snapshot(h->etcd, snapshot.slices, snapshot.n);
	if (rc == 0 && h->file)
		rc = journal_file_snapshot(h->file, snapshot.slices,
					   snapshot.n, e);
	if (rc < 0 && snapshot.n && in_place) {
		journal_file_lose(h->file);
		rc = journal_file_snapshot(h->file, snapshot.slices,
					   snapshot.n, e);
	}
	history_snapshot_release(&snapshot);
	return rc;
}

static void complain(struct history *h, const struct err *e)
{
	h->again_ms = uv_now(h->server->loop) + AGAIN_MS;
	if (!h->complained)
		log_warn("%s; going on without it, and trying again: until it "
			 "is written the death of this server would end its "
			 "jobs", e->text);
	h->complained = 1;
}

static void forget_batch(struct history *h)
{
	buf_reset(&h->batch);
	if (h->batch.cap > 1 << 20)
		buf_release(&h->batch);
}

/* What was lost comes back with a snapshot, as it holds everything. */
static void try_again(struct history *h)
{
	struct err e = ERR_INIT;

	forget_batch(h);
	if (uv_now(h->server->loop) < h->again_ms)
		return;
	if (write_snapshot(h, 0, &e) < 0) {
		complain(h, &e);
		return;
	}
	h->complained = 0;
	log_info("journal %s: it is written again", where(h));
}

/* A compaction that finds no room costs nothing: the journal grows on, and the
 * next attempt is made later. */
static int compact(struct history *h)
{
	struct err e = ERR_INIT;
	uint64_t now = uv_now(h->server->loop);

	if (now < h->again_ms)
		return -EAGAIN;
	if (write_snapshot(h, 0, &e) == 0) {
		h->again_ms = 0;
		return 0;
	}
	h->again_ms = now + AGAIN_MS;
	log_debug("%s: the journal is not compacted now", e.text);
	return e.code;
}

/* With one batch missing the journal would be wrong. So what cannot be appended
 * is kept with a snapshot, if need be in the place of the old one; and where
 * that fails the journal is empty for the next server. */
static void commit_to_file(struct history *h)
{
	struct err e = ERR_INIT;
	struct slice batch;

	if (journal_file_is_lost(h->file)) {
		try_again(h);
		return;
	}
	if (!h->batch.len && !h->batch.failed)
		return;
	batch = SLICE(h->batch.data, h->batch.len);
	if (!(journal_file_is_long(h->file) && compact(h) == 0) &&
	    (h->batch.failed || journal_file_append(h->file, batch, &e) < 0) &&
	    write_snapshot(h, 1, &e) < 0) {
		journal_file_lose(h->file);
		complain(h, &e);
	}
	forget_batch(h);
}

static void write_to_etcd(struct history *h)
{
	struct err e = ERR_INIT;

	if (journal_etcd_is_long(h->etcd) && compact(h) == 0) {
		forget_batch(h);
		return;
	}
	if (h->batch.failed && write_snapshot(h, 0, &e) < 0) {
		place_fail(h->server->place, &e);
		return;
	}
	if (!h->batch.failed) {
		say_ended(h);
		journal_etcd_append(h->etcd,
				    SLICE(h->batch.data, h->batch.len));
	}
	forget_batch(h);
}

/* One batch at a time: what comes while etcd keeps it goes with the next, and
 * so does the output that speaks of it. */
static int commit_to_etcd(struct history *h)
{
	struct conn_pool *pool = &h->server->pool;

	if (pool->marked || !journal_etcd_is_kept(h->etcd) ||
	    !place_is_sure(h->server->place))
		return h->batch.len > WAITING_MAX ? 2 : 1;
	if (!h->batch.len && !h->batch.failed)
		return 0;
	conn_mark(pool);
	write_to_etcd(h);
	return 1;
}

int history_settle(struct history *h)
{
	if (!journal_etcd_is_kept(h->etcd))
		return 1;
	if (!h->batch.len && !h->batch.failed)
		return 0;
	write_to_etcd(h);
	return 1;
}

void history_kept(struct history *h)
{
	struct conn_pool *pool = &h->server->pool;

	if (!journal_etcd_is_kept(h->etcd) || !place_is_sure(h->server->place))
		return;
	conn_flush_marked(pool);
	conn_flush_all(pool);
}

int history_commit(void *history)
{
	struct history *h = history;

	if (!h->writes || h->mute)
		return 0;
	if (h->etcd)
		return commit_to_etcd(h);
	commit_to_file(h);
	return 0;
}

/* ---- from start to end ---- */

int history_number(struct history *h, struct hosted *job)
{
	if (!job->number)
		job->number = ++h->jobs;
	job->numbered.key =
		SLICE((const char *)&job->number, sizeof(job->number));
	return table_insert(&h->by_number, &job->numbered);
}

void history_forget(struct history *h, struct hosted *job)
{
	table_remove(&h->by_number, &job->numbered);
}

void history_close(struct history *h)
{
	journal_file_close(h->file);
	h->file = NULL;
	h->etcd = NULL;
	h->writes = 0;
	buf_release(&h->batch);
}

void history_serve(struct history *h)
{
	struct table_item *at = NULL;

	while ((at = table_next(&h->by_number, at)))
		resume_expect(hosted_of_number(at));
}

/* Those of which nothing is left. */
static void drop_empty(struct history *h)
{
	struct table_item *at = NULL;
	struct hosted *job;

	while ((at = table_next(&h->by_number, at))) {
		job = hosted_of_number(at);
		if (!job_is_empty(job->job))
			continue;
		hosted_free_if_empty(job);
		at = NULL;
	}
}

/* What the journal says has happened; the limits hold for what comes. */
static void end_reading(struct history *h)
{
	const struct server *s = h->server;
	struct table_item *at = NULL;
	struct hosted *job;

	drop_empty(h);
	while ((at = table_next(&h->by_number, at))) {
		job = hosted_of_number(at);
		if (job->store)
			store_limit(job->store, s->max_keys, s->max_bytes);
	}
	h->mute = 0;
}

/* A journal that no snapshot finds room behind is no reason to end its jobs:
 * the snapshot takes the old one's place, or it is gone on without. One that is
 * not made for want of memory may be made by the next server. */
static int begin_file(struct history *h, struct err *e)
{
	int rc = write_snapshot(h, 1, e);

	if (rc < 0 && !journal_file_is_lost(h->file))
		return rc;
	if (rc < 0)
		complain(h, e);
	return 0;
}

int history_start(struct history *h, struct server *s, const char *path, int fd,
		  struct err *e)
{
	int rc, jobs;

	h->server = s;
	h->path = path;
	buf_init(&h->batch, JOURNAL_BATCH_MAX);
	rc = journal_file_open(&h->file, path, path ? -1 : fd, e);
	if (rc < 0)
		return rc;
	h->writes = h->mute = 1;
	h->why = (struct err)ERR_INIT;
	rc = journal_file_replay(h->file, history_take, h, e);
	end_reading(h);
	if (rc < 0 && h->why.code)
		return err_set(e, rc, "journal %s: %s", where(h), h->why.text);
	if (rc <= 0)
		return rc;
	rc = begin_file(h, e);
	if (rc < 0)
		return rc;
	jobs = (int)h->by_number.items;
	if (jobs)
		log_debug("going on with %d job%s", jobs, jobs > 1 ? "s" : "");
	history_serve(h);
	return 0;
}

/* How many batches there were. */
static int read_etcd(struct history *h, struct journal_etcd *journal,
		     struct err *e)
{
	int rc;

	buf_init(&h->batch, JOURNAL_BATCH_MAX);
	h->etcd = journal;
	h->writes = h->mute = 1;
	h->why = (struct err)ERR_INIT;
	rc = journal_etcd_replay(journal, history_take, h);
	if (rc > 0)
		journal_etcd_say_ended(journal, 1); /* unless a job is there */
	end_reading(h);
	if (rc < 0)
		err_set(e, rc, "what etcd keeps of this job: %s", h->why.code ?
			h->why.text : "its first batch is not whole; that "
			"makes no sense to this version");
	return rc;
}

int history_is_over_in_etcd(struct history *h, struct journal_etcd *journal)
{
	struct table_item *at = NULL;
	struct err e = ERR_INIT;
	int rc = read_etcd(h, journal, &e);

	while (rc > 0 && (at = table_next(&h->by_number, at)))
		if (job_state(hosted_of_number(at)->job) != JOB_OVER)
			rc = 0;
	return rc > 0;
}

int history_start_in_etcd(struct history *h, struct journal_etcd *journal,
			  struct err *e)
{
	int rc = read_etcd(h, journal, e);

	if (rc <= 0)
		return rc;
	rc = write_snapshot(h, 0, e);
	return rc < 0 ? rc : 1;
}

void history_forget_all(struct history *h)
{
	struct table_item *at;

	while ((at = table_next(&h->by_number, NULL)))
		hosted_drop(hosted_of_number(at));
	ended_release(&h->server->ended);
	h->server->ended = (struct ended){.next = 0};
	h->seal[0] = '\0';
	history_close(h);
}
