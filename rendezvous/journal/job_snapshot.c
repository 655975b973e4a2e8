/* job_snapshot.c: a job as bytes, and back. Each field is named once, for both
 * ways, so that they cannot differ. */
#include <stdlib.h>
#include <string.h>

#include "rendezvous/round/job_internal.h"

/* One way: out, or in. */
struct pass {
	struct buf *out; /* NULL: in */
	struct reader in;
};

static void u32(struct pass *p, uint32_t *v)
{
	if (p->out)
		buf_put_u32(p->out, *v);
	else
		*v = reader_u32(&p->in);
}

static void u64(struct pass *p, uint64_t *v)
{
	if (p->out)
		buf_put_u64(p->out, *v);
	else
		*v = reader_u64(&p->in);
}

static void number(struct pass *p, int *v)
{
	uint32_t word = (uint32_t)*v;

	u32(p, &word);
	*v = (int)word;
}

/* NULL stays NULL. */
static void text(struct pass *p, char **s)
{
	struct slice in;
	int there = *s != NULL;

	number(p, &there);
	if (p->out && *s)
		buf_put_slice(p->out, SLICE_STR(*s));
	if (p->out || !there)
		return;
	in = reader_slice(&p->in);
	*s = p->in.bad ? NULL : strndup(in.data, in.len);
	p->in.bad |= !*s;
}

static void array(struct pass *p, char *s, size_t size)
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

static void pass_buf(struct pass *p, struct buf *b)
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

static void pass_told(struct pass *p, struct job_stop_order *t)
{
	int level = t->level, cause = t->cause;

	number(p, &level);
	number(p, &cause);
	t->level = (uint8_t)level;
	t->cause = (uint8_t)cause;
	number(p, &t->signal);
	u32(p, &t->grace_ms);
	array(p, t->text, sizeof(t->text));
	array(p, t->first, sizeof(t->first));
	number(p, &t->exit_code);
	u32(p, &t->stopped);
	u32(p, &t->killed);
}

static void pass_end(struct pass *p, struct job *j)
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
	end_cause_restore(j, &m);
	/* before the first end there is none */
	if (!m.text.len)
		j->end.text = SLICE(NULL, 0);
}

static void pass_job(struct pass *p, struct job *j)
{
	int state = (int)j->state, count = MEMORIES;

	number(p, &state);
	j->state = (enum job_state)state;
	u32(p, &j->round);
	u32(p, &j->attempt);
	u32(p, &j->changes);
	text(p, &j->first_host);
	u32(p, &j->min_nodes);
	u32(p, &j->max_nodes);
	u32(p, &j->max_restarts);
	u32(p, &j->last_call_ms);
	u32(p, &j->members);
	u32(p, &j->spares);
	u32(p, &j->seq);
	u32(p, &j->joined);
	u64(p, &j->nproc);
	number(p, &j->calling);
	u32(p, &j->next_memory);
	/* most jobs never lose a node */
	count = j->next_memory ? MEMORIES : 0;
	for (int i = 0; i < count; i++) {
		char *host = j->memory[i].host;

		text(p, &host);
		number(p, &j->memory[i].rank);
		if (!p->out)
			assign_fill(j, &j->memory[i], host, j->memory[i].rank);
	}
	u32(p, &j->nnodes);
	u32(p, &j->world_size);
	u32(p, &j->exited);
	pass_buf(p, &j->early);
	pass_told(p, &j->told);
	pass_end(p, j);
	for (int i = 0; i < count; i++)
		if (j->memory[i].rank < 0 ||
		    j->memory[i].rank >= (int32_t)j->max_nodes)
			p->in.bad = 1;
	if (state < 0 || state >= JOB_STATES ||
	    j->max_nodes > WIRE_NODES_MAX || j->nnodes > j->max_nodes ||
	    j->world_size > WIRE_WORLD_MAX)
		p->in.bad = 1;
}

static void pass_node(struct pass *p, struct job_node *n)
{
	int place = (int)n->place, port = n->master_port;

	text(p, &n->node_id);
	text(p, &n->host);
	text(p, &n->addr);
	text(p, &n->role);
	number(p, &port);
	n->master_port = (uint16_t)port;
	number(p, &n->hosts_server);
	number(p, &n->agent_store);
	number(p, &n->store_open);
	u32(p, &n->nproc);
	u32(p, &n->seq);
	number(p, &place);
	n->place = (enum job_place)place;
	number(p, &n->joined);
	number(p, &n->running);
	number(p, &n->told);
	number(p, &n->home);
	number(p, &n->rank);
	u32(p, &n->base);
	u32(p, &n->role_base);
	u32(p, &n->role_world);
	u32(p, &n->said);
	u32(p, &n->lease_ms);
}

static void pass_ranks(struct pass *p, struct job *j)
{
	int there = j->ranks != NULL;

	number(p, &there);
	if (!there || p->in.bad)
		return;
	if (!p->out)
		j->ranks = calloc(j->world_size + 1, sizeof(*j->ranks));
	if (!j->ranks) {
		p->in.bad = 1;
		return;
	}
	for (uint32_t i = 0; i < j->world_size && !p->in.bad; i++) {
		text(p, &j->ranks[i].text);
		number(p, &j->ranks[i].failed);
	}
}

void job_save(const struct job *j, struct buf *out)
{
	struct pass p = {.out = out};
	struct job *all = (struct job *)j; /* which this way leaves as it is */
	struct job_node *n;
	uint32_t nodes = 0;

	buf_put_slice(out, SLICE_STR(j->id));
	pass_job(&p, all);
	for (n = j->nodes; n; n = n->next)
		nodes++;
	buf_put_u32(out, nodes);
	for (n = j->nodes; n; n = n->next)
		pass_node(&p, n);
	pass_ranks(&p, all);
}

/* ---- in ---- */

static void drop_node(struct job_node *n)
{
	free(n->node_id);
	free(n->host);
	free(n->addr);
	free(n->role);
	free(n);
}

/* Where it sits, by what it says of itself. */
static int seat(struct job *j, struct job_node *n)
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

static int load_node(struct job *j, struct pass *p)
{
	struct job_node *n = calloc(1, sizeof(*n));

	if (!n)
		return -1;
	pass_node(p, n);
	if (p->in.bad || !n->node_id || !n->host || !n->addr || !n->role ||
	    n->home < -1 || n->home >= (int32_t)j->max_nodes ||
	    n->place > NODE_GONE) {
		drop_node(n);
		return -1;
	}
	n->item.key = SLICE_STR(n->node_id);
	assign_addr_key(n);
	if (hash_table_find(&j->by_id, n->item.key) ||
	    hash_table_insert(&j->by_id, &n->item) < 0) {
		drop_node(n);
		return -1;
	}
	n->pprev = j->nodes_tail;
	*j->nodes_tail = n;
	j->nodes_tail = &n->next;
	return 0;
}

static int load(struct job *j, struct pass *p)
{
	uint32_t nodes;
	struct job_node *n;

	pass_job(p, j);
	nodes = reader_u32(&p->in);
	if (p->in.bad)
		return -1;
	/* there is room for nodes once the first has said for how many */
	if (j->first_host) {
		j->homes = calloc(j->max_nodes + 1, sizeof(*j->homes));
		j->order = calloc(j->max_nodes + 1, sizeof(*j->order));
		if (!j->homes || !j->order)
			return -1;
	}
	while (nodes--)
		if (load_node(j, p) < 0)
			return -1;
	pass_ranks(p, j);
	if (p->in.bad || reader_left(&p->in))
		return -1;
	for (n = j->nodes; n; n = n->next)
		if (j->first_host ? seat(j, n) < 0 : n->running)
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
	if (load(j, &p) < 0) {
		job_free(j);
		return NULL;
	}
	return j;
}
