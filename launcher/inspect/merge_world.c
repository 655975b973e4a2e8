/* merge_world.c: converts both kinds of files to the calls that stragglers.h
 * and trace.h compare. */
#include "launcher/inspect/merge.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "launcher/inspect/rank_calls.h"
#include "launcher/inspect/stragglers.h"
#include "launcher/traces/torch_trace.h"

enum {
	CALLS_MAX = 64 << 20, /* bytes that a file adds */
	FINDINGS_MAX = 1 << 20,
	RANKS_MAX = 1 << 20,
	TORCH_GROUPS_MAX = 256, /* for each rank */
	TORCH_LAST_MAX = TRACE_WORDS_MAX + TRACE_WHERE_MAX + 16,
	TORCH_MESSAGES_MAX = 64, /* messages that have not arrived */
};
#define NO_PLACE (UINT32_MAX - 1)

int merge_world_init(struct merge_world *w, char *name, const char *source)
{
	*w = (struct merge_world){
		.name = name, .source = source,
		.findings = BUF_INIT(FINDINGS_MAX),
	};
	return name ? 0 : -ENOMEM;
}

void merge_world_release(struct merge_world *w)
{
	for (size_t i = 0; i < w->nranks; i++) {
		free(w->ranks[i].host);
		free(w->ranks[i].last);
	}
	for (size_t i = 0; i < w->nnodes; i++) {
		free(w->nodes[i].host);
		free((char *)w->nodes[i].calls.bytes.data);
	}
	free(w->ranks);
	free(w->nodes);
	free(w->name);
	trace_release(&w->trace);
	buf_release(&w->findings);
}

int merge_world_has(const struct merge_world *w, uint32_t rank)
{
	for (size_t i = 0; i < w->nranks; i++) {
		if (w->ranks[i].rank == rank)
			return 1;
	}
	return 0;
}

static int merge_world_add_rank(struct merge_world *w, uint32_t rank,
				const char *host, const char *last)
{
	struct merge_rank *more =
		realloc(w->ranks, (w->nranks + 1) * sizeof(*more)), *to;

	if (!more)
		return -ENOMEM;
	w->ranks = more;
	to = &w->ranks[w->nranks];
	*to = (struct merge_rank){rank, strdup(host), strdup(last)};
	if (to->host && to->last) {
		w->nranks++;
		return 0;
	}
	free(to->host);
	free(to->last);
	return -ENOMEM;
}

/* Takes the calls' bytes. */
static int merge_world_add_node(struct merge_world *w, const char *host,
				uint32_t count, struct buf *calls)
{
	struct dump_node *more =
		realloc(w->nodes, (w->nnodes + 1) * sizeof(*more));
	char *name = strdup(host);

	if (more)
		w->nodes = more;
	if (!more || !name || calls->failed) {
		free(name);
		return -ENOMEM;
	}
	w->nodes[w->nnodes++] = (struct dump_node){
		.host = name,
		.calls = {count, SLICE(calls->data, calls->len)},
	};
	buf_init(calls, 0);
	return 0;
}

/* ---- a flight recorder ---- */

/* If calls failed (a peer was gone, or made another call), the rank counts as
 * waiting in the first of them. */
static void merge_reopen_failed(struct flight_view *v)
{
	for (int i = v->n; i > 0 && v->ops[i - 1].state != FLIGHT_DONE; i--)
		v->ops[i - 1].state = FLIGHT_ENTERED;
}

static int merge_trace_view(struct trace *t, const struct flight_view *v)
{
	char words[FLIGHT_CALL_MAX], where[] = "";
	int rc = 0;

	for (int i = 0; rc == 0 && i < v->n; i++) {
		const struct flight_op *op = &v->ops[i];
		struct flight_call bare = op->call;
		struct trace_call c = {
			.rank = v->rank, .group = op->comm,
			.number = op->call.number, .words = words,
			.where = where,
		};

		if (!flight_is_collective(op->call.kind) || !c.number ||
		    op->call.kind == FLIGHT_INIT ||
		    op->call.kind == FLIGHT_WAIT_EVENT)
			continue;
		c.same = flight_pack(&bare);
		flight_op_text(v, op, words);
		rc = trace_add(t, &c);
	}
	return rc;
}

/* Adds the worker with this part to l, unless it never ran. 0 or an error. */
static int merge_read_worker(struct local_workers *l,
			     const struct flight_file *head, int fd,
			     uint32_t part)
{
	struct local_worker *w = &l->workers[l->n];
	int rc;

	*w = (struct local_worker){
		.job = head, .rank = head->base_rank + part,
		.local_rank = part, .pid = (pid_t)(part + 1),
		.view = malloc(sizeof(*w->view)),
	};
	if (!w->view)
		return -ENOMEM;
	rc = flight_read_at(w->view, fd, flight_part_at(head, part));
	if (rc == 0 && w->view->rank != w->rank)
		rc = ERR_DATA;
	l->n++;
	if (rc == 0)
		return 0;
	w->recorder = rc > 0 ? RECORDER_SILENT : RECORDER_DAMAGED;
	free(w->view);
	w->view = NULL;
	return rc == -ENOMEM ? rc : 0;
}

static int merge_add_worker(struct merge_world *w,
			    const struct flight_file *head,
			    const struct local_worker *x)
{
	char last[FLIGHT_TEXT_MAX] = "";
	int rc = 0;

	if (x->view)
		flight_last_text(x->view, (head->saved_s + 1) * 1000000000ull,
				 last);
	else if (x->recorder == RECORDER_DAMAGED)
		snprintf(last, sizeof(last), "its record is damaged");
	rc = merge_world_add_rank(w, x->rank, head->host,
				  last[0] ? last : "no libddp call");
	if (rc == 0 && x->view) {
		rc = merge_trace_view(&w->trace, x->view);
		merge_reopen_failed(x->view);
	}
	return rc;
}

static int merge_add_workers(struct merge_world *w,
			     const struct flight_file *head,
			     struct local_workers *l)
{
	struct buf calls = BUF_INIT(CALLS_MAX);
	struct rank_moments moments;
	uint32_t n;
	int rc = 0;

	for (size_t i = 0; rc == 0 && i < l->n; i++)
		rc = merge_add_worker(w, head, &l->workers[i]);
	/* a rank counts as waiting in the call that it was in when it ended */
	rank_moments_init(&moments, l);
	n = rank_calls_put(&calls, l, 0, l->n, &moments);
	rank_moments_release(&moments);
	if (rc == 0)
		rc = merge_world_add_node(w, head->host, n, &calls);
	buf_release(&calls);
	return rc;
}

int merge_world_add_recorder(struct merge_world *w,
			     const struct flight_file *head, int fd,
			     struct err *e)
{
	struct local_workers *l = calloc(1, sizeof(*l));
	int rc = l ? 0 : -ENOMEM;

	if (l && head->parts)
		l->workers = calloc(head->parts, sizeof(*l->workers));
	if (!l || !l->workers)
		rc = -ENOMEM;
	for (uint32_t i = 0; rc == 0 && i < head->parts; i++)
		rc = merge_read_worker(l, head, fd, i);
	w->world_size = head->world_size;
	if (rc == 0)
		rc = merge_add_workers(w, head, l);
	if (l)
		local_workers_release(l);
	free(l);
	return rc < 0 ? err_no_memory(e, "the records") : 0;
}

/* ---- PyTorch's trace ---- */

/* The last collective of each group, and the messages that have not
 * arrived. */
struct merge_torch {
	struct merge_world *world;
	uint32_t rank;
	struct torch_call last, *groups;
	size_t ngroups;
	struct torch_call messages[TORCH_MESSAGES_MAX];
	size_t nmessages;
	int has_call, rc;
};

static void merge_torch_on_call(void *arg, const struct torch_call *c)
{
	struct merge_torch *t = arg;
	struct trace_call call = {
		.rank = t->rank, .group = c->group, .number = c->number,
		.same = c->same, .words = (char *)c->words,
		.where = (char *)c->where,
	};
	size_t i = 0;

	t->last = *c;
	t->has_call = 1;
	if (c->message && c->state != FLIGHT_DONE &&
	    t->nmessages < TORCH_MESSAGES_MAX)
		t->messages[t->nmessages++] = *c;
	if (!c->is_collective)
		return;
	if (t->rc == 0)
		t->rc = trace_add(&t->world->trace, &call);
	while (i < t->ngroups && t->groups[i].group != c->group)
		i++;
	if (i == TORCH_GROUPS_MAX)
		return;
	t->ngroups += i == t->ngroups;
	t->groups[i] = *c;
}

static void merge_put_torch_call(struct buf *calls, const struct merge_torch *t,
				 const struct torch_call *c)
{
	struct wire_call call = {
		.rank = t->rank,
		/* 0 is the world, for both */
		.comm = (uint32_t)(c->group ^ c->group >> 32),
		.number = c->number + 1, .words = SLICE_STR(c->words),
		/* known only in the world's group */
		.place = c->message ? c->place
			 : c->group ? NO_PLACE
				    : t->rank,
		.peer = c->peer,
		.kind = (uint8_t)c->message,
		.waits = c->state == FLIGHT_DONE ? WIRE_CALL_PASSES
						 : WIRE_CALL_SLEEPS,
	};

	wire_put_call_item(calls, &call);
}

static void merge_put_torch_last(char out[TORCH_LAST_MAX],
				 const struct torch_call *c)
{
	snprintf(out, TORCH_LAST_MAX, "%s: %s%s%s",
		 c->state == FLIGHT_DONE ? "last" : "in", c->words,
		 c->where[0] ? " at " : "", c->where);
}

static int merge_add_torch(struct merge_torch *t, const char *file)
{
	char last[TORCH_LAST_MAX] = "no call";
	struct buf calls = BUF_INIT(CALLS_MAX);
	const struct torch_call *at = &t->last;
	int rc;

	for (size_t i = 0; i < t->ngroups; i++) {
		merge_put_torch_call(&calls, t, &t->groups[i]);
		if (t->groups[i].state != FLIGHT_DONE)
			at = &t->groups[i];
	}
	for (size_t i = 0; i < t->nmessages; i++)
		merge_put_torch_call(&calls, t, &t->messages[i]);
	if (t->has_call)
		merge_put_torch_last(last, at);
	rc = merge_world_add_rank(t->world, t->rank, file, last);
	if (rc == 0)
		rc = merge_world_add_node(t->world, file,
					  (uint32_t)(t->ngroups +
						     t->nmessages),
					  &calls);
	buf_release(&calls);
	return rc;
}

int merge_world_add_torch(struct merge_world *w, const struct pickle *p,
			  uint32_t rank, const char *file, struct err *e)
{
	struct merge_torch *t = calloc(1, sizeof(*t));
	uint32_t size = torch_trace_world_size(p);
	int rc = -ENOMEM;

	if (t)
		t->groups = calloc(TORCH_GROUPS_MAX, sizeof(*t->groups));
	if (t && t->groups) {
		t->world = w;
		t->rank = rank;
		torch_trace_each_call(p, merge_torch_on_call, t);
		rc = t->rc < 0 ? t->rc : merge_add_torch(t, file);
	}
	if (size > w->world_size)
		w->world_size = size;
	if (t)
		free(t->groups);
	free(t);
	return rc < 0 ? err_no_memory(e, "the traces") : 0;
}

/* ---- findings ---- */

static int merge_rank_compare(const void *pa, const void *pb)
{
	const struct merge_rank *a = pa, *b = pb;

	return a->rank < b->rank ? -1 : a->rank > b->rank;
}

/* Fills ranks; returns how many have no record. */
static size_t merge_world_missing(const struct merge_world *w, uint32_t *ranks,
				  size_t max)
{
	size_t n = 0, at = 0;

	for (uint32_t r = 0; r < w->world_size && r < RANKS_MAX; r++) {
		while (at < w->nranks && w->ranks[at].rank < r)
			at++;
		if (at < w->nranks && w->ranks[at].rank == r)
			continue;
		if (n < max)
			ranks[n] = r;
		n++;
	}
	return n;
}

static void merge_put_missing(struct buf *out, const struct merge_world *w)
{
	uint32_t ranks[256];
	size_t n = merge_world_missing(w, ranks, 256);

	if (!n)
		return;
	buf_printf(out, "no record of ");
	trace_put_ranks(out, ranks, n < 256 ? n : 256);
	if (n > 256)
		buf_printf(out, " and %zu more", n - 256);
	buf_put(out, "\n", 1);
}

int merge_world_finish(struct merge_world *w, struct err *e)
{
	int rc;

	if (w->nranks)
		qsort(w->ranks, w->nranks, sizeof(*w->ranks),
		      merge_rank_compare);
	trace_put_mismatches(&w->findings, &w->trace);
	rc = stragglers_put(&w->findings, w->nodes, w->nnodes);
	merge_put_missing(&w->findings, w);
	if (w->findings.failed)
		rc = w->findings.failed;
	return rc < 0 ? err_no_memory(e, "the findings") : 0;
}

void merge_world_put(struct buf *out, const struct merge_world *w)
{
	buf_printf(out, "%s (%s): %zu", w->name, w->source, w->nranks);
	if (w->world_size)
		buf_printf(out, " of %u", w->world_size);
	buf_printf(out, " ranks\n");
	for (size_t i = 0; i < w->nranks; i++)
		buf_printf(out, "rank %u (%s): %s\n", w->ranks[i].rank,
			   w->ranks[i].host, w->ranks[i].last);
	if (w->findings.len)
		buf_put(out, "\n", 1);
	buf_put(out, w->findings.data, w->findings.len);
}

cJSON *merge_world_json(const struct json *j, const struct merge_world *w)
{
	cJSON *to = j->object(), *list;
	uint32_t ranks[256];
	size_t n = merge_world_missing(w, ranks, 256);

	json_add_text(j, to, "name", SLICE_STR(w->name));
	j->add_string(to, "source", w->source);
	j->add_number(to, "world_size", w->world_size);
	list = j->add_array(to, "ranks");
	for (size_t i = 0; i < w->nranks; i++) {
		cJSON *rank = j->object();

		j->add_number(rank, "rank", w->ranks[i].rank);
		json_add_text(j, rank, "host", SLICE_STR(w->ranks[i].host));
		json_add_text(j, rank, "last", SLICE_STR(w->ranks[i].last));
		j->append(list, rank);
	}
	list = j->add_array(to, "no_record");
	for (size_t i = 0; i < n && i < 256; i++)
		j->append(list, j->number(ranks[i]));
	json_append_lines(j, j->add_array(to, "findings"),
			  SLICE(w->findings.data, w->findings.len));
	return to;
}
