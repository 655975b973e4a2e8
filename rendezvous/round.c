/* round.c: the states of a job and what each event does in each of them.
 * Decides; sends nothing. Who may come is join.c's, how it ended cause.c's. */
#include "rendezvous/round.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "base/signal_name.h"
#include "rendezvous/job.h"

/* What happened; only what belongs to the kind of event is set. */
struct event {
	enum job_event type;
	struct job_node *node;
	const struct wire_join *join;
	const struct wire_exited *exited;
	const struct wire_failed *failed;
	const struct wire_leave *leave;
	void *owner;
	const char *at, *why;
	struct err *e;
};

static void enter(struct job *j, enum job_state to, const char *why);
static void node_free(struct job *j, struct job_node *n);

/* ---- actions ---- */

static void act(struct job *j, struct job_action a)
{
	if (j->nactions == j->actions_cap) {
		size_t cap = j->actions_cap ? j->actions_cap * 2 : 8;
		void *p = realloc(j->actions, cap * sizeof *j->actions);

		if (!p) {
			j->lost_action = 1;
			return;
		}
		j->actions = p;
		j->actions_cap = cap;
	}
	j->actions[j->nactions++] = a;
}

int job_lost_action(const struct job *j)
{
	return j->lost_action;
}

const struct job_action *job_next_action(struct job *j)
{
	if (j->next_action < j->nactions)
		return &j->actions[j->next_action++];
	j->next_action = j->nactions = 0;
	return NULL;
}

static void tell_fates(struct job *j, struct job_rank *r, const char *text)
{
	struct job_fate *f;

	while ((f = r->fates)) {
		job_fate_release(f);
		act(j, (struct job_action){JOB_FATE_KNOWN, 0, text, f});
	}
}

/* ---- a round begins and ends ---- */

static void ranks_free(struct job *j)
{
	uint32_t i;

	for (i = 0; j->ranks && i < j->world_size; i++)
		free(j->ranks[i].text);
	free(j->ranks);
	j->ranks = NULL;
	j->world_size = j->exited = 0;
}

/* The round is over: j->end says why. The ranks stay known until the next. */
static void end_round(struct job *j)
{
	struct job_node *n;
	uint32_t i;
	int again = j->end.verdict == WIRE_RESTART;

	for (i = 0; j->ranks && i < j->world_size; i++)
		tell_fates(j, &j->ranks[i], j->end_text);
	for (n = j->nodes; n; n = n->next)
		n->joined = 0;
	j->joined = 0;
	j->nproc = 0;
	act(j, (struct job_action){.kind = JOB_TELL_END});
	enter(j, again ? JOB_RESTARTING : JOB_OVER, j->end_text);
	j->round++;
	if (again)
		j->attempt++;
}

static void start_round(struct job *j)
{
	uint32_t i, k, rank = 0;

	ranks_free(j);
	if (assign_ranks(j) == 0)
		j->ranks = calloc(j->world_size, sizeof *j->ranks);
	if (!j->ranks) {
		cause_other(j, NULL, WIRE_FAILURE, EXIT_NODE_LOST,
			    "the rendezvous server is out of memory");
		end_round(j);
		return;
	}
	for (i = 0; i < j->nnodes; i++)
		for (k = 0; k < j->order[i]->nproc; k++)
			j->ranks[rank++].node = j->order[i];
	enter(j, JOB_RUNNING, "all nodes are there");
	act(j, (struct job_action){.kind = JOB_TELL_START});
}

/* ---- what an event does ---- */

static int joined(struct job *j, int rc)
{
	if (rc < 0)
		return rc;
	if (j->joined == j->nnodes)
		start_round(j);
	else
		act(j, (struct job_action){.kind = JOB_TELL_STATE});
	return 0;
}

static int take_in(struct job *j, struct event *ev, struct job_node **out)
{
	int rc = join_check(j, ev->join, ev->at, ev->e);

	if (rc < 0)
		return rc;
	return joined(j, join_new(j, ev->join, ev->owner, out, ev->e));
}

static int take_back(struct job *j, struct event *ev, struct job_node **out)
{
	int rc = join_check(j, ev->join, ev->at, ev->e);

	if (rc < 0)
		return rc;
	return joined(j, join_again(j, ev->join, ev->owner, ev->at, out,
				    ev->e));
}

static int refuse_full(struct job *j, struct event *ev, struct job_node **out)
{
	int rc = join_check(j, ev->join, ev->at, ev->e);

	return rc < 0 ? rc : join_refuse_full(j, ev->join, ev->at, ev->e);
}

static int refuse_over(struct job *j, struct event *ev, struct job_node **out)
{
	return err_set(ev->e, ERR_REFUSED,
		       "job '%s' at %s has ended (%s): start it again when all "
		       "its nodes have gone",
		       j->id, ev->at, j->end_text);
}

static int ignore(struct job *j, struct event *ev, struct job_node **out)
{
	return 0;
}

static int free_place(struct job *j, struct event *ev, struct job_node **out)
{
	join_undo(j, ev->node);
	if (j->joined)
		act(j, (struct job_action){.kind = JOB_TELL_STATE});
	return 0;
}

/* All have exited and nobody is to blame for a round that goes on. */
static void end_of_all(struct job *j)
{
	uint32_t i;

	for (i = 0; i < j->world_size; i++)
		if (j->ranks[i].failed)
			break;
	if (i == j->world_size)
		cause_other(j, NULL, WIRE_SUCCESS, 0,
			    "all %u workers exited with code 0", j->world_size);
	else
		cause_other(j, j->ranks[i].node, WIRE_ENDED, 1,
			    "%s, stopped by its launcher", j->ranks[i].text);
	end_round(j);
}

static int record_exit(struct job *j, struct event *ev, struct job_node **out)
{
	const struct wire_exited *m = ev->exited;
	const struct job_node *n = ev->node;
	struct job_rank *r;

	if (m->round != j->round)
		return 0;
	if (n->rank < 0 || m->rank < n->base || m->rank >= n->base + n->nproc)
		return err_set(ev->e, ERR_PROTOCOL,
			       "EXITED: rank %u is not one of %s's", m->rank,
			       n->host);
	r = &j->ranks[m->rank];
	if (r->text)
		return err_set(ev->e, ERR_PROTOCOL,
			       "EXITED: rank %u has exited already", m->rank);
	r->text = cause_of_exit(n, m);
	if (!r->text)
		return err_set(ev->e, -ENOMEM, "out of memory");
	r->failed = m->code != 0 || m->signal != 0;
	j->exited++;
	act(j, (struct job_action){JOB_RANK_LEFT, m->rank, r->text, NULL});
	tell_fates(j, r, r->text);
	if (r->failed && !m->stopped) {
		cause_worker(j, n, m, r->text);
		end_round(j);
	} else if (j->exited == j->world_size) {
		end_of_all(j);
	}
	return 0;
}

/* One that left while the job gathered, and whose connection is still open, is
 * no part of what began without it. */
static int is_stranger(const struct job_node *n)
{
	return n->rank < 0;
}

static int end_failed(struct job *j, struct event *ev, struct job_node **out)
{
	char name[300];

	if (is_stranger(ev->node) ||
	    (j->state == JOB_RUNNING && ev->failed->round != j->round))
		return 0;
	cause_other(j, ev->node, WIRE_FAILURE, EXIT_START_FAILED,
		    "%s could not start its workers: %.*s",
		    node_name(ev->node, name), SLICE_FMT(ev->failed->text));
	end_round(j);
	return 0;
}

static int end_left(struct job *j, struct event *ev, struct job_node **out)
{
	const struct wire_leave *m = ev->leave;
	char name[300], sig[SIGNAL_NAME_MAX];

	if (is_stranger(ev->node))
		return 0;
	if (m->signal > 0)
		cause_other(j, ev->node, WIRE_ENDED, 128 + (m->signal & 127),
			    "%s was told to stop by %s",
			    node_name(ev->node, name),
			    signal_name(m->signal, sig));
	else
		cause_other(j, ev->node, WIRE_ENDED, EXIT_NODE_LOST,
			    "%s left: %.*s", node_name(ev->node, name),
			    SLICE_FMT(m->text));
	end_round(j);
	return 0;
}

static int end_lost(struct job *j, struct event *ev, struct job_node **out)
{
	char name[300];

	if (is_stranger(ev->node))
		return 0;
	cause_other(j, ev->node, WIRE_FAILURE, EXIT_NODE_LOST,
		    "%s was lost: %s", node_name(ev->node, name), ev->why);
	end_round(j);
	return 0;
}

static int end_stopped(struct job *j, struct event *ev, struct job_node **out)
{
	cause_other(j, NULL, WIRE_ENDED, EXIT_NODE_LOST, "%s", ev->why);
	end_round(j);
	return 0;
}

/* ---- the policy ---- */

struct reaction {
	int (*run)(struct job *j, struct event *ev, struct job_node **out);
	const char *text;
};

#define TAKE_IN {take_in, "takes it in; with all there: START, -> RUNNING"}
#define TAKE_BACK {take_back, "takes a member back; with all there: START, " \
			      "-> RUNNING"}
#define REFUSE_FULL {refuse_full, "refuses: the job has all its nodes"}
#define REFUSE_OVER {refuse_over, "refuses: the job has ended"}
#define FREE_PLACE {free_place, "frees its place"}
#define IGNORE {ignore, "nothing"}
#define RECORD {record_exit, "FATE; first failure: END, -> RESTARTING or " \
			     "OVER; all 0: END success, -> OVER"}
#define END_FAILED {end_failed, "END failure (66), -> OVER"}
#define END_LEFT {end_left, "END ended (128+signal), -> OVER"}
#define END_LOST {end_lost, "END failure (69), -> OVER"}
#define END_STOPPED {end_stopped, "END ended (69), -> OVER"}

static const struct reaction policy[][JOB_EVENTS] = {
	[JOB_GATHERING] = {
		[JOB_ON_JOIN] = TAKE_IN,
		[JOB_ON_EXITED] = IGNORE,
		[JOB_ON_FAILED] = FREE_PLACE,
		[JOB_ON_LEAVE] = FREE_PLACE,
		[JOB_ON_LOST] = FREE_PLACE,
		[JOB_ON_STOP] = END_STOPPED,
	},
	[JOB_RUNNING] = {
		[JOB_ON_JOIN] = REFUSE_FULL,
		[JOB_ON_EXITED] = RECORD,
		[JOB_ON_FAILED] = END_FAILED,
		[JOB_ON_LEAVE] = END_LEFT,
		[JOB_ON_LOST] = END_LOST,
		[JOB_ON_STOP] = END_STOPPED,
	},
	[JOB_RESTARTING] = {
		[JOB_ON_JOIN] = TAKE_BACK,
		[JOB_ON_EXITED] = IGNORE,
		[JOB_ON_FAILED] = END_FAILED,
		[JOB_ON_LEAVE] = END_LEFT,
		[JOB_ON_LOST] = END_LOST,
		[JOB_ON_STOP] = END_STOPPED,
	},
	[JOB_OVER] = {
		[JOB_ON_JOIN] = REFUSE_OVER,
		[JOB_ON_EXITED] = IGNORE,
		[JOB_ON_FAILED] = IGNORE,
		[JOB_ON_LEAVE] = IGNORE,
		[JOB_ON_LOST] = IGNORE,
		[JOB_ON_STOP] = IGNORE,
	},
};
static_assert(sizeof policy / sizeof policy[0] == JOB_STATES,
	      "each state has its row");

static const char *const state_names[] = {
	[JOB_GATHERING] = "GATHERING",
	[JOB_RUNNING] = "RUNNING",
	[JOB_RESTARTING] = "RESTARTING",
	[JOB_OVER] = "OVER",
};
static_assert(sizeof state_names / sizeof state_names[0] == JOB_STATES,
	      "each state has its name");

static const char *const event_names[] = {
	[JOB_ON_JOIN] = "JOIN",     [JOB_ON_EXITED] = "EXITED",
	[JOB_ON_FAILED] = "FAILED", [JOB_ON_LEAVE] = "LEAVE",
	[JOB_ON_LOST] = "lost",     [JOB_ON_STOP] = "stop",
};
static_assert(sizeof event_names / sizeof event_names[0] == JOB_EVENTS,
	      "each event has its name");

const char *job_state_name(enum job_state s)
{
	return state_names[s];
}

const char *job_event_name(enum job_event ev)
{
	return event_names[ev];
}

const char *job_policy(enum job_state s, enum job_event ev)
{
	return policy[s][ev].text;
}

static void enter(struct job *j, enum job_state to, const char *why)
{
	log_debug("job '%s': %s -> %s, %s", j->id, state_names[j->state],
		  state_names[to], why);
	j->state = to;
}

static int react(struct job *j, struct event *ev, struct job_node **out)
{
	return policy[j->state][ev->type].run(j, ev, out);
}

/* ---- events, from outside ---- */

int job_join(struct job *j, const struct wire_join *m, void *owner,
	     const char *at, struct job_node **node, struct err *e)
{
	struct event ev = {.type = JOB_ON_JOIN, .join = m, .owner = owner,
			   .at = at, .e = e};

	return react(j, &ev, node);
}

int job_exited(struct job *j, struct job_node *n, const struct wire_exited *m,
	       struct err *e)
{
	struct event ev = {.type = JOB_ON_EXITED, .node = n, .exited = m,
			   .e = e};

	return react(j, &ev, NULL);
}

void job_failed(struct job *j, struct job_node *n, const struct wire_failed *m)
{
	struct event ev = {.type = JOB_ON_FAILED, .node = n, .failed = m};

	react(j, &ev, NULL);
}

void job_leave(struct job *j, struct job_node *n, const struct wire_leave *m)
{
	struct event ev = {.type = JOB_ON_LEAVE, .node = n, .leave = m};

	react(j, &ev, NULL);
}

void job_lost(struct job *j, struct job_node *n, const char *why)
{
	struct event ev = {.type = JOB_ON_LOST, .node = n, .why = why};

	react(j, &ev, NULL);
	node_free(j, n);
}

void job_stop(struct job *j, const char *why)
{
	struct event ev = {.type = JOB_ON_STOP, .why = why};

	react(j, &ev, NULL);
}

/* ---- life ---- */

struct job *job_new(struct slice id, uint32_t first_round)
{
	struct job *j = calloc(1, sizeof *j);

	if (!j)
		return NULL;
	j->id = strndup(id.data, id.len);
	if (!j->id) {
		free(j);
		return NULL;
	}
	j->round = first_round;
	j->nodes_tail = &j->nodes;
	buf_init(&j->start_nodes, WIRE_BODY_MAX - 4096);
	buf_init(&j->missing, WIRE_TEXT_MAX);
	return j;
}

static void node_free(struct job *j, struct job_node *n)
{
	join_undo(j, n);
	table_remove(&j->by_id, &n->item);
	*n->pprev = n->next;
	if (n->next)
		n->next->pprev = n->pprev;
	else
		j->nodes_tail = n->pprev;
	if (n->wanted >= 0 && j->wanted && j->wanted[n->wanted] == n)
		j->wanted[n->wanted] = NULL;
	free(n->node_id);
	free(n->host);
	free(n->addr);
	free(n);
}

void job_free(struct job *j)
{
	while (j->nodes)
		node_free(j, j->nodes);
	ranks_free(j);
	table_release(&j->by_id);
	buf_release(&j->start_nodes);
	buf_release(&j->missing);
	free(j->order);
	free(j->wanted);
	free(j->first_host);
	free(j->end_host);
	free(j->end_tail);
	free(j->actions);
	free(j->id);
	free(j);
}
