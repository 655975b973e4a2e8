/* elected_server.c: the callbacks of the server's leadership, and the job's key
 * in its journal. */
#include "rendezvous/daemon/daemon_internal.h"

#include <string.h>
#include <unistd.h>

#include "rendezvous/admission/admission.h"
#include "rendezvous/auth/auth.h"
#include "rendezvous/auth/credential.h"
#include "rendezvous/recovery/recovery.h"
#include "rendezvous/server/peer.h"
#include "rendezvous/wire.h"

/* ---- the job's key ----
 *
 * With munge, only a job's first server knows the key, because it generates it.
 * So it keeps the key in etcd's journal, sealed in a munge credential that only
 * this user can open, on hosts with the same munge key; each later server of
 * the job uses it. */

enum { SEALED_SIZE = 2 * PROOF_SIZE, ANY_MAX = 128 };

static int sealed_key_make(char *out, const struct proof *key, struct slice job,
			   struct err *e)
{
	char payload[SEALED_SIZE];
	struct proof what;
	int rc;

	proof_hash_seal(&what, job);
	memcpy(payload, what.bytes, PROOF_SIZE);
	memcpy(payload + PROOF_SIZE, key->bytes, PROOF_SIZE);
	rc = credential_make(out, SLICE(payload, SEALED_SIZE), geteuid(), e);
	proof_wipe(payload, sizeof(payload));
	return rc;
}

static int sealed_key_open(struct proof *key, const char *seal,
			   struct slice job, struct err *e)
{
	unsigned char payload[ANY_MAX];
	struct proof what;
	uid_t uid = 0;
	int n = credential_open(SLICE_STR(seal), &uid, payload, e);
	int ours;

	if (n < 0)
		return n;
	proof_hash_seal(&what, job);
	ours = n == SEALED_SIZE && uid == geteuid() &&
	       proof_same(&what, SLICE((char *)payload, PROOF_SIZE));
	if (ours)
		memcpy(key->bytes, payload + PROOF_SIZE, PROOF_SIZE);
	proof_wipe(payload, sizeof(payload));
	return ours ? 0
		    : err_set(e, ERR_PROOF,
			      "the key of job '%.*s' in etcd "
			      "belongs to user %u, or was changed: choose "
			      "another --rdzv-id",
			      SLICE_FMT(job), (unsigned)uid);
}

/* Call it after replay, before any client gets a reply. With "" in sealed, a's
 * key becomes the job's and is sealed there: returns 1, and the caller must
 * record it. Else opens sealed and makes that key a's: returns 0. Does nothing
 * without munge. Blocks as munge does (credential.h). ERR_PROOF with the
 * remedy: munge does not answer, or cannot open it. */
static int sealed_key_agree(struct auth *a, const char *job_name,
			    char sealed[CREDENTIAL_MAX], struct err *e)
{
	struct slice job = SLICE_STR(job_name);
	struct proof key = a->secret;
	int rc;

	if (!(a->methods & WIRE_BY_MUNGE))
		return 0;
	if (sealed[0]) {
		rc = sealed_key_open(&key, sealed, job, e);
	} else {
		if (!a->is_key)
			proof_job_key(&key, &a->secret, job);
		rc = sealed_key_make(sealed, &key, job, e);
		if (rc == 0)
			rc = 1;
	}
	if (rc >= 0) {
		a->secret = key;
		a->is_key = 1;
	}
	proof_wipe(&key, sizeof(key));
	return rc;
}

/* ---- the leadership ---- */

static void elected_server_on_known(void *owner)
{
	struct server *s = owner;

	standby_answer(s);
	conn_flush_all(&s->pool);
}

static int elected_server_load(void *owner, struct journal_etcd *journal,
			       struct err *e)
{
	return recovery_start_in_etcd(owner, journal, e);
}

static int elected_server_agree_key(void *owner, struct err *e)
{
	struct server *s = owner;
	int rc = sealed_key_agree(&s->auth, s->only_job, s->sealed_key, e);

	if (rc > 0)
		journal_writer_sealed(&s->writer, s->sealed_key);
	return rc;
}

static void elected_server_serve(void *owner)
{
	struct server *s = owner;

	recovery_serve(s);
	standby_answer(s);
	journal_writer_kept(&s->writer);
}

static void elected_server_forget(void *owner)
{
	recovery_forget(owner);
}

static void elected_server_on_kept(void *owner)
{
	struct server *s = owner;

	journal_writer_kept(&s->writer);
}

static int elected_server_settle(void *owner)
{
	struct server *s = owner;

	return journal_writer_settle(&s->writer);
}

static int elected_server_is_over(void *owner, struct journal_etcd *journal)
{
	return recovery_is_over_in_etcd(owner, journal);
}

static void elected_server_query(void *owner, uint64_t since,
				 struct leadership_view *v)
{
	const struct server *s = owner;
	uint64_t now = uv_now(s->loop);
	const struct peer *p = NULL;

	v->leases_lost = s->counts.leases_lost;
	while ((p = server_next_peer(s, p))) {
		uint64_t recent = p->lease_ms / 3;

		if (!p->node)
			continue;
		if (recent > v->longest_ms)
			v->longest_ms = recent;
		v->nodes++;
		v->heard +=
			p->conn.heard > since && now - p->conn.heard <= recent;
	}
}

static void elected_server_on_close(void *owner)
{
	struct server *s = owner;

	s->leadership = NULL;
	journal_writer_close(&s->writer);
}

static const struct leadership_events events = {
	.on_known = elected_server_on_known,
	.load = elected_server_load,
	.agree_key = elected_server_agree_key,
	.serve = elected_server_serve,
	.forget = elected_server_forget,
	.on_kept = elected_server_on_kept,
	.settle = elected_server_settle,
	.is_over = elected_server_is_over,
	.query = elected_server_query,
	.on_close = elected_server_on_close,
};

int elected_server_open(struct server *s, const struct leadership_options *o,
			struct err *e)
{
	struct leadership_options own = *o;
	struct sock_addr a = {.len = sizeof(a.ss)};

	getsockname(s->listeners[0].fd, (struct sockaddr *)&a.ss, &a.len);
	if (sock_addr_is_any(&a))
		return err_set(e, ERR_USAGE,
			       "--etcd: clients cannot connect to %s: listen "
			       "on an address of this host",
			       s->endpoint);
	own.address = s->endpoint;
	own.job = s->only_job;
	own.is_quiet = s->has_parent;
	return leadership_open(&s->leadership, s->loop, &own, &events, s, e);
}
