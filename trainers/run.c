/* run.c: setting up a run, and how its ranks fail together. */
#include "trainers/run.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/log.h"
#include "trainers/path.h"

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

int run_fail_alike(struct run *x, int r)
{
	return x->rank == 0 ? r : wait_for_speaker(x);
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
	if (x->o.batch % x->world_size)
		return err_set(e, ERR_USAGE, "--batch-size %ld cannot be split "
			       "evenly over %d ranks; give a multiple of %d",
			       x->o.batch, x->world_size, x->world_size);
	x->batch = (int)(x->o.batch / x->world_size);
	return 0;
}

static int open_data(struct run *x, struct err *e)
{
	int leader = ddp_host_leader(x->world) == x->rank;
	struct host_data_want want = {DATA_MNIST, x->o.data, 0, 0};
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

static int open_model(struct run *x, struct err *e)
{
	uint64_t samples = x->data.set.train.count;
	int capacity, r;

	r = run_from_ddp(ddp_sampler_init(&x->sampler, samples, x->rank,
				      x->world_size, (uint64_t)x->o.seed, 1, 0),
		     e);
	if (r < 0)
		return r;
	if ((uint64_t)x->batch > ddp_sampler_size(&x->sampler))
		x->batch = (int)ddp_sampler_size(&x->sampler);
	capacity = x->batch > RUN_EVAL_BATCH ? x->batch : RUN_EVAL_BATCH;
	x->index = calloc((size_t)capacity, sizeof *x->index);
	x->labels = calloc((size_t)capacity, 1);
	if (!x->index || !x->labels)
		return err_set(e, -ENOMEM, "no memory for batches of %d",
			       capacity);
	r = x->ops->start(threads_wanted(x), e);
	if (r == 0)
		r = model_init(&x->model, &x->t->model, x->ops, capacity, e);
	if (r == 0)
		r = train_state_init(&x->state, &x->model, e);
	x->state.at.seed = x->o.seed;
	x->state.at.batch = x->o.batch;
	return r;
}

/* A layer's weight and bias are parameters 2i and 2i + 1; the loss is one more
 * value at the arena's end, so it goes with the first bucket. */
static void on_ready(void *arg, int layer)
{
	struct run *x = arg;
	int loss = layer == x->model.spec->layer_count;

	if (x->reducing == 0 && !loss)
		x->reducing = ddp_reducer_ready(x->reducer, 2 * layer + 1);
	if (x->reducing == 0)
		x->reducing = ddp_reducer_ready(x->reducer, 2 * layer);
}

static int open_reducer(struct run *x, struct err *e)
{
	const struct model *m = &x->model;
	int layers = m->spec->layer_count, n = 2 * layers + 1, r;
	size_t *counts = calloc((size_t)n, sizeof *counts);

	/* without memory: NULL, of which the other ranks are told, too */
	for (int i = 0; i < layers && counts; i++) {
		counts[2 * i + 1] = (size_t)m->linear[i].out;
		counts[2 * i] = (size_t)m->linear[i].in * counts[2 * i + 1];
	}
	if (counts)
		counts[2 * layers] = 1;
	x->model.on_ready = on_ready;
	x->model.arg = x;
	r = ddp_reducer_new(&x->reducer, x->world, m->gradients, DDP_F32,
			    counts, n, NULL);
	free(counts);
	return run_from_ddp(r, e);
}

/* Rank 0 alone: from the checkpoint, from a file of weights, or drawn. */
static int first_state(struct run *x, struct err *e)
{
	const char *file = x->o.checkpoint;
	int r;

	if (file) {
		r = path_can_write(file);
		if (r < 0)
			return err_set(e, r, "--checkpoint: cannot write %s: "
				       "%s; nothing was trained yet", file,
				       r == -EINVAL ? "it is a device, a pipe "
				       "or a socket; name a file"
						    : strerror(-r));
	}
	if (x->o.resume) {
		r = train_state_load(&x->state, file,
				     x->sampler.dataset_size, e);
		if (r < 0)
			return r;
		if (r == 1) {
			progress_say(&x->progress, "going on from %s after "
				     "epoch %lld, step %lld", file,
				     (long long)x->state.at.epoch,
				     (long long)x->state.at.step);
			return 0;
		}
		progress_say(&x->progress, "no checkpoint %s yet: starting "
			     "anew", file);
	}
	if (x->o.init_from)
		return model_load_raw(&x->model, x->o.init_from, e);
	model_draw(&x->model, (uint64_t)x->o.seed);
	return 0;
}

/* All ranks get rank 0's state. */
static int share_state(struct run *x, struct err *e)
{
	struct train_state *s = &x->state;
	size_t n = x->model.parameter_count;
	int r;

	r = ddp_broadcast(x->world, &s->at, sizeof s->at / sizeof(int64_t),
			  DDP_I64, 0);
	if (r == 0)
		r = ddp_broadcast(x->world, x->model.parameters, n, DDP_F32, 0);
	if (r == 0 && s->at.step)
		r = ddp_broadcast(x->world, s->m, n, DDP_F32, 0);
	if (r == 0 && s->at.step)
		r = ddp_broadcast(x->world, s->v, n, DDP_F32, 0);
	return run_from_ddp(r, e);
}

static void introduce(struct run *x)
{
	char kind[MODEL_KIND_MAX], n[3][32];
	const struct dataset *d = &x->data.set;

	if (!x->o.data)
		progress_say(&x->progress, "no MNIST at hand (--data DIR or "
			     "DDP_DATA): training on digits drawn by this "
			     "program");
	progress_say(&x->progress, "%s: %s parameters, %s + %s images, "
		     "%d rank%s x batch %d, %s",
		     model_kind(x->model.spec, kind),
		     progress_count(x->model.parameter_count, n[0]),
		     progress_count(d->train.count, n[1]),
		     progress_count(d->test.count, n[2]), x->world_size,
		     x->world_size == 1 ? "" : "s", x->batch, x->ops->device);
}

int run_set_up(struct run *x, struct err *e)
{
	int r = run_together(x, split_batch(x, e), e);

	if (r < 0)
		return r;
	r = open_data(x, e);
	if (r < 0)
		return r;
	r = run_together(x, open_model(x, e), e);
	if (r == 0)
		r = open_reducer(x, e);
	if (r < 0)
		return r;
	introduce(x);
	if (x->rank == 0) {
		r = first_state(x, e);
		if (r == 0)
			r = metrics_open(&x->metrics, x->o.log_dir,
					 (uint64_t)x->state.at.step, e);
	}
	r = run_together(x, r, e);
	return r < 0 ? r : share_state(x, e);
}

void run_release(struct run *x)
{
	ddp_reducer_free(x->reducer);
	train_state_release(&x->state);
	model_release(&x->model);
	ddp_sampler_release(&x->sampler);
	host_data_release(&x->data);
	free(x->index);
	free(x->labels);
}
