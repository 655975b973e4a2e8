/* queue.c: the device's stream: waits for it, and captures steps. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "trainers/cuda/cuda.h"

struct graph {
	cudaGraphExec_t exec;
	struct cuda_load load;
};

static int queue_check(struct cuda_device *d, struct err *e)
{
	int r = d->base.error;

	d->base.error = 0;
	if (r < 0 && d->error[0])
		err_set(e, r, "%s: %s", d->base.name, d->error);
	else if (r < 0) /* an error of the caller's synchronising functions */
		err_set(e, r, "%s: the reduction over all ranks failed: %s",
			d->base.name, err_name(r));
	d->error[0] = '\0';
	return r;
}

static cudaError_t queue_make_event(cudaEvent_t *event)
{
	return *event ? cudaSuccess :
			cudaEventCreateWithFlags(event,
						 cudaEventDisableTiming);
}

/* Waits through the caller's function. */
static void queue_wait_event(struct cuda_device *d, cudaEvent_t event)
{
	struct err e = ERR_INIT;
	int r = d->base.wait_event(d->base.wait_arg, event, &e);

	if (r == 0 || d->base.error)
		return;
	d->base.error = r;
	snprintf(d->error, sizeof(d->error), "%s", e.text);
}

void cuda_await(struct cuda_device *d, const char *what)
{
	cudaError_t rc;

	if (!d->base.wait_event) {
		cuda_note(d, cudaStreamSynchronize(d->stream), what);
		return;
	}
	rc = queue_make_event(&d->event);
	if (rc == cudaSuccess)
		rc = cudaEventRecord(d->event, d->stream);
	cuda_note(d, rc, what);
	if (rc == cudaSuccess)
		queue_wait_event(d, d->event);
}

void cuda_await_event(struct cuda_device *d, cudaEvent_t event,
		      const char *what)
{
	if (d->base.wait_event)
		queue_wait_event(d, event);
	else
		cuda_note(d, cudaEventSynchronize(event), what);
}

int cuda_wait(struct device *base, struct err *e)
{
	struct cuda_device *d = cuda_of(base);

	cuda_await(d, "its work");
	return queue_check(d, e);
}

/* If another rank hangs and the queue is full behind that rank's work, a launch
 * waits without a deadline: so the queue never gets that long. */
static void queue_limit_steps(struct cuda_device *d)
{
	cudaEvent_t *oldest = &d->step_end[d->step];
	cudaError_t rc = cudaSuccess;

	if (!d->base.wait_event || d->base.error)
		return;
	if (*oldest)
		queue_wait_event(d, *oldest);
	else
		rc = queue_make_event(oldest);
	if (rc == cudaSuccess)
		rc = cudaEventRecord(*oldest, d->stream);
	cuda_note(d, rc, "the end of a step");
	d->step = !d->step;
}

void *cuda_stream(struct device *d)
{
	return cuda_of(d)->stream;
}

/* CUDA refuses uncapturable calls only in this thread: libddp, which another
 * thread may call meanwhile, queries events of its own. */
int cuda_capture_begin(struct device *base, struct err *e)
{
	struct cuda_device *d = cuda_of(base);
	int r = queue_check(d, e);

	if (r < 0)
		return r;
	d->is_capturing = 1;
	d->load.loader = NULL;
	return cuda_status(cudaStreamBeginCapture(
				   d->stream, cudaStreamCaptureModeThreadLocal),
			   "recording a step", e);
}

int cuda_capture_end(struct device *base, struct graph **out, struct err *e)
{
	struct cuda_device *d = cuda_of(base);
	struct graph *g = calloc(1, sizeof(*g));
	cudaGraph_t recorded = NULL;
	cudaError_t rc = cudaStreamEndCapture(d->stream, &recorded);
	int r = queue_check(d, e);

	*out = NULL;
	d->is_capturing = 0;
	if (g)
		g->load = d->load;
	if (r == 0)
		r = cuda_status(rc, "recording a step", e);
	if (r == 0 && !g)
		r = err_no_memory(e, "a recorded step");
	if (r == 0)
		r = cuda_status(cudaGraphInstantiate(&g->exec, recorded, 0),
				"a recorded step", e);
	if (recorded)
		cudaGraphDestroy(recorded);
	if (r < 0) {
		cudaGetLastError();
		free(g);
		return r;
	}
	*out = g;
	return 0;
}

void cuda_graph_launch(struct device *base, struct graph *g)
{
	struct cuda_device *d = cuda_of(base);

	cuda_loader_begin(&g->load);
	cuda_note(d, cudaGraphLaunch(g->exec, d->stream), "a recorded step");
	cuda_loader_end(&g->load);
}

void cuda_graph_free(struct device *base, struct graph *g)
{
	struct cuda_device *d = cuda_of(base);

	if (!g)
		return;
	cuda_note(d, cudaStreamSynchronize(d->stream), "its work");
	cuda_note(d, cudaGraphExecDestroy(g->exec), "a recorded step");
	free(g);
}

void cuda_set_step(struct device *base, const struct step_args *n)
{
	struct cuda_device *d = cuda_of(base);

	d->first = n->first;
	queue_limit_steps(d);
	cuda_note(d, kernel_set_step(d->stream, d->state, n->step, n->first,
				     n->lr),
		  "the numbers of a step");
}
