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
	struct host_data_want want = {
		x->o.synthetic ? DATA_SYNTHETIC : x->t->data, x->o.data,
		(int)x->o.image_size};
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

/* One feed for training, one for evaluation, and room for their orders. */
static int open_feeds(struct run *x, struct err *e)
{
	const struct dataset *d = &x->data.set;
	size_t most = (size_t)ddp_sampler_size(&x->sampler);
	struct feed_spec s = {
		.part = &d->train, .shape = d->shape,
		.seed = (uint64_t)x->o.seed, .batch = x->batch,
		.type = net_input_type(&x->spec, x->device),
	};
	int r;

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
	s.batch = RUN_EVAL_BATCH;
	return x->ops->feed_new(x->device, &s, &x->test_feed, e);
}

static int open_model(struct run *x, struct err *e)
{
	struct device_options o = {
		.threads = threads_wanted(x), .core = -1,
		.bf16 = !strcmp(x->o.precision, "bf16"),
	};
	uint64_t samples = x->data.set.train.count;
	int r;

	r = run_from_ddp(ddp_sampler_init(&x->sampler, samples, x->rank,
				      x->world_size, (uint64_t)x->o.seed, 1, 0),
		     e);
	if (r < 0)
		return r;
	if ((uint64_t)x->batch > ddp_sampler_size(&x->sampler))
		x->batch = (int)ddp_sampler_size(&x->sampler);
	x->spec = x->t->model;
	if (x->t->make_model)
		r = x->t->make_model(&x->spec, &x->o, &x->data.set.shape, e);
	if (r == 0)
		r = x->ops->open(&o, &x->device, e);
	if (r < 0)
		return r;
	x->ops->enter(x->device);
	r = open_feeds(x, e);
	if (r == 0)
		r = net_init(&x->net, &x->spec, x->device, x->feed,
			     x->batch, NET_TRAIN, e);
	if (r == 0)
		r = train_state_init(&x->state, &x->net, &x->t->optimizer, e);
	x->state.at.seed = x->o.seed;
	x->state.at.batch = x->o.batch;
	return r;
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
	size_t *counts = calloc((size_t)layers + 1, sizeof *counts), at;

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
		return net_load_raw(&x->net, x->o.init_from, e);
	return net_draw(&x->net, (uint64_t)x->o.seed, e);
}

/* All ranks get rank 0's state. */
static int share_state(struct run *x, struct err *e)
{
	struct train_state *s = &x->state;
	size_t n = x->net.arena;
	int r;

	r = ddp_broadcast(x->world, &s->at, sizeof s->at / sizeof(int64_t),
			  DDP_I64, 0);
	if (r == 0)
		r = ddp_broadcast(x->world, x->net.parameters, n, DDP_F32, 0);
	if (r == 0)
		r = ddp_broadcast(x->world, x->net.buffers, x->net.buffer_arena,
				  DDP_F32, 0);
	for (int i = 0; r == 0 && i < 2 && s->at.step; i++)
		if (s->moment[i])
			r = ddp_broadcast(x->world, s->moment[i], n, DDP_F32,
					  0);
	x->ops->params_changed(x->device);
	return run_from_ddp(r, e);
}

static void introduce(struct run *x)
{
	char kind[MODEL_KIND_MAX], n[3][32];
	const struct dataset *d = &x->data.set;

	if (!x->o.data && x->data.want.kind == DATA_MNIST)
		progress_say(&x->progress, "no MNIST at hand (--data DIR or "
			     "DDP_DATA): training on digits drawn by this "
			     "program");
	progress_say(&x->progress, "%s: %s parameters, %s + %s images, "
		     "%d rank%s x batch %d, %s",
		     model_kind(x->net.spec, kind),
		     progress_count(x->net.parameter_count, n[0]),
		     progress_count(d->train.count, n[1]),
		     progress_count(d->test.count, n[2]), x->world_size,
		     x->world_size == 1 ? "" : "s", x->batch, x->device->name);
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
	net_release(&x->net);
	if (x->device) {
		x->ops->feed_free(x->device, x->feed);
		x->ops->feed_free(x->device, x->test_feed);
		x->ops->close(x->device);
	}
	if (x->t->release_model)
		x->t->release_model(&x->spec);
	ddp_sampler_release(&x->sampler);
	host_data_release(&x->data);
	free(x->order);
	free(x->slot);
}
