/* pmix_job.c: lists of names and ranks. */
#include "launcher/pmix/pmix_job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void pmix_job_release(struct pmix_job *j)
{
	free(j->ranks);
	free(j->nodes);
	free(j->apps);
	j->ranks = NULL;
	j->nodes = NULL;
	j->apps = NULL;
}

/* ---- what nodes tell each other ---- */

void pmix_job_put_node(struct buf *part, const struct pmix_job *j,
		       const char *host)
{
	buf_put_u32(part, j->nproc);
	buf_put_slice(part, SLICE_STR(host));
	buf_put_slice(part, SLICE_STR(j->name));
}

static void pmix_job_get_text(struct reader *r, char *out, size_t size)
{
	struct slice text = reader_slice(r);

	if (text.len >= size)
		r->bad = 1;
	else
		snprintf(out, size, "%.*s", SLICE_FMT(text));
}

/* 1 if that name is in the list of n bytes, "a,b,". */
static int pmix_job_has_name(const char *list, size_t n, struct slice name)
{
	for (const char *at = list; at < list + n;) {
		const char *end = memchr(at, ',', (size_t)(list + n - at));

		if ((size_t)(end - at) == name.len &&
		    memcmp(at, name.data, name.len) == 0)
			return 1;
		at = end + 1;
	}
	return 0;
}

static int pmix_job_add_node(struct pmix_job *j, struct slice part, uint32_t i,
			     struct buf *nodes, struct err *e)
{
	struct reader r;
	struct slice name;

	reader_init(&r, part);
	j->ranks[i] = reader_u32(&r);
	name = reader_slice(&r);
	if (i == 0)
		pmix_job_get_text(&r, j->name, sizeof(j->name));
	if (r.bad || !name.len ||
	    memchr(name.data, ',', name.len) || memchr(name.data, 0, name.len))
		return err_set(e, ERR_PROTOCOL, "node %u's part of MPI's map "
			       "of nodes is malformed", i);
	if (nodes->len && pmix_job_has_name(nodes->data, nodes->len, name))
		buf_printf(nodes, "%.*s-node%u,", SLICE_FMT(name), i);
	else
		buf_printf(nodes, "%.*s,", SLICE_FMT(name));
	return 0;
}

/* Whether the nodes have the world's ranks, and this node its own. A node that
 * claims more would keep the others' helpers busy for minutes. */
static int pmix_job_check_ranks(const struct pmix_job *j, struct err *e)
{
	uint64_t first = 0;

	for (uint32_t i = 0; i < j->nnodes; i++) {
		if (!j->ranks[i] || j->ranks[i] > j->world_size - first)
			return err_set(e, ERR_PROTOCOL, "node %u has %u ranks "
				       "in MPI's map of nodes, after %u of the "
				       "world's %u", i, j->ranks[i],
				       (uint32_t)first, j->world_size);
		if (i == j->node_rank && (first != j->base_rank ||
					  j->ranks[i] != j->nproc))
			break;
		first += j->ranks[i];
	}
	if (first == j->world_size)
		return 0;
	return err_set(e, ERR_PROTOCOL, "MPI's map of nodes does not have the "
		       "world's %u ranks, or not ranks %u to %u on node %u",
		       j->world_size, j->base_rank,
		       j->base_rank + j->nproc - 1, j->node_rank);
}

int pmix_job_learn(struct pmix_job *j, const struct slice *parts, struct err *e)
{
	struct buf nodes = BUF_INIT(PMIX_JOB_TEXT_MAX);
	int rc = 0;

	j->ranks = calloc(j->nnodes, sizeof(*j->ranks));
	if (!j->ranks)
		return err_no_memory(e, "MPI's map of %u nodes", j->nnodes);
	for (uint32_t i = 0; rc == 0 && i < j->nnodes; i++)
		rc = pmix_job_add_node(j, parts[i], i, &nodes, e);
	if (rc == 0)
		rc = pmix_job_check_ranks(j, e);
	if (rc == 0 && !nodes.failed)
		j->nodes = strndup(nodes.data, nodes.len - 1);
	buf_release(&nodes);
	if (rc < 0 || j->nodes)
		return rc;
	return err_no_memory(e, "MPI's map of %u nodes", j->nnodes);
}

/* ---- as bytes ---- */

void pmix_job_put(struct buf *b, const struct pmix_job *j)
{
	buf_put_slice(b, SLICE_STR(j->name));
	buf_put_slice(b, SLICE_STR(j->folder));
	buf_put_u32(b, j->base_rank);
	buf_put_u32(b, j->nproc);
	buf_put_u32(b, j->world_size);
	buf_put_u32(b, j->node_rank);
	buf_put_u32(b, j->restarts);
	buf_put_slice(b, SLICE_STR(j->nodes));
	buf_put_u32(b, j->nnodes);
	for (uint32_t i = 0; i < j->nnodes; i++)
		buf_put_u32(b, j->ranks[i]);
	for (uint32_t i = 0; j->apps && i < j->world_size; i++)
		buf_put_u32(b, j->apps[i]);
}

/* They follow the nodes if there are several programs. */
static int pmix_job_get_apps(struct pmix_job *j, struct reader *r)
{
	if (!reader_left(r))
		return 0;
	j->apps = calloc(j->world_size, sizeof(*j->apps));
	for (uint32_t i = 0; j->apps && i < j->world_size; i++)
		j->apps[i] = reader_u32(r);
	return j->apps ? 0 : -ENOMEM;
}

int pmix_job_get(struct pmix_job *j, struct slice bytes, struct err *e)
{
	struct reader r;
	struct slice nodes;
	size_t size;

	*j = (struct pmix_job){.ranks = NULL};
	reader_init(&r, bytes);
	pmix_job_get_text(&r, j->name, sizeof(j->name));
	pmix_job_get_text(&r, j->folder, sizeof(j->folder));
	j->base_rank = reader_u32(&r);
	j->nproc = reader_u32(&r);
	j->world_size = reader_u32(&r);
	j->node_rank = reader_u32(&r);
	j->restarts = reader_u32(&r);
	nodes = reader_slice(&r);
	j->nnodes = reader_u32(&r);
	size = (size_t)j->nnodes * 4;
	if (r.bad || j->node_rank >= j->nnodes ||
	    (reader_left(&r) != size &&
	     reader_left(&r) != size + (size_t)j->world_size * 4))
		return err_set(e, ERR_PROTOCOL,
			       "MPI's map of nodes is malformed");
	j->nodes = strndup(nodes.data, nodes.len);
	j->ranks = calloc(j->nnodes, sizeof(*j->ranks));
	if (!j->nodes || !j->ranks) {
		pmix_job_release(j);
		return err_no_memory(e, "MPI's map of %u nodes", j->nnodes);
	}
	for (uint32_t i = 0; i < j->nnodes; i++)
		j->ranks[i] = reader_u32(&r);
	if (pmix_job_check_ranks(j, e) < 0) {
		pmix_job_release(j);
		return ERR_PROTOCOL;
	}
	if (pmix_job_get_apps(j, &r) == 0)
		return 0;
	pmix_job_release(j);
	return err_no_memory(e, "MPI's map of %u ranks", j->world_size);
}

/* ---- questions ---- */

static uint32_t pmix_job_first_rank(const struct pmix_job *j, uint32_t node)
{
	uint32_t rank = 0;

	for (uint32_t i = 0; i < node; i++)
		rank += j->ranks[i];
	return rank;
}

static void pmix_job_put_ranks(struct buf *out, uint32_t first, uint32_t n)
{
	for (uint32_t i = 0; i < n; i++)
		buf_printf(out, "%s%u", i ? "," : "", first + i);
}

void pmix_job_put_peers(const struct pmix_job *j, uint32_t node,
			struct buf *out)
{
	pmix_job_put_ranks(out, pmix_job_first_rank(j, node), j->ranks[node]);
}

void pmix_job_put_procs(const struct pmix_job *j, struct buf *out)
{
	uint32_t first = 0;

	for (uint32_t i = 0; i < j->nnodes; i++) {
		if (i)
			buf_put(out, ";", 1);
		pmix_job_put_ranks(out, first, j->ranks[i]);
		first += j->ranks[i];
	}
}

uint32_t pmix_job_app(const struct pmix_job *j, uint32_t rank, uint32_t *first,
		      uint32_t *size)
{
	uint32_t app = j->apps ? j->apps[rank] : 0;

	*first = 0;
	*size = j->world_size;
	if (!j->apps)
		return 0;
	while (j->apps[*first] != app)
		++*first;
	*size = 0;
	for (uint32_t i = 0; i < j->world_size; i++)
		*size += j->apps[i] == app;
	return app;
}

uint32_t pmix_job_node_of(const struct pmix_job *j, uint32_t rank)
{
	uint32_t node = 0;

	while (node < j->nnodes && rank >= j->ranks[node])
		rank -= j->ranks[node++];
	return node;
}

int pmix_job_node_name(const struct pmix_job *j, uint32_t node, char *out,
		       size_t size)
{
	const char *from = j->nodes;
	size_t n;

	for (uint32_t i = 0; i < node; i++) {
		from += strcspn(from, ",");
		from += *from == ',';
	}
	n = strcspn(from, ",");
	if (!n || n >= size)
		return 0;
	memcpy(out, from, n);
	out[n] = '\0';
	return 1;
}
