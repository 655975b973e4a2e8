/* history.c: records into a batch, batches into the journal, and a snapshot of
 * everything when that has grown long. */
#include "rendezvous/history.h"

#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "rendezvous/hosted.h"
#include "rendezvous/journal.h"
#include "rendezvous/journal_etcd.h"
#include "rendezvous/journal_file.h"
#include "rendezvous/place.h"
#include "rendezvous/resume.h"

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

static void put_torch(struct buf *b, const struct hosted *job)
{
	char text[SOCK_TEXT_MAX];

	buf_put_u16(b, job->torch_port);
	buf_put_u32(b, (uint32_t)job->ntorch_at);
	for (int i = 0; i < job->ntorch_at; i++)
		buf_put_slice(b, SLICE_STR(sock_addr_host(&job->torch_at[i],
							  text)));
}

void history_torch(struct hosted *job)
{
	size_t mark;
	struct buf *b = open_record(of(job), HISTORY_TORCH, job->number, &mark);

	if (!b)
		return;
	put_torch(b, job);
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

static void put_gathered(struct buf *b, struct pasts *round,
			 struct meeting *met)
{
	uint32_t n;
	const struct slice *values = store_held(met, &n);
	size_t mark = journal_begin(b, HISTORY_GATHERED);

	*store_held_number(met) = ++round->history->met;
	buf_put_u64(b, round->job);
	buf_put_u32(b, round->history->met);
	buf_put_u32(b, n);
	for (uint32_t i = 0; i < n; i++)
		buf_put_slice(b, values[i]);
	journal_end(b, mark);
}

static void put_past(struct buf *b, struct pasts *round, const struct past *p)
{
	size_t mark = journal_begin(b, HISTORY_PAST);

	buf_put_u64(b, round->job);
	buf_put_u64(b, p->session);
	buf_put_u32(b, p->rank);
	buf_put_u32(b, p->id);
	buf_put_u8(b, p->type);
	buf_put_u64(b, (uint64_t)p->value);
	buf_put_u32(b, p->met ? *store_held_number(p->met) : 0);
	journal_end(b, mark);
}

void history_met(struct pasts *round, struct past *p)
{
	struct history *h = round->history;

	if (!h || !h->writes || h->mute || is_lost(h))
		return;
	if (p->met && !*store_held_number(p->met))
		put_gathered(&h->batch, round, p->met);
	put_past(&h->batch, round, p);
}

static void put_seal(struct history *h)
{
	size_t mark = journal_begin(&h->batch, HISTORY_SEAL);

	buf_put_slice(&h->batch, SLICE_STR(h->seal));
	journal_end(&h->batch, mark);
}

void history_sealed(struct history *h)
{
	if (h->writes)
		put_seal(h);
}

/* ---- a snapshot ---- */

static void put_pair(struct buf *b, enum history_type type,
		     const struct hosted *job, struct slice key,
		     struct slice value)
{
	size_t mark = journal_begin(b, (uint8_t)type);

	buf_put_u64(b, job->number);
	buf_put_slice(b, key);
	buf_put_slice(b, value);
	journal_end(b, mark);
}

static void put_store(struct buf *b, struct hosted *job)
{
	struct table_item *at = NULL;
	const struct queued *q = NULL;
	struct slice key, value;

	while (store_next_key(job->store, &at, &key)) {
		store_get(job->store, key, &value);
		put_pair(b, HISTORY_KEY, job, key, value);
	}
	at = NULL;
	while (store_next_queued(job->store, &at, &q, &key, &value))
		put_pair(b, HISTORY_QUEUED, job, key, value);
}

static void put_pasts(struct buf *b, struct pasts *round, uint32_t since)
{
	struct table_item *at = NULL;
	struct past *p;

	while ((at = table_next(&round->table, at))) {
		p = (struct past *)at;
		if (!p->type)
			continue;
		/* numbers that were given before belong to what is gone */
		if (p->met && *store_held_number(p->met) <= since)
			put_gathered(b, round, p->met);
		put_past(b, round, p);
	}
}

static void put_job(struct history *h, struct hosted *job, uint32_t since)
{
	struct buf *b = &h->batch, state = BUF_INIT(JOURNAL_BATCH_MAX);
	size_t mark;

	job_save(job->job, &state);
	if (state.failed)
		b->failed = state.failed;
	mark = journal_begin(b, HISTORY_JOB);
	buf_put_u64(b, job->number);
	buf_put_u8(b, (uint8_t)job->named);
	buf_put_slice(b, SLICE(state.data, state.len));
	journal_end(b, mark);
	buf_release(&state);
	if (!job->store)
		return;
	if (job->torch_port) {
		mark = journal_begin(b, HISTORY_TORCH);
		buf_put_u64(b, job->number);
		put_torch(b, job);
		journal_end(b, mark);
	}
	put_store(b, job);
	put_pasts(b, &job->pasts, since);
}

static void put_ended(struct buf *b, const struct ended *d)
{
	for (unsigned i = 0; i < ENDED_MAX; i++) {
		const struct ended_job *job =
			&d->jobs[(d->next + i) % ENDED_MAX];
		size_t mark;

		if (!job->id)
			continue;
		mark = journal_begin(b, HISTORY_ENDED);
		buf_put_u32(b, job->round);
		buf_put_slice(b, SLICE_STR(job->id));
		buf_put_slice(b, SLICE_STR(job->text));
		journal_end(b, mark);
	}
}

/* Jobs of which nothing is left do not change it. */
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

static int keep_snapshot(struct history *h, struct err *e)
{
	struct slice batch = SLICE(h->batch.data, h->batch.len);

	if (h->file)
		return journal_file_snapshot(h->file, batch, e);
	say_ended(h);
	journal_etcd_snapshot(h->etcd, batch);
	return 0;
}

static const char *where(const struct history *h)
{
	return h->path ? h->path : h->etcd ? "in etcd" : "in memory";
}

static int put_snapshot(struct history *h, struct err *e)
{
	struct table_item *at = NULL;
	uint32_t since = h->met;
	size_t mark;
	int rc;

	buf_reset(&h->batch);
	mark = journal_begin(&h->batch, HISTORY_RESET);
	buf_put_u64(&h->batch, h->jobs);
	buf_put_u32(&h->batch, h->met);
	journal_end(&h->batch, mark);
	if (h->seal[0])
		put_seal(h);
	put_ended(&h->batch, &h->server->ended);
	while ((at = table_next(&h->by_number, at)))
		put_job(h, hosted_of_number(at), since);
	rc = h->batch.failed ? err_set(e, h->batch.failed, "journal %s: a "
				       "snapshot of more than %d bytes",
				       where(h), JOURNAL_BATCH_MAX)
			     : keep_snapshot(h, e);
	buf_release(&h->batch);
	return rc;
}

/* ---- committing ---- */

static void complain(struct history *h, const struct err *e)
{
	h->again_ms = uv_now(h->server->loop) + AGAIN_MS;
	if (!h->complained)
		log_warn("%s; going on without it, and trying again: until it "
			 "is written the death of this server would end its "
			 "jobs", e->text);
	h->complained = 1;
}

/* What was lost comes back with a snapshot, as it holds everything. */
static void try_again(struct history *h)
{
	struct err e = ERR_INIT;

	buf_reset(&h->batch);
	if (uv_now(h->server->loop) < h->again_ms)
		return;
	if (put_snapshot(h, &e) < 0) {
		complain(h, &e);
		return;
	}
	h->complained = 0;
	log_info("journal %s: it is written again", where(h));
}

static void forget_batch(struct history *h)
{
	buf_reset(&h->batch);
	if (h->batch.cap > 1 << 20)
		buf_release(&h->batch);
}

/* One batch at a time: what comes while etcd keeps it goes with the next, and
 * so does the output that speaks of it. */
static int commit_to_etcd(struct history *h)
{
	struct conn_pool *pool = &h->server->pool;
	struct err e = ERR_INIT;

	if (pool->marked || !journal_etcd_is_kept(h->etcd) ||
	    !place_is_sure(h->server->place))
		return h->batch.len > WAITING_MAX ? 2 : 1;
	if (!h->batch.len && !h->batch.failed)
		return 0;
	conn_mark(pool);
	if (h->batch.failed || journal_etcd_is_long(h->etcd)) {
		if (put_snapshot(h, &e) < 0)
			place_fail(h->server->place, &e);
	} else {
		say_ended(h);
		journal_etcd_append(h->etcd,
				    SLICE(h->batch.data, h->batch.len));
		forget_batch(h);
	}
	return 1;
}

int history_settle(struct history *h)
{
	if (!journal_etcd_is_kept(h->etcd))
		return 1;
	if (!h->batch.len)
		return 0;
	say_ended(h);
	journal_etcd_append(h->etcd, SLICE(h->batch.data, h->batch.len));
	forget_batch(h);
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
	struct err e = ERR_INIT;
	int rc;

	if (!h->writes || h->mute)
		return 0;
	if (h->etcd)
		return commit_to_etcd(h);
	if (journal_file_is_lost(h->file)) {
		try_again(h);
		return 0;
	}
	if (!h->batch.len && !h->batch.failed)
		return 0;
	if (h->batch.failed || journal_file_is_long(h->file)) {
		rc = put_snapshot(h, &e);
	} else {
		rc = journal_file_append(h->file,
					 SLICE(h->batch.data, h->batch.len),
					 &e);
		forget_batch(h);
	}
	if (rc < 0)
		complain(h, &e);
	return 0;
}

/* ---- from start to end ---- */

int history_number(struct history *h, struct hosted *job)
{
	if (!job->number)
		job->number = ++h->jobs;
	job->numbered.key = SLICE((const char *)&job->number,
				  sizeof job->number);
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
	rc = journal_file_replay(h->file, history_take, h, e);
	drop_empty(h);
	h->mute = 0;
	if (rc <= 0)
		return rc < 0 ? err_set(e, rc, "journal %s: what it says makes "
					"no sense to this version: move it "
					"away", path ? path : "in memory") : 0;
	rc = put_snapshot(h, e);
	if (rc < 0)
		return rc;
	jobs = (int)h->by_number.items;
	if (jobs)
		log_debug("going on with %d job%s", jobs, jobs > 1 ? "s" : "");
	history_serve(h);
	return 0;
}

/* How many batches there were. */
static int read_etcd(struct history *h, struct journal_etcd *journal)
{
	int rc;

	buf_init(&h->batch, JOURNAL_BATCH_MAX);
	h->etcd = journal;
	h->writes = h->mute = 1;
	rc = journal_etcd_replay(journal, history_take, h);
	if (rc > 0)
		journal_etcd_say_ended(journal, 1); /* unless a job is there */
	drop_empty(h);
	h->mute = 0;
	return rc;
}

int history_is_over_in_etcd(struct history *h, struct journal_etcd *journal)
{
	struct table_item *at = NULL;
	int rc = read_etcd(h, journal);

	while (rc > 0 && (at = table_next(&h->by_number, at)))
		if (job_state(hosted_of_number(at)->job) != JOB_OVER)
			rc = 0;
	return rc > 0;
}

int history_start_in_etcd(struct history *h, struct journal_etcd *journal,
			  struct err *e)
{
	int rc = read_etcd(h, journal);

	if (rc < 0)
		return err_set(e, rc, "what etcd keeps of this job makes no "
			       "sense to this version");
	return rc ? put_snapshot(h, e) < 0 ? e->code : 1 : 0;
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
