/* train.c: the one training loop, from the command line to the last line. Every
 * rank of the job walks through it in step; rank 0 speaks and writes. */
#include "trainers/train.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

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
	struct loss_spec loss = {x->spec.loss, 0, 1};
	uint32_t size = 0;
	struct tally tally;
	double sum[2]; /* loss, right ones */
	int r;

	for (uint32_t i = (uint32_t)x->rank; i < part->count;
	     i += (uint32_t)x->world_size)
		x->order[size++] = i;
	r = x->ops->feed_order(x->test_feed, x->order, size, 0, e);
	x->ops->zero(x->device, x->net.tally, sizeof tally);
	for (uint32_t i = 0; r == 0 && i < size; i += RUN_EVAL_BATCH) {
		uint32_t left = size - i;
		struct plan *p;

		r = net_plan(&x->net, left < RUN_EVAL_BATCH ? (int)left :
						RUN_EVAL_BATCH,
			     NET_EVALUATE, &p, e);
		if (r < 0)
			break;
		x->ops->numbers(x->device, &(struct step_numbers){.first = i});
		net_take_from(p, x->test_feed);
		net_forward(p);
		net_loss(p, &loss);
	}
	if (r < 0)
		return r;
	x->ops->get(x->device, &tally, x->net.tally, sizeof tally);
	sum[0] = tally.loss;
	sum[1] = (double)tally.correct;
	r = ddp_all_reduce(x->world, sum, sum, 2, DDP_F64, DDP_SUM);
	out->loss = sum[0] / part->count;
	out->accuracy = loss.kind == LOSS_CROSS_ENTROPY ?
				100 * sum[1] / part->count : -1;
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

/* The step whose batch begins with sample number `first` of this rank's epoch.
 * *mean is the loss over all ranks. */
static int step(struct run *x, uint64_t first, float *mean, struct err *e)
{
	struct train_state *s = &x->state;
	struct net *net = &x->net;
	uint64_t left = ddp_sampler_size(&x->sampler) - first;
	struct loss_spec loss = {x->spec.loss, 0, 1};
	struct update update = {
		.how = x->t->optimizer, .count = net->arena,
		.grad = net->gradients, .scale = 1, .param = net->parameters,
		.moment = {s->moment[0], s->moment[1]}, .loss = net->loss,
	};
	struct plan *p;
	int r = net_plan(net, left < (uint64_t)x->batch ? (int)left : x->batch,
			 NET_TRAIN, &p, e);

	if (r < 0)
		return r;
	s->at.step++;
	x->ops->numbers(x->device, &(struct step_numbers){
		(uint64_t)s->at.step, first, x->o.lr});
	x->reducing = ddp_reducer_begin(x->reducer, 1);
	net_step(p, &loss);
	r = x->reducing;
	if (r == 0)
		r = ddp_reducer_finish(x->reducer);
	if (r < 0)
		return run_from_ddp(r, e);
	x->ops->update(x->device, &update);
	x->ops->get(x->device, mean, net->loss, sizeof *mean);
	if (!isfinite(*mean)) {
		err_set(e, ERR_DATA, "the loss is %g at step %lld: training "
			"has come apart; try a --lr smaller than %g",
			(double)*mean, (long long)s->at.step, x->o.lr);
		return run_fail_alike(x, ERR_DATA);
	}
	return x->ops->wait(x->device, e);
}

struct epoch_sums {
	double loss;  /* of its samples, summed */
	double count;
	double seconds;
};

/* This rank's samples of the epoch that comes. */
static int set_order(struct run *x, struct err *e)
{
	uint64_t epoch = (uint64_t)x->state.at.epoch;
	uint64_t size = ddp_sampler_size(&x->sampler);

	ddp_sampler_set_epoch(&x->sampler, epoch);
	for (uint64_t i = 0; i < size; i++)
		x->order[i] = ddp_sampler_index(&x->sampler, i);
	return x->ops->feed_order(x->feed, x->order, size, epoch, e);
}

static int enough(const struct run *x)
{
	return x->o.steps && x->state.at.step >= x->o.steps;
}

static int train_epoch(struct run *x, struct epoch_sums *sums, struct err *e)
{
	struct train_state *s = &x->state;
	uint64_t size = ddp_sampler_size(&x->sampler);
	uint64_t batch = (uint64_t)x->batch;
	uint64_t first = (uint64_t)(s->at.sample / x->world_size);
	uint64_t steps = (size + batch - 1) / batch, start = clock_ns();
	long epoch = (long)s->at.epoch + 1;
	int r = set_order(x, e);

	if (r < 0)
		return r;
	progress_epoch(&x->progress, epoch, x->o.epochs, first / batch, steps,
		       batch * (uint64_t)x->world_size);
	for (; first < size && !enough(x); first += batch) {
		uint64_t n = size - first < batch ? size - first : batch;
		float loss;

		r = step(x, first, &loss, e);
		if (r < 0)
			return r;
		sums->loss += (double)loss * (double)n;
		sums->count += (double)n;
		metrics_step(&x->metrics, (uint64_t)s->at.step, epoch, loss);
		progress_step(&x->progress, first / batch + 1, &loss,
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
	while (r == 0 && x->state.at.epoch < x->o.epochs && !enough(x)) {
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

int train_main(const struct trainer *t, int argc, char **argv)
{
	struct run x = {
		.t = t,
		.o = {.epochs = t->epochs, .batch = t->batch, .lr = t->lr,
		      .device = "auto", .arch = "resnet18", .stem = "cifar",
		      .image_size = 32, .precision = "fp32"},
	};
	struct trainer_options defaults = x.o;
	struct err e = ERR_INIT;
	int r;

	log_init(t->name);
	r = trainer_options_parse(&x.o, argc, argv, &e);
	if (r == OPTION_WANT_HELP) {
		trainer_options_help(t->name, t->about, &defaults);
		return 0;
	}
	if (r == OPTION_WANT_VERSION) {
		printf("%s (ddprun) %s\n", t->name, DDP_VERSION);
		return 0;
	}
	x.ops = r < 0 ? NULL : ops_find(x.o.device, &e);
	if (!x.ops)
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
