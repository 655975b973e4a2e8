/* pipeline.c: the two stage threads, which pass micro-batches to each other,
 * and the caller's thread, which starts their tasks. */
#include "trainers/train/pipeline.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- Waiting for each other ---- */

static void pipeline_count_up(struct pipeline *p, int *counter)
{
	pthread_mutex_lock(&p->lock);
	++*counter;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

static void pipeline_wait_count(struct pipeline *p, const int *counter,
				int value)
{
	pthread_mutex_lock(&p->lock);
	while (*counter < value)
		pthread_cond_wait(&p->changed, &p->lock);
	pthread_mutex_unlock(&p->lock);
}

static void pipeline_set_head_busy(struct pipeline *p, int at_work)
{
	pthread_mutex_lock(&p->lock);
	p->head_at_work = at_work;
	pthread_mutex_unlock(&p->lock);
}

/* ---- A stage's thread: micro-batches ---- */

static int stage_begin_micro(struct stage *s, int m)
{
	int last = s->pipeline->spec.micros - 1;

	return net_accumulate(&s->net, last == 0 ? NET_WHOLE :
			      m == 0 ? NET_FIRST :
			      m == last ? NET_LAST : NET_MIDDLE, &s->e);
}

static void stage_load_batch(struct stage *s, int m, struct tensor *in)
{
	const struct pipeline *p = s->pipeline;
	struct step_args args = p->args;

	args.first += (uint64_t)m * (uint64_t)p->spec.n;
	p->spec.ops->set_step(s->device, &args);
	p->spec.ops->load_batch(s->loader, p->spec.n, in);
}

/* Runs all micro-batches forward, then each backward when its gradient arrives.
 * Each has its own plan, which keeps its activations until then. */
static int stage_step_head(struct stage *s)
{
	struct pipeline *p = s->pipeline;
	const struct stage *tail = &p->stage[PIPELINE_TAIL];
	const struct ops *ops = p->spec.ops;
	int r = 0;

	for (int m = 0; m < p->spec.micros; m++) {
		pipeline_set_head_busy(p, 1);
		stage_load_batch(s, m, s->plan[m]->in);
		net_forward(s->plan[m]);
		pipeline_set_head_busy(p, 0);
		pipeline_count_up(p, &p->forwarded);
	}
	for (int m = 0; m < p->spec.micros; m++) {
		struct tensor *dy = s->plan[m]->d_out;

		pipeline_wait_count(p, &p->returned, m + 1);
		pipeline_set_head_busy(p, 1);
		ops->copy(s->device, dy->data, tail->device,
			  tail->plan[m]->d_in->data, dy->bytes);
		if (r == 0)
			r = stage_begin_micro(s, m);
		if (r == 0)
			net_backward(s->plan[m]);
		pipeline_set_head_busy(p, 0);
	}
	return r;
}

/* Runs each micro-batch forward and backward at once, so that the head gets its
 * gradient early. */
static int stage_step_tail(struct stage *s)
{
	struct pipeline *p = s->pipeline;
	const struct stage *head = &p->stage[PIPELINE_HEAD];
	const struct ops *ops = p->spec.ops;
	struct loss_spec loss = {s->net.spec->loss, 0,
				 1 / (float)p->spec.micros};
	int r = 0;

	for (int m = 0; m < p->spec.micros; m++) {
		struct plan *plan = s->plan[m];

		pipeline_wait_count(p, &p->forwarded, m + 1);
		pthread_mutex_lock(&p->lock);
		p->both += (uint64_t)p->head_at_work;
		pthread_mutex_unlock(&p->lock);
		stage_load_batch(s, m, NULL);
		ops->copy(s->device, plan->in->data, head->device,
			  head->plan[m]->out->data, plan->in->bytes);
		if (r == 0)
			r = stage_begin_micro(s, m);
		if (r == 0) {
			net_forward(plan);
			net_loss(plan, &loss);
			net_backward(plan);
		}
		pipeline_count_up(p, &p->returned);
	}
	return r;
}

/* ---- A stage's thread: its tasks ---- */

static size_t stage_staged_bytes(const struct stage *s)
{
	return (s->net.arena + NET_LOSS_VALUES) * sizeof(float);
}

static void pipeline_on_gradient_ready(void *arg, int layer)
{
	struct stage *s = arg;
	struct pipeline *p = s->pipeline;

	pthread_mutex_lock(&p->lock);
	s->ready[s->ready_count++] = s->reducer_index[layer];
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

static int stage_open_plans(struct stage *s)
{
	const struct pipeline_spec *spec = &s->pipeline->spec;
	int r = net_plan(&s->net, spec->n, NET_TRAIN, &s->plan[0], &s->e);

	for (int m = 1; r == 0 && m < spec->micros; m++)
		r = net_plan_new(&s->net, spec->n, NET_TRAIN, &s->plan[m],
				 &s->e);
	return r;
}

static int stage_open(struct stage *s)
{
	struct pipeline *p = s->pipeline;
	const struct pipeline_spec *spec = &p->spec;
	const struct model_spec *model = &spec->model[s->which];
	struct loader_spec loader = {.part = &spec->part, .shape = spec->shape,
				     .batch = spec->n, .type = TENSOR_F32};
	size_t layers = (size_t)model->layer_count;
	void *moment;
	int r;

	s->plan = calloc((size_t)spec->micros, sizeof(struct plan *));
	s->reducer_index = calloc(layers + 1, sizeof(*s->reducer_index));
	s->ready = calloc(layers + 1, sizeof(*s->ready));
	if (!s->plan || !s->reducer_index || !s->ready)
		return err_no_memory(&s->e, "a pipeline");
	r = spec->ops->open(&spec->device[s->which], &s->device, &s->e);
	if (r < 0)
		return r;
	spec->ops->enter(s->device);
	r = spec->ops->loader_new(s->device, &loader, &s->loader, &s->e);
	if (r < 0)
		return r;
	s->net.wants_d_in = s->which == PIPELINE_TAIL;
	r = net_init(&s->net, model, s->device,
		     s->which == PIPELINE_HEAD ? s->loader : NULL, spec->n,
		     NET_TRAIN, &s->e);
	if (r == 0)
		r = stage_open_plans(s);
	if (r == 0)
		r = net_init_weights(&s->net, spec->seed + (uint64_t)s->which,
				     &s->e);
	if (r == 0)
		r = spec->ops->alloc(s->device, stage_staged_bytes(s), &moment,
				     &s->e);
	if (r)
		return r;
	s->moment = moment;
	s->net.on_ready = pipeline_on_gradient_ready;
	s->net.arg = s;
	if (s->which == PIPELINE_TAIL)
		s->net.labels = s->loader->labels;
	return 0;
}

static int stage_set_order(struct stage *s)
{
	const struct pipeline *p = s->pipeline;

	return p->spec.ops->loader_order(s->loader, p->order.sample,
					 p->order.count, p->order.epoch, &s->e);
}

static int stage_step(struct stage *s)
{
	const struct ops *ops = s->pipeline->spec.ops;
	int r = s->which == PIPELINE_HEAD ? stage_step_head(s)
					  : stage_step_tail(s);

	if (r == 0)
		r = ops->wait(s->device, &s->e);
	if (r == 0 && s->staged)
		ops->get(s->device, s->staged, s->net.gradients,
			 stage_staged_bytes(s));
	return r;
}

/* Reads the averaged gradients and loss. */
static int stage_read_average(struct stage *s)
{
	struct pipeline *p = s->pipeline;
	const struct ops *ops = p->spec.ops;

	if (s->staged)
		ops->put(s->device, s->net.gradients, s->staged,
			 stage_staged_bytes(s));
	if (s->which == PIPELINE_TAIL)
		ops->get(s->device, &p->loss, s->net.loss, sizeof(p->loss));
	return 0;
}

static int stage_update(struct stage *s)
{
	struct pipeline *p = s->pipeline;
	struct update u = {
		.how = p->spec.optimizer, .count = s->net.arena,
		.grad = s->net.gradients, .scale = 1,
		.param = s->net.parameters, .moment = {s->moment, NULL},
	};

	p->spec.ops->set_step(s->device, &p->args);
	p->spec.ops->update(s->device, &u);
	return p->spec.ops->wait(s->device, &s->e);
}

static int stage_close(struct stage *s)
{
	const struct ops *ops = s->pipeline->spec.ops;

	for (int m = 1; s->plan && m < s->pipeline->spec.micros; m++)
		if (s->plan[m])
			net_plan_free(s->plan[m]);
	if (s->device) {
		ops->free(s->device, s->moment);
		net_release(&s->net);
		ops->loader_free(s->device, s->loader);
		ops->close(s->device);
	}
	free(s->plan);
	free(s->reducer_index);
	free(s->ready);
	free(s->staged);
	return 0;
}

static int (*const tasks[])(struct stage *s) = {
	[PIPELINE_OPEN] = stage_open, [PIPELINE_ORDER] = stage_set_order,
	[PIPELINE_STEP] = stage_step,
	[PIPELINE_READ] = stage_read_average, [PIPELINE_UPDATE] = stage_update,
	[PIPELINE_CLOSE] = stage_close,
};

static void *stage_thread(void *arg)
{
	struct stage *s = arg;
	struct pipeline *p = s->pipeline;
	enum pipeline_task task;

	do {
		pthread_mutex_lock(&p->lock);
		while (p->turn == s->done)
			pthread_cond_wait(&p->changed, &p->lock);
		task = p->task;
		pthread_mutex_unlock(&p->lock);
		s->r = tasks[task](s);
		pthread_mutex_lock(&p->lock);
		s->done++;
		pthread_cond_broadcast(&p->changed);
		pthread_mutex_unlock(&p->lock);
	} while (task != PIPELINE_CLOSE);
	return NULL;
}

/* ---- The caller's thread ---- */

static void pipeline_start_task(struct pipeline *p, enum pipeline_task task)
{
	pthread_mutex_lock(&p->lock);
	p->task = task;
	p->turn++;
	pthread_cond_broadcast(&p->changed);
	pthread_mutex_unlock(&p->lock);
}

static int pipeline_is_idle(const struct pipeline *p)
{
	for (int i = 0; i < PIPELINE_STAGES; i++)
		if (p->stage[i].started && p->stage[i].done < p->turn)
			return 0;
	return 1;
}

static void pipeline_wait_idle(struct pipeline *p)
{
	pthread_mutex_lock(&p->lock);
	while (!pipeline_is_idle(p))
		pthread_cond_wait(&p->changed, &p->lock);
	pthread_mutex_unlock(&p->lock);
}

/* Runs a task on both stages; returns the first stage's error. */
static int pipeline_run_task(struct pipeline *p, enum pipeline_task task,
			     struct err *e)
{
	pipeline_start_task(p, task);
	pipeline_wait_idle(p);
	for (int i = 0; i < PIPELINE_STAGES; i++)
		if (p->stage[i].r < 0) {
			*e = p->stage[i].e;
			return p->stage[i].r;
		}
	return 0;
}

int pipeline_init(struct pipeline *p, const struct pipeline_spec *spec,
		  struct err *e)
{
	memset(p, 0, sizeof(*p));
	p->spec = *spec;
	pthread_mutex_init(&p->lock, NULL);
	pthread_cond_init(&p->changed, NULL);
	for (int i = 0; i < PIPELINE_STAGES; i++) {
		struct stage *s = &p->stage[i];
		int r;

		s->pipeline = p;
		s->which = i;
		r = pthread_create(&s->thread, NULL, stage_thread, s);
		if (r)
			return err_set(e, -r, "cannot start a thread: %s",
				       strerror(r));
		s->started = 1;
	}
	return pipeline_run_task(p, PIPELINE_OPEN, e);
}

void pipeline_release(struct pipeline *p)
{
	if (!p->spec.ops)
		return;
	for (int i = 0; i < PIPELINE_STAGES; i++)
		ddp_reducer_free(p->stage[i].reducer);
	/* after a failed average the step may still be running */
	pipeline_wait_idle(p);
	pipeline_start_task(p, PIPELINE_CLOSE);
	for (int i = 0; i < PIPELINE_STAGES; i++)
		if (p->stage[i].started)
			pthread_join(p->stage[i].thread, NULL);
	pthread_cond_destroy(&p->changed);
	pthread_mutex_destroy(&p->lock);
}

static int pipeline_from_ddp(int r, struct err *e)
{
	return r < 0 ? err_set(e, r, "%s", ddp_last_error()) : 0;
}

/* Each layer is one parameter of the reducer; the loss is the last. */
static int pipeline_join_stage(struct pipeline *p, struct stage *s,
			       struct err *e)
{
	int layers = s->net.spec->layer_count, n = 0, r;
	size_t *counts, at;

	if (strcmp(p->spec.ops->kind, "cpu") != 0) {
		s->staged = calloc(1, stage_staged_bytes(s));
		return s->staged ? 0 : err_no_memory(e, "gradients");
	}
	counts = calloc((size_t)layers + 1, sizeof(*counts));
	for (int i = 0; counts && i <= layers; i++) {
		net_slice(&s->net, i, &at, &counts[n]);
		s->reducer_index[i] = n;
		n += counts[n] > 0;
	}
	r = ddp_reducer_new(&s->reducer, p->spec.comm[s->which],
			    s->net.gradients, DDP_F32, counts, n, NULL);
	free(counts);
	return pipeline_from_ddp(r, e);
}

int pipeline_join(struct pipeline *p, struct err *e)
{
	int r = 0;

	for (int i = 0; r == 0 && i < PIPELINE_STAGES; i++)
		r = pipeline_join_stage(p, &p->stage[i], e);
	return r;
}

int pipeline_order(struct pipeline *p, const uint32_t *order, size_t count,
		   uint64_t epoch, struct err *e)
{
	p->order.sample = order;
	p->order.count = count;
	p->order.epoch = epoch;
	return pipeline_run_task(p, PIPELINE_ORDER, e);
}

/* The next complete gradient that its reducer was not given; -1: none. */
static int pipeline_next_ready(struct pipeline *p, struct stage **which)
{
	for (int i = PIPELINE_STAGES - 1; i >= 0; i--) {
		struct stage *s = &p->stage[i];

		*which = s;
		if (s->given < s->ready_count)
			return s->ready[s->given++];
	}
	return -1;
}

/* Passes complete gradients to both reducers while the threads compute. */
static int pipeline_notify_reducers(struct pipeline *p)
{
	struct stage *s;
	int r = 0, slot, ended = 0;

	while (!ended) {
		pthread_mutex_lock(&p->lock);
		while ((slot = pipeline_next_ready(p, &s)) < 0 &&
		       !pipeline_is_idle(p))
			pthread_cond_wait(&p->changed, &p->lock);
		ended = slot < 0;
		pthread_mutex_unlock(&p->lock);
		if (slot >= 0 && r == 0 && s->reducer)
			r = ddp_reducer_ready(s->reducer, slot);
	}
	return r;
}

static int pipeline_reduce(struct pipeline *p, struct stage *s)
{
	if (s->reducer)
		return ddp_reducer_finish(s->reducer);
	return ddp_all_reduce(p->spec.comm[s->which], s->staged, s->staged,
			      stage_staged_bytes(s) / sizeof(float), DDP_F32,
			      DDP_AVG);
}

static int pipeline_average(struct pipeline *p, struct err *e)
{
	int r = 0;

	for (int i = 0; r == 0 && i < PIPELINE_STAGES; i++) {
		struct stage *s = &p->stage[i];

		s->ready_count = s->given = 0;
		if (s->reducer)
			r = ddp_reducer_begin(s->reducer, 1);
	}
	p->forwarded = p->returned = 0;
	pipeline_start_task(p, PIPELINE_STEP);
	if (r == 0)
		r = pipeline_notify_reducers(p);
	for (int i = 0; i < PIPELINE_STAGES; i++)
		if (r == 0 && p->stage[i].r < 0) {
			*e = p->stage[i].e;
			return p->stage[i].r;
		}
	/* the tails first, on every rank: they are complete first */
	for (int i = PIPELINE_STAGES - 1; r == 0 && i >= 0; i--)
		r = pipeline_reduce(p, &p->stage[i]);
	return pipeline_from_ddp(r, e);
}

int pipeline_step(struct pipeline *p, const struct step_args *args,
		  struct err *e)
{
	int r;

	p->args = *args;
	r = pipeline_average(p, e);
	if (r == 0)
		r = pipeline_run_task(p, PIPELINE_READ, e);
	if (r == 0 && !isfinite(p->loss))
		r = err_set(e, ERR_DATA, "the loss is %g at step %llu: "
			    "training has diverged; try a --lr smaller than "
			    "%g", (double)p->loss,
			    (unsigned long long)args->step, args->lr);
	return r == 0 ? pipeline_run_task(p, PIPELINE_UPDATE, e) : r;
}
