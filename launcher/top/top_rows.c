/* top_rows.c: joins the lists of ranks and nodes, both of which are sorted. */
#include "launcher/top/top_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rendezvous/status/job_roles.h"

enum {
	QUIET_MS = 30000, /* as in docs/hangs.md: the first line */
	SLOW_WAITED = 200, /* thousandths, as in docs/protocol-progress.txt */
};

/* ---- rows ---- */

static int top_row_compare_ranks(const void *pa, const void *pb)
{
	const struct top_row *a = pa, *b = pb;

	return a->as.rank < b->as.rank ? -1 : a->as.rank > b->as.rank;
}

static void top_row_find_node(struct top_row *row,
			      const struct wire_job_node *nodes, uint32_t n)
{
	row->node = -1;
	row->host = SLICE("", 0);
	for (uint32_t i = 0; i < n; i++) {
		const struct wire_job_node *x = &nodes[i];

		if (x->state != WIRE_NODE_RUNS ||
		    row->as.rank < x->base_rank ||
		    row->as.rank - x->base_rank >= x->nproc)
			continue;
		row->node = x->node_rank;
		row->host = x->host;
		return;
	}
}

static int top_row_compare_waited(const void *pa, const void *pb)
{
	const int32_t *a = pa, *b = pb;

	return *a < *b ? -1 : *a > *b;
}

/* Like the server: the rank that waits least, and 20 % less than the lower
 * median of the others. *waited has room for all ranks. */
static void top_rows_mark_slow(struct top_rows *r, int32_t *waited)
{
	struct top_row *least = NULL;
	size_t n = 0;

	for (size_t i = 0; i < r->n; i++) {
		struct top_row *row = &r->rows[i];

		if (row->as.waited < 0)
			return;
		waited[n++] = row->as.waited;
		if (!least || row->as.waited < least->as.waited)
			least = row;
	}
	if (n < 2)
		return;
	qsort(waited, n, sizeof(*waited), top_row_compare_waited);
	/* waited[0] is least's own */
	if (waited[1 + (n - 2) / 2] - waited[0] > SLOW_WAITED)
		least->mark = TOP_SLOW;
}

/* Nothing shows the progress of programs that report no steps and make no calls
 * that ddprun sees. */
static int top_rows_have_progress(const struct top_rows *r)
{
	for (size_t i = 0; i < r->n; i++) {
		const struct wire_rank *x = &r->rows[i].as;

		if (x->step >= 0 || x->call.len || x->waited >= 0)
			return 1;
	}
	return 0;
}

static void top_rows_mark(struct top_rows *r, int32_t *waited)
{
	int have_progress = top_rows_have_progress(r);

	for (size_t i = 0; i < r->n; i++) {
		const struct wire_rank *x = &r->rows[i].as;

		if (x->doing == RANK_STOPPED ||
		    (have_progress && x->quiet_ms >= QUIET_MS))
			r->rows[i].mark = TOP_QUIET;
	}
	top_rows_mark_slow(r, waited);
}

static void top_rows_read(struct top_rows *r, const struct wire_items *ranks)
{
	struct reader in;

	reader_init(&in, ranks->bytes);
	while (r->n < ranks->count) {
		r->rows[r->n].as = wire_get_rank_item(&in);
		if (in.bad)
			break;
		r->n++;
	}
	qsort(r->rows, r->n, sizeof(*r->rows), top_row_compare_ranks);
}

int top_rows_init(struct top_rows *r, const struct job_status *job)
{
	const struct wire_items *ranks = &job->ranks.ranks;
	struct wire_job_node *nodes = NULL;
	int32_t *waited = calloc((size_t)ranks->count + 1, sizeof(*waited));
	uint32_t n = job_status_nodes(job, &nodes);
	int rc = -ENOMEM;

	*r = (struct top_rows){
		.has_roles = job_roles_text(&job->as).len != 0,
	};
	r->rows = calloc((size_t)ranks->count + 1, sizeof(*r->rows));
	if (!r->rows || !nodes || !waited)
		goto out;
	top_rows_read(r, ranks);
	for (size_t i = 0; i < r->n; i++) {
		struct top_row *row = &r->rows[i];

		top_row_find_node(row, nodes, n);
		row->role = job_roles_of(&job->as, row->as.rank);
	}
	top_rows_mark(r, waited);
	rc = 0;
out:
	free(waited);
	free(nodes);
	return rc;
}

void top_rows_release(struct top_rows *r)
{
	free(r->rows);
	*r = (struct top_rows){.n = 0};
}

/* ---- order and filter ---- */

static double top_row_key(const struct top_row *row, enum top_order order)
{
	switch (order) {
	case TOP_BY_QUIET:
		return -(double)row->as.quiet_ms;
	case TOP_BY_STEP:
		return (double)row->as.step;
	case TOP_BY_CPU:
		return -row->as.cpu;
	default:
		return (double)row->as.rank;
	}
}

static enum top_order top_rows_order; /* for the qsort under way */

static int top_row_compare(const void *pa, const void *pb)
{
	double a = top_row_key(pa, top_rows_order);
	double b = top_row_key(pb, top_rows_order);

	if (a < b || a > b)
		return a < b ? -1 : 1;
	return top_row_compare_ranks(pa, pb);
}

void top_rows_sort(struct top_rows *r, enum top_order order)
{
	top_rows_order = order;
	if (r->n)
		qsort(r->rows, r->n, sizeof(*r->rows), top_row_compare);
}

static int top_row_has(const struct top_row *row, const char *text, size_t len)
{
	char rank[16];

	snprintf(rank, sizeof(rank), "%u", row->as.rank);
	if (strcmp(rank, text) == 0 ||
	    (row->role.len == len && memcmp(row->role.data, text, len) == 0))
		return 1;
	return memmem(row->host.data, row->host.len, text, len) ||
	       memmem(row->as.call.data, row->as.call.len, text, len) ||
	       memmem(row->as.words.data, row->as.words.len, text, len);
}

void top_rows_filter(struct top_rows *r, const char *text)
{
	size_t kept = 0, len = strlen(text);

	for (size_t i = 0; len && i < r->n; i++)
		if (top_row_has(&r->rows[i], text, len))
			r->rows[kept++] = r->rows[i];
	if (len)
		r->n = kept;
}
