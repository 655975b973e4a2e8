/* job_snapshot.c: converts a job to bytes and back. One function per structure
 * serves both directions, so that they cannot differ. */
#include <stdlib.h>
#include <string.h>

#include "rendezvous/round/job_internal.h"

/* The direction: write to out, or read from in. */
struct pass {
	struct buf *out; /* NULL: read */
	struct reader in;
};

static void job_snapshot_u32(struct pass *p, uint32_t *v)
{
	if (p->out)
		buf_put_u32(p->out, *v);
	else
		*v = reader_u32(&p->in);
}

static void job_snapshot_u64(struct pass *p, uint64_t *v)
{
	if (p->out)
		buf_put_u64(p->out, *v);
	else
		*v = reader_u64(&p->in);
}

static void job_snapshot_number(struct pass *p, int *v)
{
	uint32_t word = (uint32_t)*v;

	job_snapshot_u32(p, &word);
	*v = (int)word;
}

/* Keeps NULL and "" apart. */
static void job_snapshot_text(struct pass *p, char **s)
{
	struct slice in;
	int there = *s != NULL;

	job_snapshot_number(p, &there);
	if (p->out && *s)
		buf_put_slice(p->out, SLICE_STR(*s));
	if (p->out || !there)
		return;
	in = reader_slice(&p->in);
	*s = p->in.bad ? NULL : strndup(in.data, in.len);
	p->in.bad |= !*s;
}

static void job_snapshot_array(struct pass *p, char *s, size_t size)
{
	struct slice in;

	if (p->out) {
		buf_put_slice(p->out, SLICE_STR(s));
		return;
	}
	in = reader_slice(&p->in);
	if (in.len < size) {
		memcpy(s, in.data, in.len);
		s[in.len] = '\0';
	} else {
		p->in.bad = 1;
	}
}

static void job_snapshot_buf(struct pass *p, struct buf *b)
{
	struct slice in;

	if (p->out) {
		buf_put_slice(p->out, SLICE(b->data, b->len));
		return;
	}
	in = reader_slice(&p->in);
	buf_reset(b);
	buf_put(b, in.data, in.len);
	p->in.bad |= b->failed != 0;
}

static void job_snapshot_stop(struct pass *p, struct job_stop_order *t)
{
	int level = t->level, cause = t->cause;

	job_snapshot_number(p, &level);
	job_snapshot_number(p, &cause);
	t->level = (uint8_t)level;
	t->cause = (uint8_t)cause;
	job_snapshot_number(p, &t->signal);
	job_snapshot_u32(p, &t->grace_ms);
	job_snapshot_array(p, t->text, sizeof(t->text));
	job_snapshot_array(p, t->first, sizeof(t->first));
	job_snapshot_number(p, &t->exit_code);
	job_snapshot_u32(p, &t->stopped);
	job_snapshot_u32(p, &t->killed);
}

static void job_snapshot_end(struct pass *p, struct job *j)
{
	struct wire_frame f;
	struct wire_end m;
	long n;

	if (p->out) {
		wire_put_end(p->out, WIRE_END, WIRE_NOTICE, 0, &j->end);
		return;
	}
	n = wire_cut(SLICE(p->in.p, reader_left(&p->in)), WIRE_BODY_MAX, &f,
		     NULL);
	if (n <= 0 || wire_get_end(&f, &m, NULL) < 0) {
		p->in.bad = 1;
		return;
	}
	p->in.p += n;
	end_cause_set(j, &m);
	/* no round has ended yet */
	if (!m.text.len)
		j->end.text = SLICE(NULL, 0);
}

static void job_snapshot_memory(struct pass *p, struct job *j,
				struct job_memory *m)
{
	char *host = m->host;
	int saves = p->out != NULL;

	job_snapshot_text(p, &host);
	job_snapshot_number(p, &m->rank);
	if (!saves)
		assign_fill(j, m, host, m->rank);
}

static void job_snapshot_job(struct pass *p, struct job *j)
{
	int state = (int)j->state, count = MEMORIES;

	job_snapshot_number(p, &state);
	j->state = (enum job_state)state;
	job_snapshot_u32(p, &j->round);
	job_snapshot_u32(p, &j->attempt);
	job_snapshot_u32(p, &j->changes);
	job_snapshot_text(p, &j->first_host);
	job_snapshot_u32(p, &j->min_nodes);
	job_snapshot_u32(p, &j->max_nodes);
	job_snapshot_u32(p, &j->max_restarts);
	job_snapshot_u32(p, &j->max_no_progress);
	job_snapshot_u32(p, &j->swap_after);
	job_snapshot_u32(p, &j->backoff_ms);
	job_snapshot_buf(p, &j->alike);
	job_snapshot_u32(p, &j->last_call_ms);
	job_snapshot_u32(p, &j->members);
	job_snapshot_u32(p, &j->spares);
	job_snapshot_u32(p, &j->seq);
	job_snapshot_u32(p, &j->joined);
	job_snapshot_u64(p, &j->nproc);
	job_snapshot_number(p, &j->calling);
	job_snapshot_u32(p, &j->next_memory);
	/* most jobs never lose a node */
	count = j->next_memory ? MEMORIES : 0;
	for (int i = 0; i < count; i++)
		job_snapshot_memory(p, j, &j->memory[i]);
	job_snapshot_u32(p, &j->nnodes);
	job_snapshot_u32(p, &j->world_size);
	job_snapshot_u32(p, &j->exited);
	job_snapshot_buf(p, &j->early);
	job_snapshot_stop(p, &j->stop_order);
	job_snapshot_u64(p, &j->restarts.best);
	job_snapshot_u64(p, &j->restarts.last);
	job_snapshot_u32(p, &j->restarts.known);
	job_snapshot_u32(p, &j->restarts.in_vain);
	job_snapshot_number(p, &j->restarts.has_swapped);
	job_snapshot_end(p, j);
	for (int i = 0; i < count; i++)
		if (j->memory[i].rank < 0 ||
		    j->memory[i].rank >= (int32_t)j->max_nodes)
			p->in.bad = 1;
	if (state < 0 || state >= JOB_STATES ||
	    j->max_nodes > WIRE_NODES_MAX || j->nnodes > j->max_nodes ||
	    j->world_size > WIRE_WORLD_MAX)
		p->in.bad = 1;
}

static void job_snapshot_node(struct pass *p, struct job_node *n)
{
	int place = (int)n->place, port = n->master_port;
	int swap = (int)n->swap;

	job_snapshot_text(p, &n->node_id);
	job_snapshot_text(p, &n->host);
	job_snapshot_text(p, &n->addr);
	job_snapshot_text(p, &n->role);
	job_snapshot_number(p, &port);
	n->master_port = (uint16_t)port;
	job_snapshot_number(p, &n->hosts_server);
	job_snapshot_number(p, &n->agent_store);
	job_snapshot_number(p, &n->store_open);
	job_snapshot_u32(p, &n->nproc);
	job_snapshot_u32(p, &n->seq);
	job_snapshot_number(p, &place);
	n->place = (enum job_place)place;
	job_snapshot_number(p, &n->joined);
	job_snapshot_number(p, &n->running);
	job_snapshot_number(p, &n->gets_end);
	job_snapshot_number(p, &n->home);
	job_snapshot_number(p, &n->rank);
	job_snapshot_u32(p, &n->base);
	job_snapshot_u32(p, &n->role_base);
	job_snapshot_number(p, &n->stands_in);
	job_snapshot_u32(p, &n->role_world);
	job_snapshot_u32(p, &n->notices);
	job_snapshot_u32(p, &n->lease_ms);
	job_snapshot_number(p, &n->has_steps);
	job_snapshot_u32(p, &n->bad_starts);
	job_snapshot_number(p, &swap);
	n->swap = swap;
}

static void job_snapshot_ranks(struct pass *p, struct job *j)
{
	int there = j->ranks != NULL;

	job_snapshot_number(p, &there);
	if (!there || p->in.bad)
		return;
	if (!p->out)
		j->ranks = calloc(j->world_size + 1, sizeof(*j->ranks));
	if (!j->ranks) {
		p->in.bad = 1;
		return;
	}
	for (uint32_t i = 0; i < j->world_size && !p->in.bad; i++) {
		job_snapshot_text(p, &j->ranks[i].text);
		job_snapshot_number(p, &j->ranks[i].failed);
		job_snapshot_number(p, &j->ranks[i].left_out);
	}
}

void job_save(const struct job *j, struct buf *out)
{
	struct pass p = {.out = out};
	struct job *all = (struct job *)j; /* writing does not change it */
	struct job_node *n;
	uint32_t nodes = 0;

	buf_put_slice(out, SLICE_STR(j->id));
	job_snapshot_job(&p, all);
	for (n = j->nodes; n; n = n->next)
		nodes++;
	buf_put_u32(out, nodes);
	for (n = j->nodes; n; n = n->next)
		job_snapshot_node(&p, n);
	job_snapshot_ranks(&p, all);
}

/* ---- reading ---- */

static void job_snapshot_drop_node(struct job_node *n)
{
	free(n->node_id);
	free(n->host);
	free(n->addr);
	free(n->role);
	free(n);
}

/* Enters the node in the job's tables, at the ranks that it has. */
static int job_snapshot_place_node(struct job *j, struct job_node *n)
{
	if (n->running && (n->rank < 0 || (uint32_t)n->rank >= j->nnodes))
		return -1;
	if (n->home >= 0 && n->place != NODE_GONE && !j->homes[n->home])
		j->homes[n->home] = n;
	if (!n->running)
		return 0;
	j->order[n->rank] = n;
	if (!j->ranks || n->base > j->world_size ||
	    n->nproc > j->world_size - n->base)
		return -1;
	for (uint32_t i = 0; i < n->nproc; i++)
		j->ranks[n->base + i].node = n;
	return 0;
}

static int job_snapshot_load_node(struct job *j, struct pass *p)
{
	struct job_node *n = calloc(1, sizeof(*n));

	if (!n)
		return -1;
	job_snapshot_node(p, n);
	if (p->in.bad || !n->node_id || !n->host || !n->addr || !n->role ||
	    n->home < -1 || n->home >= (int32_t)j->max_nodes ||
	    n->place > NODE_GONE) {
		job_snapshot_drop_node(n);
		return -1;
	}
	n->item.key = SLICE_STR(n->node_id);
	assign_addr_key(n);
	if (hash_table_find(&j->by_id, n->item.key) ||
	    hash_table_insert(&j->by_id, &n->item) < 0) {
		job_snapshot_drop_node(n);
		return -1;
	}
	n->pprev = j->nodes_tail;
	*j->nodes_tail = n;
	j->nodes_tail = &n->next;
	return 0;
}

static int job_snapshot_load_job(struct job *j, struct pass *p)
{
	uint32_t nodes;
	struct job_node *n;

	job_snapshot_job(p, j);
	nodes = reader_u32(&p->in);
	if (p->in.bad)
		return -1;
	/* the first node has set max_nodes, which sizes the tables */
	if (j->first_host) {
		j->homes = calloc(j->max_nodes + 1, sizeof(*j->homes));
		j->order = calloc(j->max_nodes + 1, sizeof(*j->order));
		if (!j->homes || !j->order)
			return -1;
	}
	while (nodes--)
		if (job_snapshot_load_node(j, p) < 0)
			return -1;
	job_snapshot_ranks(p, j);
	if (p->in.bad || reader_left(&p->in))
		return -1;
	for (n = j->nodes; n; n = n->next)
		if (j->first_host ? job_snapshot_place_node(j, n) < 0
				  : n->running)
			return -1;
	if (j->state == JOB_RUNNING && (!j->ranks || !j->nnodes))
		return -1;
	for (uint32_t i = 0; j->state == JOB_RUNNING && i < j->nnodes; i++)
		if (!j->order || !j->order[i])
			return -1;
	return 0;
}

struct job *job_load(struct slice bytes)
{
	struct pass p = {.out = NULL};
	struct slice id;
	struct job *j;

	reader_init(&p.in, bytes);
	id = reader_slice(&p.in);
	j = p.in.bad ? NULL : job_new(id, 0);
	if (!j)
		return NULL;
	if (job_snapshot_load_job(j, &p) < 0) {
		job_free(j);
		return NULL;
	}
	return j;
}
