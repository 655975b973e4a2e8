/* history_snapshot.c: everything that a server holds as records: what the next
 * one begins with. It reads the jobs and changes nothing in them but the tags
 * of what was gathered. */
#include <errno.h>

#include "rendezvous/journal/journal.h"
#include "rendezvous/server/history.h"
#include "rendezvous/server/hosted.h"
#include "rendezvous/server/resume.h"

enum { PART_BYTES = 64 << 20 }; /* then the next part begins */

void history_put_torch(struct buf *b, const struct hosted *job)
{
	char text[SOCK_TEXT_MAX];

	buf_put_u16(b, job->torch_port);
	buf_put_u32(b, (uint32_t)job->ntorch_at);
	for (int i = 0; i < job->ntorch_at; i++)
		buf_put_slice(b, SLICE_STR(sock_addr_scoped(&job->torch_at[i],
							  text)));
}

void history_put_gathered(struct buf *b, struct pasts *round,
			  struct meeting *met)
{
	uint32_t n;
	const struct slice *values = store_held(met, &n);
	struct held_tag *tag = store_held_tag(met);
	size_t mark = journal_begin(b, HISTORY_GATHERED);

	if (!tag->number)
		tag->number = ++round->history->met;
	buf_put_u64(b, round->job);
	buf_put_u32(b, tag->number);
	buf_put_u32(b, n);
	for (uint32_t i = 0; i < n; i++)
		buf_put_slice(b, values[i]);
	journal_end(b, mark);
}

void history_put_past(struct buf *b, struct pasts *round, const struct past *p)
{
	size_t mark = journal_begin(b, HISTORY_PAST);

	buf_put_u64(b, round->job);
	buf_put_u64(b, p->session);
	buf_put_u32(b, p->rank);
	buf_put_u32(b, p->id);
	buf_put_u8(b, p->type);
	buf_put_u64(b, (uint64_t)p->value);
	buf_put_u32(b, p->met ? store_held_tag(p->met)->number : 0);
	journal_end(b, mark);
}

void history_put_seal(struct buf *b, const struct history *h)
{
	size_t mark = journal_begin(b, HISTORY_SEAL);

	buf_put_slice(b, SLICE_STR(h->seal));
	journal_end(b, mark);
}

/* ---- parts ---- */

/* Where the next record goes. A part is a batch, which has a limit; a server's
 * jobs together have none. */
static struct buf *next_record(struct snapshot *s)
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

static void put_pair(struct snapshot *s, enum history_type type,
		     const struct hosted *job, struct slice key,
		     struct slice value)
{
	struct buf *b = next_record(s);
	size_t mark = journal_begin(b, (uint8_t)type);

	buf_put_u64(b, job->number);
	buf_put_slice(b, key);
	buf_put_slice(b, value);
	journal_end(b, mark);
}

static void put_left(struct snapshot *s, const struct hosted *job,
		     uint32_t rank)
{
	struct buf *b = next_record(s);
	size_t mark = journal_begin(b, HISTORY_LEFT);

	buf_put_u64(b, job->number);
	buf_put_u32(b, rank);
	journal_end(b, mark);
}

static void put_store(struct snapshot *s, struct hosted *job)
{
	struct table_item *at = NULL;
	const struct queued *q = NULL;
	struct slice key, value;
	uint32_t rank;

	/* the first of them is who a gather is failed by */
	for (size_t i = 0; store_left_at(job->store, i, &rank); i++)
		put_left(s, job, rank);

	while (store_next_key(job->store, &at, &key)) {
		store_get(job->store, key, &value);
		put_pair(s, HISTORY_KEY, job, key, value);
	}
	at = NULL;
	while (store_next_queued(job->store, &at, &q, &key, &value))
		put_pair(s, HISTORY_QUEUED, job, key, value);
}

/* What several workers gathered together is written once, before the first of
 * them. */
static void put_pasts(struct snapshot *s, struct pasts *round)
{
	const struct past *p = NULL;

	while ((p = past_next(round, p))) {
		if (!p->type)
			continue;
		if (p->met && store_held_tag(p->met)->snapshot != s->number) {
			history_put_gathered(next_record(s), round, p->met);
			store_held_tag(p->met)->snapshot = s->number;
		}
		history_put_past(next_record(s), round, p);
	}
}

/* The oldest first: each is put before those that are there. */
static void put_lost(struct snapshot *s, const struct hosted *job,
		     const struct lost_node *l)
{
	if (!l)
		return;
	put_lost(s, job, l->next);
	put_pair(s, HISTORY_WAS_LOST, job, SLICE_STR(l->id), SLICE_STR(l->why));
}

static void put_job(struct snapshot *s, struct hosted *job)
{
	struct buf *b = next_record(s), state = BUF_INIT(JOURNAL_BATCH_MAX);
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
	put_lost(s, job, job->lost);
	if (!job->store)
		return;
	if (job->torch_port) {
		b = next_record(s);
		mark = journal_begin(b, HISTORY_TORCH);
		buf_put_u64(b, job->number);
		history_put_torch(b, job);
		journal_end(b, mark);
	}
	put_store(s, job);
	put_pasts(s, &job->pasts);
}

static void put_ended(struct snapshot *s, const struct ended *d)
{
	for (unsigned i = 0; i < ENDED_MAX; i++) {
		const struct ended_job *job =
			&d->jobs[(d->next + i) % ENDED_MAX];
		struct buf *b;
		size_t mark;

		if (!job->id)
			continue;
		b = next_record(s);
		mark = journal_begin(b, HISTORY_ENDED);
		buf_put_u32(b, job->round);
		buf_put_slice(b, SLICE_STR(job->id));
		buf_put_slice(b, SLICE_STR(job->text));
		journal_end(b, mark);
	}
}

int history_snapshot(struct history *h, struct snapshot *s)
{
	struct table_item *at = NULL;
	struct buf *b;
	size_t mark;
	int rc = 0;

	s->n = 0;
	s->number = ++h->snapshots;
	b = next_record(s);
	mark = journal_begin(b, HISTORY_RESET);
	buf_put_u64(b, h->jobs);
	buf_put_u32(b, h->met);
	journal_end(b, mark);
	if (h->seal[0])
		history_put_seal(b, h);
	put_ended(s, &h->server->ended);
	while ((at = table_next(&h->by_number, at)))
		put_job(s, hosted_of_number(at));
	for (size_t i = 0; i < s->n; i++) {
		s->slices[i] = SLICE(s->parts[i].data, s->parts[i].len);
		if (s->parts[i].failed && !rc)
			rc = s->parts[i].failed;
	}
	if (rc < 0)
		history_snapshot_release(s);
	return rc;
}

void history_snapshot_release(struct snapshot *s)
{
	while (s->n)
		buf_release(&s->parts[--s->n]);
}
