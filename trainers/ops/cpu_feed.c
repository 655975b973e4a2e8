/* cpu_feed.c: batches on the CPU: bytes become scaled values, in the order of
 * the epoch. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trainers/ops/cpu.h"

struct cpu_feed {
	struct feed base;
	struct cpu_device *device;
	uint32_t *order; /* [count] */
	size_t count;
	uint64_t epoch;
	uint8_t *labels; /* [batch] */
	int exact;       /* x / 255 and nothing else */
};

/* x / 255 rounded as a division rounds it, for the price of two products: hi is
 * 1/255 cut to 16 bits, so x * hi is exact, and only the sum rounds. */
MULTIVERSION
static void scale_pixels(size_t count, const uint8_t *restrict in,
			 float *restrict out)
{
	const float hi = 0x1.01p-8f;
	const float lo = (float)(1.0 / 255.0 - 0x1.01p-8);

	for (size_t i = 0; i < count; i++) {
		float x = (float)in[i];

		out[i] = x * hi + x * lo;
	}
}

MULTIVERSION
static void scale_channel(size_t count, float mean, float std,
			  const uint8_t *restrict in, float *restrict out)
{
	for (size_t i = 0; i < count; i++)
		out[i] = ((float)in[i] / 255.0f - mean) / std;
}

int cpu_feed_new(struct device *d, const struct feed_spec *s, struct feed **out,
		 struct err *e)
{
	const struct image_shape *shape = &s->shape;
	struct cpu_feed *f = calloc(1, sizeof *f);

	if (!f)
		return err_set(e, -ENOMEM, "no memory for batches");
	f->base.spec = *s;
	f->device = (struct cpu_device *)d;
	f->labels = calloc((size_t)s->batch, 1);
	f->base.labels = f->labels;
	f->base.in = (struct tensor){
		.c = shape->channels, .h = shape->height, .w = shape->width,
		.plain = 1,
	};
	f->exact = 1;
	for (int i = 0; i < shape->channels; i++)
		f->exact &= shape->mean[i] == 0.0f && shape->std[i] == 1.0f;
	*out = &f->base;
	if (!f->labels) {
		cpu_feed_free(d, &f->base);
		return err_set(e, -ENOMEM, "no memory for batches of %d",
			       s->batch);
	}
	return 0;
}

void cpu_feed_free(struct device *d, struct feed *feed)
{
	struct cpu_feed *f = (struct cpu_feed *)feed;

	if (!f)
		return;
	free(f->order);
	free(f->labels);
	free(f);
}

int cpu_feed_order(struct feed *feed, const uint32_t *order, size_t count,
		   uint64_t epoch, struct err *e)
{
	struct cpu_feed *f = (struct cpu_feed *)feed;
	size_t bytes = count * sizeof *order;
	uint32_t *p = realloc(f->order, bytes ? bytes : 1);

	if (!p)
		return err_set(e, -ENOMEM, "no memory for the order of %zu "
			       "samples", count);
	if (bytes)
		memcpy(p, order, bytes);
	f->order = p;
	f->count = count;
	f->epoch = epoch;
	return 0;
}

static void take_sample(const struct cpu_feed *f, const uint8_t *pixels,
			float *out)
{
	const struct image_shape *s = &f->base.spec.shape;
	size_t plane = (size_t)s->height * (size_t)s->width;

	if (f->exact) {
		scale_pixels(plane * (size_t)s->channels, pixels, out);
		return;
	}
	for (int c = 0; c < s->channels; c++)
		scale_channel(plane, s->mean[c], s->std[c],
			      pixels + (size_t)c * plane,
			      out + (size_t)c * plane);
}

void cpu_take(struct feed *feed, int n, struct tensor *in)
{
	struct cpu_feed *f = (struct cpu_feed *)feed;
	const struct dataset_part *part = feed->spec.part;
	const struct samples *s = &part->samples;
	const uint32_t *index = f->order + f->device->numbers.first;
	float *out = in ? in->data : NULL;

	feed->index = index;
	feed->lists = s->start ? s : NULL;
	for (int i = 0; i < n; i++)
		f->labels[i] = part->labels[index[i]];
	for (int i = 0; out && i < n; i++, out += s->size) {
		/* The next sample lies anywhere in a map that is larger than
		 * the caches: its lines are asked for while this is read. */
		if (i + 1 < n)
			for (size_t k = 0; k < s->size; k += 64)
				__builtin_prefetch(s->pixels +
						   index[i + 1] * s->size + k);
		take_sample(f, s->pixels + index[i] * s->size, out);
	}
}
