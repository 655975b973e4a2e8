/* run.c: sets up a run, and makes its ranks fail together. */
#include "trainers/train/run.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/file.h"
#include "base/log.h"
#include "trainers/data/cache.h"
#include "trainers/train/device_assign.h"
#include "trainers/train/provenance.h"
#include "trainers/train/resume.h"

/* A rank's gradient with a value this many times larger than that of the others
 * is wrong (--check-every). */
enum { OUTLIER = 100 };

/* ---- Errors that concern all ranks ---- */

int run_from_ddp(int r, struct err *e)
{
	return r < 0 ? err_set(e, r, "%s", ddp_last_error()) : 0;
}

/* A rank that exits ends the job, and the launcher shows the error of the first
 * rank that exits. So ranks with nothing to report wait until the reporting
 * rank has exited. */
static int run_wait_for_reporter(ddp_comm *world)
{
	ddp_barrier(world);
	return RUN_REPORTED_ELSEWHERE;
}

int run_agree_among(ddp_comm *world, int r, struct err *e)
{
	int32_t who = r < 0 ? ddp_rank(world) : INT32_MAX;
	int rc = ddp_all_reduce(world, &who, &who, 1, DDP_I32, DDP_MIN);

	if (rc < 0)
		return r < 0 ? r : run_from_ddp(rc, e);
	if (who == INT32_MAX)
		return 0;
	return who == ddp_rank(world) ? r : run_wait_for_reporter(world);
}

int run_agree(struct run *run, int r, struct err *e)
{
	return run_agree_among(run->world, r, e);
}

/* ---- Setting up ---- */

static int run_threads(const struct run *run)
{
	const char *text = getenv("OMP_NUM_THREADS");
	struct err ignored;
	long n = 1;

	if (text && *text &&
	    parse_long(text, 1, 1024, "OMP_NUM_THREADS", &n, &ignored) < 0)
		n = 1;
	return (int)n;
}

static int run_split_batch(struct run *run, struct err *e)
{
	long ranks = run->world_size, parts = run->options.accumulate;

	if (run->options.batch % ranks)
		return err_set(e, ERR_USAGE, "--batch-size %ld cannot be split "
			       "evenly over %ld ranks; give a multiple of %ld",
			       run->options.batch, ranks, ranks);
	run->batch = (int)(run->options.batch / ranks);
	if (run->batch % parts)
		return err_set(e, ERR_USAGE, "--accumulate %ld cannot split a "
			       "rank's %d samples of the batch evenly; give a "
			       "--batch-size that is a multiple of %ld", parts,
			       run->batch, ranks * parts);
	run->micro = (int)(run->batch / parts);
	return 0;
}

static void run_on_wait(void *arg, const char *text)
{
	progress_print(arg, "%s", text);
}

static int run_open_data(struct run *run, struct err *e)
{
	int leader = ddp_host_leader(run->world) == run->rank;
	struct host_data_want want = {
		run->options.synthetic ? DATA_SYNTHETIC : run->trainer->data,
		run->options.data,
		(int)run->options.image_size,
		(uint32_t)run->options.batch,
		run_on_wait,
		&run->progress};
	int r = host_data_find(&run->data, &want, e);

	if (r == 0 && leader)
		r = host_data_prepare(&run->data, e);
	r = run_agree(run, r, e);
	if (r < 0)
		return r;
	if (run->data.note[0])
		log_warn("%s", run->data.note);
	if (!leader)
		r = host_data_open(&run->data, e);
	return run_agree(run, r, e);
}

static void run_on_device_note(const char *line)
{
	log_warn("%s", line);
}

/* Opens the CPU, or a GPU that no other rank of this host uses. */
static int run_open_device(struct run *run, struct err *e)
{
	char cache[CACHE_PATH_MAX];
	struct device_options o = {
		.cache = cache_folder(cache) ? cache : NULL,
		.note = ddp_host_leader(run->world) == ddp_rank(run->world)
				? run_on_device_note
				: NULL,
		.threads = run_threads(run),
		.core = -1,
		.precision = run->options.precision,
		.deterministic = run->options.deterministic,
		.fuse = run->options.fuse,
		.direct = run->options.direct,
	};
	int r = 0, count;

	if (strcmp(run->ops->kind, "cpu") != 0) {
		count = run->ops->count(e);
		r = run_agree(run, count, e);
		if (r == 0)
			r = run_agree(run,
				      device_assign(run->world, &run->options,
						    count, &o.index, e),
				      e);
	}
	if (r < 0)
		return r;
	r = run->ops->open(&o, &run->device, e);
	if (r == 0)
		run->ops->enter(run->device);
	return run_agree(run, r, e);
}

static int run_on_sync_sum(void *arg, float *values, size_t n)
{
	struct run *run = arg;
	float *host;
	int r;

	if (!run->staged)
		return ddp_all_reduce(run->world, values, values, n, DDP_F32,
				      DDP_SUM);
	host = malloc(n * sizeof(*host));
	if (!host)
		return -ENOMEM;
	run->ops->get(run->device, host, values, n * sizeof(*host));
	r = ddp_all_reduce(run->world, host, host, n, DDP_F32, DDP_SUM);
	run->ops->put(run->device, values, host, n * sizeof(*host));
	free(host);
	return r;
}

static int run_on_sync_moments(void *arg, float *mean, float *var,
			       size_t channels, uint64_t *count)
{
	struct run *run = arg;

	return ddp_sync_batch_norm(run->world, mean, var, channels, count);
}

static void run_enable_sync_bn(struct run *run)
{
	if (!run->options.sync_bn || run->world_size == 1)
		return;
	run->device->sync_moments = run_on_sync_moments;
	run->device->sync_sum = run_on_sync_sum;
	run->device->sync_arg = run;
}

/* Makes the samplers, the schedule and the number of steps. If the data set is
 * smaller than a batch, it is the batch. */
static int run_open_samplers(struct run *run, struct err *e)
{
	const struct dataset *d = &run->data.set;
	uint64_t size, batch;
	int r;

	r = ddp_sampler_init(&run->sampler, d->train.count, run->rank,
			     run->world_size, (uint64_t)run->options.seed, 1,
			     DDP_PAD);
	if (r == 0)
		r = ddp_sampler_init(&run->test_sampler, d->test.count,
				     run->rank, run->world_size, 0, 0,
				     DDP_EXACT);
	if (r < 0)
		return run_from_ddp(r, e);
	size = ddp_sampler_size(&run->sampler);
	if ((uint64_t)run->batch > size) {
		progress_print(&run->progress,
			       "the data set has only %u samples, fewer than a "
			       "batch: each pass is one step",
			       d->train.count);
		run->batch = (int)size;
		if (run->micro > run->batch)
			run->micro = run->batch;
	}
	batch = (uint64_t)run->batch;
	run->epoch_steps = (size + batch - 1) / batch;
	/* synthetic data sets drop the remainder */
	if (run->options.synthetic)
		run->epoch_steps = size / batch;
	run->total_steps = run->epoch_steps * (uint64_t)run->options.epochs;
	if (run->options.steps) {
		run->total_steps = (uint64_t)run->options.steps;
		run->options.epochs =
			(long)((run->total_steps + run->epoch_steps - 1) /
			       run->epoch_steps);
	}
	run->schedule = recipe_schedule(&run->recipe, &run->options,
					run->total_steps, run->epoch_steps);
	return 0;
}

/* Evaluating large images must not take more memory than a micro-batch. */
static int run_evaluation_batch(const struct run *run)
{
	return run->data.set.train.samples.size <= 4096 ||
	       run->micro > RUN_EVAL_BATCH ? RUN_EVAL_BATCH : run->micro;
}

/* Makes one loader for training and one for evaluation, and `order`. */
static int run_open_loaders(struct run *run, struct err *e)
{
	const struct dataset *d = &run->data.set;
	size_t most = (size_t)ddp_sampler_size(&run->sampler);
	struct loader_spec s = {
		.part = &d->train, .shape = d->shape,
		/* synthetic images are noise: cropped only on request */
		.augment = run->options.synthetic && !run->options.crop
				   ? AUGMENT_NONE : run->recipe.augment,
		.side = (int)run->options.crop_size,
		.seed = (uint64_t)run->options.seed, .batch = run->micro,
		.type = net_input_type(&run->spec, run->device),
	};
	int r;

	run->eval_batch = run_evaluation_batch(run);
	if (d->test.count > most)
		most = d->test.count;
	run->order = calloc(most, sizeof(*run->order));
	if (!run->order)
		return err_no_memory(e, "the order of %zu samples", most);
	r = run->ops->loader_new(run->device, &s, &run->loader, e);
	if (r < 0)
		return r;
	s.part = &d->test;
	s.augment = AUGMENT_NONE;
	s.batch = run->eval_batch;
	return run->ops->loader_new(run->device, &s, &run->test_loader, e);
}

static void run_describe(struct run *run)
{
	struct train_about *about = &run->state.about;
	const struct recipe *r = &run->recipe;

	*about = (struct train_about){
		.batch = run->options.batch,
		.micro = run->micro,
		.world_size = run->world_size,
		.sync_bn = run->device->sync_sum != NULL,
		.precision = run->options.precision,
		.schedule = run->schedule.kind,
		.warmup = (int64_t)(run->schedule.warmup + 0.5),
		.total = (int64_t)run->total_steps,
		.lr = r->lr,
		.momentum = r->optimizer.momentum,
		.weight_decay = r->optimizer.weight_decay,
		.smoothing = (double)r->smoothing,
		.nesterov = r->optimizer.nesterov,
		.augment = r->augment,
		.crop_size = run->options.crop_size,
	};
	snprintf(about->device, sizeof(about->device), "%.*s",
		 (int)sizeof(about->device) - 1, run->device->name);
	run->state.position.seed = run->options.seed;
}

static int run_on_alloc_gradients(void *arg, size_t bytes, void **out,
				  struct err *e)
{
	struct run *run = arg;

	return run_from_ddp(ddp_nccl_alloc(run->world, bytes, out), e);
}

static void run_on_free_gradients(void *arg, void *p)
{
	struct run *run = arg;

	ddp_nccl_free(run->world, p);
}

static int run_on_wait_event(void *arg, void *event, struct err *e)
{
	struct run *run = arg;

	return run_from_ddp(ddp_wait_event(run->world, event), e);
}

/* NCCL reaches its own memory faster, and libddp's waits have a deadline. */
static void run_use_nccl(struct run *run)
{
	if (strcmp(ddp_backend(run->world), "nccl") != 0)
		return;
	run->net.memory = (struct net_memory){run_on_alloc_gradients,
					      run_on_free_gradients, run};
	run->device->wait_event = run_on_wait_event;
	run->device->wait_arg = run;
}

static int run_open_model(struct run *run, struct err *e)
{
	struct image_shape input = run->data.set.shape;
	int r;

	if (run->options.crop_size)
		input.height = input.width = (int)run->options.crop_size;
	run->spec = run->trainer->model;
	r = run_open_samplers(run, e);
	if (r == 0 && run->trainer->make_model)
		r = run->trainer->make_model(&run->spec, &run->options,
					     &input, e);
	if (r < 0)
		return r;
	r = run_open_loaders(run, e);
	run_use_nccl(run);
	if (r == 0)
		r = net_init(&run->net, &run->spec, run->device, run->loader,
			     run->micro, NET_TRAIN, e);
	if (r == 0)
		r = train_state_init(&run->state, &run->net,
				     &run->recipe.optimizer, e);
	if (r == 0 && run->options.precision == PRECISION_FP16)
		r = train_state_scale_loss(&run->state,
					   (float)run->options.loss_scale, e);
	if (r == 0)
		run_describe(run);
	return r;
}

/* libddp's cpu backend cannot reach GPU memory: gradients then go through host
 * memory. */
static int run_open_staging(struct run *run, struct err *e)
{
	size_t n = run->net.arena + NET_LOSS_VALUES;

	if (run->world_size == 1 || !strcmp(run->ops->kind, "cpu") ||
	    strcmp(ddp_backend(run->world), "cpu") != 0)
		return 0;
	run->staged = malloc(n * sizeof(*run->staged));
	return run->staged
		       ? 0
		       : err_no_memory(e, "the gradients of %zu parameters", n);
}

static void run_on_gradient_ready(void *arg, int layer)
{
	struct run *run = arg;

	if (run->reduce_rc == 0)
		run->reduce_rc = ddp_reducer_ready(run->reducer,
						   run->reducer_index[layer]);
}

/* --check-every. With a loss scaler, gradients that are not finite are not an
 * error: the update skips the step (step.c). The ranks compare norms, and all
 * have the same scale. */
static int run_check_gradients(struct run *run)
{
	int r = run->state.scaler ? 0
				  : ddp_reducer_check_finite(run->reducer, 1);

	return r ? r : ddp_reducer_check_norms(run->reducer, OUTLIER);
}

/* Each layer is one parameter of the reducer. The loss is the last one, so it
 * is in the first bucket. */
static int run_open_reducer(struct run *run, struct err *e)
{
	const struct net *net = &run->net;
	int layers = net->spec->layer_count, n = 0, r;
	size_t *counts, at;

	run->loss_share = 1;
	if (run->world_size == 1)
		return 0;
	r = run_agree(run, run_open_staging(run, e), e);
	if (r < 0 || run->staged)
		return r;
	/* on a GPU collectives run in stream order with the computation */
	r = run_from_ddp(
		ddp_set_stream(run->world, run->ops->stream(run->device)), e);
	if (r < 0)
		return r;
	counts = calloc((size_t)layers + 1, sizeof(*counts));
	run->reducer_index =
		calloc((size_t)layers + 1, sizeof(*run->reducer_index));
	/* out of memory: ddp_reducer_new gets NULL, and fails on all ranks */
	if (!run->reducer_index) {
		free(counts);
		counts = NULL;
	}
	for (int i = 0; i <= layers && counts; i++) {
		net_slice(net, i, &at, &counts[n]);
		run->reducer_index[i] = n;
		n += counts[n] > 0;
	}
	run->net.on_ready = run_on_gradient_ready;
	run->net.arg = run;
	r = ddp_reducer_new(&run->reducer, run->world, net->gradients, DDP_F32,
			    counts, n, NULL);
	free(counts);
	if (r == 0)
		r = ddp_reducer_use_sums(run->reducer, 1);
	run->loss_share = 1 / (float)run->world_size;
	if (r == 0 && run->options.check_every &&
	    !strcmp(ddp_backend(run->world), "cpu"))
		r = run_check_gradients(run);
	return run_from_ddp(r, e);
}

/* Writes ", on core 0" or ", rank 0 on core 0": the cores that the launcher
 * bound this rank to. */
static const char *run_cores_text(const struct run *run, char *out, size_t size)
{
	char cores[64];
	cpu_set_t set;

	*out = 0;
	if (!strcmp(run->ops->kind, "cpu") &&
	    sched_getaffinity(0, sizeof(set), &set) == 0)
		snprintf(out, size, ", %son %s",
			 run->world_size == 1 ? "" : "rank 0 ",
			 device_assign_cores(&set, cores, sizeof(cores)));
	return out;
}

static void run_print_start(struct run *run)
{
	char kind[MODEL_KIND_MAX], n[3][32], text[160], place[96];
	const struct dataset *d = &run->data.set;

	if (!run->options.data && run->data.want.kind == DATA_MNIST)
		progress_print(&run->progress,
			       "no MNIST data (--data DIR or DDP_DATA): "
			       "training on digits generated by this program");
	progress_print(&run->progress,
		       "%s: %s parameters, %s + %s images, "
		       "%d rank%s x batch %d, %s%s",
		       model_kind(run->net.spec, kind),
		       progress_count(run->net.parameter_count, n[0]),
		       progress_count(d->train.count, n[1]),
		       progress_count(d->test.count, n[2]), run->world_size,
		       run->world_size == 1 ? "" : "s", run->batch,
		       run->device->name,
		       run_cores_text(run, place, sizeof(place)));
	if (run->trainer->recipes[0].optimizer.kind == OPTIMIZER_SGD ||
	    run->recipe.lr != run->trainer->recipes[0].lr)
		progress_print(&run->progress, "%s",
			       recipe_text(&run->recipe, text, sizeof(text)));
}

uint64_t run_done(const struct run *run)
{
	uint64_t samples = (uint64_t)run->state.position.sample /
			   (uint64_t)run->world_size;
	uint64_t batch = (uint64_t)run->batch;

	return (uint64_t)run->state.position.epoch * run->epoch_steps +
	       (samples + batch - 1) / batch;
}

/* Writes config.json. */
static int run_write_config(struct run *run, struct err *e)
{
	char kind[MODEL_KIND_MAX], recipe[160], ranks[32], steps[32];
	const struct provenance_fact facts[] = {
		{"trainer", run->trainer->name},
		{"model", model_kind(run->net.spec, kind)},
		{"recipe", recipe_text(&run->recipe, recipe, sizeof(recipe))},
		{"device", run->device->name},
		{"backend", ddp_backend(run->world)},
		{"world_size", ranks},
		{"steps", steps},
	};

	snprintf(ranks, sizeof(ranks), "%d", run->world_size);
	snprintf(steps, sizeof(steps), "%llu",
		 (unsigned long long)run->total_steps);
	return provenance_write(run->options.log_dir,
				(uint64_t)run->state.position.step, run->argc,
				run->argv, &run->options, facts,
				sizeof(facts) / sizeof(*facts), e);
}

static int run_check_result(const char *option, const char *file,
			    struct err *e)
{
	int r = file ? file_can_write(file) : 0;

	return r < 0 ? err_set(e, r, "--%s: cannot write %s: %s", option, file,
			       strerror(-r))
		     : 0;
}

/* Rank 0 only: checks the files of results, restores or draws the first state,
 * opens the metrics. */
static int run_begin(struct run *run, struct err *e)
{
	int r = run_check_result("save-images", run->options.save_images, e);

	if (r == 0)
		r = run_check_result("export", run->options.export, e);
	if (r == 0)
		r = resume_first_state(run, e);
	if (r == 0)
		r = metrics_open(&run->metrics, run->options.log_dir,
				 (uint64_t)run->state.position.step, e);
	if (r == 0 && run->options.log_dir)
		r = run_write_config(run, e);
	return r;
}

int run_set_up(struct run *run, struct err *e)
{
	int r = recipe_choose(&run->recipe, run->trainer->recipes,
			      &run->options, run->world_size, e);

	if (r == 0)
		r = run_split_batch(run, e);
	r = run_agree(run, r, e);
	if (r == 0)
		r = run_open_data(run, e);
	if (r == 0)
		r = run_open_device(run, e);
	if (r < 0)
		return r;
	run_enable_sync_bn(run);
	r = run_agree(run, run_open_model(run, e), e);
	if (r == 0)
		r = run_open_reducer(run, e);
	if (r < 0)
		return r;
	run_print_start(run);
	r = run_agree(run, run->rank == 0 ? run_begin(run, e) : 0, e);
	if (r == 0)
		r = train_state_share(&run->state, run->world, e);
	if (r == 0)
		run->scaler = train_state_scaler(&run->state);
	run->skipped = run->scaler.skipped;
	return r;
}

void run_release(struct run *run)
{
	ddp_reducer_free(run->reducer);
	step_release(run);
	train_state_release(&run->state);
	net_release(&run->net);
	if (run->device) {
		run->ops->loader_free(run->device, run->loader);
		run->ops->loader_free(run->device, run->test_loader);
		run->ops->close(run->device);
	}
	if (run->trainer->release_model)
		run->trainer->release_model(&run->spec);
	ddp_sampler_release(&run->sampler);
	ddp_sampler_release(&run->test_sampler);
	host_data_release(&run->data);
	free(run->order);
	free(run->staged);
	free(run->reducer_index);
}
