/* gpu_reference.c: gpu_reference KIND: compares a device's convolutions and
 * batch normalisation, at each precision, with the formulas in f64, of the
 * inputs as the device has rounded them. What is left is its own rounding, so
 * the limits are tight; gpu_ops compares whole models, where errors add up.
 * Results are NaN before the device writes them. KIND is cuda, or cpu, to check
 * this program. Prints a line for each result; exits with 1 if one is off. */
#include <math.h>

#include "tests/gpu/nets.h"

struct shape {
	int n, c, side, out, kernel, stride, pad;
};
static const struct shape convs[] = {
	{2, 16, 9, 32, 3, 1, 1},  {2, 16, 9, 24, 3, 2, 1},
	{3, 32, 7, 64, 1, 1, 0},  {2, 64, 8, 16, 1, 2, 0},
	{2, 8, 17, 64, 7, 2, 3},  {2, 13, 6, 21, 3, 1, 1},
	{1, 128, 5, 72, 3, 1, 1},
};
static const struct shape norms[] = {
	{2, 16, 9}, {4, 64, 7}, {3, 13, 6}, {8, 264, 2}, {16, 8, 1},
};

static int failed;

/* ---- A device with one operation ---- */

struct rig {
	const struct ops *ops;
	struct device *d;
	struct op *before; /* whose output has the layout of the input */
	struct op *op;
	struct tensor x, other, y, dy, dx, d_other;
	float *param[OP_PARAMS_MAX], *grad[OP_PARAMS_MAX];
	float *buffer[OP_PARAMS_MAX];
};

static void *rig_alloc(struct rig *r, size_t bytes)
{
	struct err e = ERR_INIT;
	void *p;

	must(r->ops->alloc(r->d, bytes, &p, &e), &e);
	return p;
}

static float drawn(void)
{
	return (float)rand() / (float)RAND_MAX * 2 - 1;
}

static size_t count_of(const struct tensor *t)
{
	return (size_t)t->n * (size_t)t->c * (size_t)t->h * (size_t)t->w;
}

static struct tensor rig_tensor(struct rig *r, const struct tensor *like)
{
	struct tensor t = *like;
	float *v = memory(count_of(&t) * sizeof(*v));

	t.data = rig_alloc(r, t.bytes);
	for (size_t i = 0; i < count_of(&t); i++)
		v[i] = drawn();
	r->ops->tensor_put(r->d, &t, v);
	free(v);
	return t;
}

static void rig_poison(struct rig *r, void *p, size_t bytes)
{
	void *nan = memory(bytes);

	memset(nan, 0xff, bytes);
	r->ops->put(r->d, p, nan, bytes);
	free(nan);
}

static void rig_init(struct rig *r, struct device *d, const struct shape *s,
		     struct op_spec spec, int add)
{
	struct tensor plain = {.n = s->n, .c = 4, .h = s->side, .w = s->side,
			       .plain = 1};
	struct op_site first = {.spec = {OP_CONV, .out = s->c, .kernel = 1,
					 .stride = 1},
				.name = "before", .in = &plain, .first = 1};
	struct op_site site = {.spec = spec, .name = "reference",
			       .in = &r->x, .add = add ? &r->other : NULL,
			       .training = 1};
	struct err e = ERR_INIT;

	memset(r, 0, sizeof(*r));
	r->ops = d->ops;
	r->d = d;
	must(r->ops->op_new(d, &first, &r->before, &e), &e);
	r->x = rig_tensor(r, &r->before->out);
	r->other = rig_tensor(r, &r->x);
	r->dx = rig_tensor(r, &r->x);
	r->d_other = rig_tensor(r, &r->x);
	must(r->ops->op_new(d, &site, &r->op, &e), &e);
	r->y = rig_tensor(r, &r->op->out);
	r->dy = rig_tensor(r, &r->op->out);
	for (int i = 0; i < r->op->param_count; i++) {
		size_t bytes = r->op->param[i].size * sizeof(float);

		r->param[i] = rig_alloc(r, bytes);
		r->grad[i] = rig_alloc(r, bytes);
		rig_poison(r, r->grad[i], bytes);
	}
	for (int i = 0; i < r->op->buffer_count; i++)
		r->buffer[i] = rig_alloc(r, r->op->buffer[i].size *
					    sizeof(float));
	must(r->ops->op_bind(d, r->op, &(struct op_memory){
		.in = &r->x, .add = site.add, .out = &r->y,
		.param = {r->param[0], r->param[1]},
		.grad = {r->grad[0], r->grad[1]},
		.buffer = {r->buffer[0], r->buffer[1]}, .dy = {&r->dy},
		.dx = &r->dx, .d_add = add ? &r->d_other : NULL}, &e), &e);
	/* binding may measure, and overwrite them */
	rig_poison(r, r->y.data, r->y.bytes);
	rig_poison(r, r->dx.data, r->dx.bytes);
	rig_poison(r, r->d_other.data, r->d_other.bytes);
}

static void rig_release(struct rig *r)
{
	struct tensor *t[] = {&r->x, &r->other, &r->y, &r->dy, &r->dx,
			      &r->d_other};

	r->ops->op_free(r->d, r->op);
	r->ops->op_free(r->d, r->before);
	for (int i = 0; i < 6; i++)
		r->ops->free(r->d, t[i]->data);
	for (int i = 0; i < OP_PARAMS_MAX; i++) {
		r->ops->free(r->d, r->param[i]);
		r->ops->free(r->d, r->grad[i]);
		r->ops->free(r->d, r->buffer[i]);
	}
}

static float *rig_get(struct rig *r, const struct tensor *t)
{
	float *v = memory(count_of(t) * sizeof(*v));

	r->ops->tensor_get(r->d, t, v);
	return v;
}

static float round_bf16(float v)
{
	uint32_t u;

	memcpy(&u, &v, sizeof(u));
	u = (u + 0x7fff + (u >> 16 & 1)) & 0xffff0000u;
	memcpy(&v, &u, sizeof(u));
	return v;
}

/* Of no more than 1. */
static float round_fp16(float v)
{
	int e;

	frexpf(v, &e);
	e = (e < -13 ? -13 : e) - 11;
	return ldexpf(nearbyintf(ldexpf(v, -e)), e);
}

/* Sets parameter i; returns it as the device multiplies by it. */
static float *rig_set_param(struct rig *r, int i, float (*rounded)(float))
{
	size_t count = r->op->param[i].count;
	float *v = memory(count * sizeof(*v));

	for (size_t k = 0; k < count; k++)
		v[k] = drawn();
	r->ops->param_put(r->d, r->op, i, r->param[i], v);
	r->ops->params_changed(r->d);
	for (size_t k = 0; rounded && k < count; k++)
		v[k] = rounded(v[k]);
	return v;
}

static float *rig_get_grad(struct rig *r, int i)
{
	float *v = memory(r->op->param[i].count * sizeof(*v));

	r->ops->param_get(r->d, r->op, i, r->grad[i], v);
	return v;
}

static void rig_run(struct rig *r)
{
	struct err e = ERR_INIT;

	r->ops->op_forward(r->d, r->op, NULL);
	r->ops->op_backward(r->d, r->op, NULL);
	must(r->ops->wait(r->d, &e), &e);
}

/* ---- Comparing ---- */

/* The largest difference of a value, relative to itself plus the typical
 * one. */
static double farthest(const float *got, const double *want, size_t n)
{
	double square = 0, most = 0;

	for (size_t i = 0; i < n; i++)
		square += want[i] * want[i];
	square = sqrt(square / (double)n);
	for (size_t i = 0; i < n; i++) {
		double d = fabs((double)got[i] - want[i]) /
			   (fabs(want[i]) + square + 1e-9);

		if (!(d <= most)) /* NaN counts as more */
			most = d;
	}
	return most;
}

/* TF32 and fp16 have 10 bits of mantissa: a value is off by 2^-11 at most. */
static const double limits[PRECISIONS] = {
	[PRECISION_FP32] = 1e-5,
	[PRECISION_BF16] = 1e-2,
	[PRECISION_TF32] = 2e-3,
	[PRECISION_FP16] = 7e-4,
};

static void judge(const char *what, enum precision precision, float *got,
		  double *want, size_t n)
{
	double limit = limits[precision], most = farthest(got, want, n);

	printf("  %-22s %.1e of %.0e%s\n", what, most, limit,
	       most <= limit ? "" : " FAILED");
	if (!(most <= limit))
		failed = 1;
	free(got);
	free(want);
}

/* ---- Convolutions ---- */

/* All three passes in one walk over the products. */
static void conv_reference(const struct shape *s, int out, const float *x,
			   const float *w, const float *dy, double *y,
			   double *dx, double *dw)
{
	int r = s->kernel;

	for (int n = 0; n < s->n; n++)
		for (int k = 0; k < s->out; k++)
			for (int p = 0; p < out * out; p++)
				for (int q = 0; q < s->c * r * r; q++) {
					int c = q / (r * r);
					int iy = p / out * s->stride - s->pad +
						 q / r % r;
					int ix = p % out * s->stride - s->pad +
						 q % r;
					int at_x = ((n * s->c + c) * s->side +
						    iy) * s->side + ix;
					int at_w = k * s->c * r * r + q;
					int at_y = (n * s->out + k) * out *
						   out + p;

					if (iy < 0 || ix < 0 ||
					    iy >= s->side || ix >= s->side)
						continue;
					y[at_y] += (double)x[at_x] *
						   (double)w[at_w];
					dx[at_x] += (double)dy[at_y] *
						    (double)w[at_w];
					dw[at_w] += (double)dy[at_y] *
						    (double)x[at_x];
				}
}

static void check_conv(struct device *d, const struct shape *s,
		       enum precision precision)
{
	static float (*const rounds[PRECISIONS])(float) = {
		[PRECISION_BF16] = round_bf16, [PRECISION_FP16] = round_fp16};
	struct op_spec spec = {OP_CONV, .out = s->out, .kernel = s->kernel,
			       .stride = s->stride, .pad = s->pad};
	size_t n_y, n_x, n_w;
	double *y, *dx, *dw;
	float *x, *w, *dy;
	struct rig r;

	printf("%s conv %d x %d @ %d, %d of %d x %d / %d\n",
	       precision_name(precision), s->n, s->c, s->side, s->out,
	       s->kernel, s->kernel, s->stride);
	rig_init(&r, d, s, spec, 0);
	n_x = count_of(&r.x);
	n_y = count_of(&r.y);
	n_w = r.op->param[0].count;
	y = memory(n_y * sizeof(*y));
	dx = memory(n_x * sizeof(*dx));
	dw = memory(n_w * sizeof(*dw));
	w = rig_set_param(&r, 0, rounds[precision]);
	x = rig_get(&r, &r.x);
	dy = rig_get(&r, &r.dy);
	conv_reference(s, r.y.h, x, w, dy, y, dx, dw);
	rig_run(&r);
	judge("y", precision, rig_get(&r, &r.y), y, n_y);
	judge("gradient by x", precision, rig_get(&r, &r.dx), dx, n_x);
	judge("gradient by weight", precision, rig_get_grad(&r, 0), dw, n_w);
	free(x);
	free(w);
	free(dy);
	rig_release(&r);
}

/* ---- Batch normalisation, an addition and a ReLU ---- */

struct norm_values {
	const float *x, *other, *weight, *bias, *dy;
	double *y, *dz, *dx, *d_weight, *d_bias;
};

/* One channel: c of each of n samples, with its places. */
static void norm_reference(const struct shape *s, const struct norm_values *v,
			   int c)
{
	int places = s->side * s->side;
	double count = s->n * places, mean = 0, var = 0, inv;
	double sum = 0, product = 0;

#define EACH(i)                                                               \
	for (int n = 0; n < s->n; n++)                                        \
		for (int i = (n * s->c + c) * places;                         \
		     i < (n * s->c + c + 1) * places; i++)
	EACH(i)
		mean += (double)v->x[i] / count;
	EACH(i)
		var += ((double)v->x[i] - mean) * ((double)v->x[i] - mean) /
		       count;
	inv = 1 / sqrt(var + 1e-5);
	EACH(i) {
		double hat = ((double)v->x[i] - mean) * inv;
		double y = hat * (double)v->weight[c] + (double)v->bias[c] +
			   (double)v->other[i];

		v->y[i] = y < 0 ? 0 : y;
		v->dz[i] = y <= 0 ? 0 : (double)v->dy[i];
		sum += v->dz[i];
		product += v->dz[i] * hat;
	}
	v->d_bias[c] = sum;
	v->d_weight[c] = product;
	EACH(i) {
		double hat = ((double)v->x[i] - mean) * inv;

		v->dx[i] = (double)v->weight[c] * inv *
			   (v->dz[i] - sum / count - hat * product / count);
	}
#undef EACH
}

static void check_norm(struct device *d, const struct shape *s,
		       enum precision precision)
{
	struct op_spec spec = {OP_BATCH_NORM, .relu = 1};
	size_t n, c = (size_t)s->c;
	struct norm_values v;
	struct rig r;

	printf("%s norm %d x %d @ %d, add, relu\n", precision_name(precision),
	       s->n, s->c, s->side);
	rig_init(&r, d, s, spec, 1);
	n = count_of(&r.x);
	v.weight = rig_set_param(&r, 0, NULL);
	v.bias = rig_set_param(&r, 1, NULL);
	v.x = rig_get(&r, &r.x);
	v.other = rig_get(&r, &r.other);
	v.dy = rig_get(&r, &r.dy);
	v.y = memory(n * sizeof(double));
	v.dz = memory(n * sizeof(double));
	v.dx = memory(n * sizeof(double));
	v.d_weight = memory(c * sizeof(double));
	v.d_bias = memory(c * sizeof(double));
	for (int i = 0; i < s->c; i++)
		norm_reference(s, &v, i);
	rig_run(&r);
	judge("y", precision, rig_get(&r, &r.y), v.y, n);
	judge("gradient by the other", precision, rig_get(&r, &r.d_other),
	      v.dz, n);
	judge("gradient by x", precision, rig_get(&r, &r.dx), v.dx, n);
	judge("gradient by weight", precision, rig_get_grad(&r, 0),
	      v.d_weight, c);
	judge("gradient by bias", precision, rig_get_grad(&r, 1), v.d_bias, c);
	free((void *)v.x);
	free((void *)v.other);
	free((void *)v.dy);
	free((void *)v.weight);
	free((void *)v.bias);
	rig_release(&r);
}

int main(int argc, char **argv)
{
	struct err e = ERR_INIT;
	const struct ops *ops = ops_find(argc > 1 ? argv[1] : "cuda", &e);
	/* the cpu twin, which can check this program anywhere, has only two */
	int on_cpu = ops && !strcmp(ops->kind, "cpu");

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!ops)
		DIE("%s", e.text);
	for (enum precision p = 0; p < PRECISIONS; p++) {
		struct device_options o = {.threads = 2, .core = -1,
					   .precision = p, .direct = 1,
					   .cache = getenv("DDP_CACHE")};
		struct device *d;

		if (on_cpu && (p == PRECISION_BF16 || p == PRECISION_TF32))
			continue;
		must(ops->open(&o, &d, &e), &e);
		ops->enter(d);
		for (size_t i = 0; i < sizeof(convs) / sizeof(*convs); i++)
			check_conv(d, &convs[i], p);
		for (size_t i = 0; i < sizeof(norms) / sizeof(*norms); i++)
			check_norm(d, &norms[i], p);
		ops->close(d);
	}
	printf("%s\n", failed ? "FAILED" : "ok");
	return failed;
}
