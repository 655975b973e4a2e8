/* cpu_loader.c: loads batches on the CPU: bytes become scaled values, in the
 * epoch's order, cropped, resized and flipped with augmentation. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "trainers/data/crop.h"
#include "trainers/ops/cpu.h"

struct cpu_loader {
	struct loader base;
	struct cpu_device *device;
	uint32_t *order; /* [count] */
	size_t count;
	uint64_t epoch;
	uint32_t *labels; /* [batch] */
	uint8_t *cropped; /* one sample, with augmentation or another size */
	struct cpu_crop *crop; /* NULL: samples keep their size */
	int exact;       /* scaling is x / 255 alone */
};

/* x / 255, rounded like a division, but computed with two products: hi is 1/255
 * cut to 16 bits, so x * hi is exact and only the sum rounds. */
MULTIVERSION
static void loader_scale_pixels(size_t count, const uint8_t *restrict in,
				float *restrict out)
{
	const float hi = 0x1.01p-8f;
	const float lo = (float)(1.0 / 255.0 - 0x1.01p-8);

	for (size_t i = 0; i < count; i++) {
		float x = (float)in[i];

		out[i] = x * hi + x * lo;
	}
}

/* Divides, as torchvision does; the cost does not show in a step. */
MULTIVERSION
static void loader_scale_channel(size_t count, float mean, float std,
				 const uint8_t *restrict in,
				 float *restrict out)
{
	for (size_t i = 0; i < count; i++)
		out[i] = ((float)in[i] / 255.0f - mean) / std;
}

MULTIVERSION
static void loader_scale_channel_bf16(size_t count, float mean, float std,
				      const uint8_t *restrict in,
				      uint16_t *restrict out)
{
	for (size_t i = 0; i < count; i++) {
		float value = ((float)in[i] / 255.0f - mean) / std;
		uint32_t bits;

		memcpy(&bits, &value, sizeof(bits));
		/* to nearest even; no value is NaN */
		out[i] = (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
	}
}

/* ---- Crop and flip ---- */

MULTIVERSION
static void loader_reverse_row(size_t width, uint8_t *row)
{
	for (size_t i = 0; i < width / 2; i++) {
		uint8_t left = row[i];

		row[i] = row[width - 1 - i];
		row[width - 1 - i] = left;
	}
}

/* One row before the flip: row[x] = from[x + dx], zero outside. */
static void loader_shift_row(int width, int dx, const uint8_t *from,
			     uint8_t *row)
{
	int left = dx < 0 ? -dx : 0, right = dx > 0 ? dx : 0;

	/* an image narrower than the padding may be shifted out completely */
	if (left + right >= width) {
		memset(row, 0, (size_t)width);
		return;
	}
	memset(row, 0, (size_t)left);
	memcpy(row + left, from + left + dx, (size_t)(width - left - right));
	memset(row + width - right, 0, (size_t)right);
}

static void loader_crop(const struct image_shape *s, const struct augment *a,
			const uint8_t *from, uint8_t *to)
{
	int w = s->width;

	for (int row = 0; row < s->channels * s->height; row++, to += w) {
		int y = row % s->height + a->dy;

		if (y < 0 || y >= s->height) {
			memset(to, 0, (size_t)w);
			continue;
		}
		loader_shift_row(w, a->dx, from + (ptrdiff_t)(row + a->dy) * w,
				 to);
		if (a->flip)
			loader_reverse_row((size_t)w, to);
	}
}

/* ---- Loaders ---- */

/* Bytes of a sample after its crop. */
static size_t loader_bytes(const struct loader_spec *s)
{
	return (size_t)s->shape.channels * (size_t)loader_height(s) *
	       (size_t)loader_width(s);
}

int cpu_loader_new(struct device *d, const struct loader_spec *s,
		   struct loader **out, struct err *e)
{
	const struct image_shape *shape = &s->shape;
	struct cpu_loader *f = calloc(1, sizeof(*f));
	int resizes = loader_resizes(s);

	if (!f)
		return err_no_memory(e, "batches");
	f->base.spec = *s;
	f->device = (struct cpu_device *)d;
	f->labels = calloc((size_t)s->batch, sizeof(*f->labels));
	f->base.labels = f->labels;
	f->base.in = (struct tensor){
		.c = shape->channels, .h = loader_height(s),
		.w = loader_width(s), .type = s->type, .plain = 1,
	};
	if (s->augment || resizes)
		f->cropped = calloc(1, loader_bytes(s));
	if (resizes)
		f->crop = cpu_crop_new(shape, f->base.in.h, f->base.in.w);
	f->exact = s->type == TENSOR_F32;
	for (int i = 0; i < shape->channels; i++)
		f->exact &= shape->mean[i] == 0.0f && shape->std[i] == 1.0f;
	*out = &f->base;
	if (!f->labels || ((s->augment || resizes) && !f->cropped) ||
	    (resizes && !f->crop)) {
		cpu_loader_free(d, &f->base);
		return err_no_memory(e, "batches of %d", s->batch);
	}
	return 0;
}

void cpu_loader_free(struct device *d, struct loader *loader)
{
	struct cpu_loader *f = (struct cpu_loader *)loader;

	if (!f)
		return;
	free(f->order);
	free(f->labels);
	free(f->cropped);
	cpu_crop_free(f->crop);
	free(f);
}

int cpu_loader_order(struct loader *loader, const uint32_t *order, size_t count,
		     uint64_t epoch, struct err *e)
{
	struct cpu_loader *f = (struct cpu_loader *)loader;
	size_t bytes = count * sizeof(*order);
	uint32_t *p = realloc(f->order, bytes ? bytes : 1);

	if (!p)
		return err_no_memory(e, "the order of %zu samples", count);
	if (bytes)
		memcpy(p, order, bytes);
	f->order = p;
	f->count = count;
	f->epoch = epoch;
	return 0;
}

static void loader_scale_sample(const struct cpu_loader *f,
				const uint8_t *pixels, void *out)
{
	const struct image_shape *s = &f->base.spec.shape;
	size_t plane = (size_t)f->base.in.h * (size_t)f->base.in.w;

	if (f->exact) {
		loader_scale_pixels(plane * (size_t)s->channels, pixels, out);
		return;
	}
	for (int c = 0; c < s->channels; c++, pixels += plane)
		if (f->base.in.type == TENSOR_BF16)
			loader_scale_channel_bf16(
				plane, s->mean[c], s->std[c], pixels,
				(uint16_t *)out + (size_t)c * plane);
		else
			loader_scale_channel(plane, s->mean[c], s->std[c],
					     pixels,
					     (float *)out + (size_t)c * plane);
}

static void loader_resize(const struct cpu_loader *f, uint32_t sample,
			  const uint8_t *from)
{
	const struct loader_spec *spec = &f->base.spec;
	int h = spec->shape.height, w = spec->shape.width;
	struct crop part = spec->augment == AUGMENT_RESIZE
				   ? crop_draw(spec->seed, f->epoch, sample, h,
					       w)
				   : crop_centre(h, w, spec->side);

	cpu_crop_run(f->crop, &spec->shape, &part, from, f->cropped);
}

static void loader_load_sample(const struct cpu_loader *f, uint32_t sample,
			       void *out)
{
	const struct loader_spec *spec = &f->base.spec;
	const struct samples *s = &spec->part->samples;
	const uint8_t *pixels = s->pixels + sample * s->size;
	struct augment a;

	if (f->crop) {
		loader_resize(f, sample, pixels);
		pixels = f->cropped;
	} else if (spec->augment) {
		a = augment_draw(spec->seed, f->epoch, sample);
		loader_crop(&spec->shape, &a, pixels, f->cropped);
		pixels = f->cropped;
	}
	loader_scale_sample(f, pixels, out);
}

/* The kernel starts to read samples first to last of the order, so that they
 * are in memory when their turn comes. */
static void loader_read_ahead(const struct cpu_loader *f, size_t first,
			      size_t last)
{
	const struct samples *s = &f->base.spec.part->samples;
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

	for (size_t i = first; s->is_file && i < last && i < f->count; i++) {
		uintptr_t at = (uintptr_t)(s->pixels + f->order[i] * s->size);
		uintptr_t begin = at & ~(page - 1);

		/* it is a hint: an error changes nothing */
		(void)madvise((void *)begin, at + s->size - begin,
			      MADV_WILLNEED);
	}
}

void cpu_load_batch(struct loader *loader, int n, struct tensor *in)
{
	struct cpu_loader *f = (struct cpu_loader *)loader;
	const struct dataset_part *part = loader->spec.part;
	const struct samples *s = &part->samples;
	const uint32_t *index = f->order + f->device->args.first;
	size_t step = loader_bytes(&loader->spec) *
		      (loader->in.type == TENSOR_BF16 ? 2 : 4);
	char *out = in ? in->data : NULL;

	loader->index = index;
	loader->lists = s->start && !f->cropped ? s : NULL;
	for (int i = 0; i < n; i++)
		f->labels[i] = part->labels[index[i]];
	if (out)
		loader_read_ahead(f, f->device->args.first,
				  f->device->args.first + 2 * (size_t)n);
	for (int i = 0; out && i < n; i++, out += step) {
		/* The next sample may lie anywhere in a map that is larger than
		 * the caches: prefetch its lines while this one is read. */
		if (i + 1 < n)
			for (size_t k = 0; k < s->size; k += 64)
				__builtin_prefetch(s->pixels +
						   index[i + 1] * s->size + k);
		loader_load_sample(f, index[i], out);
	}
}
