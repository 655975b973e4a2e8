/* job_status.c: collects the frames that describe jobs. */
#include "rendezvous/status/job_status.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *job_status_state_name(uint8_t state)
{
	static const char *const names[] = {"gathering", "running",
					    "restarting", "over"};

	return state < sizeof(names) / sizeof(*names) ? names[state] : "?";
}

const char *job_status_node_state_name(uint8_t state)
{
	static const char *const names[] = {
		[WIRE_NODE_RUNS] = "runs", [WIRE_NODE_WAITS] = "waits",
		[WIRE_NODE_STOPS] = "stops", [WIRE_NODE_SPARE] = "spare",
		[WIRE_NODE_GONE] = "gone",
	};

	return state < sizeof(names) / sizeof(*names) ? names[state] : "?";
}

static int job_status_compare_nodes(const void *pa, const void *pb)
{
	const struct wire_job_node *a = pa, *b = pb;

	/* as unsigned, -1 is the largest */
	if (a->node_rank != b->node_rank)
		return (uint32_t)a->node_rank < (uint32_t)b->node_rank ? -1 : 1;
	return 0;
}

uint32_t job_status_nodes(const struct job_status *job,
			  struct wire_job_node **out)
{
	const struct wire_items *list = &job->as.nodes;
	struct reader r;
	uint32_t n = 0;

	*out = calloc(list->count + 1, sizeof(**out));
	reader_init(&r, list->bytes);
	while (*out && n < list->count) {
		(*out)[n] = wire_get_job_node_item(&r);
		if (r.bad)
			break;
		n++;
	}
	if (n)
		qsort(*out, n, sizeof(**out), job_status_compare_nodes);
	return n;
}

enum { GPUS_BYTES_MAX = 256 << 20 }; /* for a job */

/* A copy of the frame's body, to which *own refers. */
static char *job_status_keep(const struct wire_frame *f, struct wire_frame *own)
{
	char *bytes = malloc(f->body.len + 1);

	if (bytes)
		memcpy(bytes, f->body.data, f->body.len);
	*own = *f;
	own->body.data = bytes;
	return bytes;
}

static int job_status_add_job(struct job_status_list *l, const char *server,
			      const struct wire_frame *f, struct err *e)
{
	struct job_status *jobs =
		realloc(l->jobs, (l->n + 1) * sizeof(*jobs)), *job;
	struct wire_frame own;

	if (!jobs)
		return err_no_memory(e, "the status");
	l->jobs = jobs;
	job = &jobs[l->n];
	*job = (struct job_status){.bytes = job_status_keep(f, &own),
				   .gpus = BUF_INIT(GPUS_BYTES_MAX)};
	if (!job->bytes)
		return err_no_memory(e, "the status");
	l->n++;
	snprintf(job->server, sizeof(job->server), "%s", server);
	return wire_get_job(&own, &job->as, e);
}

/* RANKS follows its JOB. */
static int job_status_add_ranks(struct job_status_list *l,
				const struct wire_frame *f, struct err *e)
{
	struct job_status *job = l->n ? &l->jobs[l->n - 1] : NULL;
	struct wire_frame own;

	if (!job || job->rank_bytes)
		return 0;
	job->rank_bytes = job_status_keep(f, &own);
	if (!job->rank_bytes)
		return err_no_memory(e, "the status");
	return wire_get_ranks(&own, &job->ranks, e);
}

/* So does each GPUS. Without memory they are left out. */
static int job_status_add_gpus(struct job_status_list *l,
			       const struct wire_frame *f, struct err *e)
{
	struct wire_gpus m;
	int rc = wire_get_gpus(f, &m, e);

	if (rc == 0 && l->n)
		wire_put_gpus(&l->jobs[l->n - 1].gpus, WIRE_GPUS, WIRE_NOTICE,
			      0, &m);
	return rc;
}

int job_status_list_add(struct job_status_list *l, const char *server,
			const struct wire_frame *f, struct err *e)
{
	if (f->type == WIRE_RANKS)
		return job_status_add_ranks(l, f, e);
	if (f->type == WIRE_GPUS)
		return job_status_add_gpus(l, f, e);
	return f->type == WIRE_JOB ? job_status_add_job(l, server, f, e) : 0;
}

void job_status_list_release(struct job_status_list *l)
{
	for (size_t i = 0; i < l->n; i++) {
		free(l->jobs[i].bytes);
		free(l->jobs[i].rank_bytes);
		buf_release(&l->jobs[i].gpus);
		if (l->jobs[i].output)
			job_output_release(l->jobs[i].output);
		free(l->jobs[i].output);
	}
	free(l->jobs);
	*l = (struct job_status_list){.n = 0};
}
