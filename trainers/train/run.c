/* run.c: setting up a run, and how its ranks fail together. */
#include "trainers/train/run.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "trainers/train/path.h"
#include "trainers/train/provenance.h"
#include "trainers/train/resume.h"
#include "trainers/train/seat.h"
#include "trainers/train/step.h"

/* ---- Errors that concern all ranks ---- */

int run_from_ddp(int r, struct err *e)
{
	return r < 0 ? err_set(e, r, "%s", ddp_last_error()) : 0;
}

/* A rank that leaves ends the job, and the launcher shows the first one's last
 * words. So the ranks that have nothing to say wait until the one that has is
 * gone. */
static int wait_for_speaker(struct run *x)
{
	ddp_barrier(x->world);
	return RUN_SAID_ELSEWHERE;
}

int run_together(struct run *x, int r, struct err *e)
{
	int32_t who = r < 0 ? x->rank : INT32_MAX;
	int rc = ddp_all_reduce(x->world, &who, &who, 1, DDP_I32, DDP_MIN);

	if (rc < 0)
		return r < 0 ? r : run_from_ddp(rc, e);
	if (who == INT32_MAX)
		return 0;
	return who == x->rank ? r : wait_for_speaker(x);
}

/* ---- Setting up ---- */

static int threads_wanted(const struct run *x)
{
	const char *text = getenv("OMP_NUM_THREADS");
	struct err ignored;
	long n = 1;

	if (text && *text &&
	    parse_long(text, 1, 1024, "OMP_NUM_THREADS", &n, &ignored) < 0)
		n = 1;
	return (int)n;
}

static int split_batch(struct run *x, struct err *e)
{
	long ranks = x->world_size, parts = x->o.accumulate;

	if (x->o.batch % ranks)
		return err_set(e, ERR_USAGE, "--batch-size %ld cannot be split "
			       "evenly over %ld ranks; give a multiple of %ld",
			       x->o.batch, ranks, ranks);
	x->batch = (int)(x->o.batch / ranks);
	if (x->batch % parts)
		return err_set(e, ERR_USAGE, "--accumulate %ld cannot split a "
			       "rank's %d samples of the batch evenly; give a "
			       "--batch-size that is a multiple of %ld", parts,
			       x->batch, ranks * parts);
	x->micro = (int)(x->batch / parts);
	return 0;
}

static void say_wait(void *arg, const char *text)
{
	progress_say(arg, "%s", text);
}

static int open_data(struct run *x, struct err *e)
{
	int leader = ddp_host_leader(x->world) == x->rank;
	struct host_data_want want = {
		x->o.synthetic ? DATA_SYNTHETIC : x->t->data, x->o.data,
		(int)x->o.image_size, (uint32_t)x->o.batch, say_wait,
		&x->progress};
	int r = host_data_find(&x->data, &want, e);

	if (r == 0 && leader)
		r = host_data_prepare(&x->data, e);
	r = run_together(x, r, e);
	if (r < 0)
		return r;
	if (x->data.note[0])
		log_warn("%s", x->data.note);
	if (!leader)
		r = host_data_open(&x->data, e);
	return run_together(x, r, e);
}

/* The cpu's, or a GPU that no other rank of this host has. */
static int open_device(struct run *x, struct err *e)
{
	struct device_options o = {
		.threads = threads_wanted(x), .core = -1, .bf16 = x->o.bf16,
		.direct = x->o.direct,
	};
	int r = 0, count;

	if (strcmp(x->ops->kind, "cpu") != 0) {
		count = x->ops->count(e);
		r = run_together(x, count, e);
		if (r == 0)
			r = run_together(x, seat_take(x->world, &x->o, count,
						      &o.index, e), e);
	}
	if (r < 0)
		return r;
	r = x->ops->open(&o, &x->device, e);
	if (r == 0)
		x->ops->enter(x->device);
	return run_together(x, r, e);
}

static int sync_sum(void *arg, float *values, size_t n)
{
	struct run *x = arg;
	float *host;
	int r;

	if (!x->staged)
		return ddp_all_reduce(x->world, values, values, n, DDP_F32,
				      DDP_SUM);
	host = malloc(n * sizeof *host);
	if (!host)
		return -ENOMEM;
	x->ops->get(x->device, host, values, n * sizeof *host);
	r = ddp_all_reduce(x->world, host, host, n, DDP_F32, DDP_SUM);
	x->ops->put(x->device, values, host, n * sizeof *host);
	free(host);
	return r;
}

static int sync_moments(void *arg, float *mean, float *var, size_t channels,
			uint64_t *count)
{
	struct run *x = arg;

	return ddp_sync_batch_norm(x->world, mean, var, channels, count);
}

static void ask_for_sync(struct run *x)
{
	if (!x->o.sync_bn || x->world_size == 1)
		return;
	x->device->sync_moments = sync_moments;
	x->device->sync_sum = sync_sum;
	x->device->sync_arg = x;
}

/* Each rank takes its share; a data set smaller than a batch is the batch. */
static int open_samplers(struct run *x, struct err *e)
{
	const struct dataset *d = &x->data.set;
	uint64_t size, batch;
	int r;

	r = ddp_sampler_init(&x->sampler, d->train.count, x->rank,
			     x->world_size, (uint64_t)x->o.seed, 1, DDP_PAD);
	if (r == 0)
		r = ddp_sampler_init(&x->test_sampler, d->test.count, x->rank,
				     x->world_size, 0, 0, DDP_EXACT);
	if (r < 0)
		return run_from_ddp(r, e);
	size = ddp_sampler_size(&x->sampler);
	if ((uint64_t)x->batch > size) {
		progress_say(&x->progress, "the data set has %u samples, less "
			     "than a batch: each is a step",
			     d->train.count);
		x->batch = (int)size;
		if (x->micro > x->batch)
			x->micro = x->batch;
	}
	batch = (uint64_t)x->batch;
	x->epoch_steps = (size + batch - 1) / batch;
	/* what is made up needs no remainder */
	if (x->o.synthetic)
		x->epoch_steps = size / batch;
	x->total_steps = x->epoch_steps * (uint64_t)x->o.epochs;
	if (x->o.steps) {
		x->total_steps = (uint64_t)x->o.steps;
		x->o.epochs = (long)((x->total_steps + x->epoch_steps - 1) /
				     x->epoch_steps);
	}
	x->schedule = recipe_schedule(&x->recipe, &x->o, x->total_steps,
				      x->epoch_steps);
	return 0;
}

/* Large images take as much memory as a micro-batch does, not more. */
static int evaluation_batch(const struct run *x)
{
	return x->data.set.train.samples.size <= 4096 ||
	       x->micro > RUN_EVAL_BATCH ? RUN_EVAL_BATCH : x->micro;
}

/* One feed for training, one for evaluation, and room for their orders. */
static int open_feeds(struct run *x, struct err *e)
{
	const struct dataset *d = &x->data.set;
	size_t most = (size_t)ddp_sampler_size(&x->sampler);
	struct feed_spec s = {
		.part = &d->train, .shape = d->shape,
		.augment = x->recipe.augment && !x->o.synthetic,
		.seed = (uint64_t)x->o.seed, .batch = x->micro,
		.type = net_input_type(&x->spec, x->device),
	};
	int r;

	x->eval_batch = evaluation_batch(x);
	if (d->test.count > most)
		most = d->test.count;
	x->order = calloc(most, sizeof *x->order);
	if (!x->order)
		return err_set(e, -ENOMEM, "no memory for the order of %zu "
			       "samples", most);
	r = x->ops->feed_new(x->device, &s, &x->feed, e);
	if (r < 0)
		return r;
	s.part = &d->test;
	s.augment = 0;
	s.batch = x->eval_batch;
	return x->ops->feed_new(x->device, &s, &x->test_feed, e);
}

static void describe(struct run *x)
{
	struct train_about *about = &x->state.about;
	const struct recipe *r = &x->recipe;

	*about = (struct train_about){
		.batch = x->o.batch, .micro = x->micro,
		.world_size = x->world_size,
		.sync_bn = x->device->sync_sum != NULL, .bf16 = x->o.bf16,
		.schedule = x->schedule.kind,
		.warmup = (int64_t)(x->schedule.warmup + 0.5),
		.total = (int64_t)x->total_steps, .lr = r->lr,
		.momentum = r->optimizer.momentum,
		.weight_decay = r->optimizer.weight_decay,
		.smoothing = (double)r->smoothing,
		.nesterov = r->optimizer.nesterov, .augment = r->augment,
	};
	snprintf(about->device, sizeof about->device, "%s", x->device->name);
	x->state.at.seed = x->o.seed;
}

static int open_model(struct run *x, struct err *e)
{
	int r;

	x->spec = x->t->model;
	r = open_samplers(x, e);
	if (r == 0 && x->t->make_model)
		r = x->t->make_model(&x->spec, &x->o, &x->data.set.shape, e);
	if (r < 0)
		return r;
	r = open_feeds(x, e);
	if (r == 0)
		r = net_init(&x->net, &x->spec, x->device, x->feed,
			     x->micro, NET_TRAIN, e);
	if (r == 0)
		r = train_state_init(&x->state, &x->net, &x->recipe.optimizer,
				     e);
	if (r == 0)
		describe(x);
	return r;
}

/* libddp's cpu backend does not reach a GPU's memory. */
static int open_staging(struct run *x, struct err *e)
{
	size_t n = x->net.arena + NET_LOSS_VALUES;

	if (x->world_size == 1 || !strcmp(x->ops->kind, "cpu") ||
	    strcmp(ddp_backend(x->world), "cpu") != 0)
		return 0;
	x->staged = malloc(n * sizeof *x->staged);
	return x->staged ? 0 : err_set(e, -ENOMEM, "no memory for the "
				       "gradients of %zu parameters", n);
}

static void on_ready(void *arg, int layer)
{
	struct run *x = arg;

	if (x->reducing == 0)
		x->reducing = ddp_reducer_ready(x->reducer, x->slot[layer]);
}

/* A layer's parameters together are one of the reducer's; the loss is the last
 * one, so it goes with the first bucket. */
static int open_reducer(struct run *x, struct err *e)
{
	const struct net *net = &x->net;
	int layers = net->spec->layer_count, n = 0, r;
	size_t *counts, at;

	if (x->world_size == 1)
		return 0;
	r = run_together(x, open_staging(x, e), e);
	if (r < 0 || x->staged)
		return r;
	/* of a GPU: in the order of what it computes */
	r = run_from_ddp(ddp_set_stream(x->world, x->ops->stream(x->device)),
			 e);
	if (r < 0)
		return r;
	counts = calloc((size_t)layers + 1, sizeof *counts);
	x->slot = calloc((size_t)layers + 1, sizeof *x->slot);
	/* without memory: NULL, of which the other ranks are told, too */
	if (!x->slot) {
		free(counts);
		counts = NULL;
	}
	for (int i = 0; i <= layers && counts; i++) {
		net_slice(net, i, &at, &counts[n]);
		x->slot[i] = n;
		n += counts[n] > 0;
	}
	x->net.on_ready = on_ready;
	x->net.arg = x;
	r = ddp_reducer_new(&x->reducer, x->world, net->gradients, DDP_F32,
			    counts, n, NULL);
	free(counts);
	return run_from_ddp(r, e);
}

/* ", on core 0", ", rank 0 on core 0": what the launcher bound it to. */
static const char *place_text(const struct run *x, char *out, size_t size)
{
	char cores[64];
	cpu_set_t set;

	*out = 0;
	if (!strcmp(x->ops->kind, "cpu") &&
	    sched_getaffinity(0, sizeof set, &set) == 0)
		snprintf(out, size, ", %son %s",
			 x->world_size == 1 ? "" : "rank 0 ",
			 seat_cores(&set, cores, sizeof cores));
	return out;
}

static void introduce(struct run *x)
{
	char kind[MODEL_KIND_MAX], n[3][32], text[160], place[96];
	const struct dataset *d = &x->data.set;

	if (!x->o.data && x->data.want.kind == DATA_MNIST)
		progress_say(&x->progress, "no MNIST at hand (--data DIR or "
			     "DDP_DATA): training on digits drawn by this "
			     "program");
	progress_say(&x->progress, "%s: %s parameters, %s + %s images, "
		     "%d rank%s x batch %d, %s%s",
		     model_kind(x->net.spec, kind),
		     progress_count(x->net.parameter_count, n[0]),
		     progress_count(d->train.count, n[1]),
		     progress_count(d->test.count, n[2]), x->world_size,
		     x->world_size == 1 ? "" : "s", x->batch, x->device->name,
		     place_text(x, place, sizeof place));
	if (x->t->recipes[0].optimizer.kind == OPTIMIZER_SGD ||
	    x->recipe.lr != x->t->recipes[0].lr)
		progress_say(&x->progress, "%s",
			     recipe_text(&x->recipe, text, sizeof text));
}

uint64_t run_done(const struct run *x)
{
	uint64_t samples = (uint64_t)x->state.at.sample /
			   (uint64_t)x->world_size;
	uint64_t batch = (uint64_t)x->batch;

	return (uint64_t)x->state.at.epoch * x->epoch_steps +
	       (samples + batch - 1) / batch;
}

/* What is read later: config.json. */
static int write_provenance(struct run *x, struct err *e)
{
	char kind[MODEL_KIND_MAX], recipe[160], ranks[32], steps[32];
	const struct provenance_fact facts[] = {
		{"trainer", x->t->name},
		{"model", model_kind(x->net.spec, kind)},
		{"recipe", recipe_text(&x->recipe, recipe, sizeof recipe)},
		{"device", x->device->name},
		{"backend", ddp_backend(x->world)},
		{"world_size", ranks},
		{"steps", steps},
	};

	snprintf(ranks, sizeof ranks, "%d", x->world_size);
	snprintf(steps, sizeof steps, "%llu",
		 (unsigned long long)x->total_steps);
	return provenance_write(x->o.log_dir, (uint64_t)x->state.at.step,
				x->argc, x->argv, &x->o, facts,
				sizeof facts / sizeof *facts, e);
}

/* Rank 0 alone. */
static int begin(struct run *x, struct err *e)
{
	const char *picture = x->o.save_images;
	int r = picture ? path_can_write(picture) : 0;

	if (r < 0)
		return err_set(e, r, "--save-images: cannot write %s: %s",
			       picture, strerror(-r));
	r = resume_first_state(x, e);

	if (r == 0)
		r = metrics_open(&x->metrics, x->o.log_dir,
				 (uint64_t)x->state.at.step, e);
	if (r == 0 && x->o.log_dir)
		r = write_provenance(x, e);
	return r;
}

int run_set_up(struct run *x, struct err *e)
{
	int r = recipe_choose(&x->recipe, x->t->recipes, &x->o, x->world_size,
			      e);

	if (r == 0)
		r = split_batch(x, e);
	r = run_together(x, r, e);
	if (r == 0)
		r = open_data(x, e);
	if (r == 0)
		r = open_device(x, e);
	if (r < 0)
		return r;
	ask_for_sync(x);
	r = run_together(x, open_model(x, e), e);
	if (r == 0)
		r = open_reducer(x, e);
	if (r < 0)
		return r;
	introduce(x);
	r = run_together(x, x->rank == 0 ? begin(x, e) : 0, e);
	return r < 0 ? r : train_state_share(&x->state, x->world, e);
}

void run_release(struct run *x)
{
	ddp_reducer_free(x->reducer);
	step_release(x);
	train_state_release(&x->state);
	net_release(&x->net);
	if (x->device) {
		x->ops->feed_free(x->device, x->feed);
		x->ops->feed_free(x->device, x->test_feed);
		x->ops->close(x->device);
	}
	if (x->t->release_model)
		x->t->release_model(&x->spec);
	ddp_sampler_release(&x->sampler);
	ddp_sampler_release(&x->test_sampler);
	host_data_release(&x->data);
	free(x->order);
	free(x->staged);
	free(x->slot);
}
