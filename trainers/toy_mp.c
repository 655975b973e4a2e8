/* toy_mp.c: model parallelism and data parallelism at once, as small as
 * possible: a classifier of digits whose first half, the head, is on one device
 * and whose second half, the tail, is on the next; each rank has both, and its
 * share of the samples. Written to be read: it has a loop of its own, and no
 * checkpoints. */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/option.h"
#include "trainers/data/host_data.h"
#include "trainers/report/metrics.h"
#include "trainers/report/progress.h"
#include "trainers/train/pipeline.h"
#include "trainers/train/run.h"
#include "trainers/train/trainer_options.h"

enum { WIDTH = 256 };

static const struct layer head_layers[] = {
	{{OP_LINEAR, .out = WIDTH, .relu = 1}},
	{{OP_LINEAR, .out = WIDTH, .relu = 1}},
};
static const struct layer tail_layers[] = {
	{{OP_LINEAR, .out = WIDTH, .relu = 1}},
	{{OP_LINEAR, .out = 10, .relu = 0}},
};

static const struct model_spec models[PIPELINE_STAGES] = {
	[PIPELINE_HEAD] = {
		.name = "toy_mp head", .input = {1, 28, 28, 10, {0}, {1}},
		.layer_count = 2, .layers = head_layers,
	},
	[PIPELINE_TAIL] = {
		.name = "toy_mp tail", .input = {WIDTH, 1, 1, 10, {0}, {1}},
		.loss = LOSS_CROSS_ENTROPY, .layer_count = 2,
		.layers = tail_layers,
	},
};

struct toy {
	const char *data, *device, *log_dir;
	long epochs, batch, micros, seed;
	double lr;

	const struct ops *ops;
	ddp_comm *world, *part[PIPELINE_STAGES];
	int rank, size;
	struct host_data set;
	struct ddp_sampler sampler;
	uint32_t *order;
	struct pipeline pipeline;
	struct metrics metrics;
	struct progress progress;
	uint64_t steps; /* steps of an epoch */
};

#define AT(field) offsetof(struct toy, field)
static const struct option_spec table[] = {
	{"data", 0, OPTION_STRING, AT(data), 0, 0, 0, "DIR", "DDP_DATA",
	 "folder with MNIST's files; without it, the program generates digits"},
	{"epochs", 0, OPTION_INT, AT(epochs), 0, 1, 1e6, "N", NULL,
	 "passes over the training data"},
	{"batch-size", 0, OPTION_INT, AT(batch), 0, 1, 1e6, "N", NULL,
	 "samples per step, over all ranks"},
	{"micro-batches", 0, OPTION_INT, AT(micros), 0, 1, 1024, "N", NULL,
	 "parts of a rank's share of the batch: while the tail computes one, "
	 "the head computes the next"},
	{"lr", 0, OPTION_DOUBLE, AT(lr), 0, 0, 1e6, "X", NULL,
	 "learning rate of SGD with momentum 0.9"},
	{"seed", 0, OPTION_INT, AT(seed), 0, 0, 4294967294.0, "N", NULL,
	 "seed of the initial weights and the order of samples"},
	{"device", 0, OPTION_STRING, AT(device), 0, 0, 0, "D", NULL,
	 "cpu: two cores per rank; cuda: two GPUs; or auto"},
	{"log-dir", 0, OPTION_STRING, AT(log_dir), 0, 0, 0, "DIR", NULL,
	 "folder for metrics.jsonl and TensorBoard events"},
	{"help", 'h', OPTION_HELP, 0, 0, 0, 0, NULL, NULL, "this text"},
	{"version", 0, OPTION_VERSION, 0, 0, 0, 0, NULL, NULL,
	 "the version of ddprun"},
	{NULL, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL},
};

/* ---- Setting up ---- */

static int toy_check_batch(const struct toy *t, struct err *e)
{
	if (t->batch % (t->size * t->micros))
		return err_set(e, ERR_USAGE, "--batch-size %ld cannot be split "
			       "evenly into %ld micro-batches on each of %d "
			       "rank%s; give a multiple of %ld", t->batch,
			       t->micros, t->size, t->size == 1 ? "" : "s",
			       t->size * t->micros);
	return 0;
}

/* The i-th of the cores that this process may use, wrapping around. */
static int toy_core(int i)
{
	cpu_set_t set;
	int n;

	if (sched_getaffinity(0, sizeof(set), &set) < 0)
		return -1;
	n = CPU_COUNT(&set);
	i %= n;
	for (int core = 0; core < CPU_SETSIZE; core++)
		if (CPU_ISSET((size_t)core, &set) && i-- == 0)
			return core;
	return -1;
}

/* Chooses two devices of this rank's own, if there are enough: cores, or GPUs,
 * of which `ddprun --gpus-per-proc 2` shows each rank two. With one GPU both
 * parts use it. The numbers wrap around. */
static int toy_choose_devices(struct toy *t, struct device_options *d,
			      struct err *e)
{
	int first = PIPELINE_STAGES * ddp_local_rank(t->world);
	int on_cpu = !strcmp(t->ops->kind, "cpu");
	int count = t->ops->count(e);

	for (int i = 0; i < PIPELINE_STAGES && count > 0; i++) {
		d[i].threads = 1;
		d[i].core = on_cpu ? toy_core(first + i) : -1;
		d[i].index = on_cpu ? 0 : (first + i) % count;
	}
	return count < 0 ? count : 0;
}

static int toy_open_data(struct toy *t, struct err *e)
{
	struct host_data_want want = {.kind = DATA_MNIST, .dir = t->data};
	int leader = ddp_host_leader(t->world) == t->rank;
	int r = host_data_find(&t->set, &want, e);

	if (r == 0 && leader)
		r = host_data_prepare(&t->set, e);
	r = run_agree_among(t->world, r, e);
	if (r == 0 && !leader)
		r = host_data_open(&t->set, e);
	if (r == 0 && t->set.note[0])
		log_warn("%s", t->set.note);
	return run_agree_among(t->world, r, e);
}

static int toy_open_sampler(struct toy *t, struct err *e)
{
	uint32_t count = t->set.set.train.count;
	int r = run_from_ddp(ddp_sampler_init(&t->sampler, count, t->rank,
					      t->size, (uint64_t)t->seed, 1,
					      DDP_PAD),
			     e);
	uint64_t mine;

	if (r < 0)
		return r;
	mine = ddp_sampler_size(&t->sampler);
	t->steps = mine / (uint64_t)(t->batch / t->size);
	if (!t->steps)
		return err_set(e, ERR_USAGE, "--batch-size %ld is more than "
			       "the data set's %u samples", t->batch,
			       count);
	t->order = calloc(mine, sizeof(*t->order));
	return t->order ? 0
			: err_no_memory(e, "the order of %u samples", count);
}

/* Makes one communicator for the heads and one for the tails, so that their
 * collectives do not mix. */
static int toy_open_groups(struct toy *t, struct err *e)
{
	int r = 0;

	for (int i = 0; r == 0 && i < PIPELINE_STAGES; i++)
		r = ddp_comm_split(t->world, 0, t->rank, &t->part[i]);
	return run_from_ddp(r, e);
}

static int toy_open_pipeline(struct toy *t, struct err *e)
{
	const struct dataset *d = &t->set.set;
	struct pipeline_spec s = {
		.ops = t->ops, .model = {models[0], models[1]},
		.part = d->train, .shape = d->shape,
		.micros = (int)t->micros,
		.n = (int)(t->batch / t->size / t->micros),
		.seed = (uint64_t)t->seed,
		.optimizer = {OPTIMIZER_SGD, .momentum = 0.9},
		.comm = {t->part[0], t->part[1]},
	};
	int r = toy_choose_devices(t, s.device, e);

	/* a loader's lists belong to its last batch, but here several batches
	 * are under way */
	s.part.samples.start = NULL;
	if (r == 0)
		r = pipeline_init(&t->pipeline, &s, e);
	r = run_agree_among(t->world, r, e);
	if (r == 0)
		r = run_agree_among(t->world,
				    pipeline_join(&t->pipeline, e), e);
	return r;
}

static void toy_print_start(struct toy *t)
{
	struct stage *s = t->pipeline.stage;
	char n[2][32];

	progress_print(&t->progress,
		       "toy_mp: head of %s parameters on %s, tail "
		       "of %s on %s; %d rank%s x %ld micro-batch%s of %d",
		       progress_count(s[0].net.parameter_count, n[0]),
		       s[0].device->name,
		       progress_count(s[1].net.parameter_count, n[1]),
		       s[1].device->name, t->size, t->size == 1 ? "" : "s",
		       t->micros, t->micros == 1 ? "" : "es",
		       t->pipeline.spec.n);
}

static int toy_set_up(struct toy *t, struct err *e)
{
	int r = run_agree_among(t->world, toy_check_batch(t, e), e);

	if (r == 0)
		r = toy_open_data(t, e);
	if (r == 0)
		r = run_agree_among(t->world, toy_open_sampler(t, e), e);
	if (r == 0)
		r = toy_open_groups(t, e);
	if (r == 0)
		r = toy_open_pipeline(t, e);
	if (r < 0)
		return r;
	if (t->rank == 0)
		r = metrics_open(&t->metrics, t->log_dir, 0, e);
	toy_print_start(t);
	return run_agree_among(t->world, r, e);
}

/* ---- Training ---- */

static int toy_train_epoch(struct toy *t, uint64_t epoch, struct err *e)
{
	uint64_t share = (uint64_t)(t->batch / t->size), start = clock_ns();
	uint64_t size = ddp_sampler_size(&t->sampler);
	struct pipeline *p = &t->pipeline;
	double sum = 0, seconds;
	char n[32];
	int r;

	ddp_sampler_set_epoch(&t->sampler, epoch);
	for (uint64_t i = 0; i < size; i++)
		t->order[i] = ddp_sampler_index(&t->sampler, i);
	r = pipeline_order(p, t->order, size, epoch, e);
	p->both = 0;
	progress_epoch(&t->progress, (long)epoch + 1, t->epochs, 0, t->steps,
		       ((uint64_t)t->epochs - epoch) * t->steps,
		       (uint64_t)t->batch);
	for (uint64_t i = 0; r == 0 && i < t->steps; i++) {
		struct step_args args = {
			.step = epoch * t->steps + i + 1, .first = i * share,
			.lr = t->lr};

		r = pipeline_step(p, &args, e);
		if (r < 0)
			return r;
		sum += (double)p->loss;
		metrics_step(&t->metrics, &(struct metrics_step){
			.step = args.step, .epoch = (long)epoch + 1,
			.lr = t->lr, .loss = p->loss});
		progress_step(&t->progress, i + 1, &p->loss, clock_ns());
		r = run_from_ddp(ddp_step(t->world, (int64_t)args.step), e);
	}
	if (r < 0)
		return r;
	seconds = (double)(clock_ns() - start) / 1e9;
	progress_print(
		&t->progress,
		"epoch %ld/%ld: loss %.5f, %.2f s, %s samples/s, both devices "
		"busy in %llu of %llu micro-batches",
		(long)epoch + 1, t->epochs, sum / (double)t->steps, seconds,
		progress_count((uint64_t)((double)t->steps * (double)t->batch /
					  seconds),
			       n),
		(unsigned long long)p->both,
		(unsigned long long)t->steps * (unsigned long long)t->micros);
	return r;
}

static int toy_run(struct toy *t, struct err *e)
{
	int r, closed;

	progress_init(&t->progress, t->rank != 0);
	r = toy_set_up(t, e);
	for (long i = 0; r == 0 && i < t->epochs; i++)
		r = toy_train_epoch(t, (uint64_t)i, e);
	/* a loss that is not finite is so on all ranks: rank 0 reports it */
	if (r == ERR_DATA)
		r = run_agree_among(t->world, t->rank == 0 ? r : 0, e);
	closed = metrics_close(&t->metrics, r < 0 ? NULL : e);
	return r < 0 ? r : closed;
}

static void toy_release(struct toy *t)
{
	pipeline_release(&t->pipeline);
	for (int i = 0; i < PIPELINE_STAGES; i++)
		ddp_comm_free(t->part[i]);
	ddp_sampler_release(&t->sampler);
	host_data_release(&t->set);
	free(t->order);
	ddp_finalize(t->world);
}

static int toy_fail(const struct toy *t, int r, const struct err *e)
{
	if (r == RUN_REPORTED_ELSEWHERE)
		return 1;
	ddp_record_error(e->text);
	if (t->size > 1)
		log_error("rank %d: %s", t->rank, e->text);
	else
		log_error("%s", e->text);
	return r == ERR_USAGE ? 2 : 1;
}

static int toy_parse(struct toy *t, int argc, char **argv, struct err *e)
{
	int r = trainer_options_parse_only(table, t, argc, argv, e);

	if (r < 0)
		return r;
	if (t->data && !*t->data)
		t->data = NULL;
	t->ops = ops_find(t->device, e);
	return t->ops ? 0 : ERR_USAGE;
}

int main(int argc, char **argv)
{
	struct toy t = {.device = "auto", .epochs = 2, .batch = 128,
			.micros = 4, .lr = 0.02};
	/* gradients on GPUs go through host memory */
	struct ddp_options options = {.backend = "cpu"};
	struct err e = ERR_INIT;
	int r;

	log_init("toy_mp");
	r = toy_parse(&t, argc, argv, &e);
	if (r == OPTION_WANT_HELP) {
		trainer_options_usage("toy_mp", "Trains a classifier of digits "
				      "whose two halves are on two devices.");
		printf("Defaults: --epochs %ld --batch-size %ld "
		       "--micro-batches %ld --lr %g --seed %ld\n\n", t.epochs,
		       t.batch, t.micros, t.lr, t.seed);
		option_print_help(table);
		return 0;
	}
	if (r == OPTION_WANT_VERSION) {
		printf("toy_mp (ddprun) %s\n", DDP_VERSION);
		return 0;
	}
	if (r < 0)
		return toy_fail(&t, ERR_USAGE, &e);
	r = run_from_ddp(ddp_init(&t.world, &options), &e);
	if (r < 0)
		return toy_fail(&t, r, &e);
	t.rank = ddp_rank(t.world);
	t.size = ddp_world_size(t.world);
	r = toy_run(&t, &e);
	if (r < 0)
		r = toy_fail(&t, r, &e);
	toy_release(&t);
	return r;
}
