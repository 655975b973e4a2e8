/* wait_report.c: tracks how long each peer has waited, and when it was last
 * notified of what. */
#include "rendezvous/query/query.h"

#include <stdlib.h>
#include <string.h>

#include "rendezvous/vouching/voucher.h"

enum {
	UNJOINED_MAX = WAIT_TEXT_NAMED,
	TWINS_SEARCHED = 64, /* on a server with more jobs there is no search */
};

/* One tick. The text is reused for the callers of one barrier, and for all
 * agents of a job. */
struct tick {
	struct server *server;
	uint64_t now;
	struct wait_text text;
	const struct barrier_gather
		*of; /* the meeting that the text is about; NULL: none */
	int somebody;
	uint64_t most_ms; /* the longest time between two reports */
};

static uint64_t wait_report_now_ms(const struct hosted_job *h)
{
	return uv_now(h->server->loop);
}

/* ---- what a peer waits for ---- */

static uint64_t wait_report_silent_ms(void *owner)
{
	const struct peer *p = owner;
	uint64_t silent = uv_now(p->server->loop) - p->conn.heard;

	/* shorter silences are normal between two pings */
	return silent > p->lease_ms / 2 ? silent : 0;
}

/* A typo in --rdzv-id makes two jobs, in which nodes wait for each other. */
static void wait_report_put_twin(struct hosted_job *h, struct wait_text *a)
{
	struct hosted_job *other = NULL;

	if (server_count_named_jobs(h->server) > TWINS_SEARCHED)
		return;
	while ((other = server_next_named_job(h->server, other))) {
		if (other->account->above == h->account->above &&
		    !other->agentless &&
		    wait_text_is_twin(h->job, other->job)) {
			wait_text_put_twin(a, other->job);
			return;
		}
	}
}

void wait_report_for_nodes(struct hosted_job *h, struct wait_text *a)
{
	const char *hosts[UNJOINED_MAX];
	struct wait_text_nodes known = {
		.unjoined = hosts,
		.silent_ms = wait_report_silent_ms,
		.ending_ms = wait_report_now_ms(h) - h->since,
	};
	const struct peer *p = NULL;

	while (known.nunjoined < UNJOINED_MAX &&
	       (p = server_next_peer(h->server, p)))
		if (p->role == WIRE_AGENT && !p->hosted && p->host &&
		    !strcmp(p->job_id, job_id(h->job)))
			hosts[known.nunjoined++] = p->host;
	wait_text_put_nodes(a, h->job, &known);
	wait_report_put_twin(h, a);
}

static const struct peer *wait_report_worker_of(const struct hosted_job *h,
						uint32_t rank)
{
	const struct peer *p = NULL;

	while ((p = hosted_job_next_worker(h, p)) && p->session.rank != rank)
		;
	return p;
}

static void wait_report_put_rank(struct wait_text *a, struct hosted_job *h,
				 uint32_t rank, struct slice does)
{
	const struct peer *peer = wait_report_worker_of(h, rank);
	const struct peer *agent = job_rank_owner(h->job, rank);
	const struct parked *p = peer ? peer->session.parked : NULL;
	struct buf itself = BUF_INIT(512);
	struct wait_text_rank r = {
		.rank = rank,
		.connected = peer != NULL,
		.ended = job_rank_how(h->job, rank),
		.host = h->agentless ? peer ? peer->host : NULL
				     : job_rank_host(h->job, rank),
		.does = does,
	};

	if (peer)
		r.silent_ms = wait_report_now_ms(h) - peer->conn.heard;
	else if (agent)
		r.silent_ms = wait_report_silent_ms((void *)agent);
	if (p && p->type != WIRE_FATE) {
		wait_text_put_itself(&itself, &p->waiter);
		buf_put_u8(&itself, 0);
		r.itself = itself.data;
	}
	wait_text_put_rank(a, &r);
	buf_release(&itself);
}

/* Names the absent ranks; unknown for a barrier of fewer than all ranks. */
static void wait_report_put_absent(struct wait_text *a, struct hosted_job *h,
				   const struct parked *p)
{
	struct store_awaited what;
	uint32_t rank, n = job_world_size(h->job);
	uint8_t *came;

	store_awaited(&p->waiter, &what);
	if (what.kind == STORE_AWAITS_GATHER)
		n = what.of;
	else if (what.kind != STORE_AWAITS_BARRIER || what.of != n)
		return;
	came = calloc(n, 1);
	if (!came)
		return;
	store_arrived(&p->waiter, came, n);
	for (rank = 0; rank < n && wait_text_has_room(a); rank++)
		if (!came[rank])
			wait_report_put_rank(a, h, rank, SLICE_STR(""));
	free(came);
}

uint64_t wait_report_fate_due(const struct parked *p)
{
	struct hosted_job *h = p->session->owner;
	const struct peer *agent = job_rank_owner(h->job, p->rank);
	uint64_t since = p->waited.since, now = wait_report_now_ms(h);

	if (h->agentless || agent == job_rank_owner(h->job, p->session->rank))
		return p->due; /* same host as the asker, so it is alive */
	if (agent &&
	    (agent->conn.heard > since ||
	     now > agent->conn.heard + agent->lease_ms + 2 * SERVER_SUSPECT_MS))
		return p->due;
	return now + WAIT_REPORT_FATE_MS;
}

void wait_report_for_request(const struct parked *p, struct wait_text *a)
{
	struct hosted_job *h = p->session->owner;

	if (p->type == WIRE_FATE) {
		wait_text_begin_ends(a, 1, 1);
		wait_report_put_rank(a, h, p->rank,
				     stall_report_words(h, p->rank));
	} else {
		wait_text_begin(a, &p->waiter);
		wait_report_put_absent(a, h, p);
	}
	wait_text_end(a);
}

/* Describes what agents wait for after their own workers have all ended. */
static void wait_report_for_ends(struct hosted_job *h, struct wait_text *a)
{
	uint32_t rank, n = job_world_size(h->job);
	struct wire_job m;

	job_status(h->job, &m);
	wait_text_begin_ends(a, n - m.exited, n);
	for (rank = 0; rank < n && wait_text_has_room(a); rank++)
		if (!job_rank_end(h->job, rank))
			wait_report_put_rank(a, h, rank,
					     stall_report_words(h, rank));
	wait_text_end(a);
}

/* ---- reporting ---- */

/* 1: the report is new, has changed, or is due again. */
static int wait_report_is_due(struct waited *w, const struct tick *t)
{
	uint64_t waited = t->now - w->since;

	if (waited < WAIT_REPORT_TICK_MS || !t->text.text.len ||
	    (w->again && t->now < w->again && w->hash == t->text.hash))
		return 0;
	w->hash = t->text.hash;
	/* a tick may be a little early */
	w->again = t->now - WAIT_REPORT_TICK_MS / 2 +
		   (waited < t->most_ms ? waited : t->most_ms);
	return 1;
}

/* x: the other fields of the notice. */
static void wait_report_send(struct tick *t, struct peer *p,
			     const struct waited *w, struct wire_waiting x)
{
	x.waited_ms = t->now - w->since;
	x.text = SLICE(t->text.text.data, t->text.text.len);
	wire_put_waiting(conn_out(&p->conn), WIRE_WAITING, WIRE_NOTICE, 0, &x);
}

/* Whether the node waits for a round to begin, or for the round's other workers
 * because its own have ended. */
static int wait_report_agent_waits(const struct hosted_job *h,
				   const struct job_node *n)
{
	struct wire_job_node item;

	if (job_state(h->job) != JOB_RUNNING)
		return job_node_waits(h->job, n) && !job_node_is_spare(n);
	job_node_status(h->job, n, &item);
	return item.state == WIRE_NODE_RUNS && item.exited == item.nproc;
}

/* In a running round the other workers may take hours, so the report is not
 * repeated unless it changes. */
static void wait_report_put_agents_wait(struct tick *t, struct hosted_job *h)
{
	int runs = job_state(h->job) == JOB_RUNNING;

	t->most_ms = runs ? UINT64_MAX : WAIT_REPORT_MAX_MS;
	if (runs)
		wait_report_for_ends(h, &t->text);
	else
		wait_report_for_nodes(h, &t->text);
}

static void wait_report_report_agents(struct tick *t, struct hosted_job *h)
{
	struct job_node *n = NULL;

	wait_text_init(&t->text);
	t->of = NULL;
	while ((n = job_next_node(h->job, n))) {
		struct peer *p = job_node_owner(n);

		if (!p)
			continue;
		if (!wait_report_agent_waits(h, n)) {
			p->waited.since = 0;
			continue;
		}
		t->somebody = 1;
		if (!p->waited.since) /* its wait begins now */
			p->waited = (struct waited){.since = t->now};
		if (!t->text.text.len)
			wait_report_put_agents_wait(t, h);
		if (wait_report_is_due(&p->waited, t))
			wait_report_send(t, p, &p->waited,
					 (struct wire_waiting){0});
	}
}

static void wait_report_report_worker(struct tick *t, struct peer *peer)
{
	struct parked *p = peer->session.parked;

	t->most_ms = WAIT_REPORT_MAX_MS;
	for (int i = 0; p && i < WAIT_REPORT_TOLD_MAX; i++, p = p->next) {
		t->somebody = 1;
		if (t->now - p->waited.since < WAIT_REPORT_TICK_MS)
			continue;
		if (!p->waiter.meeting || t->of != p->waiter.meeting) {
			wait_text_init(&t->text);
			wait_report_for_request(p, &t->text);
			t->of = p->waiter.meeting;
		}
		if (wait_report_is_due(&p->waited, t))
			wait_report_send(
				t, peer, &p->waited,
				(struct wire_waiting){.request = p->id});
	}
}

/* ---- PyTorch's clients: their nodes get the reports ---- */

uint64_t wait_report_for_torch(struct hosted_job *h, struct wait_text *a)
{
	struct torch_client *at = NULL;
	struct torch_wait w, oldest = {.since = 0};

	while (torch_port_next_wait(h->torch, &at, &w))
		if (!oldest.since || w.since < oldest.since)
			oldest = w;
	if (!oldest.since ||
	    wait_report_now_ms(h) - oldest.since < WAIT_REPORT_TICK_MS)
		return 0;
	wait_text_begin(a, oldest.waiter);
	wait_text_end(a);
	wait_text_put_note(a, " (in PyTorch's store)");
	return oldest.since;
}

/* Sets each agent's torch.since to the time of its node's oldest wait. */
static void wait_report_find_oldest(struct tick *t, struct hosted_job *h)
{
	struct torch_client *at = NULL;
	struct job_node *n = NULL;
	struct torch_wait w;

	while ((n = job_next_node(h->job, n)))
		if (job_node_owner(n))
			((struct peer *)job_node_owner(n))->torch.since = 0;
	while (torch_port_next_wait(h->torch, &at, &w)) {
		struct peer *p = voucher_agent_at(h, w.from);

		t->somebody = 1;
		if (p && (!p->torch.since || w.since < p->torch.since))
			p->torch.since = w.since;
	}
}

static void wait_report_send_torch(struct tick *t, struct peer *p,
				   const struct torch_wait *w)
{
	char peer[SOCK_TEXT_MAX], own[SOCK_TEXT_MAX];
	struct wire_waiting x = {0};
	struct sock_addr to;

	wait_text_init(&t->text);
	wait_text_begin(&t->text, w->waiter);
	wait_text_end(&t->text);
	t->of = NULL;
	if (torch_client_to(w->client, &to) == 0)
		x = (struct wire_waiting){
			.peer = SLICE_STR(sock_addr_host(w->from, peer)),
			.peer_port = sock_addr_port(w->from),
			.own = SLICE_STR(sock_addr_host(&to, own)),
			.own_port = sock_addr_port(&to),
		};
	wait_report_send(t, p, &p->torch, x);
}

/* Shorter waits are normal: one worker has imported PyTorch before another. */
static uint64_t wait_report_torch_patience(const struct peer *p)
{
	uint64_t ms = 2 * p->lease_ms;

	return ms < WAIT_REPORT_TICK_MS ? WAIT_REPORT_TICK_MS : ms;
}

static void wait_report_report_torch(struct tick *t, struct hosted_job *h)
{
	struct torch_client *at = NULL;
	struct torch_wait w;

	if (h->torch)
		wait_report_find_oldest(t, h);
	while (torch_port_next_wait(h->torch, &at, &w)) {
		struct peer *p = voucher_agent_at(h, w.from);

		if (!p || w.since != p->torch.since)
			continue;
		if (p->torch.hash != w.since) /* another wait than before */
			p->torch.again =
				w.since + wait_report_torch_patience(p);
		p->torch.hash = w.since;
		if (t->now < p->torch.again)
			continue;
		p->torch.again =
			t->now - WAIT_REPORT_TICK_MS / 2 + t->now - w.since;
		wait_report_send_torch(t, p, &w);
	}
}

void wait_report_given_up(void *hosted, const struct torch_wait *w)
{
	struct hosted_job *h = hosted;
	struct peer *p = voucher_agent_at(h, w->from);
	struct tick t = {.server = h->server, .now = wait_report_now_ms(h)};

	if (!p || t.now - w->since < wait_report_torch_patience(p))
		return;
	p->torch.since = w->since;
	wait_report_send_torch(&t, p, w);
	wait_text_release(&t.text);
}

static void wait_report_on_tick(uv_timer_t *timer)
{
	struct server *s = timer->data;
	struct tick t = {.server = s, .now = uv_now(s->loop)};
	struct hosted_job *h = NULL;

	while ((h = server_next_named_job(s, h))) {
		struct peer *p = NULL;

		wait_report_report_agents(&t, h);
		while ((p = hosted_job_next_worker(h, p)))
			wait_report_report_worker(&t, p);
		wait_report_report_torch(&t, h);
	}
	wait_text_release(&t.text);
	if (!t.somebody)
		uv_timer_stop(timer);
	conn_flush_all(&s->pool);
}

void wait_report_begin(struct server *s)
{
	if (!uv_is_active((uv_handle_t *)&s->waits_timer) && !s->closing)
		uv_timer_start(&s->waits_timer, wait_report_on_tick,
			       WAIT_REPORT_TICK_MS, WAIT_REPORT_TICK_MS);
}

void wait_report_init(struct server *s)
{
	uv_timer_init(s->loop, &s->waits_timer);
	s->waits_timer.data = s;
}

void wait_report_close(struct server *s)
{
	if (!uv_is_closing((uv_handle_t *)&s->waits_timer))
		uv_close((uv_handle_t *)&s->waits_timer, NULL);
}
