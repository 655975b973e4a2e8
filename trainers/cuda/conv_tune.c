/* conv_tune.c: measures plans in a graph, as recorded steps run them, so that
 * the time of the calls does not count. A plan that cannot be recorded is not
 * used. */
#include "trainers/cuda/cuda.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainers/cuda/plan_cache.h"

const size_t conv_room_max = (size_t)1 << 30;

/* Plans measured for a shape; runs in a graph; launches, the median of which
 * counts. */
enum { TUNE_PLANS = 10, TUNE_RUNS = 4, TUNE_LAUNCHES = 3 };

static void tune_key(const struct conv_shape *s, enum conv_pass pass, char *out)
{
	snprintf(out, PLAN_KEY_MAX, "%s %s %dx%dx%dx%d by %dx%dx%d /%d +%d",
		 s->bf16   ? "bf16"
		 : s->fp16 ? "fp16"
		 : s->tf32 ? "tf32"
			   : "f32",
		 conv_pass_names[pass], s->n, s->c, s->h, s->w, s->k, s->kernel,
		 s->kernel, s->stride, s->pad);
}

/* ---- Measuring ---- */

/* A workspace that is only needed while measuring. */
struct tune_room {
	void *data;
	size_t size;
};

static int tune_room_for(struct cuda_device *d, struct tune_room *r,
			 size_t bytes)
{
	if (bytes <= r->size)
		return 0;
	cuda_free(&d->base, r->data);
	r->size = 0;
	if (cuda_alloc(&d->base, bytes, &r->data, NULL) < 0) {
		r->data = NULL;
		return -1;
	}
	r->size = bytes;
	return 0;
}

/* NULL: the plan fails, or cannot be recorded. */
static cudaGraphExec_t tune_record(struct cuda_device *d, struct conv_plan *p,
				   const struct conv_memory *m)
{
	/* kernels are loaded when they first run, which must not be while a
	 * stream is recorded */
	cudnnStatus_t rc = conv_plan_run(p, d->cudnn, m);
	cudaGraph_t graph = NULL;
	cudaGraphExec_t exec = NULL;

	if (rc || cudaStreamSynchronize(d->stream) ||
	    cudaStreamBeginCapture(d->stream, cudaStreamCaptureModeThreadLocal))
		return NULL;
	for (int i = 0; !rc && i < TUNE_RUNS; i++)
		rc = conv_plan_run(p, d->cudnn, m);
	if (cudaStreamEndCapture(d->stream, &graph) || !graph)
		return NULL;
	if (rc || cudaGraphInstantiate(&exec, graph, 0))
		exec = NULL;
	cudaGraphDestroy(graph);
	return exec;
}

static int tune_by_size(const void *a, const void *b)
{
	float x = *(const float *)a, y = *(const float *)b;

	return (x > y) - (x < y);
}

/* Microseconds of a run; < 0: it failed. The first launch is not counted. */
static double tune_launch(struct cuda_device *d, cudaGraphExec_t exec,
			  cudaEvent_t from, cudaEvent_t to)
{
	float ms[TUNE_LAUNCHES + 1];

	for (int i = 0; i <= TUNE_LAUNCHES; i++)
		if (cudaEventRecord(from, d->stream) ||
		    cudaGraphLaunch(exec, d->stream) ||
		    cudaEventRecord(to, d->stream) ||
		    cudaStreamSynchronize(d->stream) ||
		    cudaEventElapsedTime(&ms[i], from, to))
			return -1;
	qsort(ms + 1, TUNE_LAUNCHES, sizeof(*ms), tune_by_size);
	return (double)ms[1 + TUNE_LAUNCHES / 2] * 1000 / TUNE_RUNS;
}

static double tune_time(struct cuda_device *d, struct conv_plan *p,
			const struct conv_memory *m)
{
	cudaGraphExec_t exec = tune_record(d, p, m);
	cudaEvent_t from = NULL, to = NULL;
	double us = -1;

	if (exec && !cudaEventCreateWithFlags(&from, cudaEventDefault) &&
	    !cudaEventCreateWithFlags(&to, cudaEventDefault))
		us = tune_launch(d, exec, from, to);
	if (from)
		cudaEventDestroy(from);
	if (to)
		cudaEventDestroy(to);
	if (exec)
		cudaGraphExecDestroy(exec);
	cudaGetLastError(); /* a plan that fails is skipped */
	return us;
}

/* The index of the fastest plan, or -1, and its time. */
static int tune_measure(struct cuda_device *d, struct conv_plan *p,
			struct conv_memory m, double *fastest)
{
	struct tune_room room = {NULL, 0};
	int best = -1, measured = 0;

	for (int i = 0; i < conv_plan_count(p) && measured < TUNE_PLANS; i++) {
		double us;

		if (conv_plan_take(p, i, conv_room_max) != CONV_TAKEN ||
		    tune_room_for(d, &room, conv_plan_room(p)) < 0)
			continue;
		m.room = room.data;
		us = tune_time(d, p, &m);
		measured++;
		if (us >= 0 && (best < 0 || us < *fastest)) {
			best = i;
			*fastest = us;
		}
	}
	cuda_free(&d->base, room.data);
	return best;
}

/* ---- Choosing ---- */

static int tune_take_first(struct cuda_device *d, struct conv_plan *p,
			   struct conv_memory m)
{
	struct tune_room room = {NULL, 0};
	cudaGraphExec_t exec = NULL;

	for (int i = 0; i < conv_plan_count(p) && !exec; i++) {
		if (conv_plan_take(p, i, conv_room_max) != CONV_TAKEN ||
		    tune_room_for(d, &room, conv_plan_room(p)) < 0)
			continue;
		m.room = room.data;
		exec = tune_record(d, p, &m);
		cudaGetLastError();
	}
	cuda_free(&d->base, room.data);
	if (!exec)
		return -1;
	cudaGraphExecDestroy(exec);
	return 0;
}

static int tune_take_named(struct conv_plan *p, const char *engine)
{
	for (int i = 0; engine && i < conv_plan_count(p); i++)
		if (!strcmp(conv_plan_name(p, i), engine))
			return conv_plan_take(p, i, conv_room_max) ==
			       CONV_TAKEN ? 0 : -1;
	return -1;
}

static int tune_choose(struct cuda_device *d, struct conv_plan *p,
		       const char *key, const struct conv_memory *m)
{
	int again = d->search == CONV_SEARCH, best;
	double us = 0;

	if (d->search == CONV_FIRST)
		return tune_take_first(d, p, *m);
	/* this run's measurement counts in any case */
	if (tune_take_named(p, plan_cache_find(again ? d->measured : d->plans,
					       key)) == 0)
		return 0;
	best = tune_measure(d, p, *m, &us);
	if (best < 0)
		return -1;
	plan_cache_add(d->measured, key, conv_plan_name(p, best), us, 1);
	if (tune_take_named(p, plan_cache_add(d->plans, key,
					      conv_plan_name(p, best), us,
					      again)) == 0)
		return 0;
	/* another process wrote a plan that does not work here */
	return conv_plan_take(p, best, conv_room_max) == CONV_TAKEN ? 0 : -1;
}

struct conv_plan *conv_tune(struct cuda_device *d, const struct conv_shape *s,
			    enum conv_pass pass, struct conv_memory m)
{
	char key[PLAN_KEY_MAX];
	struct conv_plan *p;

	if (conv_plan_open(&d->target, s, pass, &p))
		return NULL;
	tune_key(s, pass, key);
	if (tune_choose(d, p, key, &m) < 0) {
		conv_plan_close(p);
		return NULL;
	}
	conv_plan_settle(p);
	return p;
}
