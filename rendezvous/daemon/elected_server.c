/* elected_server.c: the callbacks of the server's leadership. */
#include "rendezvous/daemon/elected_server.h"

#include "rendezvous/admission/standby.h"
#include "rendezvous/election/sealed_key.h"
#include "rendezvous/recovery/recovery.h"
#include "rendezvous/server/peer.h"

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
