/* cpu_update.c: the optimizers' updates over whole arenas. */
#include <math.h>

#include "trainers/ops/cpu.h"

/* Size of the parts that threads take; only a large model has several. */
enum { PART = 1 << 17 };

struct adam {
	float b1, b2, c1, c2; /* c1 = 1 - b1 */
	float rate;           /* lr / (1 - beta1^t) */
	float root;           /* 1 / sqrt(1 - beta2^t) */
	float eps, decay, scale;
};

MULTIVERSION
static void update_adam_plain(const struct adam *a, size_t count,
			      const float *restrict g, float *restrict p,
			      float *restrict m, float *restrict v)
{
	float b1 = a->b1, b2 = a->b2, c1 = a->c1, c2 = a->c2;
	float rate = a->rate, root = a->root, eps = a->eps;

	for (size_t i = 0; i < count; i++) {
		float mi = m[i] * b1 + g[i] * c1;
		float vi = v[i] * b2 + g[i] * g[i] * c2;

		m[i] = mi;
		v[i] = vi;
		p[i] -= rate * (mi / (sqrtf(vi) * root + eps));
	}
}

MULTIVERSION
static void update_adam_decayed(const struct adam *a, size_t count,
				const float *restrict g, float *restrict p,
				float *restrict m, float *restrict v)
{
	for (size_t i = 0; i < count; i++) {
		float gi = g[i] * a->scale + p[i] * a->decay;
		float mi = m[i] * a->b1 + gi * a->c1;
		float vi = v[i] * a->b2 + gi * gi * a->c2;

		m[i] = mi;
		v[i] = vi;
		p[i] -= a->rate * (mi / (sqrtf(vi) * a->root + a->eps));
	}
}

struct sgd {
	float lr, momentum, decay, scale;
	int nesterov;
};

/* The buffer starts with zeros, so that the first step is g, as in PyTorch. */
MULTIVERSION
static void update_sgd_pass(const struct sgd *s, size_t count,
			    const float *restrict g, float *restrict p,
			    float *restrict m)
{
	float lr = s->lr, momentum = s->momentum, decay = s->decay;
	float scale = s->scale;

	if (s->nesterov) {
		for (size_t i = 0; i < count; i++) {
			float gi = g[i] * scale + p[i] * decay;
			float mi = m[i] * momentum + gi;

			m[i] = mi;
			p[i] -= lr * (gi + mi * momentum);
		}
		return;
	}
	for (size_t i = 0; i < count; i++) {
		float mi = m[i] * momentum + (g[i] * scale + p[i] * decay);

		m[i] = mi;
		p[i] -= lr * mi;
	}
}

/* The gradients' factor. */
static float update_scale(const struct update *u)
{
	return u->scaler ? u->scale / u->scaler->scale : u->scale;
}

static void update_adam(const struct update *u, const struct step_args *n)
{
	const struct optimizer *o = &u->how;
	double t = (double)(u->scaler ? loss_scaler_updates(u->scaler, n->step)
				      : n->step);
	struct adam a = {
		.b1 = (float)o->beta1, .b2 = (float)o->beta2,
		.c1 = (float)(1 - o->beta1), .c2 = (float)(1 - o->beta2),
		.rate = (float)(n->lr / (1 - pow(o->beta1, t))),
		.root = (float)(1 / sqrt(1 - pow(o->beta2, t))),
		.eps = (float)o->eps, .decay = (float)o->weight_decay,
		.scale = update_scale(u),
	};
	int plain = o->weight_decay == 0 && a.scale == 1.0f;
	size_t parts = (u->count + PART - 1) / PART;

#pragma omp parallel for schedule(static) if (parts > 1)
	for (size_t k = 0; k < parts; k++) {
		size_t at = k * PART;
		size_t count = u->count - at < PART ? u->count - at : PART;

		(plain ? update_adam_plain : update_adam_decayed)(
			&a, count, u->grad + at, u->param + at,
			u->moment[0] + at, u->moment[1] + at);
	}
}

static void update_sgd(const struct update *u, const struct step_args *n)
{
	const struct optimizer *o = &u->how;
	struct sgd s = {(float)n->lr, (float)o->momentum,
			(float)o->weight_decay, update_scale(u), o->nesterov};
	size_t parts = (u->count + PART - 1) / PART;

#pragma omp parallel for schedule(static) if (parts > 1)
	for (size_t k = 0; k < parts; k++) {
		size_t at = k * PART;

		update_sgd_pass(&s, u->count - at < PART ? u->count - at : PART,
				u->grad + at, u->param + at, u->moment[0] + at);
	}
}

/* 1 if a value is not finite: its exponent has all bits set. */
MULTIVERSION
static int update_has_overflow(size_t count, const float *g)
{
	const union {
		float f;
		uint32_t u;
	} *bits = (const void *)g;
	uint32_t bad = 0;

	for (size_t i = 0; i < count; i++)
		bad |= (bits[i].u & 0x7f800000) == 0x7f800000;
	return (int)bad;
}

/* The index of the last gradient that is not finite; LOSS_SCALER_NOWHERE: there
 * is none. */
static uint64_t update_last_overflow(const struct update *u)
{
	size_t parts = (u->count + PART - 1) / PART;

	for (size_t k = parts; k-- > 0;) {
		size_t at = k * PART;
		size_t n = u->count - at < PART ? u->count - at : PART;

		if (!update_has_overflow(n, u->grad + at))
			continue;
		while (isfinite(u->grad[at + n - 1]))
			n--;
		return at + n - 1;
	}
	return LOSS_SCALER_NOWHERE;
}

/* 1 if this step is to be skipped. */
static int update_skips(struct cpu_device *d, const struct update *u)
{
	uint64_t at = update_last_overflow(u);

	if (at == LOSS_SCALER_NOWHERE && (!u->loss || isfinite(*u->loss)))
		return 0;
	if (loss_scaler_skip(u->scaler, d->args.step, at))
		d->halted = d->args.step;
	return 1;
}

void cpu_update(struct device *device, const struct update *u)
{
	struct cpu_device *d = (struct cpu_device *)device;

	if (!u->scaler && u->loss && !isfinite(*u->loss) && !d->halted)
		d->halted = d->args.step;
	if (d->halted || (u->scaler && update_skips(d, u)))
		return;
	if (u->how.kind == OPTIMIZER_ADAM)
		update_adam(u, &d->args);
	else
		update_sgd(u, &d->args);
	if (u->scaler)
		loss_scaler_accept(u->scaler);
	d->generation++;
}
