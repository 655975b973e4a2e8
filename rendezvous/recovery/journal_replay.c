/* journal_replay.c: applies records again, to jobs without connected nodes and
 * stores without connected workers. Notifies nobody. */
#include <errno.h>
#include <stdlib.h>

#include "base/log.h"
#include "rendezvous/journal/journal.h"
#include "rendezvous/recovery/recovery.h"
#include "rendezvous/server/hosted_job.h"
#include "rendezvous/torch/torch_session.h"

/* A record that is being read, and the job that it names. */
struct record_reader {
	struct journal_replay *replay;
	struct server *server;
	struct reader in;
	struct hosted_job *job; /* for records that begin with a job's number */
	struct err e;		/* why it is invalid, if known */
};

typedef int replay_fn(struct record_reader *r);

static int replay_reset(struct record_reader *r)
{
	server_drop_jobs(r->server);
	finished_jobs_release(&r->server->finished);
	r->server->finished = (struct finished_jobs){.next = 0};
	r->server->last_number = reader_u64(&r->in);
	r->server->writer.met = reader_u32(&r->in);
	r->server->sealed_key[0] = '\0';
	return 0;
}

static int replay_ended(struct record_reader *r)
{
	uint32_t round = reader_u32(&r->in);
	struct slice id = reader_slice(&r->in), text = reader_slice(&r->in);
	char *name = strndup(id.data, id.len);
	char *why = strndup(text.data, text.len);

	int rc = name && why ? 0 : -ENOMEM;

	if (rc == 0)
		finished_jobs_add(&r->server->finished, name, round, why);
	free(name);
	free(why);
	return rc;
}

static int replay_opened(struct record_reader *r)
{
	uint64_t number = reader_u64(&r->in);
	uint32_t first = reader_u32(&r->in);
	struct slice id = reader_slice(&r->in);
	struct job *job;

	if (r->in.bad)
		return ERR_PROTOCOL;
	job = job_new(id, first);
	if (number > r->server->last_number)
		r->server->last_number = number;
	return job && hosted_job_restore(r->server, job, number, 1) ? 0
								    : -ENOMEM;
}

static int replay_job(struct record_reader *r)
{
	uint64_t number = reader_u64(&r->in);
	int named = reader_u8(&r->in);
	struct slice bytes = reader_slice(&r->in);
	struct job *job;

	errno = 0; /* tells a lack of memory from torn bytes: job_load does
		    * not */
	job = job_load(bytes);
	if (!job)
		return errno == ENOMEM ? -ENOMEM : ERR_PROTOCOL;
	r->job = hosted_job_restore(r->server, job, number, named);
	if (!r->job)
		return -ENOMEM;
	return job_state(job) == JOB_RUNNING ? hosted_job_make_store(r->job)
					     : 0;
}

static int replay_event(struct record_reader *r)
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
		return err_set(&r->e, ERR_PROTOCOL, "%s of unknown node %.*s",
			       wire_type_name(f.type), SLICE_FMT(node));
	rc = job_event_take(r->job, &n, NULL, &f, &r->e);
	if (rc == 0)
		hosted_job_act(r->job);
	return rc;
}

static int replay_lost(struct record_reader *r)
{
	struct slice node = reader_slice(&r->in);
	struct job_node *n = job_find_node(r->job->job, node);
	struct slice why = reader_slice(&r->in);
	char text[ERR_TEXT_MAX];

	if (r->in.bad)
		return ERR_PROTOCOL;
	if (!n)
		return err_set(&r->e, ERR_PROTOCOL,
			       "the loss of unknown node %.*s",
			       SLICE_FMT(node));
	snprintf(text, sizeof(text), "%.*s", SLICE_FMT(why));
	job_event_lost(r->job, n, text);
	hosted_job_act(r->job);
	hosted_job_free_if_empty(r->job);
	return 0;
}

static int replay_was_lost(struct record_reader *r)
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

static int replay_called(struct record_reader *r)
{
	job_event_called(r->job);
	hosted_job_act(r->job);
	return 0;
}

static int replay_stopped(struct record_reader *r)
{
	struct slice why = reader_slice(&r->in);
	char text[ERR_TEXT_MAX];

	if (r->in.bad)
		return ERR_PROTOCOL;
	snprintf(text, sizeof(text), "%.*s", SLICE_FMT(why));
	job_event_stopped(r->job, text);
	hosted_job_act(r->job);
	return 0;
}

static int replay_torch(struct record_reader *r)
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
		/* its interface may be gone */
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

/* Replies during replay; discarded. */
static struct conn nobody = {.state = CONN_CLOSED,
			     .out = BUF_INIT(CONN_OUT_MAX)};

/* The rank's absence fails the gathers that lack it, as it did before. */
static int replay_left(struct record_reader *r)
{
	uint32_t rank = reader_u32(&r->in);
	const char *how = r->in.bad ? NULL : job_rank_end(r->job->job, rank);

	if (!how || !r->job->store)
		return ERR_PROTOCOL;
	return store_rank_left(r->job->store, rank, how);
}

static int replay_request(struct record_reader *r)
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
	nobody.pool = &r->server->pool;
	s.store = r->job->store;
	s.job = r->job->job;
	s.replies = &r->job->replies;
	s.reply =
		s.id ? reply_cache_find_or_make(s.replies, s.id, s.rank) : NULL;
	if (s.id && !s.reply)
		return -ENOMEM;
	rc = session_replay(&s, &f, &r->e);
	buf_release(&nobody.out);
	return rc;
}

static int replay_torched(struct record_reader *r)
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

static int replay_key(struct record_reader *r)
{
	struct slice key;

	if (!r->job->store)
		return ERR_PROTOCOL;
	key = reader_slice(&r->in);
	return store_set(r->job->store, key, reader_slice(&r->in), &r->e);
}

static int replay_queued(struct record_reader *r)
{
	struct slice key;

	if (!r->job->store)
		return ERR_PROTOCOL;
	key = reader_slice(&r->in);
	return store_push(r->job->store, key, reader_slice(&r->in), &r->e);
}

static int replay_gathered(struct record_reader *r)
{
	struct slice *values;
	struct barrier_gather *m;
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
	if (number > r->server->writer.met)
		r->server->writer.met = number;
	return 0;
}

static int replay_past(struct record_reader *r)
{
	struct barrier_gather *met;
	struct cached_reply *p;
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
	if (r->in.bad || (number && !met) ||
	    (reply_cache_is_gather(type) && !met))
		return ERR_PROTOCOL;
	p = reply_cache_find_or_make(&r->job->replies, session, rank);
	if (!p)
		return -ENOMEM;
	reply_cache_set(&r->job->replies, p, r->job->store, id, type,
			(int64_t)value, met ? store_hold_again(met) : NULL);
	return 0;
}

static int replay_seal(struct record_reader *r)
{
	struct slice text = reader_slice(&r->in);

	if (text.len >= sizeof(r->server->sealed_key))
		return ERR_PROTOCOL;
	snprintf(r->server->sealed_key, sizeof(r->server->sealed_key), "%.*s",
		 SLICE_FMT(text));
	return 0;
}

/* All records except RESET, ENDED and SEAL begin with a job's number. The job
 * must exist, except for OPENED and JOB, which make it. */
static const struct {
	replay_fn *run;
	const char *name;
	int of_job, makes;
} replays[] = {
	[RECORD_RESET] = {replay_reset, "RESET"},
	[RECORD_ENDED] = {replay_ended, "ENDED"},
	[RECORD_OPENED] = {replay_opened, "OPENED", 1, 1},
	[RECORD_JOB] = {replay_job, "JOB", 1, 1},
	[RECORD_EVENT] = {replay_event, "EVENT", 1},
	[RECORD_LOST] = {replay_lost, "LOST", 1},
	[RECORD_CALLED] = {replay_called, "CALLED", 1},
	[RECORD_STOPPED] = {replay_stopped, "STOPPED", 1},
	[RECORD_TORCH] = {replay_torch, "TORCH", 1},
	[RECORD_REQUEST] = {replay_request, "REQUEST", 1},
	[RECORD_KEY] = {replay_key, "KEY", 1},
	[RECORD_GATHERED] = {replay_gathered, "GATHERED", 1},
	[RECORD_PAST] = {replay_past, "PAST", 1},
	[RECORD_TORCHED] = {replay_torched, "TORCHED", 1},
	[RECORD_QUEUED] = {replay_queued, "QUEUED", 1},
	[RECORD_SEAL] = {replay_seal, "SEAL"},
	[RECORD_LEFT] = {replay_left, "LEFT", 1},
	[RECORD_WAS_LOST] = {replay_was_lost, "WAS_LOST", 1},
};

static uint64_t replay_peek_number(const struct record_reader *r)
{
	struct reader in = r->in;

	return reader_u64(&in);
}

/* 1: apply the record. 0: its job is unknown, or an invalid record has ended
 * it. */
static int replay_is_wanted(struct record_reader *r, unsigned type)
{
	uint64_t number = replay_peek_number(r);

	r->job = NULL;
	if (!replays[type].of_job || replays[type].makes)
		return 1;
	r->job = server_find_job(r->server, number);
	if (r->job) {
		reader_u64(&r->in);
		return !r->job->is_broken;
	}
	if (r->replay->unknown_job != number)
		log_warn("journal: ignored the records of job number %llu, "
			 "whose first record is missing (%s)",
			 (unsigned long long)number, replays[type].name);
	r->replay->unknown_job = number;
	return 0;
}

/* Ends the record's job with the reason, which its agents and later clients
 * get. The other jobs continue. */
static int replay_cost_job(struct record_reader *r, unsigned type,
			   uint64_t number)
{
	char why[ERR_TEXT_MAX];

	if (!replays[type].of_job) {
		log_error("error: journal: ignored an invalid record (%s)",
			  replays[type].name);
		return 0;
	}
	if (!r->job) {
		r->replay->unknown_job = number;
		log_error("error: journal: job number %llu is lost: its record "
			  "(%s) is invalid",
			  (unsigned long long)number, replays[type].name);
		return 0;
	}
	snprintf(why, sizeof(why),
		 "a record (%s) in the journal of the rendezvous server at %s "
		 "is invalid%s%.400s",
		 replays[type].name, r->server->endpoint,
		 r->e.text[0] ? ": " : "", r->e.text);
	log_error("error: job '%s' ends: %s", job_id(r->job->job), why);
	r->job->is_broken = 1;
	job_stop(r->job->job, why);
	hosted_job_act(r->job);
	return 0;
}

static int replay_record(struct record_reader *r,
			 const struct journal_record *record)
{
	uint64_t number;
	int rc;

	if (record->type >= sizeof(replays) / sizeof(*replays) ||
	    !replays[record->type].run)
		return err_set(&r->replay->why, ERR_PROTOCOL,
			       "it has a record of "
			       "type %u, which this version does not know: "
			       "move it away",
			       record->type);
	reader_init(&r->in, record->body);
	r->e = (struct err)ERR_INIT;
	number = replay_peek_number(r);
	if (!replay_is_wanted(r, record->type))
		return 0;
	rc = replays[record->type].run(r);
	if (rc >= 0 && r->in.bad)
		rc = ERR_PROTOCOL;
	if (rc == -ENOMEM)
		return err_set(
			&r->replay->why, rc,
			"out of memory while reading it; it is unchanged");
	return rc < 0 ? replay_cost_job(r, record->type, number) : 0;
}

int journal_replay_batch(void *replay, struct slice batch)
{
	struct journal_replay *x = replay;
	struct record_reader r = {.replay = x, .server = x->server};
	struct journal_record record;
	struct reader in;
	int rc = 0;

	reader_init(&in, batch);
	while (rc >= 0 && journal_next(&in, &record))
		rc = replay_record(&r, &record);
	if (rc >= 0 && in.bad)
		rc = err_set(&x->why, ERR_PROTOCOL,
			     "it is damaged, or this version cannot read it: "
			     "move it away");
	return rc < 0 ? rc : 0;
}
