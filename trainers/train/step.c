/* step.c: one step, plainly or as a graph; and what to say when its loss is no
 * number. */
#include "trainers/train/step.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"

/* A step is recorded after so many were done plainly: by then libraries have
 * chosen their algorithms and taken their memory. */
enum { PLAIN_STEPS = 2 };

static int micro_batch(struct run *x, int n, int of_n, struct err *e)
{
	/* means of unequal parts add up by their share of the batch */
	struct loss_spec loss = {x->spec.loss, x->recipe.smoothing,
				 (float)n / (float)of_n};
	struct plan *p;
	int r = net_plan(&x->net, n, NET_TRAIN, &p, e);
	uint64_t start;

	if (r < 0)
		return r;
	start = clock_ns();
	net_take(p);
	x->input_ns += clock_ns() - start;
	net_forward(p);
	net_loss(p, &loss);
	net_backward(p);
	return 0;
}

/* Gradients and loss of this rank's n samples. */
static int gradients(struct run *x, uint64_t first, int n,
		     struct step_numbers *numbers, struct err *e)
{
	int r = 0;

	if (n <= x->micro) {
		r = net_accumulate(&x->net, NET_WHOLE, e);
		return r < 0 ? r : micro_batch(x, n, n, e);
	}
	for (int at = 0; r == 0 && at < n; at += x->micro) {
		int left = n - at;
		enum net_part part = at == 0 ? NET_FIRST :
				     left <= x->micro ? NET_LAST : NET_MIDDLE;

		numbers->first = first + (uint64_t)at;
		x->ops->numbers(x->device, numbers);
		r = net_accumulate(&x->net, part, e);
		if (r == 0)
			r = micro_batch(x, left < x->micro ? left : x->micro,
					n, e);
	}
	return r;
}

/* The average over all ranks of gradients that libddp cannot reach. */
static int reduce_staged(struct run *x, struct err *e)
{
	size_t n = x->net.arena + NET_LOSS_VALUES;
	int r;

	x->ops->get(x->device, x->staged, x->net.gradients,
		    n * sizeof(float));
	r = ddp_all_reduce(x->world, x->staged, x->staged, n, DDP_F32, DDP_AVG);
	if (r < 0)
		return run_from_ddp(r, e);
	x->ops->put(x->device, x->net.gradients, x->staged, n * sizeof(float));
	return 0;
}

static void update(struct run *x)
{
	struct net *net = &x->net;
	struct update u = {
		.how = x->recipe.optimizer, .count = net->arena,
		.grad = net->gradients, .scale = 1, .param = net->parameters,
		.moment = {x->state.moment[0], x->state.moment[1]},
		.loss = net->loss,
	};

	x->ops->update(x->device, &u);
}

/* Gradients that were not told one by one: all of them now. */
static void tell_reducer(struct run *x)
{
	for (int i = x->spec.layer_count; i >= 0; i--) {
		size_t at, count;

		net_slice(&x->net, i, &at, &count);
		if (count && x->net.on_ready)
			x->net.on_ready(x, i);
	}
}

/* The average of the gradients, where there is another rank. */
static int reduce(struct run *x, struct err *e)
{
	int r = x->reducing;

	if (x->staged)
		return reduce_staged(x, e);
	if (r == 0 && x->reducer)
		r = ddp_reducer_finish(x->reducer);
	return run_from_ddp(r, e);
}

static int do_it(struct run *x, uint64_t first, int n,
		 struct step_numbers *numbers, struct err *e)
{
	int r;

	x->reducing = x->reducer ? ddp_reducer_begin(x->reducer, 1) : 0;
	r = gradients(x, first, n, numbers, e);
	if (r == 0)
		r = reduce(x, e);
	if (r == 0)
		update(x);
	return r;
}

/* What a graph holds must be the same at every step, and the ranks' messages
 * are no part of it. */
static int can_record(const struct run *x, int n)
{
	return x->plain_steps >= PLAIN_STEPS && n == x->batch &&
	       x->micro >= x->batch && !x->device->sync_sum;
}

/* Alone: the whole step. Else the gradients, without a word to the reducer. */
static int record(struct run *x, uint64_t first, int n,
		  struct step_numbers *numbers, struct err *e)
{
	void (*on_ready)(void *, int) = x->net.on_ready;
	int r = x->ops->record_begin(x->device, e), ended;

	if (r < 0)
		return r;
	x->net.on_ready = NULL;
	r = gradients(x, first, n, numbers, e);
	x->net.on_ready = on_ready;
	if (r == 0 && x->world_size == 1)
		update(x);
	ended = x->ops->record_end(x->device, &x->graph, r < 0 ? NULL : e);
	if (r == 0)
		r = ended;
	if (!x->graph)
		x->plain_steps = INT_MIN; /* it was done at once */
	return r;
}

/* A step that is recorded, or was done at once while it should have been. */
static int replay(struct run *x, int ran, struct err *e)
{
	int r;

	if (!ran)
		x->ops->graph_run(x->device, x->graph);
	if (x->world_size == 1)
		return 0;
	x->reducing = x->reducer ? ddp_reducer_begin(x->reducer, 1) : 0;
	tell_reducer(x);
	r = reduce(x, e);
	if (r == 0)
		update(x);
	return r;
}

int step_do(struct run *x, uint64_t first, struct err *e)
{
	struct train_state *s = &x->state;
	uint64_t left = ddp_sampler_size(&x->sampler) - first;
	int n = left < (uint64_t)x->batch ? (int)left : x->batch;
	int r;
	struct step_numbers numbers = {
		.step = (uint64_t)s->at.step + 1, .first = first,
		.lr = schedule_lr(&x->schedule, run_done(x)),
	};

	x->ops->numbers(x->device, &numbers);
	if (!x->graph && can_record(x, n)) {
		r = record(x, first, n, &numbers, e);
		if (r == 0)
			r = replay(x, !x->graph, e);
	} else if (x->graph && n == x->batch) {
		r = replay(x, 0, e);
	} else {
		r = do_it(x, first, n, &numbers, e);
		x->plain_steps += n == x->batch && x->plain_steps >= 0;
	}
	s->at.step++;
	s->at.sample += (int64_t)n * x->world_size;
	return r;
}

void step_release(struct run *x)
{
	if (x->graph)
		x->ops->graph_free(x->device, x->graph);
	x->graph = NULL;
}

/* ---- A loss that is no number ---- */

/* The batch of a step that is `back` steps before the one at first, forward
 * once more: nothing was updated since. NULL: all layers are finite. */
static const char *find_layer(struct run *x, uint64_t first, uint64_t back)
{
	uint64_t size = ddp_sampler_size(&x->sampler), left;
	struct step_numbers numbers = {
		.first = first - back * (uint64_t)x->batch,
	};
	const char *name = NULL;
	struct err ignored;
	struct plan *p;

	left = size - numbers.first;
	if (left > (uint64_t)x->batch)
		left = (uint64_t)x->batch;
	while (left && !name) {
		int n = left < (uint64_t)x->micro ? (int)left : x->micro;

		if (net_plan(&x->net, n, NET_TRAIN, &p, &ignored) < 0)
			return NULL;
		x->ops->numbers(x->device, &numbers);
		net_take(p);
		net_forward(p);
		name = net_first_not_finite(p);
		numbers.first += (uint64_t)n;
		left -= (uint64_t)n;
	}
	return name;
}

/* All ranks come here; the lowest that finds a layer says it, else rank 0. */
static int come_apart(struct run *x, uint64_t halted, uint64_t first,
		      float loss, struct err *e)
{
	uint64_t back = (uint64_t)x->state.at.step - halted;
	const char *name = find_layer(x, first, back);
	int32_t who = name ? x->rank : INT32_MAX;
	int r = ddp_all_reduce(x->world, &who, &who, 1, DDP_I32, DDP_MIN);

	if (r < 0)
		return run_from_ddp(r, e);
	err_set(e, ERR_DATA, "the loss is %g at step %llu: training has come "
		"apart, %s%s; try a --lr smaller than %g", (double)loss,
		(unsigned long long)halted, name ? "first in the weights or "
		"the output of layer " : "in the loss itself: all layers are "
		"finite", name ? name : "", x->recipe.lr);
	return run_together(x, x->rank == (who == INT32_MAX ? 0 : who)
				       ? ERR_DATA : 0, e);
}

int step_result(struct run *x, uint64_t first, float *loss, struct err *e)
{
	uint64_t halted;
	int r = x->ops->wait(x->device, e);

	x->ops->get(x->device, loss, x->net.loss, sizeof *loss);
	if (r < 0)
		return r;
	halted = x->ops->halted(x->device);
	return halted ? come_apart(x, halted, first, *loss, e) : 0;
}
