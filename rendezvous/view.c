/* view.c: what there is to know about a job: its messages, its nodes, what
 * became of a rank. Changes nothing but who waits for a fate. */
#include "rendezvous/job.h"

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

int job_is_empty(const struct job *j)
{
	return !j->nodes;
}

struct job_node *job_next_node(const struct job *j, const struct job_node *n)
{
	return n ? n->next : j->nodes;
}

void *job_node_owner(const struct job_node *n)
{
	return n->owner;
}

int job_node_joined(const struct job_node *n)
{
	return n->joined;
}

int job_node_is_alone(const struct job *j, const struct job_node *n)
{
	return n->hosts_server && j->nnodes == 1;
}

/* Names are worth more than numbers: who has to come back, or which of the
 * ranks that were asked for one by one nobody has asked for. */
static void put_missing(struct job *j, struct buf *out)
{
	enum { NAMED = 8 };
	const struct job_node *n;
	uint32_t i, said = 0, missing = j->nnodes - j->joined;
	uint32_t explicit_ranks = 0;

	buf_reset(out);
	if (!j->first_host) /* all have left again */
		return;
	if (j->state == JOB_RESTARTING) {
		for (n = j->nodes; n && said < NAMED; n = n->next)
			if (!n->joined)
				buf_printf(out, "%snode %d (%.255s)",
					   said++ ? ", " : "", n->rank,
					   n->host);
	} else {
		for (i = 0; i < j->nnodes; i++)
			explicit_ranks += j->wanted[i] != NULL;
		if (explicit_ranks < j->joined)
			return;
		for (i = 0; i < j->nnodes && said < NAMED; i++)
			if (!j->wanted[i])
				buf_printf(out, "%snode %u",
					   said++ ? ", " : "", i);
	}
	if (missing > said)
		buf_printf(out, " and %u more", missing - said);
}

void job_state_for(struct job *j, struct wire_state *m)
{
	put_missing(j, &j->missing);
	m->joined = j->joined;
	m->min_nodes = m->max_nodes = j->nnodes;
	m->spares = m->last_call_ms = 0;
	m->spare = 0;
	m->missing = SLICE(j->missing.data, j->missing.len);
}

void job_start_for(const struct job *j, const struct job_node *n,
		   struct wire_start *m)
{
	const struct job_node *first = j->order[0];

	*m = (struct wire_start){
		.round = j->round,
		.attempt = j->attempt,
		.node_rank = (uint32_t)n->rank,
		.nnodes = j->nnodes,
		.base_rank = n->base,
		.world_size = j->world_size,
		.role_base_rank = n->base,
		.role_world_size = j->world_size,
		.master_addr = SLICE_STR(first->addr),
		.master_port = first->master_port,
		.nodes = {j->nnodes,
			  SLICE(j->start_nodes.data, j->start_nodes.len)},
	};
}

const struct wire_end *job_end(const struct job *j)
{
	return &j->end;
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
		       "round %u of job '%s' does not run (%s %u)", round,
		       j->id, j->state == JOB_RUNNING ? "it is in round" :
		       "its next is", j->round);
}

int job_fate(struct job *j, uint32_t rank, struct job_fate *f,
	     const char **text, struct err *e)
{
	struct job_rank *r;

	if (rank >= j->world_size)
		return err_set(e, ERR_ARGUMENT,
			       "rank %u does not exist: this round has %u",
			       rank, j->world_size);
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
