/* history_read.c: records happen again: to jobs whose nodes are away, to stores
 * whose workers are, with nobody to be told. */
#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "rendezvous/journal/journal.h"
#include "rendezvous/server/event.h"
#include "rendezvous/server/history.h"
#include "rendezvous/server/resume.h"
#include "rendezvous/torch/torch_session.h"

/* A record that is being read; what it names is found as it is read. */
struct reading {
	struct history *h;
	struct reader in;
	struct hosted *job; /* of the records that begin with its number */
	struct err e;       /* why it makes no sense, where more is known */
};

typedef int taker(struct reading *r);

static struct hosted *job_of(struct history *h, uint64_t number)
{
	struct slice key = SLICE((const char *)&number, sizeof(number));
	struct table_item *item = table_find(&h->by_number, key);

	return item ? hosted_of_number(item) : NULL;
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

	int rc = name && why ? 0 : -ENOMEM;

	if (rc == 0)
		ended_add(&r->h->server->ended, name, round, why);
	free(name);
	free(why);
	return rc;
}

static int take_opened(struct reading *r)
{
	uint64_t number = reader_u64(&r->in);
	uint32_t first = reader_u32(&r->in);
	struct slice id = reader_slice(&r->in);
	struct job *job;

	if (r->in.bad)
		return ERR_PROTOCOL;
	job = job_new(id, first);
	if (number > r->h->jobs)
		r->h->jobs = number;
	return job && hosted_restore(r->h->server, job, number, 1) ? 0
								   : -ENOMEM;
}

static int take_job(struct reading *r)
{
	uint64_t number = reader_u64(&r->in);
	int named = reader_u8(&r->in);
	struct slice bytes = reader_slice(&r->in);
	struct job *job;

	errno = 0; /* job_load does not say whether it was memory */
	job = job_load(bytes);
	if (!job)
		return errno == ENOMEM ? -ENOMEM : ERR_PROTOCOL;
	r->job = hosted_restore(r->h->server, job, number, named);
	if (!r->job)
		return -ENOMEM;
	return job_state(job) == JOB_RUNNING ? hosted_make_store(r->job) : 0;
}

static int take_event(struct reading *r)
{
	struct slice node = reader_slice(&r->in);
	struct job_node *n = job_find_node(r->job->job, node);
	struct wire_frame f = {.kind = WIRE_NOTICE};
	int rc;

	f.type = reader_u8(&r->in);
	f.body = reader_slice(&r->in);
	if (r->in.bad)
		return ERR_PROTOCOL;
	if (!n && f.type != WIRE_JOIN)
		return err_set(&r->e, ERR_PROTOCOL, "%s of node %.*s, which "
			       "the job does not have", wire_type_name(f.type),
			       SLICE_FMT(node));
	rc = event_take(r->job, &n, NULL, &f, &r->e);
	if (rc == 0)
		hosted_act(r->job);
	return rc;
}

static int take_lost(struct reading *r)
{
	struct slice node = reader_slice(&r->in);
	struct job_node *n = job_find_node(r->job->job, node);
	struct slice why = reader_slice(&r->in);
	char text[ERR_TEXT_MAX];

	if (r->in.bad)
		return ERR_PROTOCOL;
	if (!n)
		return err_set(&r->e, ERR_PROTOCOL, "the loss of node %.*s, "
			       "which the job does not have", SLICE_FMT(node));
	snprintf(text, sizeof(text), "%.*s", SLICE_FMT(why));
	event_lost(r->job, n, text);
	hosted_act(r->job);
	hosted_free_if_empty(r->job);
	return 0;
}

static int take_was_lost(struct reading *r)
{
	struct slice node = reader_slice(&r->in);
	struct slice why = reader_slice(&r->in);
	char text[ERR_TEXT_MAX];

	if (r->in.bad)
		return ERR_PROTOCOL;
	snprintf(text, sizeof(text), "%.*s", SLICE_FMT(why));
	resume_remember(r->job, node, text);
	return 0;
}

static int take_called(struct reading *r)
{
	event_called(r->job);
	hosted_act(r->job);
	return 0;
}

static int take_stopped(struct reading *r)
{
	struct slice why = reader_slice(&r->in);
	char text[ERR_TEXT_MAX];

	if (r->in.bad)
		return ERR_PROTOCOL;
	snprintf(text, sizeof(text), "%.*s", SLICE_FMT(why));
	event_stopped(r->job, text);
	hosted_act(r->job);
	return 0;
}

static int take_torch(struct reading *r)
{
	struct sock_addr at[TORCH_ADDRS_MAX];
	char host[SOCK_HOST_MAX];
	struct slice text;
	uint16_t port = reader_u16(&r->in);
	uint32_t n = reader_u32(&r->in);

	if (n > TORCH_ADDRS_MAX)
		return ERR_PROTOCOL;
	for (uint32_t i = 0; i < n; i++) {
		text = reader_slice(&r->in);
		snprintf(host, sizeof(host), "%.*s", SLICE_FMT(text));
		/* an interface may have gone since */
		if (!sock_addr_scoped_number(host, 0, &at[i]) &&
		    !sock_addr_number(sock_host_unscope(host), 0, &at[i]))
			return ERR_PROTOCOL;
	}
	r->job->torch_port = port;
	r->job->ntorch_at = (int)n;
	memcpy(r->job->torch_at, at, n * sizeof(at[0]));
	return 0;
}

/* ---- stores ---- */

/* Nobody's: what is put into it is thrown away. */
static struct conn nobody = {.state = CONN_CLOSED,
			     .out = BUF_INIT(CONN_OUT_MAX)};

/* It fails the gathers that miss it, in this store, too. */
static int take_left(struct reading *r)
{
	uint32_t rank = reader_u32(&r->in);
	const char *how = r->in.bad ? NULL : job_rank_end(r->job->job, rank);

	if (!how || !r->job->store)
		return ERR_PROTOCOL;
	return store_rank_left(r->job->store, rank, how);
}

static int take_request(struct reading *r)
{
	struct session s = {.conn = &nobody};
	struct wire_frame f = {.kind = WIRE_REQUEST};
	int rc;

	if (!r->job->store)
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
	if (s.id && !s.past)
		return -ENOMEM;
	rc = session_replay(&s, &f, &r->e);
	buf_release(&nobody.out);
	return rc;
}

static int take_torched(struct reading *r)
{
	enum torch_generation g;

	if (!r->job->store)
		return ERR_PROTOCOL;
	g = reader_u8(&r->in);
	if (g != TORCH_OLD && g != TORCH_MODERN)
		return ERR_PROTOCOL;
	return torch_session_replay(r->job->store, g, reader_slice(&r->in),
				    &r->e);
}

static int take_key(struct reading *r)
{
	struct slice key;

	if (!r->job->store)
		return ERR_PROTOCOL;
	key = reader_slice(&r->in);
	return store_set(r->job->store, key, reader_slice(&r->in), &r->e);
}

static int take_queued(struct reading *r)
{
	struct slice key;

	if (!r->job->store)
		return ERR_PROTOCOL;
	key = reader_slice(&r->in);
	return store_push(r->job->store, key, reader_slice(&r->in), &r->e);
}

static int take_gathered(struct reading *r)
{
	struct slice *values;
	struct meeting *m;
	uint32_t number, n;

	if (!r->job->store)
		return ERR_PROTOCOL;
	number = reader_u32(&r->in);
	n = reader_u32(&r->in);
	if (n > WIRE_WORLD_MAX)
		return ERR_PROTOCOL;
	values = malloc((n + 1) * sizeof(*values));
	if (!values)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		values[i] = reader_slice(&r->in);
	m = r->in.bad ? NULL : store_remake(r->job->store, values, n);
	free(values);
	if (!m)
		return r->in.bad ? ERR_PROTOCOL : -ENOMEM;
	store_held_tag(m)->number = number;
	if (number > r->h->met)
		r->h->met = number;
	return 0;
}

static int take_past(struct reading *r)
{
	struct meeting *met;
	struct past *p;
	uint64_t session, value;
	uint32_t rank, id, number;
	uint8_t type;

	if (!r->job->store)
		return ERR_PROTOCOL;
	session = reader_u64(&r->in);
	rank = reader_u32(&r->in);
	id = reader_u32(&r->in);
	type = reader_u8(&r->in);
	value = reader_u64(&r->in);
	number = reader_u32(&r->in);
	met = number ? store_find_held(r->job->store, number) : NULL;
	if (r->in.bad || (number && !met) || (past_is_gather(type) && !met))
		return ERR_PROTOCOL;
	p = past_find_or_make(&r->job->pasts, session, rank);
	if (!p)
		return -ENOMEM;
	past_set(&r->job->pasts, p, r->job->store, id, type, (int64_t)value,
		 met ? store_hold_again(met) : NULL);
	return 0;
}

static int take_seal(struct reading *r)
{
	struct slice text = reader_slice(&r->in);

	if (text.len >= sizeof(r->h->seal))
		return ERR_PROTOCOL;
	snprintf(r->h->seal, sizeof(r->h->seal), "%.*s", SLICE_FMT(text));
	return 0;
}

/* Those but RESET, ENDED and SEAL begin with the number of a job; all of these
 * but the two that make one are of a job that is there. */
static const struct {
	taker *take;
	const char *name;
	int of_job, makes;
} takers[] = {
	[HISTORY_RESET] = {take_reset, "RESET"},
	[HISTORY_ENDED] = {take_ended, "ENDED"},
	[HISTORY_OPENED] = {take_opened, "OPENED", 1, 1},
	[HISTORY_JOB] = {take_job, "JOB", 1, 1},
	[HISTORY_EVENT] = {take_event, "EVENT", 1},
	[HISTORY_LOST] = {take_lost, "LOST", 1},
	[HISTORY_CALLED] = {take_called, "CALLED", 1},
	[HISTORY_STOPPED] = {take_stopped, "STOPPED", 1},
	[HISTORY_TORCH] = {take_torch, "TORCH", 1},
	[HISTORY_REQUEST] = {take_request, "REQUEST", 1},
	[HISTORY_KEY] = {take_key, "KEY", 1},
	[HISTORY_GATHERED] = {take_gathered, "GATHERED", 1},
	[HISTORY_PAST] = {take_past, "PAST", 1},
	[HISTORY_TORCHED] = {take_torched, "TORCHED", 1},
	[HISTORY_QUEUED] = {take_queued, "QUEUED", 1},
	[HISTORY_SEAL] = {take_seal, "SEAL"},
	[HISTORY_LEFT] = {take_left, "LEFT", 1},
	[HISTORY_WAS_LOST] = {take_was_lost, "WAS_LOST", 1},
};

static uint64_t peek_number(const struct reading *r)
{
	struct reader in = r->in;

	return reader_u64(&in);
}

/* 1: the record is to be read; 0: it is of a job that is not there, or that one
 * broken record has ended. */
static int is_wanted(struct reading *r, unsigned type)
{
	uint64_t number = peek_number(r);

	r->job = NULL;
	if (!takers[type].of_job || takers[type].makes)
		return 1;
	r->job = job_of(r->h, number);
	if (r->job) {
		reader_u64(&r->in);
		return !r->job->broken;
	}
	if (r->h->unknown != number)
		log_warn("journal: left out what it has of job number %llu, "
			 "which it does not begin with (%s)",
			 (unsigned long long)number, takers[type].name);
	r->h->unknown = number;
	return 0;
}

/* The others go on. Its agents, and who asks, are told why it has ended. */
static int cost_job(struct reading *r, unsigned type, uint64_t number)
{
	char why[ERR_TEXT_MAX];

	if (!takers[type].of_job) {
		log_error("error: journal: left out a record (%s) that makes "
			  "no sense", takers[type].name);
		return 0;
	}
	if (!r->job) {
		r->h->unknown = number;
		log_error("error: journal: job number %llu is lost: its record "
			  "(%s) makes no sense", (unsigned long long)number,
			  takers[type].name);
		return 0;
	}
	snprintf(why, sizeof(why),
		 "a record (%s) in the journal of the "
		 "rendezvous server at %s makes no sense%s%.400s",
		 takers[type].name, r->h->server->endpoint,
		 r->e.text[0] ? ": " : "", r->e.text);
	log_error("error: job '%s' ends: %s", job_id(r->job->job), why);
	r->job->broken = 1;
	job_stop(r->job->job, why);
	hosted_act(r->job);
	return 0;
}

static int take_record(struct reading *r, const struct journal_record *record)
{
	uint64_t number;
	int rc;

	if (record->type >= sizeof(takers) / sizeof(*takers) ||
	    !takers[record->type].take)
		return err_set(&r->h->why, ERR_PROTOCOL, "it has a record of "
			       "type %u, which this version does not know: "
			       "move it away", record->type);
	reader_init(&r->in, record->body);
	r->e = (struct err)ERR_INIT;
	number = peek_number(r);
	if (!is_wanted(r, record->type))
		return 0;
	rc = takers[record->type].take(r);
	if (rc >= 0 && r->in.bad)
		rc = ERR_PROTOCOL;
	if (rc == -ENOMEM)
		return err_set(&r->h->why, rc, "out of memory for what it "
			       "says; it stays as it is");
	return rc < 0 ? cost_job(r, record->type, number) : 0;
}

int history_take(void *history, struct slice batch)
{
	struct history *h = history;
	struct reading r = {.h = h};
	struct journal_record record;
	struct reader in;
	int rc = 0;

	reader_init(&in, batch);
	while (rc >= 0 && journal_next(&in, &record))
		rc = take_record(&r, &record);
	if (rc >= 0 && in.bad)
		rc = err_set(&h->why, ERR_PROTOCOL, "what it says makes no "
			     "sense to this version: move it away");
	return rc < 0 ? rc : 0;
}
