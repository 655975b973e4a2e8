/* job_query.c: queries: the job's messages, its nodes and the fates of its
 * ranks. Changes nothing except which requests wait for a fate. */
#include "rendezvous/round/job_internal.h"

enum job_state job_state(const struct job *j)
{
	return j->state;
}

const char *job_id(const struct job *j)
{
	return j->id;
}

uint32_t job_round(const struct job *j)
{
	return j->round;
}

uint32_t job_world_size(const struct job *j)
{
	return j->world_size;
}

uint32_t job_call_ms(const struct job *j)
{
	return j->calling ? j->last_call_ms : 0;
}

int job_is_empty(const struct job *j)
{
	return !j->nodes;
}

size_t job_nodes(const struct job *j)
{
	return j->by_id.items;
}

struct job_node *job_next_node(const struct job *j, const struct job_node *n)
{
	return n ? n->next : j->nodes;
}

void *job_node_owner(const struct job_node *n)
{
	return n->owner;
}

void job_node_own(struct job_node *n, void *owner)
{
	n->owner = owner;
}

struct job_node *job_find_node(const struct job *j, struct slice node_id)
{
	struct job_node *n = j->nodes;

	while (n && (n->item.key.len != node_id.len ||
		     memcmp(n->node_id, node_id.data, node_id.len)))
		n = n->next;
	return n;
}

size_t job_gone_bytes(const struct job *j)
{
	return j->memory_bytes;
}

struct slice job_node_id(const struct job_node *n)
{
	return n->item.key;
}

uint32_t job_node_notices(const struct job_node *n)
{
	return n->notices;
}

uint32_t job_node_lease(const struct job_node *n)
{
	return n->lease_ms;
}

int job_node_joined(const struct job_node *n)
{
	return n->joined;
}

int job_node_waits(const struct job *j, const struct job_node *n)
{
	if (n->place == NODE_SPARE)
		return j->state != JOB_OVER;
	return n->joined && (j->state == JOB_GATHERING ||
			     j->state == JOB_RESTARTING);
}

int32_t job_node_rank(const struct job_node *n)
{
	return n->rank;
}

const char *job_node_host(const struct job_node *n)
{
	return n->host;
}

int job_node_runs(const struct job_node *n)
{
	return n->running;
}

int job_node_is_alone(const struct job *j, const struct job_node *n)
{
	return n->hosts_server && j->min_nodes == 1 && j->nodes == n &&
	       !n->next;
}

enum { NAMED = 8 };

static void job_put_list_end(struct buf *out, uint32_t missing, uint32_t shown)
{
	if (missing > shown)
		buf_printf(out, "%s%u more", shown ? " and " : "",
			   missing - shown);
}

/* Names the members that have not joined again, then counts the further nodes
 * that the round needs. */
static void job_put_absent_names(struct job *j, struct buf *out)
{
	uint32_t shown = 0, wanted = j->members;
	const struct job_node *n;

	if (wanted < j->min_nodes)
		wanted = j->min_nodes;
	for (n = j->nodes; n && shown < NAMED; n = n->next)
		if (n->place == NODE_MEMBER && !n->joined)
			buf_printf(out, "%snode %d (%.255s)",
				   shown++ ? ", " : "", n->rank, n->host);
	job_put_list_end(out, wanted - j->joined, shown);
}

int job_names_unclaimed(const struct job *j)
{
	uint32_t claimed = 0;

	if (!j->first_host || j->min_nodes < j->max_nodes)
		return 0;
	for (uint32_t i = 0; i < j->max_nodes; i++)
		claimed += j->homes[i] != NULL;
	return claimed >= j->joined;
}

static void job_put_unclaimed(struct job *j, struct buf *out)
{
	uint32_t shown = 0;

	if (!job_names_unclaimed(j))
		return;
	for (uint32_t i = 0; i < j->max_nodes && shown < NAMED; i++)
		if (!j->homes[i])
			buf_printf(out, "%snode %u", shown++ ? ", " : "", i);
	job_put_list_end(out, j->max_nodes - j->joined, shown);
}

void job_state_for(struct job *j, struct wire_state *m)
{
	buf_reset(&j->missing);
	if (j->state == JOB_RESTARTING)
		job_put_absent_names(j, &j->missing);
	else if (j->state == JOB_GATHERING)
		job_put_unclaimed(j, &j->missing);
	*m = (struct wire_state){
		.joined = j->joined,
		.min_nodes = j->min_nodes,
		.max_nodes = j->max_nodes,
		.spares = j->spares,
		.last_call_ms = j->calling ? j->last_call_ms : 0,
		.missing = SLICE(j->missing.data, j->missing.len),
	};
}

int job_node_hosts(const struct job_node *n)
{
	return n->hosts_server;
}

int job_node_is_spare(const struct job_node *n)
{
	return n->place == NODE_SPARE;
}

int job_node_has_left(const struct job_node *n)
{
	return n->place == NODE_GONE;
}

const char *job_agent_store_addr(const struct job *j)
{
	const struct job_node *first = j->order[0];

	return first->hosts_server && first->agent_store ? first->addr : NULL;
}

int job_store_open(const struct job *j)
{
	return j->order[0]->store_open;
}

void job_start_for(const struct job *j, const struct job_node *n,
		   struct wire_start *m)
{
	const struct job_node *first = j->order[0];

	*m = (struct wire_start){
		.round = j->round,
		.attempt = j->attempt,
		.changes = j->changes,
		.node_rank = (uint32_t)n->rank,
		.nnodes = j->nnodes,
		.base_rank = n->base,
		.world_size = j->world_size,
		.role_base_rank = n->role_base,
		.role_world_size = n->role_world,
		.master_addr = SLICE_STR(first->addr),
		.master_port = first->master_port,
		.coordinator_port = first->master_port,
	};
}

int job_end_for(const struct job *j, const struct job_node *n,
		struct wire_end *m)
{
	*m = j->end;
	if (n->place == NODE_GONE && m->verdict == WIRE_REGROUP)
		m->verdict = WIRE_ENDED;
	return n->gets_end;
}

const struct wire_end *job_end(const struct job *j)
{
	return &j->end;
}

int job_end_lacks_stack(const struct job *j)
{
	const struct wire_end *end = &j->end;

	return end->rank >= 0 && !end->code && !end->signal &&
	       end->exit_code == EXIT_RANK_HANGS && !slice_has(end->why, "\n#");
}

const char *job_rank_end(const struct job *j, uint32_t rank)
{
	return rank < j->world_size ? j->ranks[rank].text : NULL;
}

const char *job_rank_how(const struct job *j, uint32_t rank)
{
	const char *text = job_rank_end(j, rank);
	const char *pid = text ? strstr(text, ", pid ") : NULL;
	const char *how = pid ? strstr(pid + 1, ", ") : NULL;

	return how ? how + 2 : text;
}

const char *job_rank_host(const struct job *j, uint32_t rank)
{
	return rank < j->world_size ? j->ranks[rank].node->host : NULL;
}

void *job_rank_owner(const struct job *j, uint32_t rank)
{
	return rank < j->world_size ? j->ranks[rank].node->owner : NULL;
}

int job_check_round(const struct job *j, uint32_t round, struct err *e)
{
	if (j->state == JOB_RUNNING && round == j->round)
		return 0;
	if (j->end.text.len && round == j->end.round)
		return err_set(e, ERR_ABORTED,
			       "round %u of job '%s' is over: %s", round,
			       j->id, j->end_text);
	return err_set(e, ERR_ABORTED,
		       "round %u of job '%s' is not running (%s %u)", round,
		       j->id,
		       j->state == JOB_RUNNING ? "the job is in round"
					       : "the next round is",
		       j->round);
}

int job_fate(struct job *j, uint32_t rank, struct job_fate *f,
	     const char **text, struct err *e)
{
	struct job_rank *r;

	if (rank >= j->world_size)
		return err_set(
			e, ERR_ARGUMENT,
			"rank %u does not exist: this round has %u ranks", rank,
			j->world_size);
	r = &j->ranks[rank];
	if (r->text) {
		*text = r->text;
		return 0;
	}
	f->next = r->fates;
	if (f->next)
		f->next->pprev = &f->next;
	f->pprev = &r->fates;
	r->fates = f;
	return 1;
}

void job_fate_release(struct job_fate *f)
{
	if (!f->pprev)
		return;
	*f->pprev = f->next;
	if (f->next)
		f->next->pprev = f->pprev;
	f->pprev = NULL;
}

/* ---- messages and lookups for other rooms ---- */

static uint8_t job_node_state(const struct job *j, const struct job_node *n)
{
	if (n->place != NODE_MEMBER || j->state == JOB_OVER)
		return n->place == NODE_SPARE ? WIRE_NODE_SPARE
					      : WIRE_NODE_GONE;
	if (n->running)
		return WIRE_NODE_RUNS;
	return n->joined ? WIRE_NODE_WAITS : WIRE_NODE_STOPS;
}

void job_node_status(const struct job *j, const struct job_node *n,
		     struct wire_job_node *item)
{
	*item = (struct wire_job_node){
		.host = SLICE_STR(n->host),
		.addr = SLICE_STR(n->addr),
		.role = SLICE_STR(n->role),
		.node_rank = n->rank,
		.state = job_node_state(j, n),
		.nproc = n->nproc,
		.base_rank = n->base,
	};
	for (uint32_t i = 0; n->running && i < n->nproc; i++)
		item->exited += j->ranks[n->base + i].text != NULL;
}

void job_status(const struct job *j, struct wire_job *m)
{
	int runs = j->state == JOB_RUNNING;

	*m = (struct wire_job){
		.job = SLICE_STR(j->id), .state = (uint8_t)j->state,
		.round = j->round, .attempt = j->attempt,
		.max_restarts = j->max_restarts, .changes = j->changes,
		.min_nodes = j->min_nodes, .max_nodes = j->max_nodes,
		.joined = j->joined, .spares = j->spares,
		.world_size = runs ? j->world_size : 0,
		.exited = runs ? j->exited : 0,
		.text = SLICE_STR(""), .cause = SLICE_STR(j->end_text),
		.alike = SLICE(j->alike.data, j->alike.len),
	};
}
