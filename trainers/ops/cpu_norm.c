/* cpu_norm.c: batch normalisation with the addition and ReLU after it: two
 * passes forward, two back. Sums are computed tile by tile and combined in a
 * fixed order, so that they do not depend on the number of threads. */
#include "trainers/ops/cpu_norm.h"

#include <math.h>
#include <stdlib.h>

static const double epsilon = 1e-5;
static const double momentum = 0.1;

struct norm {
	struct cpu_op op;
	int channels, groups; /* of LANES channels */
	int blocks;           /* groups stored as blocks; else nhwc */
	struct norm_sums *sums; /* [n][groups] */
	/* [channels] each */
	float *mean, *var, *mul, *add, *by_x, *shift;
	float *scale, *bias; /* the forward pass's mul and add */
	int is_joined; /* a convolution of a GPU would apply it, by scale and
			* bias in fp16 */
	float *slope; /* [2 * channels]: sums of dz, of dz * (x - mean) */
	uint64_t count; /* values per channel, over all ranks if they
			 * synchronise */
};

static struct norm *norm_of(const struct cpu_op *op)
{
	return (struct norm *)op;
}

static int norm_make(struct cpu_device *d, struct cpu_op *op,
		     const struct op_site *s, struct err *e)
{
	struct norm *b = norm_of(op);
	const struct tensor *in = s->in;
	size_t c = (size_t)in->c, n = (size_t)in->n;
	struct op *base = &op->base;
	float *room;
	int r;

	b->channels = in->c;
	b->groups = (in->c + LANES - 1) / LANES;
	b->blocks = d->block && in->c % d->block == 0;
	r = cpu_tensor(d, &base->out, in->n, in->c, in->h, in->w, &op->out,
		       s->name, e);
	if (r < 0)
		return r;
	if (!dnnl_memory_desc_equal(op->in, op->out) ||
	    (s->add && (s->add->c != in->c || s->add->h != in->h ||
			s->add->w != in->w || s->add->n != in->n)))
		return err_set(e, ERR_USAGE,
			       "layer %s: the tensor that it adds has another "
			       "shape, or does not come from a convolution",
			       s->name);
	base->param_count = base->buffer_count = 2;
	for (int i = 0; i < 2; i++) {
		base->param[i] = (struct op_param){
			i ? "bias" : "weight", {in->c, 1, 1, 1}, c, c};
		base->buffer[i] = (struct op_param){
			i ? "running_var" : "running_mean", {in->c, 1, 1, 1},
			c, c};
	}
	b->sums = calloc(n * (size_t)b->groups, sizeof(*b->sums));
	room = calloc(10 * c, sizeof(*room));
	if (!b->sums || !room) {
		free(room);
		return err_no_memory(e, "layer %s: its sums", s->name);
	}
	b->mean = room;
	b->var = room + c;
	b->mul = room + 2 * c;
	b->add = room + 3 * c;
	b->by_x = room + 4 * c;
	b->shift = room + 5 * c;
	b->slope = room + 6 * c;
	b->scale = room + 8 * c;
	b->bias = room + 9 * c;
	b->is_joined = d->fuse && s->training && base->spec.relu && !s->add &&
		       s->reader && s->reader->kind == OP_CONV;
	return 0;
}

/* Tile number k of n * groups; groups of one sample follow one another. */
static struct norm_tile norm_tile_at(const struct cpu_device *d,
				     const struct norm *b, size_t k)
{
	const struct tensor *t = &b->op.base.out;
	size_t groups = (size_t)b->groups, c = (size_t)b->channels;
	size_t places = (size_t)t->h * (size_t)t->w;
	size_t sample = k / groups, group = k % groups;
	size_t first = group * LANES;
	struct norm_tile tile = {
		.places = places,
		.channel = (int)first,
		.lanes = c - first < LANES ? (int)(c - first) : LANES,
	};

	if (b->blocks && d->block == LANES) {
		tile.at = (sample * groups + group) * places * LANES;
		tile.stride = LANES;
	} else {
		tile.at = sample * places * c + first;
		tile.stride = c;
	}
	return tile;
}

/* ---- Forward ---- */

/* The mean and the variance over all tiles (Chan, Golub, LeVeque 1979): each
 * tile has as many values of a channel, so means are averaged. */
static void norm_gather_moments(struct norm *b, int channel)
{
	const struct tensor *t = &b->op.base.out;
	size_t groups = (size_t)b->groups, n = (size_t)t->n;
	size_t group = (size_t)channel / LANES, lane = (size_t)channel % LANES;
	double places = (double)t->h * (double)t->w;
	double mean = 0, square = 0;

	for (size_t i = 0; i < n; i++)
		mean += (double)b->sums[i * groups + group].a[lane];
	mean /= (double)n;
	for (size_t i = 0; i < n; i++) {
		const struct norm_sums *s = &b->sums[i * groups + group];
		double far = (double)s->a[lane] - mean;

		square += (double)s->b[lane] + far * far * places;
	}
	b->mean[channel] = (float)mean;
	b->var[channel] = (float)(square / ((double)n * places));
}

static void norm_batch_statistics(struct cpu_device *d, struct norm *b)
{
	const struct op_memory *m = &b->op.memory;
	const struct tensor *t = m->in;
	size_t tiles = (size_t)t->n * (size_t)b->groups;
	int bf16 = t->type == TENSOR_BF16;
	double unbiased;
	int r = 0;

#pragma omp parallel for schedule(static)
	for (size_t k = 0; k < tiles; k++) {
		struct norm_tile tile = norm_tile_at(d, b, k);

		cpu_norm_moments(&tile, bf16, t->data, &b->sums[k]);
	}
	for (int c = 0; c < b->channels; c++)
		norm_gather_moments(b, c);
	b->count = (uint64_t)t->n * (uint64_t)t->h * (uint64_t)t->w;
	if (d->base.sync_moments)
		r = d->base.sync_moments(d->base.sync_arg, b->mean, b->var,
					 (size_t)b->channels, &b->count);
	if (r < 0 && !d->base.error)
		d->base.error = r;
	unbiased = b->count > 1 ? (double)b->count / (double)(b->count - 1) : 1;
	for (int c = 0; c < b->channels; c++) {
		float *mean = m->buffer[0], *var = m->buffer[1];

		mean[c] += (float)(momentum * (double)(b->mean[c] - mean[c]));
		var[c] += (float)(momentum * ((double)b->var[c] * unbiased -
					      (double)var[c]));
	}
}

static void norm_find_scale(struct norm *b, const float *mean, const float *var)
{
	const struct op_memory *m = &b->op.memory;

	for (int c = 0; c < b->channels; c++) {
		double inv = 1 / sqrt((double)var[c] + epsilon);
		double mul = (double)m->param[0][c] * inv;

		b->mul[c] = (float)mul;
		b->add[c] = (float)((double)m->param[1][c] -
				    (double)mean[c] * mul);
		b->scale[c] = b->mul[c];
		b->bias[c] = b->add[c];
	}
	if (b->is_joined) {
		cpu_half_round((size_t)b->channels, b->scale);
		cpu_half_round((size_t)b->channels, b->bias);
	}
}

static void norm_forward(struct cpu_device *d, struct cpu_op *op,
			 const struct loader *f)
{
	struct norm *b = norm_of(op);
	const struct op_memory *m = &op->memory;
	size_t tiles = (size_t)m->in->n * (size_t)b->groups;
	struct norm_apply a = {
		.bf16 = m->in->type == TENSOR_BF16, .relu = op->base.spec.relu,
		.mul = b->scale, .add1 = b->bias, .x = m->in->data,
		.other = m->add ? m->add->data : NULL, .y = m->out->data,
	};

	if (op->training) {
		norm_batch_statistics(d, b);
		norm_find_scale(b, b->mean, b->var);
	} else {
		norm_find_scale(b, m->buffer[0], m->buffer[1]);
	}
#pragma omp parallel for schedule(static)
	for (size_t k = 0; k < tiles; k++) {
		struct norm_tile tile = norm_tile_at(d, b, k);

		cpu_norm_apply(&tile, &a);
	}
}

/* ---- Backward ---- */

static void norm_slopes(struct cpu_device *d, struct norm *b,
			const struct norm_slope *s)
{
	const struct tensor *t = b->op.memory.in;
	size_t groups = (size_t)b->groups;
	size_t tiles = (size_t)t->n * groups, c = (size_t)b->channels;

#pragma omp parallel for schedule(static)
	for (size_t k = 0; k < tiles; k++) {
		struct norm_tile tile = norm_tile_at(d, b, k);

		cpu_norm_slope(&tile, s, &b->sums[k]);
	}
	for (size_t k = 0; k < c; k++) {
		double dz = 0, product = 0;

		for (size_t i = 0; i < (size_t)t->n; i++) {
			const struct norm_sums *p =
				&b->sums[i * groups + k / LANES];

			dz += (double)p->a[k % LANES];
			product += (double)p->b[k % LANES];
		}
		b->slope[k] = (float)dz;
		b->slope[c + k] = (float)product;
	}
}

/* dx = gamma * inv * (dz - sum(dz) / count
 *                     - (x - mean) * inv^2 * sum(dz * (x - mean)) / count) */
static void norm_find_backward(struct norm *b)
{
	const struct op_memory *m = &b->op.memory;
	double count = (double)b->count;

	for (int c = 0; c < b->channels; c++) {
		double inv = 1 / sqrt((double)b->var[c] + epsilon);
		double mul = (double)m->param[0][c] * inv;
		double dz = (double)b->slope[c];
		double product = (double)b->slope[b->channels + c];
		double by_x = -mul * inv * inv * product / count;

		b->by_x[c] = (float)by_x;
		b->shift[c] = (float)(-mul * dz / count -
				      by_x * (double)b->mean[c]);
	}
}

static void norm_backward(struct cpu_device *d, struct cpu_op *op,
			  const struct loader *f)
{
	struct norm *b = norm_of(op);
	const struct op_memory *m = &op->memory;
	size_t tiles = (size_t)m->in->n * (size_t)b->groups;
	int bf16 = m->in->type == TENSOR_BF16, relu = op->base.spec.relu, r = 0;
	/* stored if two gradients meet, or another layer needs their sum */
	void *dz = m->d_add ? m->d_add->data :
		   m->dy[1] ? m->dy[0]->data : NULL;
	struct norm_slope s = {
		.bf16 = bf16, .relu = relu, .mul = b->mul, .add1 = b->add,
		.mean = b->mean, .x = m->in->data,
		.y = m->add ? m->out->data : NULL,
		.dy = {m->dy[0]->data, m->dy[1] ? m->dy[1]->data : NULL},
		.dz = dz,
	};
	struct norm_back back = {
		.bf16 = bf16, .masked = relu && !dz, .mul = b->mul,
		.by_x = b->by_x, .add1 = b->shift, .relu_mul = b->mul,
		.relu_add = b->add, .x = m->in->data,
		.dy = dz ? dz : m->dy[0]->data,
		.dx = m->dx ? m->dx->data : NULL,
	};

	norm_slopes(d, b, &s);
	if (dz)
		cpu_half_store(d, m->d_add ? m->d_add : m->dy[0]);
	for (int c = 0; c < b->channels; c++) {
		double inv = 1 / sqrt((double)b->var[c] + epsilon);

		m->grad[1][c] = b->slope[c];
		m->grad[0][c] = (float)((double)b->slope[b->channels + c] *
					inv);
	}
	if (d->base.sync_sum)
		r = d->base.sync_sum(d->base.sync_arg, b->slope,
				     2 * (size_t)b->channels);
	if (r < 0 && !d->base.error)
		d->base.error = r;
	if (!m->dx)
		return;
	norm_find_backward(b);
#pragma omp parallel for schedule(static)
	for (size_t k = 0; k < tiles; k++) {
		struct norm_tile tile = norm_tile_at(d, b, k);

		cpu_norm_back(&tile, &back);
	}
}

static void norm_release(struct cpu_op *op)
{
	struct norm *b = norm_of(op);

	free(b->sums);
	free(b->mean);
}

const struct cpu_kind cpu_batch_norm = {
	.size = sizeof(struct norm),
	.make = norm_make,
	.forward = norm_forward,
	.backward = norm_backward,
	.release = norm_release,
};
