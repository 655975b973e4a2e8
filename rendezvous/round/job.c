/* job.c: the states of a job and what each event does in each of them.
 * Decides; sends nothing. join.c knows which nodes may join, end_cause.c how a
 * round ended. */
#include "rendezvous/round/job.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "rendezvous/round/job_internal.h"

/* An event; only the fields of its type are set. */
struct event {
	enum job_event type;
	struct job_node *node;
	const struct wire_join *join;
	const struct wire_exited *exited;
	const struct wire_failed *failed;
	const struct wire_leave *leave;
	const struct wire_stop *stop;
	void *owner;
	const char *at, *why, *text;
	struct err *e;
};

static void job_node_free(struct job *j, struct job_node *n);

/* ---- which nodes the job can spare ---- */

static int job_is_elastic(const struct job *j)
{
	return j->min_nodes < j->max_nodes;
}

/* Whether the job can continue without n. It cannot if n's agent runs the
 * server, which ends with it. */
static int job_can_lose(const struct job *j, const struct job_node *n)
{
	uint32_t rest = j->members - 1 + j->spares;

	return !n->hosts_server && rest && !j->stop_order.level &&
	       (job_is_elastic(j) || j->spares);
}

/* In a job with a fixed number of nodes, a signal to one node stops the job. A
 * node without a signal lost its ssh session, and a spare replaces it. */
static int job_can_leave(const struct job *j, const struct job_node *n,
			 int signal)
{
	uint32_t rest = j->members - 1 + j->spares;

	return !n->hosts_server && rest >= j->min_nodes &&
	       !j->stop_order.level &&
	       (job_is_elastic(j) || j->state == JOB_RESTARTING ||
		(!signal && j->spares));
}

/* ---- what an event does ---- */

static int job_do_join(struct job *j, struct event *ev, struct job_node **out)
{
	int rc = join_check(j, ev->join, ev->at, ev->e);

	if (rc == 0)
		rc = join_new(j, ev->join, ev->owner, 0, out, ev->e);
	if (rc == 0)
		transition_start_or_wait(j);
	return rc;
}

static int job_do_rejoin(struct job *j, struct event *ev, struct job_node **out)
{
	struct job_node *n = (struct job_node *)hash_table_find(&j->by_id,
							   ev->join->node_id);
	int rc = join_check(j, ev->join, ev->at, ev->e);

	if (rc < 0)
		return rc;
	if (!n)
		return job_do_join(j, ev, out);
	rc = join_again(j, ev->join, ev->owner, n, ev->e);
	if (rc < 0)
		return rc;
	*out = n;
	transition_start_or_wait(j);
	return 0;
}

/* Finished work is not repeated for a newcomer: once a worker has exited or a
 * stop was requested, the newcomer becomes a spare. */
static int job_do_join_running(struct job *j, struct event *ev,
			       struct job_node **out)
{
	int rc = join_check(j, ev->join, ev->at, ev->e);

	if (rc == 0)
		rc = join_new(j, ev->join, ev->owner,
			      j->exited || j->stop_order.level, out, ev->e);
	if (rc < 0)
		return rc;
	if ((*out)->place == NODE_SPARE) {
		transition_send_state(j);
		return 0;
	}
	end_cause_other(j, *out, WIRE_REGROUP, 0, "%s joined", (*out)->host);
	transition_end(j);
	return 0;
}

static int job_do_refuse_over(struct job *j, struct event *ev,
			      struct job_node **out)
{
	return err_set(ev->e, ERR_REFUSED,
		       "job '%s' at %s has ended (%s): start it again when all "
		       "its nodes have left",
		       j->id, ev->at, j->end_text);
}

static int job_do_ignore(struct job *j, struct event *ev, struct job_node **out)
{
	return 0;
}

static int job_do_free_place(struct job *j, struct event *ev,
			     struct job_node **out)
{
	if (ev->node->place != NODE_GONE)
		transition_drop(j, ev->node);
	return 0;
}

static int job_do_start_now(struct job *j, struct event *ev,
			    struct job_node **out)
{
	if (j->calling)
		transition_start(j);
	return 0;
}

/* All workers have exited and none failed in a way that ends the round
 * early. */
static void job_end_if_all_exited(struct job *j)
{
	uint32_t i;

	if (job_stop_ends(j)) {
		transition_end(j);
		return;
	}
	for (i = 0; i < j->world_size; i++)
		if (j->ranks[i].failed)
			break;
	if (i == j->world_size)
		end_cause_success(j);
	else
		end_cause_other(j, j->ranks[i].node, WIRE_ENDED, 1,
			    "%s, stopped by its launcher", j->ranks[i].text);
	transition_end(j);
}

static int job_do_exited(struct job *j, struct event *ev, struct job_node **out)
{
	const struct wire_exited *m = ev->exited;
	const struct job_node *n = ev->node;
	struct job_rank *r;
	int explained;

	if (m->round != j->round)
		return 0;
	if (!n->running || m->rank < n->base || m->rank >= n->base + n->nproc)
		return err_set(ev->e, ERR_PROTOCOL,
			       "EXITED: rank %u does not belong to %s", m->rank,
			       n->host);
	r = &j->ranks[m->rank];
	if (r->text)
		return err_set(ev->e, ERR_PROTOCOL,
			       "EXITED: rank %u has exited already", m->rank);
	r->text = ev->text ? strdup(ev->text) : end_cause_of_exit(n, m);
	if (!r->text) {
		/* the notice counts as received: it is not sent again */
		j->lost_action = 1;
		return err_set(ev->e, -ENOMEM, "out of memory");
	}
	r->left_out = m->early == WIRE_LEFT_OUT;
	r->failed = end_cause_is_failure(m);
	j->exited++;
	end_cause_note_early(j, m);
	transition_act(
		j, (struct job_action){JOB_RANK_LEFT, m->rank, r->text, NULL});
	transition_send_fates(j, r, r->text);
	explained = job_stop_explains(j, m);
	if (r->failed && !m->stopped && !explained) {
		end_cause_worker(j, n, m, r->text);
		restarts_note_failure(j, ev->node, m);
		transition_end(j);
	} else if (j->exited == j->world_size) {
		job_end_if_all_exited(j);
	}
	return 0;
}

/* Handles a node that is no member: returns 1. A spare that leaves changes only
 * the number of spares; a node that had left before changes nothing. */
static int job_is_outside(struct job *j, struct job_node *n)
{
	if (n->place == NODE_MEMBER)
		return 0;
	if (n->place == NODE_SPARE) {
		join_drop(j, n);
		if (j->state == JOB_GATHERING)
			transition_start_or_wait(j);
		else
			transition_send_state(j);
	}
	return 1;
}

static int job_do_failed(struct job *j, struct event *ev, struct job_node **out)
{
	const struct wire_failed *m = ev->failed;
	char name[300];

	if (job_is_outside(j, ev->node) ||
	    (j->state == JOB_RUNNING && m->round != j->round))
		return 0;
	end_cause_other(j, ev->node, WIRE_FAILURE,
		    m->exit_code > 0 && m->exit_code < 256 ? m->exit_code :
		    EXIT_START_FAILED,
		    "%s could not start its workers: %.*s",
		    node_name(ev->node, name), SLICE_FMT(m->text));
	transition_end(j);
	return 0;
}

/* n is gone. Ends the round with j->end if one runs, or the job if it cannot
 * continue. */
static int job_do_regroup(struct job *j, struct job_node *n, int can)
{
	if (!can || j->state == JOB_RUNNING)
		transition_end(j);
	if (can)
		transition_drop(j, n);
	return 0;
}

static int job_do_leave(struct job *j, struct event *ev, struct job_node **out)
{
	const struct wire_leave *m = ev->leave;
	struct job_node *n = ev->node;
	char name[300], sig[SIGNAL_NAME_MAX];
	enum wire_verdict verdict;
	int can;

	if (job_is_outside(j, n))
		return 0;
	can = job_can_leave(j, n, m->signal);
	/* no round runs: keep the reason why the last one ended */
	if (can && j->state == JOB_RESTARTING)
		return job_do_regroup(j, n, can);
	verdict = can ? WIRE_REGROUP : WIRE_ENDED;
	if (m->signal > 0)
		end_cause_other(j, n, verdict, 128 + (m->signal & 127),
				"%s received %s", node_name(n, name),
				signal_name(m->signal, sig));
	else
		end_cause_other(j, n, verdict, EXIT_NODE_LOST, "%s left: %.*s",
			    node_name(n, name), SLICE_FMT(m->text));
	return job_do_regroup(j, n, can);
}

/* The node leaves, instead of stopping the job, if no round runs or if the
 * order is for this node only and the job can continue. */
static int job_do_stop_order(struct job *j, struct event *ev,
			     struct job_node **out)
{
	const struct wire_stop *m = ev->stop;
	const struct wire_leave as_leave = {
		m->cause == WIRE_BY_SSH ? 0 : m->signal, m->text};
	struct event leaving = *ev;

	leaving.leave = &as_leave;
	if (j->state == JOB_RESTARTING ||
	    (!m->whole && job_can_leave(j, ev->node, as_leave.signal)))
		return job_do_leave(j, &leaving, out);
	if (ev->node->place == NODE_SPARE && !m->whole)
		job_is_outside(j, ev->node);
	else if (ev->node->place != NODE_GONE)
		job_stop_handle(j, ev->node, m);
	return 0;
}

static int job_do_lost(struct job *j, struct event *ev, struct job_node **out)
{
	struct job_node *n = ev->node;
	const struct job_node *heir;
	char name[300];
	int can;

	if (job_is_outside(j, n))
		return 0;
	can = job_can_lose(j, n);
	if (j->stop_order.level == WIRE_CUT) { /* all nodes end this way */
		end_cause_other(j, n, WIRE_ENDED, j->stop_order.exit_code, "%s",
			    j->stop_order.first);
		return job_do_regroup(j, n, 0);
	}
	heir = can ? join_next_spare(j) : NULL;
	if (!can || j->state == JOB_RUNNING)
		end_cause_other(j, n, can ? WIRE_REGROUP : WIRE_FAILURE,
			    EXIT_NODE_LOST, "%s was lost: %s%s%s%s",
			    node_name(n, name), ev->why, heir ? "; " : "",
			    heir ? heir->host : "",
			    heir ? " takes its place" : "");
	return job_do_regroup(j, n, can);
}

static int job_do_stopped(struct job *j, struct event *ev,
			  struct job_node **out)
{
	end_cause_other(j, NULL, WIRE_ENDED, EXIT_NODE_LOST, "%s", ev->why);
	transition_end(j);
	return 0;
}

/* ---- the policy ---- */

struct reaction {
	int (*run)(struct job *j, struct event *ev, struct job_node **out);
	const char *text;
};

#define TAKE_IN {job_do_join, "admits it; all joined: START, -> RUNNING; " \
			  "enough: last call"}
#define TAKE_MORE                                                          \
	{                                                                  \
		job_do_join_running, "below the maximum: END regroup, -> " \
				     "RESTARTING; else a spare"            \
	}
#define TAKE_BACK                                                             \
	{                                                                     \
		job_do_rejoin, "readmits a member, or admits a new one or a " \
			       "spare; all joined: START, -> RUNNING"         \
	}
#define REFUSE_OVER {job_do_refuse_over, "refuses: the job has ended"}
#define FREE_PLACE {job_do_free_place, "frees its place; too few: no last call"}
#define IGNORE {job_do_ignore, "nothing"}
#define RECORD {job_do_exited, "FATE; first failure: END, -> RESTARTING or " \
			     "OVER; all 0: END success, -> OVER"}
#define END_FAILED {job_do_failed, "END failure (its code or 66), -> OVER"}
#define LEAVE_RUNNING                                                         \
	{                                                                     \
		job_do_leave, "elastic, enough others, or a spare and no "    \
			      "signal: END regroup, -> RESTARTING; else END " \
			      "ended (128+signal), -> OVER"                   \
	}
#define LEAVE_WAITING                                                      \
	{                                                                  \
		job_do_leave,                                              \
			"enough others: continues with them and a spare; " \
			"else END ended (128+signal), -> OVER"             \
	}
#define TOLD_RUNNING                                               \
	{                                                          \
		job_do_stop_order,                                 \
			"STOP to all, once for each level; if it " \
			"concerns one node only: as LEAVE"         \
	}
#define LOSE_RUNNING {job_do_lost, "elastic or a spare: END regroup, -> " \
			    "RESTARTING; else END failure (69), -> OVER"}
#define TOLD_WAITING {job_do_stop_order, "as LEAVE"}
#define LOSE_WAITING                                                          \
	{                                                                     \
		job_do_lost, "elastic or a spare: continues with them; else " \
			     "END failure (69), -> OVER"                      \
	}
#define START_NOW {job_do_start_now, "START with the joined nodes, -> RUNNING"}
#define END_STOPPED {job_do_stopped, "END ended (69), -> OVER"}

static const struct reaction policy[][JOB_EVENTS] = {
	[JOB_GATHERING] = {
		[JOB_ON_JOIN] = TAKE_IN,
		[JOB_ON_EXITED] = IGNORE,
		[JOB_ON_FAILED] = FREE_PLACE,
		[JOB_ON_LEAVE] = FREE_PLACE,
		[JOB_ON_TOLD] = FREE_PLACE,
		[JOB_ON_LOST] = FREE_PLACE,
		[JOB_ON_LAST_CALL] = START_NOW,
		[JOB_ON_STOP] = END_STOPPED,
	},
	[JOB_RUNNING] = {
		[JOB_ON_JOIN] = TAKE_MORE,
		[JOB_ON_EXITED] = RECORD,
		[JOB_ON_FAILED] = END_FAILED,
		[JOB_ON_LEAVE] = LEAVE_RUNNING,
		[JOB_ON_TOLD] = TOLD_RUNNING,
		[JOB_ON_LOST] = LOSE_RUNNING,
		[JOB_ON_LAST_CALL] = IGNORE,
		[JOB_ON_STOP] = END_STOPPED,
	},
	[JOB_RESTARTING] = {
		[JOB_ON_JOIN] = TAKE_BACK,
		[JOB_ON_EXITED] = IGNORE,
		[JOB_ON_FAILED] = END_FAILED,
		[JOB_ON_LEAVE] = LEAVE_WAITING,
		[JOB_ON_TOLD] = TOLD_WAITING,
		[JOB_ON_LOST] = LOSE_WAITING,
		[JOB_ON_LAST_CALL] = IGNORE,
		[JOB_ON_STOP] = END_STOPPED,
	},
	[JOB_OVER] = {
		[JOB_ON_JOIN] = REFUSE_OVER,
		[JOB_ON_EXITED] = IGNORE,
		[JOB_ON_FAILED] = IGNORE,
		[JOB_ON_LEAVE] = IGNORE,
		[JOB_ON_TOLD] = IGNORE,
		[JOB_ON_LOST] = IGNORE,
		[JOB_ON_LAST_CALL] = IGNORE,
		[JOB_ON_STOP] = IGNORE,
	},
};
static_assert(sizeof(policy) / sizeof(policy[0]) == JOB_STATES,
	      "each state has its row");

static const char *const state_names[] = {
	[JOB_GATHERING] = "GATHERING",
	[JOB_RUNNING] = "RUNNING",
	[JOB_RESTARTING] = "RESTARTING",
	[JOB_OVER] = "OVER",
};
static_assert(sizeof(state_names) / sizeof(state_names[0]) == JOB_STATES,
	      "each state has its name");

static const char *const event_names[] = {
	[JOB_ON_JOIN] = "JOIN",     [JOB_ON_EXITED] = "EXITED",
	[JOB_ON_FAILED] = "FAILED", [JOB_ON_LEAVE] = "LEAVE",
	[JOB_ON_TOLD] = "STOP",     [JOB_ON_LOST] = "lost",
	[JOB_ON_LAST_CALL] = "last call",
	[JOB_ON_STOP] = "stop",
};
static_assert(sizeof(event_names) / sizeof(event_names[0]) == JOB_EVENTS,
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

static int job_react(struct job *j, struct event *ev, struct job_node **out)
{
	return policy[j->state][ev->type].run(j, ev, out);
}

/* ---- events, from outside ---- */

int job_join(struct job *j, const struct wire_join *m, void *owner,
	     const char *at, struct job_node **node, struct err *e)
{
	struct event ev = {.type = JOB_ON_JOIN, .join = m, .owner = owner,
			   .at = at, .e = e};

	return job_react(j, &ev, node);
}

int job_exited(struct job *j, struct job_node *n, const struct wire_exited *m,
	       struct err *e)
{
	struct event ev = {.type = JOB_ON_EXITED, .node = n, .exited = m,
			   .e = e};

	n->notices++;
	return job_react(j, &ev, NULL);
}

void job_guest_left(struct job *j, struct job_node *n, uint32_t rank,
		    const char *text)
{
	const struct wire_exited m = {.round = j->round, .rank = rank,
				      .stopped = 1};
	struct event ev = {.type = JOB_ON_EXITED, .node = n, .exited = &m,
			   .text = text};

	job_react(j, &ev, NULL);
}

void job_failed(struct job *j, struct job_node *n, const struct wire_failed *m)
{
	struct event ev = {.type = JOB_ON_FAILED, .node = n, .failed = m};

	n->notices++;
	job_react(j, &ev, NULL);
}

void job_leave(struct job *j, struct job_node *n, const struct wire_leave *m)
{
	struct event ev = {.type = JOB_ON_LEAVE, .node = n, .leave = m};

	n->notices++;
	job_react(j, &ev, NULL);
}

void job_request_stop(struct job *j, struct job_node *n,
		      const struct wire_stop *m)
{
	struct event ev = {.type = JOB_ON_TOLD, .node = n, .stop = m};

	n->notices++;
	job_react(j, &ev, NULL);
}

void job_lost(struct job *j, struct job_node *n, const char *why)
{
	struct event ev = {.type = JOB_ON_LOST, .node = n, .why = why};

	job_react(j, &ev, NULL);
	job_node_free(j, n);
}

void job_last_call(struct job *j)
{
	struct event ev = {.type = JOB_ON_LAST_CALL};

	job_react(j, &ev, NULL);
}

void job_stop(struct job *j, const char *why)
{
	struct event ev = {.type = JOB_ON_STOP, .why = why};

	job_react(j, &ev, NULL);
}

/* ---- life ---- */

struct job *job_new(struct slice id, uint32_t first_round)
{
	struct job *j = calloc(1, sizeof(*j));

	if (!j)
		return NULL;
	j->id = strndup(id.data, id.len);
	if (!j->id) {
		free(j);
		return NULL;
	}
	j->round = first_round;
	j->nodes_tail = &j->nodes;
	buf_init(&j->alike, WIRE_ALIKE_MAX);
	buf_init(&j->missing, WIRE_TEXT_MAX);
	buf_init(&j->early, WIRE_BODY_MAX);
	buf_init(&j->end_bytes, WIRE_BODY_MAX);
	return j;
}

static void job_node_free(struct job *j, struct job_node *n)
{
	join_drop(j, n);
	hash_table_remove(&j->by_id, &n->item);
	*n->pprev = n->next;
	if (n->next)
		n->next->pprev = n->pprev;
	else
		j->nodes_tail = n->pprev;
	free(n->node_id);
	free(n->host);
	free(n->addr);
	free(n->role);
	free(n);
}

void job_free(struct job *j)
{
	while (j->nodes)
		job_node_free(j, j->nodes);
	transition_release(j);
	hash_table_release(&j->by_id);
	buf_release(&j->alike);
	buf_release(&j->missing);
	buf_release(&j->early);
	buf_release(&j->end_bytes);
	free(j->order);
	free(j->homes);
	free(j->first_host);
	for (size_t i = 0; i < MEMORIES; i++)
		free(j->memory[i].host);
	free(j->actions);
	free(j->id);
	free(j);
}
