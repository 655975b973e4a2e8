/* layout.c: computes places in tensors and filters. */
#include "trainers/cuda/layout.h"

#include <string.h>

#include "trainers/cuda/half.h"

const struct layout layout_nhwc = {"nhwc"};

size_t layout_value(enum tensor_type type)
{
	return type == TENSOR_F32 ? sizeof(float) : sizeof(uint16_t);
}

int layout_channels(int channels, enum tensor_type type)
{
	int step = (int)(16 / layout_value(type));

	return (channels + step - 1) / step * step;
}

void layout_tensor(struct tensor *t, int n, int c, int h, int w,
		   enum tensor_type type)
{
	*t = (struct tensor){
		.n = n, .c = c, .h = h, .w = w, .type = type,
		.layout = &layout_nhwc,
	};
	t->bytes = layout_count(t) * layout_value(type);
}

void layout_rows(struct tensor *t, int n, int c)
{
	*t = (struct tensor){.n = n, .c = c, .h = 1, .w = 1, .plain = 1};
	t->bytes = layout_count(t) * sizeof(float);
}

size_t layout_count(const struct tensor *t)
{
	int c = t->plain ? t->c : layout_channels(t->c, t->type);

	return (size_t)t->n * (size_t)c * (size_t)t->h * (size_t)t->w;
}

/* ---- Tensors ---- */

/* bf16: the nearest, ties to even. */
static uint16_t layout_narrow(float f)
{
	uint32_t u;

	memcpy(&u, &f, sizeof(u));
	if ((u & 0x7fffffffu) > 0x7f800000u)
		return 0x7fff;
	return (uint16_t)((u + 0x7fffu + (u >> 16 & 1)) >> 16);
}

static float layout_widen(uint16_t v)
{
	uint32_t u = (uint32_t)v << 16;
	float f;

	memcpy(&f, &u, sizeof(f));
	return f;
}

static void layout_store(enum tensor_type type, float v, void *p, size_t at)
{
	if (type == TENSOR_F32)
		((float *)p)[at] = v;
	else
		((uint16_t *)p)[at] = type == TENSOR_F16 ? half_round(v) :
							   layout_narrow(v);
}

static float layout_load(enum tensor_type type, const void *p, size_t at)
{
	const uint16_t *narrow = p;

	if (type == TENSOR_F32)
		return ((const float *)p)[at];
	return type == TENSOR_F16 ? half_value(narrow[at]) :
				    layout_widen(narrow[at]);
}

/* The index of value (n, c, place). */
static size_t layout_index(const struct tensor *t, size_t n, size_t c,
			   size_t place)
{
	size_t places = (size_t)t->h * (size_t)t->w;

	if (t->plain)
		return (n * (size_t)t->c + c) * places + place;
	return (n * places + place) *
		       (size_t)layout_channels(t->c, t->type) + c;
}

void layout_pack(const struct tensor *t, const float *values, void *out)
{
	size_t places = (size_t)t->h * (size_t)t->w;

	memset(out, 0, t->bytes);
	for (size_t n = 0; n < (size_t)t->n; n++)
		for (size_t c = 0; c < (size_t)t->c; c++)
			for (size_t k = 0; k < places; k++, values++) {
				size_t at = layout_index(t, n, c, k);

				layout_store(t->type, *values, out, at);
			}
}

void layout_unpack(const struct tensor *t, const void *in, float *values)
{
	size_t places = (size_t)t->h * (size_t)t->w;

	for (size_t n = 0; n < (size_t)t->n; n++)
		for (size_t c = 0; c < (size_t)t->c; c++)
			for (size_t k = 0; k < places; k++) {
				size_t at = layout_index(t, n, c, k);

				*values++ = layout_load(t->type, in, at);
			}
}

/* ---- Filters ---- */

void layout_filter(struct layout_filter *f, int out, int in, int kernel,
		   enum tensor_type type)
{
	*f = (struct layout_filter){
		.out = out, .in = in, .kernel = kernel,
		.out_padded = layout_channels(out, type),
		.in_padded = layout_channels(in, type),
	};
}

size_t layout_filter_size(const struct layout_filter *f)
{
	return (size_t)f->out_padded * (size_t)f->kernel * (size_t)f->kernel *
	       (size_t)f->in_padded;
}

static size_t layout_filter_index(const struct layout_filter *f, size_t out,
				  size_t in, size_t place)
{
	size_t places = (size_t)f->kernel * (size_t)f->kernel;

	return (out * places + place) * (size_t)f->in_padded + in;
}

void layout_filter_pack(const struct layout_filter *f, const float *values,
			float *to)
{
	size_t places = (size_t)f->kernel * (size_t)f->kernel;

	memset(to, 0, layout_filter_size(f) * sizeof(*to));
	for (size_t o = 0; o < (size_t)f->out; o++)
		for (size_t i = 0; i < (size_t)f->in; i++)
			for (size_t k = 0; k < places; k++)
				to[layout_filter_index(f, o, i, k)] = *values++;
}

void layout_filter_unpack(const struct layout_filter *f, const float *from,
			  float *values)
{
	size_t places = (size_t)f->kernel * (size_t)f->kernel;

	for (size_t o = 0; o < (size_t)f->out; o++)
		for (size_t i = 0; i < (size_t)f->in; i++)
			for (size_t k = 0; k < places; k++)
				*values++ =
					from[layout_filter_index(f, o, i, k)];
}

int layout_windows(int size, int kernel, int stride, int pad)
{
	int room = size + 2 * pad - kernel;

	return room < 0 || stride < 1 ? 0 : room / stride + 1;
}
