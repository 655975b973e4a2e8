/* journal_snapshot.c: writes the server's whole state as records, with which
 * the next server begins. Changes nothing but the tags of gathers. */
#include <errno.h>

#include "rendezvous/journal/journal.h"
#include "rendezvous/recovery/recovery.h"
#include "rendezvous/server/hosted_job.h"

enum { PART_BYTES = 64 << 20 }; /* a part ends after that many bytes */

/* ---- parts ---- */

/* The buffer for the next record. A part is a batch, whose size is limited; the
 * state as a whole is not. */
static struct buf *snapshot_next(struct snapshot *s)
{
	struct buf *b = s->n ? &s->parts[s->n - 1] : NULL;

	if (b && b->len < PART_BYTES)
		return b;
	if (s->n == SNAPSHOT_PARTS_MAX) {
		b->failed = -EFBIG;
		return b;
	}
	b = &s->parts[s->n++];
	buf_init(b, JOURNAL_BATCH_MAX);
	return b;
}

static void snapshot_put_pair(struct snapshot *s, enum record_type type,
			      const struct hosted_job *h, struct slice key,
			      struct slice value)
{
	struct buf *b = snapshot_next(s);
	size_t mark = journal_begin(b, (uint8_t)type);

	buf_put_u64(b, h->number);
	buf_put_slice(b, key);
	buf_put_slice(b, value);
	journal_end(b, mark);
}

static void snapshot_put_left(struct snapshot *s, const struct hosted_job *h,
			      uint32_t rank)
{
	struct buf *b = snapshot_next(s);
	size_t mark = journal_begin(b, RECORD_LEFT);

	buf_put_u64(b, h->number);
	buf_put_u32(b, rank);
	journal_end(b, mark);
}

static void snapshot_put_store(struct snapshot *s, struct hosted_job *h)
{
	struct hash_item *at = NULL;
	const struct queued *q = NULL;
	struct slice key, value;
	uint32_t rank;

	/* in the order of leaving: a gather is failed by the first */
	for (size_t i = 0; store_left_at(h->store, i, &rank); i++)
		snapshot_put_left(s, h, rank);

	while (store_next_key(h->store, &at, &key)) {
		store_get(h->store, key, &value);
		snapshot_put_pair(s, RECORD_KEY, h, key, value);
	}
	at = NULL;
	while (store_next_queued(h->store, &at, &q, &key, &value))
		snapshot_put_pair(s, RECORD_QUEUED, h, key, value);
}

/* Writes the result of a gather once, before the first reply that uses it. */
static void snapshot_put_replies(struct snapshot *s, struct reply_cache *round)
{
	const struct cached_reply *p = NULL;

	while ((p = reply_cache_next(round, p))) {
		if (!p->type)
			continue;
		if (p->met && store_held_tag(p->met)->snapshot != s->number) {
			record_put_gathered(snapshot_next(s), round, p->met);
			store_held_tag(p->met)->snapshot = s->number;
		}
		record_put_past(snapshot_next(s), round, p);
	}
}

/* Writes the oldest first, because replay adds each before the others. */
static void snapshot_put_lost(struct snapshot *s, const struct hosted_job *h,
			      const struct lost_node *l)
{
	if (!l)
		return;
	snapshot_put_lost(s, h, l->next);
	snapshot_put_pair(s, RECORD_WAS_LOST, h, SLICE_STR(l->id),
			  SLICE_STR(l->why));
}

static void snapshot_put_job(struct snapshot *s, struct hosted_job *h)
{
	struct buf *b = snapshot_next(s), state = BUF_INIT(JOURNAL_BATCH_MAX);
	size_t mark;

	job_save(h->job, &state);
	if (state.failed)
		b->failed = state.failed;
	mark = journal_begin(b, RECORD_JOB);
	buf_put_u64(b, h->number);
	buf_put_u8(b, (uint8_t)h->is_named);
	buf_put_slice(b, SLICE(state.data, state.len));
	journal_end(b, mark);
	buf_release(&state);
	snapshot_put_lost(s, h, h->lost);
	if (!h->store)
		return;
	if (h->torch_port) {
		b = snapshot_next(s);
		mark = journal_begin(b, RECORD_TORCH);
		buf_put_u64(b, h->number);
		record_put_torch(b, h->torch_port, h->torch_at, h->ntorch_at);
		journal_end(b, mark);
	}
	snapshot_put_store(s, h);
	snapshot_put_replies(s, &h->replies);
}

static void snapshot_put_finished(struct snapshot *s,
				  const struct finished_jobs *d)
{
	for (unsigned i = 0; i < FINISHED_JOBS_MAX; i++) {
		const struct finished_job *job =
			&d->jobs[(d->next + i) % FINISHED_JOBS_MAX];
		struct buf *b;
		size_t mark;

		if (!job->id)
			continue;
		b = snapshot_next(s);
		mark = journal_begin(b, RECORD_ENDED);
		buf_put_u32(b, job->round);
		buf_put_slice(b, SLICE_STR(job->id));
		buf_put_slice(b, SLICE_STR(job->text));
		journal_end(b, mark);
	}
}

int journal_snapshot_make(void *server, struct snapshot *out)
{
	struct server *s = server;
	struct hosted_job *h = NULL;
	struct buf *b;
	size_t mark;
	int rc = 0;

	out->n = 0;
	out->number = ++s->writer.snapshots;
	b = snapshot_next(out);
	mark = journal_begin(b, RECORD_RESET);
	buf_put_u64(b, s->last_number);
	buf_put_u32(b, s->writer.met);
	journal_end(b, mark);
	if (s->sealed_key[0])
		record_put_seal(b, s->sealed_key);
	snapshot_put_finished(out, &s->finished);
	while ((h = server_next_job(s, h)))
		snapshot_put_job(out, h);
	for (size_t i = 0; i < out->n; i++) {
		out->slices[i] = SLICE(out->parts[i].data, out->parts[i].len);
		if (out->parts[i].failed && !rc)
			rc = out->parts[i].failed;
	}
	if (rc < 0)
		snapshot_release(out);
	return rc;
}
