/* loader.c: a data set on the device, or, if it is too large, in host memory,
 * and the order in which its samples are read. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainers/cuda/cuda.h"

struct cuda_loader {
	struct loader base;
	struct cuda_device *d;
	/* on the device */
	uint8_t *pixels;
	uint32_t *all_labels, *labels, *order;
	size_t room; /* entries that order can hold */
	struct kernel_order *now;
	struct upload *upload; /* NULL: pixels has the data set */
	int exact;
};

static int loader_upload(struct cuda_loader *f, const void *from, size_t bytes,
			 void **out, struct err *e)
{
	int r = cuda_alloc(&f->d->base, bytes, out, e);

	if (r < 0)
		return r;
	cuda_put(&f->d->base, *out, from, bytes);
	return cuda_wait(&f->d->base, e);
}

/* 1 if the data set leaves half of the GPU's free memory to the model, which
 * does not exist yet. */
static int loader_fits(struct cuda_device *d, const struct dataset_part *p)
{
	size_t bytes = (size_t)p->count * p->samples.size;
	size_t unused, all;
	char line[256];

	if (cudaMemGetInfo(&unused, &all) != cudaSuccess || bytes <= unused / 2)
		return 1;
	snprintf(line, sizeof(line), "%u images of %zu bytes (%zu MiB) stay in "
		 "host memory, because %zu of the GPU's %zu MiB are free: each "
		 "batch is copied while the one before it is used", p->count,
		 p->samples.size, bytes >> 20, unused >> 20, all >> 20);
	if (d->note)
		d->note(line);
	return 0;
}

static int loader_fill(struct cuda_loader *f, struct err *e)
{
	const struct dataset_part *part = f->base.spec.part;
	void *pixels = NULL, *all_labels = NULL, *labels = NULL, *now = NULL;
	int r = 0;

	if (!loader_fits(f->d, part))
		r = upload_new(f->d, &part->samples, f->base.spec.batch,
			       &f->upload, e);
	else
		r = loader_upload(f, part->samples.pixels,
				  (size_t)part->count * part->samples.size,
				  &pixels, e);
	if (r == 0)
		r = loader_upload(f, part->labels,
				  part->count * sizeof(*part->labels),
				  &all_labels, e);
	if (r == 0)
		r = cuda_alloc(&f->d->base,
			       (size_t)f->base.spec.batch * sizeof(*f->labels),
			       &labels, e);
	if (r == 0)
		r = cuda_alloc(&f->d->base, sizeof(*f->now), &now, e);
	f->pixels = pixels;
	f->all_labels = all_labels;
	f->base.labels = f->labels = labels;
	f->now = now;
	return r;
}

/* f32 batches are plain rows, which linear layers and convolutions read; those
 * of 16 bits are nhwc, for convolutions. */
static void loader_describe(struct cuda_loader *f)
{
	const struct image_shape *s = &f->base.spec.shape;
	struct tensor *in = &f->base.in;

	layout_tensor(in, 1, s->channels, loader_height(&f->base.spec),
		      loader_width(&f->base.spec), f->base.spec.type);
	if (f->base.spec.type == TENSOR_F32) {
		in->plain = 1;
		in->layout = NULL;
		in->bytes = layout_count(in) * sizeof(float);
	}
	f->exact = 1;
	for (int i = 0; i < s->channels; i++)
		f->exact &= s->mean[i] == 0.0f && s->std[i] == 1.0f;
}

static int loader_check(const struct loader_spec *s, struct err *e)
{
	const struct image_shape *i = &s->shape;
	size_t size = (size_t)i->channels * (size_t)i->height *
		      (size_t)i->width;

	if (i->channels < 1 || i->channels > IMAGE_CHANNELS_MAX)
		return err_set(e, ERR_USAGE, "images have 1 to %d channels, "
			       "not %d", IMAGE_CHANNELS_MAX, i->channels);
	if (size != s->part->samples.size)
		return err_set(
			e, ERR_ARGUMENT,
			"a sample has %zu bytes, but its shape needs %zu",
			s->part->samples.size, size);
	return 0;
}

int cuda_loader_new(struct device *d, const struct loader_spec *s,
		    struct loader **out, struct err *e)
{
	struct cuda_loader *f;
	int r = loader_check(s, e);

	if (r < 0)
		return r;
	f = calloc(1, sizeof(*f));
	if (!f)
		return err_no_memory(e, "batches");
	f->base.spec = *s;
	f->d = cuda_of(d);
	loader_describe(f);
	r = loader_fill(f, e);
	if (r < 0)
		cuda_loader_free(d, &f->base);
	else
		*out = &f->base;
	return r;
}

void cuda_loader_free(struct device *d, struct loader *loader)
{
	struct cuda_loader *f = (struct cuda_loader *)loader;

	if (!f)
		return;
	upload_free(f->upload);
	cuda_free(d, f->pixels);
	cuda_free(d, f->all_labels);
	cuda_free(d, f->labels);
	cuda_free(d, f->order);
	cuda_free(d, f->now);
	free(f);
}

/* A larger order is allocated elsewhere; captured steps find it through
 * f->now. */
int cuda_loader_order(struct loader *loader, const uint32_t *order,
		      size_t count, uint64_t epoch, struct err *e)
{
	struct cuda_loader *f = (struct cuda_loader *)loader;
	uint32_t *old = NULL;
	void *p;
	int r = f->upload ? upload_order(f->upload, order, count, e) : 0;

	if (r < 0)
		return r;
	if (count > f->room || !f->order) {
		r = cuda_alloc(&f->d->base, count * sizeof(*order), &p, e);
		if (r < 0)
			return r;
		old = f->order;
		f->order = p;
		f->room = count;
	}
	cuda_put(&f->d->base, f->order, order, count * sizeof(*order));
	cuda_note(f->d, kernel_order(f->d->stream, f->now, f->order, epoch),
		  "the order of an epoch");
	cuda_free(&f->d->base, old);
	return cuda_wait(&f->d->base, e);
}

static struct upload *loader_upload_of(const struct cuda_load *l)
{
	const struct cuda_loader *f = (const struct cuda_loader *)l->loader;

	return f && l->n > 0 ? f->upload : NULL;
}

void cuda_loader_begin(const struct cuda_load *l)
{
	const struct cuda_loader *f = (const struct cuda_loader *)l->loader;
	const uint8_t *batch = NULL;

	if (!loader_upload_of(l))
		return;
	upload_begin(f->upload, f->d->first, l->n, &batch);
	cuda_note(f->d, kernel_order_batch(f->d->stream, f->now, batch),
		  "a batch");
}

void cuda_loader_end(const struct cuda_load *l)
{
	if (loader_upload_of(l))
		upload_end(loader_upload_of(l));
}

void cuda_load_batch(struct loader *loader, int n, struct tensor *in)
{
	struct cuda_loader *f = (struct cuda_loader *)loader;
	const struct image_shape *s = &loader->spec.shape;
	struct kernel_load_batch t = {
		.pixels = f->pixels, .labels = f->all_labels, .order = f->now,
		.channels = s->channels, .height = s->height,
		.width = s->width, .n = n, .exact = f->exact,
		.augment = (int)loader->spec.augment, .seed = loader->spec.seed,
		.out_height = loader->in.h, .out_width = loader->in.w,
		.labels_out = f->labels, .out = in ? in->data : NULL,
		.type = in ? cuda_kernel_type(in->type) : KERNEL_F32,
	};
	const struct cuda_load load = {loader, in ? n : 0};

	memcpy(t.mean, s->mean, sizeof(t.mean));
	memcpy(t.std, s->std, sizeof(t.std));
	if (n <= 0)
		return;
	if (f->d->is_capturing)
		f->d->load = load;
	else
		cuda_loader_begin(&load);
	cuda_note(f->d, kernel_load_batch(f->d->stream, f->d->state, &t),
		  "a batch");
	if (!f->d->is_capturing)
		cuda_loader_end(&load);
}
