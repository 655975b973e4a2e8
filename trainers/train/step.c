/* step.c: one step, run eagerly or as a captured graph, and the report of a
 * loss that is not finite. */
#include "trainers/train/run.h"

#include <limits.h>
#include <math.h>

#include "base/clock.h"

/* A step is captured after this many eager ones: by then libraries have chosen
 * their algorithms and allocated their memory. */
enum { EAGER_STEPS = 2 };

static int step_micro_batch(struct run *run, int n, int of_n, struct err *e)
{
	/* each micro-batch's mean counts by its share of the batch */
	struct loss_spec loss = {run->spec.loss, run->recipe.smoothing,
				 (float)n / (float)of_n * run->loss_share,
				 run->state.scaler};
	struct plan *p;
	int r = net_plan(&run->net, n, NET_TRAIN, &p, e);
	uint64_t start;

	if (r < 0)
		return r;
	start = clock_ns();
	net_load_batch(p);
	run->input_ns += clock_ns() - start;
	net_forward(p);
	net_loss(p, &loss);
	net_backward(p);
	return 0;
}

/* Computes the gradients and the loss of this rank's n samples:
 * net->gradients[arena], net->loss[1]. */
static int step_gradients(struct run *run, uint64_t first, int n,
			  struct step_args *args, struct err *e)
{
	int r = 0;

	if (n <= run->micro) {
		r = net_accumulate(&run->net, NET_WHOLE, e);
		return r < 0 ? r : step_micro_batch(run, n, n, e);
	}
	for (int at = 0; r == 0 && at < n; at += run->micro) {
		int left = n - at;
		enum net_part part = at == 0 ? NET_FIRST :
				     left <= run->micro ? NET_LAST : NET_MIDDLE;

		args->first = first + (uint64_t)at;
		run->ops->set_step(run->device, args);
		r = net_accumulate(&run->net, part, e);
		if (r == 0)
			r = step_micro_batch(
				run, left < run->micro ? left : run->micro, n,
				e);
	}
	return r;
}

/* Averages gradients that libddp cannot reach, through host memory. */
static int step_reduce_staged(struct run *run, struct err *e)
{
	size_t n = run->net.arena + NET_LOSS_VALUES;
	int r;

	run->ops->get(run->device, run->staged, run->net.gradients,
		      n * sizeof(float));
	r = ddp_all_reduce(run->world, run->staged, run->staged, n, DDP_F32,
			   DDP_AVG);
	if (r < 0)
		return run_from_ddp(r, e);
	run->ops->put(run->device, run->net.gradients, run->staged,
		      n * sizeof(float));
	return 0;
}

static void step_update(struct run *run)
{
	struct net *net = &run->net;
	struct update u = {
		.how = run->recipe.optimizer, .count = net->arena,
		.grad = net->gradients, .scale = 1, .param = net->parameters,
		.moment = {run->state.moment[0], run->state.moment[1]},
		.loss = net->loss, .scaler = run->state.scaler,
	};

	run->ops->update(run->device, &u);
}

/* Reports all gradients to the reducer at once, for a step whose layers did not
 * report them one by one. */
static void step_mark_ready(struct run *run)
{
	for (int i = run->spec.layer_count; i >= 0; i--) {
		size_t at, count;

		net_slice(&run->net, i, &at, &count);
		if (count && run->net.on_ready)
			run->net.on_ready(run, i);
	}
}

/* 1 if the update will skip this step: an infinite gradient is then no sign of
 * a faulty rank. Reduced gradients are the same on all ranks. */
static int step_is_skipped(const struct run *run)
{
	const struct net *net = &run->net;

	return run->state.scaler &&
	       !run->ops->finite(run->device, net->arena, net->gradients);
}

/* Averages the gradients over the ranks. */
static int step_reduce(struct run *run, struct err *e)
{
	int r = run->reduce_rc;

	if (run->staged)
		return step_reduce_staged(run, e);
	if (r == 0 && run->reducer)
		r = ddp_reducer_finish(run->reducer);
	if (r == DDP_ERR_DATA && step_is_skipped(run))
		return 0;
	if (r == DDP_ERR_DATA) /* --check-every; the same on all ranks */
		return run_agree(run, err_set(e, ERR_DATA, "step %lld: %s",
					      (long long)run->state.position
						      .step + 1,
					      ddp_last_error()), e);
	return run_from_ddp(r, e);
}

static int step_compute(struct run *run, uint64_t first, int n,
			struct step_args *args, struct err *e)
{
	int r;

	run->reduce_rc = run->reducer ? ddp_reducer_begin(run->reducer, 1) : 0;
	r = step_gradients(run, first, n, args, e);
	if (r == 0)
		r = step_reduce(run, e);
	if (r == 0)
		step_update(run);
	return r;
}

/* A graph repeats the same work in every step, and cannot hold messages between
 * ranks. */
static int step_can_capture(const struct run *run, int n)
{
	return run->eager_steps >= EAGER_STEPS && n == run->batch &&
	       run->micro >= run->batch && !run->device->sync_sum;
}

/* Captures the whole step of a single rank; with several ranks the forward and
 * backward pass, without reports to the reducer. */
static int step_capture(struct run *run, uint64_t first, int n,
			struct step_args *args, struct err *e)
{
	void (*on_ready)(void *, int) = run->net.on_ready;
	int r = run->ops->capture_begin(run->device, e), ended;

	if (r < 0)
		return r;
	run->net.on_ready = NULL;
	r = step_gradients(run, first, n, args, e);
	run->net.on_ready = on_ready;
	if (r == 0 && run->world_size == 1)
		step_update(run);
	ended = run->ops->capture_end(run->device, &run->graph,
				      r < 0 ? NULL : e);
	if (r == 0)
		r = ended;
	if (!run->graph)
		run->eager_steps = INT_MIN; /* not captured: it ran eagerly */
	return r;
}

/* Launches the captured step, unless it just ran (ran), then reduces and
 * updates if that is not in the graph. */
static int step_replay(struct run *run, int ran, struct err *e)
{
	int r;

	if (!ran)
		run->ops->graph_launch(run->device, run->graph);
	if (run->world_size == 1)
		return 0;
	run->reduce_rc = run->reducer ? ddp_reducer_begin(run->reducer, 1) : 0;
	step_mark_ready(run);
	r = step_reduce(run, e);
	if (r == 0)
		step_update(run);
	return r;
}

int step_run(struct run *run, uint64_t first, struct err *e)
{
	struct train_state *s = &run->state;
	uint64_t left = ddp_sampler_size(&run->sampler) - first;
	int n = left < (uint64_t)run->batch ? (int)left : run->batch;
	int r;
	struct step_args args = {
		.step = (uint64_t)s->position.step + 1, .first = first,
		.lr = schedule_lr(&run->schedule, run_done(run)),
	};

	run->ops->set_step(run->device, &args);
	if (!run->graph && step_can_capture(run, n)) {
		r = step_capture(run, first, n, &args, e);
		if (r == 0)
			r = step_replay(run, !run->graph, e);
	} else if (run->graph && n == run->batch) {
		r = step_replay(run, 0, e);
	} else {
		r = step_compute(run, first, n, &args, e);
		run->eager_steps += n == run->batch && run->eager_steps >= 0;
	}
	s->position.step++;
	s->position.sample += (int64_t)n * run->world_size;
	return r;
}

void step_release(struct run *run)
{
	if (run->graph)
		run->ops->graph_free(run->device, run->graph);
	run->graph = NULL;
}

/* ---- A loss that is not finite ---- */

/* Runs the batch of the step `back` steps before the one at `first` forward
 * once more; no parameters were updated since. Returns the first layer with a
 * value that is not finite, or NULL. */
static const char *step_find_layer(struct run *run, uint64_t first,
				   uint64_t back)
{
	uint64_t size = ddp_sampler_size(&run->sampler), left;
	struct step_args args = {
		.first = first - back * (uint64_t)run->batch,
	};
	const char *name = NULL;
	struct err ignored;
	struct plan *p;

	left = size - args.first;
	if (left > (uint64_t)run->batch)
		left = (uint64_t)run->batch;
	while (left && !name) {
		int n = left < (uint64_t)run->micro ? (int)left : run->micro;

		if (net_plan(&run->net, n, NET_TRAIN, &p, &ignored) < 0)
			return NULL;
		run->ops->set_step(run->device, &args);
		net_load_batch(p);
		net_forward(p);
		name = net_first_not_finite(p);
		args.first += (uint64_t)n;
		left -= (uint64_t)n;
	}
	return name;
}

/* Collective. The lowest rank that finds such a layer reports it, else rank
 * 0. */
static int step_diverged(struct run *run, uint64_t halted, uint64_t first,
			 float loss, struct err *e)
{
	uint64_t back = (uint64_t)run->state.position.step - halted;
	const char *name = step_find_layer(run, first, back);
	int32_t who = name ? run->rank : INT32_MAX;
	int r = ddp_all_reduce(run->world, &who, &who, 1, DDP_I32, DDP_MIN);

	if (r < 0)
		return run_from_ddp(r, e);
	err_set(e, ERR_DATA, "the loss is %g at step %llu: training has "
		"diverged, %s%s; try a --lr smaller than %g", (double)loss,
		(unsigned long long)halted, name ? "first in the weights or "
		"the output of layer " : "in the loss itself: all layers are "
		"finite", name ? name : "", run->recipe.lr);
	return run_agree(run, run->rank == (who == INT32_MAX ? 0 : who)
				       ? ERR_DATA : 0, e);
}

/* The parameter that value `at` of an arena belongs to. */
static const char *step_param_name(const struct run *run, uint64_t at)
{
	for (int i = 0; i < run->net.param_count; i++) {
		const struct net_param *p = &run->net.param[i];

		if (at >= p->at && at < p->at + p->size)
			return p->name;
	}
	return NULL;
}

/* Collective; as step_diverged, for the scale, which is the same on all
 * ranks. */
static int step_scale_fell(struct run *run, uint64_t halted, uint64_t first,
			   struct err *e)
{
	const struct loss_scaler *s = &run->scaler;
	uint64_t back = (uint64_t)run->state.position.step - halted;
	const char *layer = step_find_layer(run, first, back);
	const char *param = step_param_name(run, s->last_at);
	int32_t who = layer ? run->rank : INT32_MAX;
	int r = ddp_all_reduce(run->world, &who, &who, 1, DDP_I32, DDP_MIN);

	if (r < 0)
		return run_from_ddp(r, e);
	err_set(e, ERR_DATA, "step %llu: the loss scale of --precision fp16 "
		"fell to %g, because the gradients of %llu steps in a row were "
		"not finite: training has diverged, first in %s%s; use "
		"--precision bf16 or fp32, or a --lr smaller than %g",
		(unsigned long long)halted, (double)s->scale,
		(unsigned long long)s->in_a_row,
		layer ? "the weights or the output of layer " :
		param ? "the gradient of " : "the loss",
		layer ? layer : param ? param : "", run->recipe.lr);
	return run_agree(run, run->rank == (who == INT32_MAX ? 0 : who)
				       ? ERR_DATA : 0, e);
}

int step_loss(struct run *run, uint64_t first, float *loss, struct err *e)
{
	uint64_t halted;
	int r = run->ops->wait(run->device, e);

	run->ops->get(run->device, loss, run->net.loss, sizeof(*loss));
	if (r < 0)
		return r;
	run->scaler = train_state_scaler(&run->state);
	halted = run->ops->halted(run->device);
	if (!halted)
		return 0;
	return run->state.scaler
		       ? step_scale_fell(run, halted, first, e)
		       : step_diverged(run, halted, first, *loss, e);
}
