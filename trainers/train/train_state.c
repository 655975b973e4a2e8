/* train_state.c: the sections of a checkpoint. All are in PyTorch's layout, so
 * that another device can continue from them. */
#include "trainers/train/train_state.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker-sdk/ddp.h"

enum { SECTIONS = 7, FIXED = 2 };

int train_state_init(struct train_state *s, struct net *net,
		     const struct optimizer *optimizer, struct err *e)
{
	size_t size = net->arena * sizeof(float);
	int moments = optimizer->kind == OPTIMIZER_ADAM ? 2 : 1, r = 0;

	memset(s, 0, sizeof(*s));
	s->net = net;
	s->optimizer = optimizer->kind;
	for (int i = 0; r == 0 && i < moments; i++) {
		void *p;

		r = net->ops->alloc(net->device, size, &p, e);
		s->moment[i] = r < 0 ? NULL : p;
	}
	return r;
}

int train_state_scale_loss(struct train_state *s, float scale, struct err *e)
{
	struct loss_scaler first = loss_scaler_new(scale);
	const struct net *net = s->net;
	void *p;
	int r = net->ops->alloc(net->device, sizeof(first), &p, e);

	if (r < 0)
		return r;
	s->scaler = p;
	net->ops->put(net->device, p, &first, sizeof(first));
	return 0;
}

struct loss_scaler train_state_scaler(const struct train_state *s)
{
	struct loss_scaler now = {.scale = 0};

	if (s->scaler)
		s->net->ops->get(s->net->device, &now, s->scaler, sizeof(now));
	return now;
}

void train_state_release(struct train_state *s)
{
	if (!s->net)
		return;
	s->net->ops->free(s->net->device, s->scaler);
	for (int i = 0; i < 2; i++)
		s->net->ops->free(s->net->device, s->moment[i]);
	memset(s, 0, sizeof(*s));
}

/* The state in host memory, as it is in a file. */
struct image {
	struct train_position position;
	struct train_about about;
	struct loss_scaler scaler;
	float *values; /* parameters, moments, running statistics */
	struct ddp_section section[SECTIONS];
	int count;
};

static int train_image_init(struct image *m, const struct train_state *s,
			    struct err *e)
{
	static const char *const names[2][2] = {
		[OPTIMIZER_ADAM] = {"adam.m", "adam.v"},
		[OPTIMIZER_SGD] = {"sgd.momentum", ""},
	};
	size_t n = s->net->parameter_count, buffers = net_buffer_count(s->net);
	float *p = calloc(3 * n + buffers, sizeof(*p));

	if (!p)
		return err_no_memory(e, "a checkpoint of %zu parameters", n);
	m->values = p;
	m->position = s->position;
	m->about = s->about;
	m->count = FIXED;
	m->section[0] = (struct ddp_section){"position", &m->position,
					     sizeof(m->position)};
	m->section[1] = (struct ddp_section){"about", &m->about,
					     sizeof(m->about)};
	m->section[m->count++] = (struct ddp_section){"parameters", p,
						      n * sizeof(*p)};
	p += n;
	for (int i = 0; i < 2; i++)
		if (s->moment[i]) {
			m->section[m->count++] = (struct ddp_section){
				names[s->optimizer][i], p, n * sizeof(*p)};
			p += n;
		}
	if (buffers)
		m->section[m->count++] = (struct ddp_section){
			"buffers", p, buffers * sizeof(*p)};
	/* the last section; not counted if there is no scaler */
	m->scaler = train_state_scaler(s);
	m->section[m->count] = (struct ddp_section){
		"loss scaler", &m->scaler, sizeof(m->scaler)};
	m->count += s->scaler != NULL;
	return 0;
}

/* Copies from the sections to the device (into), or back. */
static void train_image_copy(struct train_state *s, struct image *m, int into)
{
	float *arena[3] = {s->net->parameters, s->moment[0], s->moment[1]};
	int k = FIXED;

	for (int i = 0; i < 3; i++) {
		if (!arena[i])
			continue;
		if (into)
			net_put(s->net, arena[i], m->section[k++].data);
		else
			net_get(s->net, arena[i], m->section[k++].data);
	}
	if (net_buffer_count(s->net)) {
		if (into)
			net_put_buffers(s->net, m->section[k++].data);
		else
			net_get_buffers(s->net, m->section[k++].data);
	}
	if (k == m->count || !s->scaler)
		return;
	if (into)
		s->net->ops->put(s->net->device, s->scaler, &m->scaler,
				 sizeof(m->scaler));
	else
		m->scaler = train_state_scaler(s);
}

int train_state_save(struct train_state *s, const char *path, struct err *e)
{
	char kind[MODEL_KIND_MAX];
	struct image m;
	int r = train_image_init(&m, s, e);

	if (r < 0)
		return r;
	train_image_copy(s, &m, 0);
	r = ddp_checkpoint_save(path, model_kind(s->net->spec, kind), m.section,
				m.count);
	if (r < 0)
		err_set(e, r, "%s", ddp_last_error());
	free(m.values);
	return r;
}

static int train_state_check_position(const struct train_state *s,
				      const struct train_position *at,
				      const char *path, uint64_t samples,
				      struct err *e)
{
	if (at->seed != s->position.seed)
		return err_set(e, ERR_USAGE,
			       "--resume: %s belongs to a run with --seed "
			       "%lld, but this one has %lld, which changes the "
			       "order of samples; give the same seed",
			       path, (long long)at->seed,
			       (long long)s->position.seed);
	if (at->epoch < 0 || at->step < 0 || at->sample < 0 ||
	    (uint64_t)at->sample > 2 * samples + (1u << 20))
		return err_set(e, ERR_DATA, "--resume: the position in %s is "
			       "damaged (epoch %lld)", path,
			       (long long)at->epoch);
	return 0;
}

/* Reads the file into m. It may have been written by a run with another
 * precision, so with a scaler where m has none, or without. */
static int train_image_read(struct image *m, const struct train_state *s,
			    const char *path, struct err *e)
{
	char kind[MODEL_KIND_MAX];
	int r = ddp_checkpoint_load(path, model_kind(s->net->spec, kind),
				    m->section, m->count);

	if (r < 0)
		err_set(e, r, "%s", ddp_last_error());
	if (r == ERR_DATA &&
	    ddp_checkpoint_load(path, kind, m->section,
				m->count + (s->scaler ? -1 : 1)) == 0)
		return 0;
	return r;
}

int train_state_load(struct train_state *s, const char *path, uint64_t samples,
		     struct train_about *was, struct err *e)
{
	struct image m;
	int r = train_image_init(&m, s, e);

	if (r < 0)
		return r;
	r = train_image_read(&m, s, path, e);
	if (r == 0)
		r = train_state_check_position(s, &m.position, path, samples,
					       e);
	if (r == 0) {
		train_image_copy(s, &m, 1);
		s->position = m.position;
		*was = m.about;
		was->device[sizeof(was->device) - 1] = 0;
	}
	free(m.values);
	return r == -ENOENT ? 0 : r < 0 ? r : 1;
}

int train_state_share(struct train_state *s, struct ddp_comm *world,
		      struct err *e)
{
	struct image m;
	int r = train_image_init(&m, s, e);

	if (r < 0)
		return r;
	if (ddp_rank(world) == 0)
		train_image_copy(s, &m, 0);
	r = ddp_broadcast(world, &m.position, sizeof(m.position), DDP_U8, 0);
	/* before the first step moments are zero on all ranks */
	for (int k = FIXED; r == 0 && k < m.count; k++)
		if (m.position.step || !strchr(m.section[k].name, '.'))
			r = ddp_broadcast(world, m.section[k].data,
					  m.section[k].size, DDP_U8, 0);
	if (r < 0)
		err_set(e, r, "%s", ddp_last_error());
	if (r == 0 && ddp_rank(world) != 0) {
		train_image_copy(s, &m, 1);
		s->position = m.position;
	}
	free(m.values);
	return r;
}

/* ---- Differences between ranks ---- */

/* The layers' parts of an arena in host memory. */
static int train_state_spans(const struct net *net, const float *arena,
			     struct ddp_span *spans)
{
	for (int i = 0; i < net->spec->layer_count; i++) {
		size_t at, count;

		net_slice(net, i, &at, &count);
		spans[i] = (struct ddp_span){(void *)(arena + at), count,
					     DDP_F32};
	}
	return net->spec->layer_count;
}

/* Collective: in which layer the ranks differ. */
static int train_state_find_layer(const struct train_state *s,
				  struct ddp_comm *world,
				  const struct ddp_span *spans, int n,
				  const char *what, struct err *e)
{
	struct err whole;
	int i = 0, r = 0;

	err_set(&whole, ERR_DATA, "%s", ddp_last_error());
	while (r == 0 && i < n)
		r = ddp_check_replicas(world, &spans[i++], 1);
	if (r < 0 && r != ERR_DATA)
		return err_set(e, r, "%s", ddp_last_error());
	return err_set(e, ERR_DATA, "step %lld: the %s of layer %s are not the "
		       "same on all ranks: %s", (long long)s->position.step,
		       what, net_layer_name(s->net, i - 1), whole.text);
}

static int train_state_check_arena(const struct train_state *s,
				   struct ddp_comm *world, const float *arena,
				   float *room, const char *what, struct err *e)
{
	const struct net *net = s->net;
	struct ddp_span *spans = calloc((size_t)net->spec->layer_count + 1,
					sizeof(*spans));
	int n, r;

	if (!spans)
		return err_no_memory(e, "a check of %d layers",
				     net->spec->layer_count);
	net->ops->get(net->device, room, arena, net->arena * sizeof(*room));
	n = train_state_spans(net, room, spans);
	r = ddp_check_replicas(world, spans, n);
	if (r == ERR_DATA)
		r = train_state_find_layer(s, world, spans, n, what, e);
	else if (r < 0)
		err_set(e, r, "%s", ddp_last_error());
	free(spans);
	return r;
}

int train_state_check(const struct train_state *s, struct ddp_comm *world,
		      struct err *e)
{
	const float *arena[3] = {s->net->parameters, s->moment[0],
				 s->moment[1]};
	float *room = malloc((s->net->arena + 1) * sizeof(*room));
	int r = room ? s->net->ops->wait(s->net->device, e)
		     : err_no_memory(e, "a check of %zu parameters",
				     s->net->arena);

	for (int i = 0; r == 0 && i < 3; i++)
		if (arena[i])
			r = train_state_check_arena(
				s, world, arena[i], room,
				i ? "optimizer's moments" : "parameters", e);
	free(room);
	return r;
}

/* ---- Differences between two runs ---- */

struct list {
	char *out;
	size_t size, used;
};

static void changes_add(struct list *l, const char *fmt, ...)
	__attribute__((format(printf, 2, 3)));
static void changes_add(struct list *l, const char *fmt, ...)
{
	va_list ap;
	int n;

	if (l->used && l->used < l->size)
		l->used += (size_t)snprintf(l->out + l->used,
					    l->size - l->used, "; ");
	if (l->used >= l->size)
		return;
	va_start(ap, fmt);
	n = vsnprintf(l->out + l->used, l->size - l->used, fmt, ap);
	va_end(ap);
	l->used += n > 0 ? (size_t)n : 0;
}

static void changes_in_place(struct list *l, const struct train_about *was,
			     const struct train_about *now)
{
	if (was->world_size != now->world_size)
		changes_add(l,
			    "%lld rank%s instead of %lld (sums are rounded "
			    "differently)",
			    (long long)now->world_size,
			    now->world_size == 1 ? "" : "s",
			    (long long)was->world_size);
	if (strcmp(was->device, now->device) != 0)
		changes_add(l, "%s instead of %s (rounds differently)",
			    now->device, was->device);
	if (was->precision != now->precision)
		changes_add(l, "--precision %s instead of %s",
			    precision_name(now->precision),
			    precision_name(was->precision));
}

static void changes_in_batch(struct list *l, const struct train_about *was,
			     const struct train_about *now)
{
	if (was->batch != now->batch)
		changes_add(l,
			    "--batch-size %lld instead of %lld (changes the "
			    "number of steps per epoch)",
			    (long long)now->batch, (long long)was->batch);
	if (was->sync_bn != now->sync_bn)
		changes_add(l, "batch normalisation by the statistics of %s",
			    now->sync_bn ? "all ranks" : "each rank");
	else if (was->micro != now->micro && !now->sync_bn)
		changes_add(l,
			    "%lld samples per rank at once instead of %lld "
			    "(changes batch normalisation)",
			    (long long)now->micro, (long long)was->micro);
}

static void changes_in_number(struct list *l, const char *option, double was,
			      double now)
{
	if (was != now)
		changes_add(l, "%s %g instead of %g", option, now, was);
}

static void changes_in_crop(struct list *l, const struct train_about *was,
			    const struct train_about *now)
{
	const struct train_about *both[] = {now, was};
	char size[2][32];

	for (int i = 0; i < 2; i++)
		if (both[i]->crop_size)
			snprintf(size[i], sizeof(size[i]), "--crop-size %lld",
				 (long long)both[i]->crop_size);
		else
			snprintf(size[i], sizeof(size[i]), "the images' size");
	if (was->crop_size != now->crop_size)
		changes_add(l, "%s instead of %s", size[0], size[1]);
}

const char *train_about_changes(const struct train_about *was,
				const struct train_about *now, char *out,
				size_t size)
{
	struct list l = {out, size, 0};

	out[0] = 0;
	changes_in_place(&l, was, now);
	changes_in_batch(&l, was, now);
	changes_in_number(&l, "--lr", was->lr, now->lr);
	changes_in_number(&l, "--momentum", was->momentum, now->momentum);
	changes_in_number(&l, "--weight-decay", was->weight_decay,
			  now->weight_decay);
	changes_in_number(&l, "--label-smoothing", was->smoothing,
			  now->smoothing);
	if (was->nesterov != now->nesterov)
		changes_add(&l, "with%s Nesterov's momentum",
			    now->nesterov ? "" : "out");
	if (was->augment != now->augment)
		changes_add(&l, "with%s augmentation%s",
			    now->augment ? "" : "out",
			    now->augment == AUGMENT_RESIZE
				    ? " by --crop random-resized"
			    : was->augment == AUGMENT_RESIZE && now->augment
				    ? " by --crop shift" : "");
	changes_in_crop(&l, was, now);
	if (was->schedule != now->schedule)
		changes_add(&l, "another --schedule");
	else if ((was->total != now->total || was->warmup != now->warmup) &&
		 (now->schedule != SCHEDULE_CONSTANT || now->warmup ||
		  was->warmup))
		changes_add(&l, "a schedule over %lld steps instead of %lld",
			    (long long)now->total, (long long)was->total);
	return out;
}
