/* cpu_loss.c: losses and their gradients. */
#include <math.h>

#include "trainers/ops/cpu.h"

static float loss_gradient_scale(const struct loss_spec *s)
{
	return s->scaler ? s->scaler->scale : 1;
}

/* One sample: its loss, and, if dx is not NULL, the gradient of loss times
 * scale. PyTorch's label smoothing: the target is (1 - smoothing) of the label
 * and smoothing / classes of each class. */
static double loss_of_sample(int classes, const float *x, int label,
			     float smoothing, float scale, float *dx)
{
	float max = x[0], sum = 0, even = smoothing / (float)classes;
	double log_sum, loss;

	for (int j = 1; j < classes; j++)
		max = x[j] > max ? x[j] : max;
	for (int j = 0; j < classes; j++) {
		float v = expf(x[j] - max);

		sum += v;
		if (dx)
			dx[j] = v;
	}
	log_sum = (double)logf(sum);
	loss = log_sum - (double)(x[label] - max);
	if (smoothing > 0) {
		double all = 0;

		for (int j = 0; j < classes; j++)
			all += log_sum - (double)(x[j] - max);
		loss = (double)(1 - smoothing) * loss + (double)even * all;
	}
	if (dx) {
		float by = scale / sum;

		for (int j = 0; j < classes; j++)
			dx[j] *= by;
		dx[label] -= scale * (1 - smoothing);
		for (int j = 0; smoothing > 0 && j < classes; j++)
			dx[j] -= scale * even;
	}
	return loss;
}

/* The first of equal values counts. */
static int loss_is_correct(int classes, const float *x, int label)
{
	int best = 0;

	for (int j = 1; j < classes; j++)
		if (x[j] > x[best])
			best = j;
	return best == label;
}

void cpu_cross_entropy(struct device *d, const struct loss_spec *s,
		       const struct tensor *y, const uint32_t *labels,
		       float *loss, struct tally *t, struct tensor *dy)
{
	const float *x = y->data;
	float *dx = dy ? dy->data : NULL;
	float scale = s->scale / (float)y->n * loss_gradient_scale(s);
	double total = 0;

	for (int i = 0; i < y->n; i++, x += y->c) {
		total += loss_of_sample(y->c, x, (int)labels[i], s->smoothing,
					scale, dx);
		dx = dx ? dx + y->c : NULL;
		if (t)
			t->correct += (uint64_t)loss_is_correct(
				y->c, x, (int)labels[i]);
	}
	*loss = (float)(total / y->n * (double)s->scale);
	if (t) {
		t->loss += total;
		t->count += (uint64_t)y->n;
	}
}

enum { MSE_PART = 1024 };

/* The sum of squares of one part; dy = (y - target) * scale. The lanes fix the
 * order of the sum for every vector width. */
MULTIVERSION
static float loss_mse_part(size_t count, const float *restrict y,
			   const float *restrict target, float scale,
			   float *restrict dy)
{
	float lane[16] = {0}, sum = 0;
	size_t i = 0;

	for (; i + 16 <= count; i += 16)
		for (int k = 0; k < 16; k++) {
			float d = y[i + k] - target[i + k];

			lane[k] += d * d;
			dy[i + k] = d * scale;
		}
	for (int k = 0; i < count; i++, k++) {
		float d = y[i] - target[i];

		lane[k] += d * d;
		dy[i] = d * scale;
	}
	for (int k = 0; k < 16; k++)
		sum += lane[k];
	return sum;
}

void cpu_mse(struct device *d, const struct loss_spec *s,
	     const struct tensor *y, const struct tensor *target, float *loss,
	     struct tally *t, struct tensor *dy)
{
	size_t count = (size_t)y->n * (size_t)y->c;
	const float *a = y->data, *b = target->data;
	float *to = dy ? dy->data : NULL, unwanted[MSE_PART];
	float scale = (float)(2.0 / (double)count * (double)s->scale) *
		      loss_gradient_scale(s);
	double total = 0;

	for (size_t i = 0; i < count; i += MSE_PART) {
		size_t part = count - i < MSE_PART ? count - i : MSE_PART;

		total += (double)loss_mse_part(part, a + i, b + i, scale,
					       to ? to + i : unwanted);
	}
	*loss = (float)(total / (double)count * (double)s->scale);
	if (t) {
		t->loss += total / y->c;
		t->count += (uint64_t)y->n;
	}
}
