/* recovery.c: opens and replays the journal, and starts writing it. */
#include "rendezvous/recovery/recovery.h"

#include "base/log.h"
#include "rendezvous/election/leadership.h"
#include "rendezvous/journal/journal.h"
#include "rendezvous/journal/journal_etcd.h"
#include "rendezvous/journal/journal_file.h"
#include "rendezvous/server/hosted_job.h"

static int recovery_jobs_over(void *owner)
{
	struct server *s = owner;
	struct hosted_job *h = NULL;
	int over = 1;

	if (!server_count_jobs(s))
		return -1;
	while ((h = server_next_job(s, h)))
		over &= job_state(h->job) == JOB_OVER;
	return over;
}

static int recovery_is_leader(void *owner)
{
	const struct server *s = owner;

	return leadership_is_sure(s->leadership);
}

static void recovery_on_failure(void *owner, const struct err *why)
{
	const struct server *s = owner;

	leadership_fail(s->leadership, why);
}

static void recovery_init_writer(struct server *s)
{
	static const struct journal_writer_owner calls = {
		.snapshot = journal_snapshot_make,
		.jobs_over = recovery_jobs_over,
		.is_leader = recovery_is_leader,
		.on_failure = recovery_on_failure,
	};
	struct journal_writer *w = &s->writer;

	w->calls = &calls;
	w->owner = s;
	w->pool = &s->pool;
	buf_init(&w->batch, JOURNAL_BATCH_MAX);
}

void recovery_serve(struct server *s)
{
	struct hosted_job *h = NULL;

	while ((h = server_next_job(s, h)))
		resume_expect(h);
}

static void recovery_drop_empty(struct server *s)
{
	struct hosted_job *h = NULL;

	while ((h = server_next_job(s, h))) {
		hosted_job_free_if_empty(h);
		if (h->closing)
			h = NULL; /* the table has changed */
	}
}

/* Sets the limits, which do not apply to the journal's own keys. */
static void recovery_end_replay(struct server *s)
{
	struct hosted_job *h = NULL;

	recovery_drop_empty(s);
	while ((h = server_next_job(s, h)))
		if (h->store)
			store_limit(h->store, s->max_keys, s->max_bytes);
	s->writer.mute = 0;
}

/* If no snapshot fits after the journal, its jobs go on: the snapshot replaces
 * the journal, or the server continues without one. If memory is short, the
 * journal is left for the next server, which may have more. */
static int recovery_begin_file(struct journal_writer *w, struct err *e)
{
	int rc = journal_writer_snapshot(w, 1, e);

	if (rc < 0 && !journal_file_is_lost(w->file))
		return rc;
	if (rc < 0)
		journal_writer_complain(w, e);
	return 0;
}

int recovery_start(struct server *s, const char *path, int fd, struct err *e)
{
	struct journal_replay replay = {.server = s};
	struct journal_writer *w = &s->writer;
	int rc, jobs;

	w->path = path;
	recovery_init_writer(s);
	rc = journal_file_open(&w->file, path, path ? -1 : fd, e);
	if (rc < 0)
		return rc;
	w->writes = w->mute = 1;
	rc = journal_file_replay(w->file, journal_replay_batch, &replay, e);
	recovery_end_replay(s);
	if (rc < 0 && replay.why.code)
		return err_set(e, rc, "journal %s: %s", journal_writer_where(w),
			       replay.why.text);
	if (rc <= 0)
		return rc;
	rc = recovery_begin_file(w, e);
	if (rc < 0)
		return rc;
	jobs = (int)server_count_jobs(s);
	if (jobs)
		log_debug("continuing %d job%s", jobs, jobs > 1 ? "s" : "");
	recovery_serve(s);
	return 0;
}

/* Returns the number of batches. */
static int recovery_read_etcd(struct server *s, struct journal_etcd *journal,
			      struct err *e)
{
	struct journal_replay replay = {.server = s};
	struct journal_writer *w = &s->writer;
	int rc;

	recovery_init_writer(s);
	w->etcd = journal;
	w->writes = w->mute = 1;
	rc = journal_etcd_replay(journal, journal_replay_batch, &replay);
	if (rc > 0)
		journal_etcd_set_ended(journal, 1); /* as long as there is no
						     * job */
	recovery_end_replay(s);
	if (rc < 0)
		err_set(e, rc, "the journal of this job in etcd: %s",
			replay.why.code ? replay.why.text
					: "its first batch is damaged, or of "
					  "another version");
	return rc;
}

int recovery_is_over_in_etcd(struct server *s, struct journal_etcd *journal)
{
	struct err e = ERR_INIT;
	int rc = recovery_read_etcd(s, journal, &e);

	return rc > 0 && recovery_jobs_over(s) != 0;
}

int recovery_start_in_etcd(struct server *s, struct journal_etcd *journal,
			   struct err *e)
{
	int rc = recovery_read_etcd(s, journal, e);

	if (rc <= 0)
		return rc;
	rc = journal_writer_snapshot(&s->writer, 0, e);
	return rc < 0 ? rc : 1;
}

void recovery_forget(struct server *s)
{
	server_drop_jobs(s);
	finished_jobs_release(&s->finished);
	s->finished = (struct finished_jobs){.next = 0};
	s->sealed_key[0] = '\0';
	journal_writer_close(&s->writer);
}
