/* world.c: converts a state to bytes and back; the queues. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/round/job_internal.h"
#include "tests/model/model.h"

const struct setup *setup;

static_assert(sizeof(struct message) == 24, "no padding: states are compared");
static_assert(sizeof(struct world) % 8 == 0, "words");
static_assert(sizeof(struct agent) == 26 + sizeof(struct queue), "the same");

/* ---- queues ---- */

struct message *queue_put(struct queue *q, const struct message *m)
{
	if (q->n == QUEUE_MAX) {
		violate("more than %d frames are under way on a connection",
			QUEUE_MAX);
		return &q->at[QUEUE_MAX - 1];
	}
	q->at[q->n] = *m;
	return &q->at[q->n++];
}

struct message queue_take(struct queue *q)
{
	struct message m = q->at[0];

	q->n--;
	memmove(q->at, q->at + 1, q->n * sizeof(q->at[0]));
	memset(&q->at[q->n], 0, sizeof(q->at[0]));
	return m;
}

void queue_clear(struct queue *q)
{
	memset(q, 0, sizeof(*q));
}

/* ---- states ---- */

void run_begin(struct run *r, uint8_t faults)
{
	memset(r, 0, sizeof(*r));
	r->w.faults = faults;
	for (int i = 0; i < NODES_MAX; i++) {
		r->w.agents[i].exit_code = -1;
		r->w.audit.home[i] = -1;
	}
	r->is_loaded = 1;
}

void run_load(struct run *r)
{
	if (r->is_loaded)
		return;
	r->is_loaded = 1;
	if (!r->bytes.len)
		return;
	r->job = job_load(r->bytes);
	if (r->job)
		server_own_nodes(r);
	else
		violate("job_load refuses what job_save wrote");
}

void run_release(struct run *r)
{
	if (r->job)
		job_free(r->job);
	r->job = NULL;
	r->is_loaded = 0;
}

/* Renumbers the order of joining from 0: only the order matters. */
static void renumber(struct job *j)
{
	struct job_node *n;

	j->seq = 0;
	for (n = j->nodes; n; n = n->next)
		n->seq = j->seq++;
}

/* Compresses a world, which is mostly zeroes: 8-byte words in groups of a u8
 * count of zero words, a u8 count of other words, and these. n is a multiple of
 * 8. */
static void put_packed(struct buf *out, const void *data, size_t n)
{
	const char *p = data, *end = p + n;
	/* each group but the last has a word that is not zero */
	char *to = buf_reserve(out, n + n / 4 + 2), *count;
	uint64_t word;

	assert(to);
	while (p < end) {
		uint8_t zeroes = 0;

		for (; p < end && zeroes < UINT8_MAX; p += 8, zeroes++) {
			memcpy(&word, p, 8);
			if (word)
				break;
		}
		*to++ = (char)zeroes;
		count = to++;
		for (*count = 0; p < end && *count < INT8_MAX; p += 8) {
			memcpy(&word, p, 8);
			if (!word)
				break;
			memcpy(to, p, 8);
			to += 8;
			++*count;
		}
	}
	out->len = (size_t)(to - out->data);
}

static const char *unpack(const char *p, void *data, size_t n)
{
	char *to = data, *end = to + n;

	while (to < end) {
		size_t zeroes = 8 * (size_t)(uint8_t)*p++;
		size_t others = 8 * (size_t)*p++;

		memset(to, 0, zeroes);
		memcpy(to + zeroes, p, others);
		to += zeroes + others;
		p += others;
	}
	return p;
}

void run_put(struct run *r, struct buf *out)
{
	static struct buf job = BUF_INIT(1 << 20);

	buf_reset(&job);
	if (r->is_loaded)
		server_note_job(r);
	else
		buf_put(&job, r->bytes.data, r->bytes.len);
	if (r->job) {
		renumber(r->job);
		job_save(r->job, &job);
	}
	put_packed(out, &r->w, sizeof(r->w));
	buf_put_u32(out, (uint32_t)job.len);
	buf_put(&job, "\0\0\0\0\0\0\0", 7);
	put_packed(out, job.data, job.len / 8 * 8);
}

void run_set(struct run *r, struct slice bytes)
{
	static char job[1 << 16];
	uint32_t len;
	const char *p = unpack(bytes.data, &r->w, sizeof(r->w));

	memcpy(&len, p, sizeof(len));
	assert(len + 7 <= sizeof(job));
	unpack(p + sizeof(len), job, (len + 7) / 8 * 8);
	r->bytes = SLICE(job, len);
	r->job = NULL;
	r->is_loaded = 0;
}
