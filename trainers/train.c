/* train.c: the one training loop, from the command line to the last line. Every
 * rank of the job walks through it in step; rank 0 speaks and writes. */
#include "trainers/train.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "trainers/run.h"

struct result {
	double loss;
	double accuracy; /* percent; < 0 where the model has none */
};

/* ---- Evaluation ---- */

/* Every test sample once: rank r takes r, r + world size, ... */
static int evaluate(struct run *x, struct result *out, struct err *e)
{
	const struct dataset_part *part = &x->data.set.test;
	int classes = x->t->model.layers[x->t->model.layer_count - 1].out;
	int counted = x->t->model.loss == LOSS_CROSS_ENTROPY;
	double sum[2] = {0, 0}; /* loss, right ones */
	uint32_t i = (uint32_t)x->rank;
	int r;

	while (i < part->count) {
		int n = 0;

		for (; n < RUN_EVAL_BATCH && i < part->count; n++) {
			x->index[n] = i;
			x->labels[n] = part->labels[i];
			i += (uint32_t)x->world_size;
		}
		model_take(&x->model, n, &part->samples, x->index);
		model_forward(&x->model, x->labels);
		sum[0] += (double)*model_loss(&x->model) * n;
		if (counted)
			sum[1] += x->ops->count_correct(
				n, classes, model_output(&x->model),
				x->labels);
	}
	r = ddp_all_reduce(x->world, sum, sum, 2, DDP_F64, DDP_SUM);
	out->loss = sum[0] / part->count;
	out->accuracy = counted ? 100 * sum[1] / part->count : -1;
	return run_from_ddp(r, e);
}

static const char *result_text(const struct result *v, char *out, size_t size)
{
	if (v->accuracy >= 0)
		snprintf(out, size, "test accuracy %.2f %%", v->accuracy);
	else
		snprintf(out, size, "test loss %.5f", v->loss);
	return out;
}

/* ---- Training ---- */

/* The batch whose first sample is number `first` of this rank's epoch. */
static void load_batch(struct run *x, uint64_t first)
{
	const struct dataset_part *part = &x->data.set.train;
	uint64_t left = ddp_sampler_size(&x->sampler) - first;
	int n = left < (uint64_t)x->batch ? (int)left : x->batch;

	for (int i = 0; i < n; i++) {
		uint32_t k = ddp_sampler_index(&x->sampler,
					       first + (uint64_t)i);

		x->index[i] = k;
		x->labels[i] = part->labels[k];
	}
	model_take(&x->model, n, &part->samples, x->index);
}

static int step(struct run *x, uint64_t first, struct err *e)
{
	struct train_state *s = &x->state;
	struct model *m = &x->model;
	struct adam adam = {x->o.lr, 0.9, 0.999, 1e-8, 0};
	int r;

	load_batch(x, first);
	x->reducing = ddp_reducer_begin(x->reducer, 1);
	model_step(m, x->labels);
	r = x->reducing;
	if (r == 0)
		r = ddp_reducer_finish(x->reducer);
	if (r < 0)
		return run_from_ddp(r, e);
	s->at.step++;
	adam.step = (uint64_t)s->at.step;
	if (!isfinite(*model_loss(m))) {
		err_set(e, ERR_DATA, "the loss is %g at step %lld: training "
			"has come apart; try a --lr smaller than %g",
			(double)*model_loss(m), (long long)s->at.step,
			x->o.lr);
		return run_fail_alike(x, ERR_DATA);
	}
	x->ops->adam(&adam, m->parameter_count, m->gradients, m->parameters,
		     s->m, s->v);
	return 0;
}

struct epoch_sums {
	double loss;  /* of its samples, summed */
	double count;
	double seconds;
};

static int train_epoch(struct run *x, struct epoch_sums *sums, struct err *e)
{
	struct train_state *s = &x->state;
	uint64_t size = ddp_sampler_size(&x->sampler);
	uint64_t batch = (uint64_t)x->batch;
	uint64_t first = (uint64_t)(s->at.sample / x->world_size);
	uint64_t steps = (size + batch - 1) / batch, start = clock_ns();
	long epoch = (long)s->at.epoch + 1;

	ddp_sampler_set_epoch(&x->sampler, (uint64_t)s->at.epoch);
	progress_epoch(&x->progress, epoch, x->o.epochs, first / batch, steps,
		       batch * (uint64_t)x->world_size);
	for (; first < size; first += batch) {
		uint64_t n = size - first < batch ? size - first : batch;
		const float *loss = model_loss(&x->model);
		int r = step(x, first, e);

		if (r < 0)
			return r;
		sums->loss += (double)*loss * (double)n;
		sums->count += (double)n;
		metrics_step(&x->metrics, (uint64_t)s->at.step, epoch, *loss);
		progress_step(&x->progress, first / batch + 1, loss,
			      clock_ns());
	}
	sums->seconds = (double)(clock_ns() - start) / 1e9;
	sums->count *= x->world_size;
	sums->loss *= x->world_size;
	s->at.epoch++;
	s->at.sample = 0;
	return 0;
}

/* Says, logs and saves what an epoch came to. */
static int close_epoch(struct run *x, const struct epoch_sums *sums,
		       const struct result *v, struct err *e)
{
	const struct train_position *at = &x->state.at;
	double rate = sums->count / sums->seconds;
	char text[64], per_second[32];
	int r = 0;

	if (x->rank == 0) {
		struct metrics_epoch line = {
			(long)at->epoch, (uint64_t)at->step,
			sums->loss / sums->count, v->loss, v->accuracy,
			sums->seconds, rate,
		};

		progress_say(&x->progress, "epoch %lld/%ld: loss %.5f, %.2f s, "
			     "%s samples/s, %s", (long long)at->epoch,
			     x->o.epochs, line.train_loss, sums->seconds,
			     progress_count((uint64_t)rate, per_second),
			     result_text(v, text, sizeof text));
		r = metrics_epoch(&x->metrics, &line, e);
		if (r == 0 && x->o.checkpoint)
			r = train_state_save(&x->state, x->o.checkpoint, e);
	}
	return run_together(x, r, e);
}

static int train(struct run *x, uint64_t start, struct err *e)
{
	long done = x->o.epochs - (long)x->state.at.epoch;
	struct result v = {0, -1};
	char text[64];
	int r = 0;

	if (done <= 0) {
		r = evaluate(x, &v, e);
		done = 0;
	}
	while (r == 0 && x->state.at.epoch < x->o.epochs) {
		struct epoch_sums sums = {0, 0, 0};

		r = train_epoch(x, &sums, e);
		if (r == 0)
			r = evaluate(x, &v, e);
		if (r == 0)
			r = close_epoch(x, &sums, &v, e);
	}
	if (r < 0)
		return r;
	progress_say(&x->progress, "%ld epoch%s in %.2f s", done,
		     done == 1 ? "" : "s",
		     (double)(clock_ns() - start) / 1e9);
	progress_say(&x->progress, "%s", result_text(&v, text, sizeof text));
	return 0;
}

/* ---- From main to exit ---- */

/* ddp_init has happened; what fails from here on concerns all ranks. */
static int run(struct run *x, struct err *e)
{
	uint64_t start = clock_ns();
	int r, closed;

	progress_init(&x->progress, x->rank != 0);
	r = run_set_up(x, e);
	if (r == 0)
		r = train(x, start, e);
	closed = metrics_close(&x->metrics, r < 0 ? NULL : e);
	return r < 0 ? r : closed;
}

static int complain(const struct run *x, int r, const struct err *e)
{
	const char *rank = getenv("RANK");

	if (r == RUN_SAID_ELSEWHERE)
		return 1;
	ddp_record_error(e->text);
	if (x->world && x->world_size > 1)
		log_error("rank %d: %s", x->rank, e->text);
	else if (!x->world && rank && r != ERR_USAGE)
		log_error("rank %s: %s", rank, e->text);
	else
		log_error("%s", e->text);
	return r == ERR_USAGE ? 2 : 1;
}

/* Where arrays lie in the host's memory, only cpu reaches them: it is not left
 * to what GPUs there are. */
static int choose_backend(struct run *x, struct err *e)
{
	const char *wish = x->o.backend ? x->o.backend : "auto";

	if (strcmp(x->ops->device, "cpu"))
		return 0;
	if (!strcmp(wish, "nccl"))
		return err_set(e, ERR_USAGE, "--backend nccl does not reach "
			       "what --device cpu computes; use cpu or auto");
	if (!strcmp(wish, "auto"))
		x->o.backend = "cpu";
	return 0;
}

int train_main(const struct trainer *t, int argc, char **argv)
{
	struct run x = {
		.t = t,
		.o = {.epochs = t->epochs, .batch = t->batch, .lr = t->lr,
		      .device = "auto"},
	};
	struct trainer_options defaults = x.o;
	struct err e = ERR_INIT;
	int r;

	log_init(t->model.name);
	r = trainer_options_parse(&x.o, argc, argv, &e);
	if (r == OPTION_WANT_HELP) {
		trainer_options_help(t->model.name, t->about, &defaults);
		return 0;
	}
	if (r == OPTION_WANT_VERSION) {
		printf("%s (ddprun) %s\n", t->model.name, DDP_VERSION);
		return 0;
	}
	x.ops = r < 0 ? NULL : ops_find(x.o.device, &e);
	if (!x.ops || choose_backend(&x, &e) < 0)
		return complain(&x, ERR_USAGE, &e);
	r = run_from_ddp(ddp_init(&x.world, &(struct ddp_options){
			.backend = x.o.backend}), &e);
	if (r < 0)
		return complain(&x, r, &e);
	x.rank = ddp_rank(x.world);
	x.world_size = ddp_world_size(x.world);
	r = run(&x, &e);
	if (r < 0)
		r = complain(&x, r, &e);
	run_release(&x);
	ddp_finalize(x.world);
	return r;
}
