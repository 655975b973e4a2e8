/* property.c: the properties, after each step and when no progress is possible.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "rendezvous/round/wait_text.h"
#include "rendezvous/round/job_internal.h"
#include "tests/model/model.h"

char violation[1024];

void violate(const char *fmt, ...)
{
	va_list ap;

	if (violation[0])
		return;
	va_start(ap, fmt);
	vsnprintf(violation, sizeof(violation), fmt, ap);
	va_end(ap);
}

/* ---- the job's own counts ---- */

struct counts {
	uint32_t members, spares, joined, running;
	uint32_t swapped; /* spares whose place a spare has taken */
	uint64_t nproc;
};

static struct counts property_count(const struct job *j)
{
	struct counts c = {0};

	for (const struct job_node *n = j->nodes; n; n = n->next) {
		c.members += n->place == NODE_MEMBER;
		c.spares += n->place == NODE_SPARE;
		c.swapped += n->place == NODE_SPARE && n->swap == NODE_SWAPPED;
		c.joined += n->joined != 0;
		c.running += n->running != 0;
		c.nproc += n->joined ? n->nproc : 0;
		if (n->running && n->place != NODE_MEMBER)
			violate("%s runs and is no member", n->node_id);
		for (const struct job_node *o = n->next; o; o = o->next)
			if (n->home >= 0 && n->home == o->home &&
			    n->place == NODE_MEMBER && o->place == NODE_MEMBER)
				violate("%s and %s both own rank %d",
					n->node_id, o->node_id, n->home);
	}
	return c;
}

static void property_check_running(const struct job *j, const struct counts *c)
{
	uint32_t exited = 0;

	if (c->running != j->nnodes || c->running != c->members)
		violate("%u nodes run of %u members, in a round of %u",
			c->running, c->members, j->nnodes);
	for (uint32_t i = 0; i < j->world_size; i++)
		exited += j->ranks[i].text != NULL;
	if (exited != j->exited || exited >= j->world_size)
		violate("%u of %u ranks have exited, %u are counted, and the "
			"round runs",
			exited, j->world_size, j->exited);
}

void property_job(const struct run *r)
{
	const struct job *j = r->job;
	struct counts c = property_count(j);

	if (j->state == JOB_OVER)
		return;
	if (c.members != j->members || c.spares != j->spares ||
	    c.joined != j->joined || c.nproc != j->nproc)
		violate("the job counts %u members, %u spares, %u joined; it "
			"has %u, %u, %u",
			j->members, j->spares, j->joined, c.members, c.spares,
			c.joined);
	if (c.members > setup->max)
		violate("%u members of at most %u", c.members, setup->max);
	if (j->round != r->w.audit.first_round + j->attempt + j->changes)
		violate("round %u is not the first, %d, plus attempt %u plus "
			"%u changes",
			j->round, r->w.audit.first_round, j->attempt,
			j->changes);
	if (j->attempt != r->w.audit.restarts)
		violate("attempt %u after %d restarts", j->attempt,
			r->w.audit.restarts);
	if (j->state == JOB_RUNNING)
		property_check_running(j, &c);
	else if (c.running)
		violate("%u nodes run while no round does", c.running);
	if (j->state == JOB_RESTARTING && c.spares > c.swapped &&
	    c.members < setup->max)
		violate("a place is free and a spare does not take it");
}

/* ---- a round begins ---- */

static void property_check_home(struct run *r, const struct job_node *n,
				const struct wire_start *m)
{
	int i = n->node_id[1] - '0', number = n->node_id[3] - '0';
	int8_t *home = &r->w.audit.home[i];

	if (r->w.agents[i].number != number)
		return;
	if (*home < 0)
		*home = (int8_t)m->node_rank;
	else if ((uint32_t)*home < m->nnodes && *home != (int8_t)m->node_rank &&
		 n->home == *home)
		violate("node %d had rank %d and gets %u", i, *home,
			m->node_rank);
}

void property_start(struct run *r)
{
	struct audit *audit = &r->w.audit;
	const struct job *j = r->job;
	uint32_t base = 0, rank;

	if (audit->starts > audit->ends)
		violate("round %u begins while round %d runs", j->round,
			audit->starts - 1);
	audit->starts = (uint16_t)(j->round + 1);
	audit->done = 0;
	if (setup->no_progress && j->restarts.in_vain >= setup->no_progress)
		violate("a round begins after %u futile restarts",
			j->restarts.in_vain);
	if (j->nnodes < setup->min || j->nnodes > setup->max)
		violate("a round of %u nodes", j->nnodes);
	for (const struct job_node *n = j->nodes; n; n = n->next)
		if (n->running && n->swap == NODE_SWAPPED &&
		    j->nnodes > setup->min)
			violate("%s was swapped out, is not needed, and runs",
				n->node_id);
	for (rank = 0; rank < j->nnodes; rank++) {
		const struct job_node *n = j->nodes;
		struct wire_start m;

		while (n && !(n->running && n->rank == (int32_t)rank))
			n = n->next;
		if (!n) {
			violate("no node has rank %u of %u", rank, j->nnodes);
			return;
		}
		job_start_for(j, n, &m);
		if (m.base_rank != base || m.node_rank != rank ||
		    m.round != j->round || m.nnodes != j->nnodes)
			violate("node rank %u begins at rank %u, not %u", rank,
				m.base_rank, base);
		base += n->nproc;
		property_check_home(r, n, &m);
	}
	if (base != j->world_size)
		violate("a world of %u with %u workers", j->world_size, base);
}

/* ---- a round ends ---- */

static int property_is_in_vain(const struct job *j)
{
	return setup->no_progress &&
	       j->restarts.in_vain == setup->no_progress;
}

static void property_check_verdict(const struct run *r,
				   const struct wire_end *end)
{
	const struct audit *audit = &r->w.audit;
	const struct job *j = r->job;
	int is_told = j->stop_order.level > 0;

	switch (end->verdict) {
	case WIRE_SUCCESS:
		if (audit->done != j->world_size || end->exit_code)
			violate("SUCCESS with exit code %d, and %d of %u "
				"workers exited with 0",
				end->exit_code, audit->done, j->world_size);
		break;
	case WIRE_FAILURE:
		if (end->rank >= 0 && audit->restarts < setup->restarts &&
		    !is_told && !property_is_in_vain(j))
			violate("a worker's failure ends the job after %d of "
				"%u restarts",
				audit->restarts, setup->restarts);
		break;
	case WIRE_RESTART:
		if (end->rank < 0 || is_told ||
		    audit->restarts > setup->restarts ||
		    audit->restarts > audit->failures ||
		    end->restarts_left != setup->restarts - audit->restarts)
			violate("restart %d of %u after %d failures, %u left%s",
				audit->restarts, setup->restarts,
				audit->failures, end->restarts_left,
				is_told ? ", and the job is to stop" : "");
		break;
	default:
		break;
	}
	if (end->verdict != WIRE_SUCCESS && end->verdict != WIRE_REGROUP &&
	    !end->exit_code)
		violate("a %d with exit code 0", end->verdict);
	if (!end->text.len)
		violate("an END without a cause");
}

void property_end(struct run *r)
{
	struct audit *audit = &r->w.audit;
	const struct wire_end *end = job_end(r->job);
	int goes_on =
		end->verdict == WIRE_RESTART || end->verdict == WIRE_REGROUP;

	if (audit->starts > audit->ends && end->round + 1 != audit->starts)
		violate("END of round %u while round %d runs", end->round,
			audit->starts - 1);
	if (audit->starts <= audit->ends && goes_on)
		violate("round %u ends, which did not run", end->round);
	if (end->round < audit->ends)
		violate("round %u ends twice", end->round);
	audit->ends = (uint16_t)(end->round + 1);
	if (end->verdict == WIRE_RESTART)
		audit->restarts++;
	property_check_verdict(r, end);
}

/* ---- no progress is possible ---- */

/* The node waits for missing nodes, which the server must name. */
static void property_check_wait_text(struct run *r, int i)
{
	const struct wait_text_nodes known = {.nunjoined = 0};
	struct wait_text a = {.hash = 0};
	const struct job_node *n = server_node(r, i, r->w.agents[i].number);

	wait_text_init(&a);
	if (r->job)
		wait_text_put_nodes(&a, r->job, &known);
	if (!n || !job_node_waits(r->job, n) || !a.text.len)
		violate("node %d waits for ever, and nobody is named", i);
	wait_text_release(&a);
}

/* 1 if the node was asked to stop and the server owes it no END, because its
 * place was free at once. The grace period then ends it. */
static int property_is_released(struct run *r, int i)
{
	const struct job_node *n;

	run_load(r);
	n = server_node(r, i, r->w.agents[i].number);
	return r->w.agents[i].notice && (!n || job_node_has_left(n));
}

static void property_check_node(struct run *r, int i, int has_deadline)
{
	const struct agent *a = &r->w.agents[i];

	if (a->life != LIFE_UP || property_is_released(r, i))
		return;
	if (a->state != JOINING || !membership_waits(&a->membership))
		violate("node %d stays in state %s for ever", i,
			agent_state_names[a->state]);
	else if (!has_deadline)
		violate("node %d waits for ever without a deadline", i);
	else
		property_check_wait_text(r, i);
}

void property_quiet(struct run *r, const struct step *steps, size_t n)
{
	int has_deadline = 0;

	for (size_t k = 0; k < n; k++) {
		if (step_is_progress(steps[k].kind))
			return;
		has_deadline |= steps[k].kind == STEP_DEADLINE;
	}
	for (int i = 0; i < NODES_MAX; i++)
		property_check_node(r, i, has_deadline);
}
