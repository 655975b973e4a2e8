/* history_read.c: records happen again: to jobs whose nodes are away, to stores
 * whose workers are, with nobody to be told. */
#include <errno.h>
#include <stdlib.h>

#include "rendezvous/history.h"
#include "rendezvous/hosted.h"
#include "rendezvous/journal.h"
#include "rendezvous/torch_session.h"

/* A record that is being read; what it names is found as it is read. */
struct reading {
	struct history *h;
	struct reader in;
	struct hosted *job;
};

typedef int taker(struct reading *r);

static int find_job(struct reading *r)
{
	uint64_t number = reader_u64(&r->in);
	struct slice key = SLICE((const char *)&number, sizeof number);
	struct table_item *item = table_find(&r->h->by_number, key);

	r->job = item ? hosted_of_number(item) : NULL;
	return r->job ? 0 : ERR_PROTOCOL;
}

static struct job_node *find_node(struct reading *r)
{
	return find_job(r) < 0 ? NULL :
	       job_find_node(r->job->job, reader_slice(&r->in));
}

static int take_reset(struct reading *r)
{
	struct table_item *at;

	while ((at = table_next(&r->h->by_number, NULL)))
		hosted_drop(hosted_of_number(at));
	ended_release(&r->h->server->ended);
	r->h->server->ended = (struct ended){.next = 0};
	r->h->jobs = reader_u64(&r->in);
	r->h->met = reader_u32(&r->in);
	r->h->seal[0] = '\0';
	return 0;
}

static int take_ended(struct reading *r)
{
	uint32_t round = reader_u32(&r->in);
	struct slice id = reader_slice(&r->in), text = reader_slice(&r->in);
	char *name = strndup(id.data, id.len);
	char *why = strndup(text.data, text.len);

	if (name && why)
		ended_add(&r->h->server->ended, name, round, why);
	free(name);
	free(why);
	return 0;
}

static int take_opened(struct reading *r)
{
	uint64_t number = reader_u64(&r->in);
	uint32_t first = reader_u32(&r->in);
	struct slice id = reader_slice(&r->in);
	struct job *job = r->in.bad ? NULL : job_new(id, first);

	if (!job)
		return ERR_PROTOCOL;
	if (number > r->h->jobs)
		r->h->jobs = number;
	return hosted_restore(r->h->server, job, number, 1) ? 0 : -ENOMEM;
}

static int take_job(struct reading *r)
{
	uint64_t number = reader_u64(&r->in);
	int named = reader_u8(&r->in);
	struct job *job = job_load(reader_slice(&r->in));

	if (!job)
		return ERR_PROTOCOL;
	r->job = hosted_restore(r->h->server, job, number, named);
	if (!r->job)
		return -ENOMEM;
	return job_state(job) == JOB_RUNNING ? hosted_make_store(r->job) : 0;
}

static int take_join(struct reading *r, const struct wire_frame *f)
{
	struct job_node *node;
	struct wire_join join;
	int rc = wire_get_join(f, &join, NULL);

	return rc < 0 ? rc : job_join(r->job->job, &join, NULL,
				      r->h->server->endpoint, &node, NULL);
}

static int happen(struct reading *r, struct job_node *n,
		  const struct wire_frame *f)
{
	struct job *job = r->job->job;
	struct wire_exited exited;
	struct wire_failed failed;
	struct wire_leave leave;
	struct wire_stop stop;
	int rc;

	if (f->type == WIRE_JOIN)
		return take_join(r, f);
	if (!n)
		return ERR_PROTOCOL;
	switch (f->type) {
	case WIRE_EXITED:
		rc = wire_get_exited(f, &exited, NULL);
		return rc < 0 ? rc : job_exited(job, n, &exited, NULL);
	case WIRE_FAILED:
		rc = wire_get_failed(f, &failed, NULL);
		if (rc == 0)
			job_failed(job, n, &failed);
		return rc;
	case WIRE_LEAVE:
		rc = wire_get_leave(f, &leave, NULL);
		if (rc == 0)
			job_leave(job, n, &leave);
		return rc;
	case WIRE_STOP:
		rc = wire_get_stop(f, &stop, NULL);
		if (rc == 0)
			job_told(job, n, &stop);
		return rc;
	default:
		return ERR_PROTOCOL;
	}
}

static int take_event(struct reading *r)
{
	struct job_node *n = find_node(r);
	struct wire_frame f = {.kind = WIRE_NOTICE};
	int rc;

	f.type = reader_u8(&r->in);
	f.body = reader_slice(&r->in);
	if (!r->job || r->in.bad)
		return ERR_PROTOCOL;
	rc = happen(r, n, &f);
	if (rc == 0)
		hosted_act(r->job);
	return rc;
}

static int take_lost(struct reading *r)
{
	struct job_node *n = find_node(r);
	struct slice why = reader_slice(&r->in);
	char text[ERR_TEXT_MAX];

	if (!n || r->in.bad)
		return ERR_PROTOCOL;
	snprintf(text, sizeof text, "%.*s", SLICE_FMT(why));
	job_lost(r->job->job, n, text);
	hosted_act(r->job);
	hosted_free_if_empty(r->job);
	return 0;
}

static int take_called(struct reading *r)
{
	if (find_job(r) < 0)
		return ERR_PROTOCOL;
	job_last_call(r->job->job);
	hosted_act(r->job);
	return 0;
}

static int take_stopped(struct reading *r)
{
	struct slice why;
	char text[ERR_TEXT_MAX];

	if (find_job(r) < 0)
		return ERR_PROTOCOL;
	why = reader_slice(&r->in);
	snprintf(text, sizeof text, "%.*s", SLICE_FMT(why));
	job_stop(r->job->job, text);
	hosted_act(r->job);
	return 0;
}

static int take_torch(struct reading *r)
{
	char host[SOCK_HOST_MAX];
	struct slice text;
	uint16_t port;
	uint32_t n;

	if (find_job(r) < 0)
		return ERR_PROTOCOL;
	port = reader_u16(&r->in);
	n = reader_u32(&r->in);
	if (n > TORCH_ADDRS_MAX)
		return ERR_PROTOCOL;
	for (uint32_t i = 0; i < n; i++) {
		text = reader_slice(&r->in);
		snprintf(host, sizeof host, "%.*s", SLICE_FMT(text));
		if (!sock_addr_number(host, 0, &r->job->torch_at[i]))
			return ERR_PROTOCOL;
	}
	r->job->torch_port = port;
	r->job->ntorch_at = (int)n;
	return 0;
}

/* ---- stores ---- */

/* Nobody's: what is put into it is thrown away. */
static struct conn nobody = {.state = CONN_CLOSED,
			     .out = BUF_INIT(CONN_OUT_MAX)};

static int take_request(struct reading *r)
{
	struct session s = {.conn = &nobody};
	struct wire_frame f = {.kind = WIRE_REQUEST};
	int rc;

	if (find_job(r) < 0 || !r->job->store)
		return ERR_PROTOCOL;
	s.id = reader_u64(&r->in);
	s.rank = reader_u32(&r->in);
	f.id = reader_u32(&r->in);
	f.type = reader_u8(&r->in);
	f.body = reader_slice(&r->in);
	if (r->in.bad)
		return ERR_PROTOCOL;
	nobody.pool = &r->h->server->pool;
	s.store = r->job->store;
	s.job = r->job->job;
	s.pasts = &r->job->pasts;
	s.past = s.id ? past_find_or_make(s.pasts, s.id, s.rank) : NULL;
	rc = session_replay(&s, &f, NULL);
	buf_release(&nobody.out);
	return rc;
}

static int take_torched(struct reading *r)
{
	enum torch_generation g;

	if (find_job(r) < 0 || !r->job->store)
		return ERR_PROTOCOL;
	g = reader_u8(&r->in);
	if (g != TORCH_OLD && g != TORCH_MODERN)
		return ERR_PROTOCOL;
	return torch_session_replay(r->job->store, g, reader_slice(&r->in),
				    NULL);
}

static int take_key(struct reading *r)
{
	struct slice key;

	if (find_job(r) < 0 || !r->job->store)
		return ERR_PROTOCOL;
	key = reader_slice(&r->in);
	return store_set(r->job->store, key, reader_slice(&r->in), NULL);
}

static int take_queued(struct reading *r)
{
	struct slice key;

	if (find_job(r) < 0 || !r->job->store)
		return ERR_PROTOCOL;
	key = reader_slice(&r->in);
	return store_push(r->job->store, key, reader_slice(&r->in), NULL);
}

static int take_gathered(struct reading *r)
{
	struct slice *values;
	struct meeting *m;
	uint32_t number, n;

	if (find_job(r) < 0 || !r->job->store)
		return ERR_PROTOCOL;
	number = reader_u32(&r->in);
	n = reader_u32(&r->in);
	if (n > WIRE_WORLD_MAX)
		return ERR_PROTOCOL;
	values = malloc((n + 1) * sizeof *values);
	if (!values)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		values[i] = reader_slice(&r->in);
	m = r->in.bad ? NULL : store_remake(r->job->store, values, n);
	free(values);
	if (!m)
		return r->in.bad ? ERR_PROTOCOL : -ENOMEM;
	*store_held_number(m) = r->h->met = number;
	return 0;
}

static int is_gather(uint8_t type)
{
	return type == WIRE_GATHER || type == WIRE_SHARE;
}

static int take_past(struct reading *r)
{
	struct meeting *met;
	struct past *p;
	uint64_t session, value;
	uint32_t rank, id, number;
	uint8_t type;

	if (find_job(r) < 0 || !r->job->store)
		return ERR_PROTOCOL;
	session = reader_u64(&r->in);
	rank = reader_u32(&r->in);
	id = reader_u32(&r->in);
	type = reader_u8(&r->in);
	value = reader_u64(&r->in);
	number = reader_u32(&r->in);
	met = number ? store_find_held(r->job->store, number) : NULL;
	if (r->in.bad || (number && !met) || (is_gather(type) && !met))
		return ERR_PROTOCOL;
	p = past_find_or_make(&r->job->pasts, session, rank);
	if (!p)
		return -ENOMEM;
	past_set(p, r->job->store, id, type, (int64_t)value,
		 met ? store_hold_again(met) : NULL);
	return 0;
}

static int take_seal(struct reading *r)
{
	struct slice text = reader_slice(&r->in);

	if (text.len >= sizeof r->h->seal)
		return ERR_PROTOCOL;
	snprintf(r->h->seal, sizeof r->h->seal, "%.*s", SLICE_FMT(text));
	return 0;
}

static taker *const takers[] = {
	[HISTORY_RESET] = take_reset,
	[HISTORY_ENDED] = take_ended,
	[HISTORY_OPENED] = take_opened,
	[HISTORY_JOB] = take_job,
	[HISTORY_EVENT] = take_event,
	[HISTORY_LOST] = take_lost,
	[HISTORY_CALLED] = take_called,
	[HISTORY_STOPPED] = take_stopped,
	[HISTORY_TORCH] = take_torch,
	[HISTORY_REQUEST] = take_request,
	[HISTORY_KEY] = take_key,
	[HISTORY_GATHERED] = take_gathered,
	[HISTORY_PAST] = take_past,
	[HISTORY_TORCHED] = take_torched,
	[HISTORY_QUEUED] = take_queued,
	[HISTORY_SEAL] = take_seal,
};

int history_take(void *history, struct slice batch)
{
	struct history *h = history;
	struct reading r = {.h = h};
	struct journal_record record;
	struct reader in;
	int rc = 0;

	reader_init(&in, batch);
	while (rc >= 0 && journal_next(&in, &record)) {
		if (record.type >= sizeof takers / sizeof *takers ||
		    !takers[record.type])
			return ERR_PROTOCOL;
		reader_init(&r.in, record.body);
		rc = takers[record.type](&r);
		if (rc >= 0 && r.in.bad)
			rc = ERR_PROTOCOL;
	}
	return rc < 0 ? rc : in.bad ? ERR_PROTOCOL : 0;
}
