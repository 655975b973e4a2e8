/* server.c: a model of ddprdzv: turns frames into events of the real job, and
 * the job's actions into frames; agents return and are lost. It follows
 * rendezvous/server, without connections, clocks and stores. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/model/model.h"

enum { HALF_OWNER = NODES_MAX };

static const char why_lost[] = "its connection closed";

/* ---- nodes ---- */

static const char *server_node_id(int i, int number)
{
	static char text[16];

	snprintf(text, sizeof(text), "h%d.%d", i, number);
	return text;
}

struct job_node *server_node(const struct run *r, int i, int number)
{
	return r->job ? job_find_node(r->job,
				      SLICE_STR(server_node_id(i, number)))
		      : NULL;
}

static void server_own_node(struct run *r, int i, int number, int slot)
{
	static char owners[2 * NODES_MAX];
	struct job_node *n = server_node(r, i, number);

	if (n)
		job_node_own(n, &owners[slot]);
}

void server_own_nodes(struct run *r)
{
	for (int i = 0; i < NODES_MAX; i++) {
		const struct peer_end *p = &r->w.server.peers[i];

		if (p->attached)
			server_own_node(r, i, r->w.agents[i].number, i);
		if (p->half)
			server_own_node(r, i, p->half_number, HALF_OWNER + i);
	}
}

/* Which agent and which of its lives the node belongs to; its id is "h2.1". */
static int server_number_of(const struct job_node *n, int *i)
{
	const char *id = job_node_id(n).data;

	*i = id[1] - '0';
	return id[3] - '0';
}

/* Notes which steps of the job are possible. */
void server_note_job(struct run *r)
{
	struct server *s = &r->w.server;
	struct job_node *n = NULL;
	int i;

	s->calling = r->job && job_call_ms(r->job);
	memset(s->absent, 0, sizeof(s->absent));
	while (r->job && (n = job_next_node(r->job, n))) {
		int number = server_number_of(n, &i);

		if (!job_node_owner(n))
			s->absent[i] |= (uint8_t)(1u << number);
	}
}

/* 1 if the node's agent is connected. */
static int server_has_agent(const struct run *r, const struct job_node *n,
			    int *i)
{
	int number = server_number_of(n, i);

	return r->w.server.peers[*i].attached &&
	       r->w.agents[*i].number == number;
}

static void server_send(struct run *r, int i, const struct message *m)
{
	/* a frame to an agent that is gone is lost */
	if (r->w.agents[i].life == LIFE_UP && r->w.agents[i].link == LINK_UP)
		queue_put(&r->w.to_agent[i], m);
}

/* ---- actions ---- */

static void server_send_state(struct run *r)
{
	struct job_node *n = NULL;
	int i;

	while ((n = job_next_node(r->job, n))) {
		int spare = job_node_is_spare(n);

		if (!server_has_agent(r, n, &i) || !job_node_waits(r->job, n) ||
		    r->w.server.peers[i].sent_spare == spare)
			continue;
		r->w.server.peers[i].sent_spare = (uint8_t)spare;
		server_send(r, i,
			    &(struct message){.type = WIRE_STATE,
					      .spare = (uint8_t)spare});
	}
}

static void server_send_start(struct run *r, const struct job_node *n)
{
	struct wire_start m;
	int i;

	if (!server_has_agent(r, n, &i) || !job_node_runs(n))
		return;
	job_start_for(r->job, n, &m);
	r->w.server.peers[i].sent_spare = 2;
	server_send(r, i,
		    &(struct message){.type = WIRE_START,
				      .round = (uint16_t)m.round,
				      .rank = (uint8_t)m.base_rank,
				      .node_rank = (uint8_t)m.node_rank,
				      .nnodes = (uint8_t)m.nnodes,
				      .world = (uint8_t)m.world_size,
				      .job = r->w.audit.jobs});
}

static void server_send_end(struct run *r, const struct job_node *n)
{
	struct wire_end m;
	int i;

	if (server_has_agent(r, n, &i) && job_end_for(r->job, n, &m))
		server_send(r, i,
			    &(struct message){.type = WIRE_END,
					      .round = (uint16_t)m.round,
					      .verdict = m.verdict,
					      .code = (int16_t)m.exit_code});
}

static void server_send_stop(struct run *r, const struct job_node *n)
{
	struct wire_stop m;
	int i;

	if (server_has_agent(r, n, &i) && job_stop_for(r->job, n, &m) &&
	    m.level)
		server_send(
			r, i,
			&(struct message){.type = WIRE_STOP, .level = m.level});
}

static void server_send_all(struct run *r,
			    void (*fn)(struct run *r, const struct job_node *n))
{
	struct job_node *n = NULL;

	while ((n = job_next_node(r->job, n)))
		fn(r, n);
}

static void server_act(struct run *r)
{
	const struct job_action *a;
	int state = 0;

	while ((a = job_next_action(r->job))) {
		state |= a->kind == JOB_TELL_STATE;
		if (a->kind == JOB_TELL_START) {
			/* a stopping server ends the round at once */
			if (job_state(r->job) == JOB_RUNNING)
				property_start(r);
			server_send_all(r, server_send_start);
		} else if (a->kind == JOB_TELL_END) {
			property_end(r);
			server_send_all(r, server_send_end);
		} else if (a->kind == JOB_TELL_STOP) {
			server_send_all(r, server_send_stop);
		} else if (a->kind == JOB_CANNOT_START) {
			violate("a round cannot start");
		}
	}
	if (state)
		server_send_state(r);
	property_job(r);
	if (!job_is_empty(r->job))
		return;
	if (job_end(r->job)->text.len)
		r->w.server.first_round = (uint8_t)(job_end(r->job)->round + 1);
	r->w.server.has_ended = job_end(r->job)->text.len > 0;
	memset(r->w.server.lost, 0, sizeof(r->w.server.lost));
	job_free(r->job);
	r->job = NULL;
}

/* ---- a node is lost ---- */

static void server_lose(struct run *r, int i, int number)
{
	struct job_node *n = server_node(r, i, number);

	if (!n)
		return;
	r->w.server.lost[i] |= (uint8_t)(1u << number);
	job_lost(r->job, n, why_lost);
	server_act(r);
}

void server_absent(struct run *r, int i, int number)
{
	run_load(r);
	server_lose(r, i, number);
}

/* The server notices that the previous connection has ended, and how. */
void server_sees_half(struct run *r, int i)
{
	struct peer_end *p = &r->w.server.peers[i];
	int how = p->half, number = p->half_number;
	struct job_node *n;

	run_load(r);
	p->half = p->half_number = 0;
	n = server_node(r, i, number);
	if (!n)
		return;
	if (how == HALF_RESET && job_state(r->job) != JOB_OVER &&
	    !job_node_has_left(n))
		job_node_own(n, NULL); /* it may come back for some time */
	else
		server_lose(r, i, number);
}

static void server_detach(struct run *r, int i)
{
	r->w.server.peers[i].attached = 0;
	r->w.server.peers[i].sent_spare = 2;
}

/* The agent was silent for too long: the server closes its connection. */
void server_lease(struct run *r, int i)
{
	run_load(r);
	server_send(r, i, &(struct message){.type = MESSAGE_CLOSE});
	r->w.agents[i].link = LINK_CLOSED;
	queue_clear(&r->w.to_server[i]);
	server_detach(r, i);
	server_lose(r, i, r->w.agents[i].number);
}

/* ---- frames ---- */

/* If the job has ended meanwhile, the END comes first. */
static void server_refuse(struct run *r, int i, const char *what,
			  const struct err *e)
{
	if (job_state(r->job) != JOB_OVER)
		violate("the server refuses %s of node %d: %s", what, i,
			e->text);
	server_send(r, i, &(struct message){.type = WIRE_JOIN, .refused = 1});
}

static void server_on_join(struct run *r, int i)
{
	char host[8], addr[16];
	int spare = (uint32_t)i + setup->spares >= setup->nodes;
	const struct wire_join m = {
		.node_id = SLICE_STR(server_node_id(i, r->w.agents[i].number)),
		.host = (snprintf(host, sizeof(host), "h%d", i),
			 SLICE_STR(host)),
		.addr = (snprintf(addr, sizeof(addr), "10.0.0.%d", i),
			 SLICE_STR(addr)),
		.hosts_server = setup->hosted && i == 0,
		.node_rank = spare ? WIRE_RANK_OF_SPARE : -1,
		.min_nodes = setup->min,
		.max_nodes = setup->max,
		.role = SLICE_STR("default"),
		.last_call_ms = 1000,
		.nproc = setup->nproc[i],
		.max_restarts = setup->restarts,
		.max_no_progress = setup->no_progress,
		.swap_after = setup->swap_after,
		.steps = setup->steps,
	};
	static char owners[NODES_MAX];
	struct err e = ERR_INIT;
	struct job_node *n;

	if (!r->job) {
		r->job = job_new(SLICE_STR("job"), r->w.server.first_round);
		r->w.audit.first_round = r->w.server.first_round;
		r->w.audit.starts = r->w.audit.ends = r->w.server.first_round;
		r->w.audit.restarts = 0;
		r->w.audit.jobs++;
	}
	if (job_state(r->job) == JOB_OVER && !r->w.server.peers[i].attached) {
		const struct wire_end *end = job_end(r->job);

		server_send(r, i,
			    &(struct message){.type = WIRE_END,
					      .round = (uint16_t)end->round,
					      .verdict = end->verdict,
					      .code = (int16_t)end->exit_code});
		return;
	}
	n = server_node(r, i, r->w.agents[i].number);
	if (job_join(r->job, &m, n ? job_node_owner(n) : &owners[i], "h0:29400",
		     &n, &e) < 0) {
		server_refuse(r, i, "the JOIN", &e);
		if (job_is_empty(r->job))
			server_act(r);
		return;
	}
	r->w.server.peers[i].attached = 1;
	r->w.server.peers[i].sent_spare = 2;
	server_own_nodes(r);
	server_send_state(r);
	if (r->w.server.draining)
		job_stop(r->job, "the rendezvous server is stopping");
	server_act(r);
}

static void server_on_exited(struct run *r, int i, struct job_node *n,
			     const struct message *m)
{
	const struct wire_exited x = {
		.round = m->round,
		.rank = m->rank,
		.pid = 1,
		.code = m->code,
		.signal = m->signal,
		.stopped = m->stopped,
	};
	struct err e = ERR_INIT;

	if (job_exited(r->job, n, &x, &e) < 0)
		server_refuse(r, i, "an EXITED", &e);
	server_act(r);
}

static void server_on_notice(struct run *r, int i, struct job_node *n,
			     const struct message *m)
{
	const struct wire_failed failed = {.round = m->round,
					   .text = SLICE_STR("no such file")};
	const struct wire_leave left = {m->signal, SLICE_STR("gone")};
	const struct wire_stop stop = {
		.level = m->level,
		.whole = m->whole,
		.signal = m->signal,
		.cause = m->by_ssh ? WIRE_BY_SSH : WIRE_BY_SIGNAL,
		.text = SLICE_STR("stop"),
	};

	if (m->type == WIRE_FAILED)
		job_failed(r->job, n, &failed);
	else if (m->type == WIRE_LEAVE)
		job_leave(r->job, n, &left);
	else
		job_request_stop(r->job, n, &stop);
	server_act(r);
}

/* Sends what the job has sent while the agent was away. */
static void server_catch_up(struct run *r, const struct job_node *n,
			    const struct message *from)
{
	const struct wire_end *last = job_end(r->job);
	int over = job_state(r->job) == JOB_OVER;

	if (job_node_runs(n) &&
	    !(from->began && !from->ended && from->round == job_round(r->job)))
		server_send_start(r, n);
	if ((over ||
	     (from->began && !from->ended && from->round == last->round)) &&
	    last->text.len && !job_node_runs(n))
		server_send_end(r, n);
	if (!over)
		server_send_stop(r, n);
	server_send_state(r);
}

static void server_on_resume(struct run *r, int i, const struct message *from)
{
	struct peer_end *p = &r->w.server.peers[i];
	int number = r->w.agents[i].number;
	struct job_node *n = server_node(r, i, number);
	struct message reply = {.type = WIRE_RESUME};

	if (!n) {
		if (r->job ? job_state(r->job) == JOB_OVER
			   : r->w.server.has_ended)
			reply.known = WIRE_OVER;
		else if (r->w.server.lost[i] >> number & 1)
			reply.known = WIRE_LOST;
		server_send(r, i, &reply);
		return;
	}
	if (p->half && p->half_number == number)
		p->half = p->half_number = 0;
	p->attached = 1;
	p->sent_spare = 2;
	server_own_nodes(r);
	reply.known = WIRE_KNOWN;
	reply.joined = job_node_joined(n) || job_node_is_spare(n);
	reply.heard = (uint8_t)job_node_notices(n);
	server_send(r, i, &reply);
	server_catch_up(r, n, from);
}

void server_take(struct run *r, int i)
{
	struct job_node *n;
	struct message m = queue_take(&r->w.to_server[i]);
	int attached = r->w.server.peers[i].attached;

	run_load(r);
	n = attached ? server_node(r, i, r->w.agents[i].number) : NULL;
	switch (m.type) {
	case MESSAGE_CLOSE:
		server_detach(r, i);
		if (n)
			server_lose(r, i, r->w.agents[i].number);
		break;
	case WIRE_JOIN:
		server_on_join(r, i);
		break;
	case WIRE_RESUME:
		server_on_resume(r, i, &m);
		break;
	case WIRE_EXITED:
		if (n)
			server_on_exited(r, i, n, &m);
		else
			violate("EXITED from node %d, which has not joined", i);
		break;
	default:
		if (n)
			server_on_notice(r, i, n, &m);
		else if (m.type == WIRE_FAILED)
			violate("FAILED from node %d, which has not joined", i);
	}
}

/* ---- steps of the server ---- */

void server_last_call(struct run *r)
{
	run_load(r);
	job_last_call(r->job);
	server_act(r);
}

void server_stop(struct run *r, int parent_gone)
{
	run_load(r);
	r->w.server.draining = 1;
	if (!r->job)
		return;
	job_stop(r->job, parent_gone ? "the ddprun that started the rendezvous "
				       "server has gone"
				     : "the rendezvous server is stopping");
	server_act(r);
}

void server_reset(struct run *r, int i, enum membership_event ev)
{
	struct peer_end *p = &r->w.server.peers[i];

	if (p->attached) {
		p->half = HALF_RESET;
		p->half_number = r->w.agents[i].number;
		server_detach(r, i);
	}
	agent_link_lost(r, i, ev);
}

void server_before_return(struct run *r, int i)
{
	struct peer_end *p = &r->w.server.peers[i];

	if (p->attached) {
		p->half = HALF_CLOSED;
		p->half_number = r->w.agents[i].number;
		server_detach(r, i);
	}
	queue_clear(&r->w.to_server[i]);
}

void server_exit(struct run *r)
{
	r->w.server.life = SERVER_GONE;
	for (int i = 0; i < NODES_MAX; i++)
		agent_link_lost(r, i, MEMBER_ON_AWAY);
}

void server_die(struct run *r)
{
	run_load(r);
	r->w.server.life = SERVER_DEAD;
	memset(r->w.server.peers, 0, sizeof(r->w.server.peers));
	for (int i = 0; i < NODES_MAX; i++)
		agent_link_lost(r, i, MEMBER_ON_AWAY);
}

/* Loads the job from the journal; job_save must write the same again. */
void server_start(struct run *r)
{
	struct buf before = BUF_INIT(1 << 20), after = BUF_INIT(1 << 20);
	struct job *copy;

	run_load(r);
	r->w.server.life = SERVER_UP;
	if (!r->job)
		return;
	job_save(r->job, &before);
	copy = job_load(SLICE(before.data, before.len));
	if (copy)
		job_save(copy, &after);
	if (!copy || before.len != after.len ||
	    memcmp(before.data, after.data, before.len))
		violate("the job is not the same after job_save and job_load");
	buf_release(&before);
	buf_release(&after);
	if (!copy)
		return;
	job_free(r->job);
	r->job = copy;
	property_job(r);
}
