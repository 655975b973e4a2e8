/* nets.h: models with their data on a device, for programs that compare or time
 * kinds of devices. Any failure ends the program. */
#ifndef TESTS_NETS_H
#define TESTS_NETS_H

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/trainers/net_step.h"
#include "trainers/models/net.h"
#include "trainers/models/resnet_layers.h"

#define DIE(...)                                                              \
	(fprintf(stderr, __VA_ARGS__), fprintf(stderr, "\n"), exit(1))

static inline void must(int rc, const struct err *e)
{
	if (rc < 0)
		DIE("%d: %s", rc, e->text);
}

static inline void *memory(size_t bytes)
{
	void *p = calloc(1, bytes ? bytes : 1);

	if (!p)
		DIE("no memory");
	return p;
}

/* Pseudo-random images, the same in each run. */
struct images {
	struct dataset_part part;
	uint32_t *order;
};

static inline struct images images_new(const struct image_shape *s,
				       uint32_t count)
{
	size_t size = (size_t)s->channels * (size_t)s->height *
		      (size_t)s->width;
	uint8_t *pixels = memory(count * size);
	uint32_t *labels = memory(count * sizeof(*labels));
	struct images i = {.part = {.count = count, .samples.size = size}};
	uint32_t x = 12345;

	for (size_t k = 0; k < count * size; k++) {
		x = x * 1664525 + 1013904223;
		pixels[k] = (uint8_t)(x >> 24);
	}
	i.order = memory(count * sizeof(*i.order));
	for (uint32_t k = 0; k < count; k++) {
		/* of 1000 classes, some beyond a byte */
		labels[k] = k * 211 % (uint32_t)s->classes;
		i.order[k] = (k * 5 + 3) % count;
	}
	i.part.samples.pixels = pixels;
	i.part.labels = labels;
	return i;
}

static inline void images_free(struct images *i)
{
	free((void *)i->part.samples.pixels);
	free((void *)i->part.labels);
	free(i->order);
}

/* A model on a device, its data and an optimizer's moments. */
struct bed {
	const struct ops *ops;
	struct device *d;
	struct loader *loader;
	struct net net;
	struct plan *plan;
	float *moment[2];
	struct loss_scaler *scaler; /* on the device; NULL: none */
};

static inline void bed_init(struct bed *b, struct device *d,
			    const struct model_spec *spec,
			    const struct images *images, int n, int augment)
{
	struct loader_spec f = {
		.part = &images->part, .shape = spec->input, .batch = n,
		.augment = augment, .seed = 3, .type = net_input_type(spec, d)};
	struct err e = ERR_INIT;

	memset(b, 0, sizeof(*b));
	b->ops = d->ops;
	b->d = d;
	must(b->ops->loader_new(d, &f, &b->loader, &e), &e);
	must(b->ops->loader_order(b->loader, images->order, images->part.count,
				  2, &e),
	     &e);
	b->net.wants_d_in = 1;
	must(net_init(&b->net, spec, d, b->loader, n, NET_TRAIN, &e), &e);
	must(net_plan(&b->net, n, NET_TRAIN, &b->plan, &e), &e);
	for (int i = 0; i < 2; i++) {
		void *p;

		must(b->ops->alloc(d, b->net.arena * sizeof(float), &p, &e),
		     &e);
		b->moment[i] = p;
	}
}

static inline void bed_release(struct bed *b)
{
	for (int i = 0; i < 2; i++)
		b->ops->free(b->d, b->moment[i]);
	b->ops->free(b->d, b->scaler);
	net_release(&b->net);
	b->ops->loader_free(b->d, b->loader);
}

/* From now on the loss is scaled, by this first. */
static inline void bed_scale_loss(struct bed *b, float scale)
{
	struct loss_scaler first = loss_scaler_new(scale);
	struct err e = ERR_INIT;
	void *p = b->scaler;

	if (!p)
		must(b->ops->alloc(b->d, sizeof(first), &p, &e), &e);
	b->scaler = p;
	b->ops->put(b->d, p, &first, sizeof(first));
}

static inline struct loss_scaler bed_scaler(struct bed *b)
{
	struct loss_scaler now;

	b->ops->get(b->d, &now, b->scaler, sizeof(now));
	return now;
}

static inline void bed_set_step(struct bed *b, uint64_t step, double lr)
{
	uint64_t n = (uint64_t)b->plan->n;
	uint64_t batches = b->loader->spec.part->count / n;

	b->ops->set_step(b->d, &(struct step_args){
		step, (step - 1) % batches * n, lr});
}

/* The part of a step that may be recorded. */
static inline void bed_step(struct bed *b, const struct loss_spec *loss,
			    const struct optimizer *how)
{
	struct update u = {
		.how = *how, .count = b->net.arena, .grad = b->net.gradients,
		.scale = 1, .param = b->net.parameters,
		.moment = {b->moment[0], b->moment[1]}, .loss = b->net.loss,
		.scaler = b->scaler};
	struct loss_spec scaled = *loss;

	scaled.scaler = b->scaler;
	net_step(b->plan, &scaled);
	b->ops->update(b->d, &u);
}

static inline void bed_wait(struct bed *b)
{
	struct err e = ERR_INIT;

	must(b->ops->wait(b->d, &e), &e);
}

static inline float bed_loss(struct bed *b)
{
	float loss;

	b->ops->get(b->d, &loss, b->net.loss, sizeof(loss));
	bed_wait(b);
	return loss;
}

#endif
