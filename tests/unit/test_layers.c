/* test_layers.c: every kind of layer through the table of operations, against
 * the same in double, and every gradient against finite differences of that. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "trainers/ops/ops.h"

static const struct ops *const ops = &ops_cpu;
static struct device *device;
static struct device *narrow; /* bf16; NULL: this processor has none */
static uint32_t chance = 1;

/* -1..1 */
static float draw(void)
{
	chance = chance * 1664525u + 1013904223u;
	return (float)(chance >> 8) * 0x1p-23f - 1.0f;
}

static float *draw_array(size_t n)
{
	float *p = calloc(n, sizeof *p);

	ck_assert_ptr_nonnull(p);
	for (size_t i = 0; i < n; i++)
		p[i] = draw();
	return p;
}

/* ---- Cases ---- */

static const struct shape {
	struct op_spec spec;
	int n, c, h, w;
	int add;   /* batch_norm adds a second input */
	int sides; /* gradients that come: 1 or 2 */
	int plain; /* the input is the model's, not an activation */
	double near;
} shapes[] = {
	/* plain rows */
	{{OP_LINEAR, .out = 1}, 1, 1, 1, 1, 0, 1, 1, 1e-5},
	{{OP_LINEAR, .out = 5, .relu = 1}, 3, 7, 1, 1, 0, 1, 1, 1e-5},
	{{OP_LINEAR, .out = 50, .relu = 1}, 8, 1, 28, 28, 0, 1, 1, 1e-5},
	{{OP_LINEAR, .out = 784, .relu = 1}, 4, 128, 1, 1, 0, 1, 1, 1e-5},
	{{OP_LINEAR, .out = 10}, 64, 50, 1, 1, 0, 2, 1, 1e-5},
	/* a model's first, at both stems */
	{{OP_CONV, 64, 3, 1, 1}, 2, 3, 8, 8, 0, 1, 1, 1e-5},
	{{OP_CONV, 64, 7, 2, 3}, 2, 3, 16, 16, 0, 1, 1, 1e-5},
	{{OP_CONV, 16, 3, 1, 1}, 2, 3, 7, 5, 0, 2, 1, 1e-5},
	/* within: those that Winograd takes, strides, 1x1, odd channels */
	{{OP_CONV, 64, 3, 1, 1}, 4, 64, 8, 8, 0, 1, 0, 4e-5},
	{{OP_CONV, 32, 3, 1, 1}, 3, 16, 7, 9, 0, 2, 0, 4e-5},
	{{OP_CONV, 32, 3, 2, 1}, 2, 16, 8, 8, 0, 1, 0, 1e-5},
	{{OP_CONV, 32, 1, 2, 0}, 2, 16, 7, 7, 0, 1, 0, 1e-5},
	{{OP_CONV, 64, 1, 1, 0}, 2, 16, 4, 4, 0, 2, 0, 1e-5},
	{{OP_CONV, 5, 3, 1, 1}, 2, 7, 6, 6, 0, 1, 0, 1e-5},
	{{OP_BATCH_NORM}, 4, 16, 5, 5, 0, 1, 0, 1e-5},
	{{OP_BATCH_NORM, .relu = 1}, 4, 32, 5, 3, 0, 1, 0, 1e-5},
	{{OP_BATCH_NORM, .relu = 1}, 4, 16, 4, 4, 0, 2, 0, 1e-5},
	{{OP_BATCH_NORM, .relu = 1}, 4, 48, 4, 4, 1, 1, 0, 1e-5},
	{{OP_BATCH_NORM, .relu = 1}, 3, 16, 7, 7, 1, 2, 0, 1e-5},
	{{OP_BATCH_NORM}, 5, 16, 3, 3, 1, 2, 0, 1e-5},
	{{OP_BATCH_NORM, .relu = 1}, 6, 16, 1, 1, 0, 1, 0, 1e-5},
	{{OP_BATCH_NORM, .relu = 1}, 2, 21, 5, 5, 1, 2, 0, 1e-5},
	{{OP_MAX_POOL, .kernel = 3, .stride = 2, .pad = 1}, 2, 16, 8, 8, 0, 1,
	 0, 1e-5},
	{{OP_MAX_POOL, .kernel = 3, .stride = 2, .pad = 1}, 2, 16, 7, 9, 0, 2,
	 0, 1e-5},
	{{OP_MAX_POOL, .kernel = 2, .stride = 2}, 2, 5, 6, 6, 0, 1, 0, 1e-5},
	{{OP_AVERAGE_POOL}, 3, 32, 4, 4, 0, 1, 0, 1e-5},
	{{OP_AVERAGE_POOL}, 2, 19, 7, 7, 0, 2, 0, 1e-5},
	{{OP_AVERAGE_POOL}, 2, 16, 1, 1, 0, 1, 0, 1e-5},
};

/* In bf16 values and weights are off by up to 2^-9 of themselves. */
static double near(const struct shape *s)
{
	return device == narrow ? 1.5e-2 : s->near;
}

/* Everything in PyTorch's layout, in the host's memory. */
struct layer_case {
	const struct shape *s;
	struct op *maker, *op; /* maker: whose output is like the input */
	struct tensor in, add, out, dy[2], dx, d_add;
	size_t ins, outs, params[2];
	float *x, *a, *y;       /* in, add, out */
	float *c[2];            /* the loss is sum((c[0] + c[1]) * y) */
	float *p[2], *gp[2], *gx, *ga;
	float *arena[2], *grad[2], *buffer[2]; /* the device's */
};

static size_t values_of(const struct tensor *t)
{
	return (size_t)t->n * (size_t)t->c * (size_t)t->h * (size_t)t->w;
}

static void give_memory(struct tensor *t)
{
	ck_assert_int_eq(ops->alloc(device, t->bytes, &t->data, NULL), 0);
}

static float *device_floats(size_t n)
{
	void *p;

	ck_assert_int_eq(ops->alloc(device, n * sizeof(float), &p, NULL), 0);
	return p;
}

/* A tensor like the layer's input: the model's own, or a convolution's. */
static void make_input(struct layer_case *k)
{
	const struct shape *s = k->s;
	struct tensor image = {.n = s->n, .c = s->plain ? s->c : 3, .h = s->h,
			       .w = s->w, .plain = 1};
	struct op_site site = {
		.spec = {.kind = OP_CONV, .out = s->c, .kernel = 1,
			 .stride = 1},
		.name = "maker", .in = &image, .training = 1, .first = 1,
	};

	image.bytes = values_of(&image) * sizeof(float);
	k->in = image;
	if (s->plain)
		return;
	ck_assert_int_eq(ops->op_new(device, &site, &k->maker, NULL), 0);
	k->in = k->maker->out;
}

static void make_params(struct layer_case *k)
{
	for (int i = 0; i < k->op->param_count; i++) {
		const struct op_param *p = &k->op->param[i];

		k->params[i] = p->count;
		k->p[i] = draw_array(p->count);
		k->gp[i] = draw_array(p->count);
		k->arena[i] = device_floats(p->size);
		k->grad[i] = device_floats(p->size);
		ops->param_put(device, k->op, i, k->arena[i], k->p[i]);
	}
	for (int i = 0; i < k->op->buffer_count; i++)
		k->buffer[i] = device_floats(k->op->buffer[i].size);
}

static void bind(struct layer_case *k)
{
	struct op_memory m = {.in = &k->in, .out = &k->out, .dx = &k->dx};
	struct tensor *all[] = {&k->in, &k->add, &k->out, &k->dy[0],
				&k->dy[1], &k->dx, &k->d_add};

	k->add = k->dx = k->d_add = k->in;
	k->out = k->dy[0] = k->dy[1] = k->op->out;
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		give_memory(all[i]);
	if (k->s->add) {
		m.add = &k->add;
		m.d_add = &k->d_add;
	}
	for (int i = 0; i < 2; i++) {
		m.param[i] = k->arena[i];
		m.grad[i] = k->grad[i];
		m.buffer[i] = k->buffer[i];
		m.dy[i] = i < k->s->sides ? &k->dy[i] : NULL;
	}
	ck_assert_int_eq(ops->op_bind(device, k->op, &m, NULL), 0);
}

static void case_init(struct layer_case *k, const struct shape *s)
{
	struct op_site site = {.spec = s->spec, .name = "layer",
			       .training = 1};

	memset(k, 0, sizeof *k);
	k->s = s;
	make_input(k);
	site.in = &k->in;
	site.add = s->add ? &k->in : NULL;
	ck_assert_int_eq(ops->op_new(device, &site, &k->op, NULL), 0);
	make_params(k);
	bind(k);
	k->ins = values_of(&k->in);
	k->outs = values_of(&k->out);
	k->x = draw_array(k->ins);
	k->a = draw_array(k->ins);
	k->y = draw_array(k->outs);
	k->c[0] = draw_array(k->outs);
	k->c[1] = draw_array(k->outs);
	k->gx = draw_array(k->ins);
	k->ga = draw_array(k->ins);
	if (s->sides < 2)
		memset(k->c[1], 0, k->outs * sizeof(float));
}

/* Puts values; what they were rounded to is what is worked with. */
static void put(const struct tensor *t, float *values)
{
	ops->tensor_put(device, t, values);
	ops->tensor_get(device, t, values);
}

static void run(struct layer_case *k)
{
	put(&k->in, k->x);
	put(&k->add, k->a);
	ops->op_forward(device, k->op, NULL);
	ops->tensor_get(device, &k->out, k->y);
	put(&k->dy[0], k->c[0]);
	put(&k->dy[1], k->c[1]);
	ops->op_backward(device, k->op, NULL);
	ops->tensor_get(device, &k->dx, k->gx);
	ops->tensor_get(device, &k->d_add, k->ga);
	for (int i = 0; i < k->op->param_count; i++)
		ops->param_get(device, k->op, i, k->grad[i], k->gp[i]);
	ck_assert_int_eq(ops->wait(device, NULL), 0);
}

static void case_release(struct layer_case *k)
{
	struct tensor *tensors[] = {&k->in, &k->add, &k->out, &k->dy[0],
				    &k->dy[1], &k->dx, &k->d_add};
	float *all[] = {k->x, k->a, k->y, k->c[0], k->c[1], k->p[0], k->p[1],
			k->gp[0], k->gp[1], k->gx, k->ga};
	float *floats[] = {k->arena[0], k->arena[1], k->grad[0], k->grad[1],
			   k->buffer[0], k->buffer[1]};

	ops->op_free(device, k->op);
	ops->op_free(device, k->maker);
	for (size_t i = 0; i < sizeof tensors / sizeof *tensors; i++)
		ops->free(device, tensors[i]->data);
	for (size_t i = 0; i < sizeof floats / sizeof *floats; i++)
		ops->free(device, floats[i]);
	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		free(all[i]);
}

/* ---- The same in double ---- */

/* One value of those may be read with something added to it. */
static const float *moved;
static double moved_by;

static double at(const float *p, size_t i)
{
	return (double)p[i] + (p + i == moved ? moved_by : 0);
}

static double relu(const struct layer_case *k, double v)
{
	return k->s->spec.relu && v < 0 ? 0 : v;
}

static size_t place(const struct tensor *t, int n, int c, int h, int w)
{
	return (((size_t)n * (size_t)t->c + (size_t)c) * (size_t)t->h +
		(size_t)h) * (size_t)t->w + (size_t)w;
}

static double linear(const struct layer_case *k, int n, int j)
{
	size_t in = k->ins / (size_t)k->in.n;
	double sum = at(k->p[1], (size_t)j);

	for (size_t i = 0; i < in; i++)
		sum += at(k->x, (size_t)n * in + i) *
		       at(k->p[0], (size_t)j * in + i);
	return relu(k, sum);
}

/* A window of the input: conv's sum, or the greatest. */
static double window(const struct layer_case *k, int n, int c, int h, int w)
{
	const struct op_spec *s = &k->s->spec;
	int conv = s->kind == OP_CONV, from = conv ? 0 : c;
	int to = conv ? k->in.c : c + 1;
	double sum = 0, most = -INFINITY;

	for (int i = from; i < to; i++)
		for (int a = 0; a < s->kernel; a++)
			for (int b = 0; b < s->kernel; b++) {
				int y = h * s->stride + a - s->pad;
				int x = w * s->stride + b - s->pad;
				double v;

				if (y < 0 || x < 0 || y >= k->in.h ||
				    x >= k->in.w)
					continue;
				v = at(k->x, place(&k->in, n, i, y, x));
				most = v > most ? v : most;
				if (conv)
					sum += v * at(k->p[0],
						      (size_t)(((c * k->in.c +
								 i) *
							 s->kernel + a) *
							s->kernel + b));
			}
	return conv ? sum : most;
}

static double average(const struct layer_case *k, int n, int c)
{
	double sum = 0;

	for (int h = 0; h < k->in.h; h++)
		for (int w = 0; w < k->in.w; w++)
			sum += at(k->x, place(&k->in, n, c, h, w));
	return sum / (k->in.h * k->in.w);
}

/* Mean and variance of a channel over the batch. */
static void statistics(const struct layer_case *k, int c, double *mean,
		       double *var)
{
	int places = k->in.h * k->in.w;
	double sum = 0, square = 0, count = (double)k->in.n * places;

	for (int n = 0; n < k->in.n; n++)
		for (int i = 0; i < places; i++)
			sum += at(k->x, place(&k->in, n, c, 0, 0) + (size_t)i);
	for (int n = 0; n < k->in.n; n++)
		for (int i = 0; i < places; i++) {
			double far = at(k->x, place(&k->in, n, c, 0, 0) +
						      (size_t)i) -
				     sum / count;

			square += far * far;
		}
	*mean = sum / count;
	*var = square / count;
}

static void outputs(const struct layer_case *k, double *y)
{
	double mean = 0, var = 1;

	for (int c = 0; c < k->out.c; c++) {
		if (k->s->spec.kind == OP_BATCH_NORM)
			statistics(k, c, &mean, &var);
		for (int n = 0; n < k->out.n; n++)
			for (int h = 0; h < k->out.h; h++)
				for (int w = 0; w < k->out.w; w++) {
					size_t i = place(&k->out, n, c, h, w);
					size_t q = (size_t)c;
					double v;

					switch (k->s->spec.kind) {
					case OP_LINEAR:
						y[i] = linear(k, n, c);
						break;
					case OP_AVERAGE_POOL:
						y[i] = average(k, n, c);
						break;
					case OP_BATCH_NORM:
						v = (at(k->x, i) - mean) /
							    sqrt(var + 1e-5) *
							    at(k->p[0], q) +
						    at(k->p[1], q);
						if (k->s->add)
							v += at(k->a, i);
						y[i] = relu(k, v);
						break;
					default:
						y[i] = window(k, n, c, h, w);
					}
				}
	}
}

static double loss_with(const struct layer_case *k, double *room,
			const float *p, double by)
{
	double sum = 0;

	moved = p;
	moved_by = by;
	outputs(k, room);
	moved = NULL;
	for (size_t i = 0; i < k->outs; i++)
		sum += ((double)k->c[0][i] + (double)k->c[1][i]) * room[i];
	return sum;
}

/* Some values of an array, spread over all of it. Where the slopes to the left
 * and to the right differ a ReLU bends, or another one is the greatest. */
static void check_slopes(const struct layer_case *k, const char *what,
			 const float *values, const float *got, size_t count,
			 double scale)
{
	const double h = 1e-5;
	double *room = malloc(k->outs * sizeof *room);
	double middle = loss_with(k, room, NULL, 0);
	size_t bent = 0, tried = 0;

	for (size_t i = 0; i < count; i += count / 16 + 1, tried++) {
		double up = (loss_with(k, room, values + i, h) - middle) / h;
		double down = (middle - loss_with(k, room, values + i, -h)) / h;
		double off = fabs((up + down) / 2 - (double)got[i]);

		if (fabs(up - down) > 1e-2 * scale) {
			bent++;
			continue;
		}
		ck_assert_msg(off < near(k->s) * scale, "%s %zu: %.9g is not "
			      "%.9g", what, i, (double)got[i],
			      (up + down) / 2);
	}
	ck_assert_uint_lt(bent, tried / 3 + 1);
	free(room);
}

static void check_outputs(const struct shape *s)
{
	struct layer_case k;
	double *want;
	double scale;

	case_init(&k, s);
	run(&k);
	want = malloc(k.outs * sizeof *want);
	outputs(&k, want);
	scale = k.params[0] > 2 * (size_t)k.out.c ?
			sqrt((double)k.params[0] / k.out.c) : 4;
	for (size_t i = 0; i < k.outs; i++)
		ck_assert_msg(fabs((double)k.y[i] - want[i]) <
			      near(k.s) * scale, "value %zu: %.9g is not %.9g",
			      i, (double)k.y[i], want[i]);
	free(want);
	case_release(&k);
}

static void check_gradients(const struct shape *s)
{
	struct layer_case k;
	double scale;

	case_init(&k, s);
	run(&k);
	scale = sqrt((double)k.outs / k.out.c) + sqrt((double)k.out.c) + 1;
	check_slopes(&k, "input", k.x, k.gx, k.ins, scale);
	if (k.s->add)
		check_slopes(&k, "addend", k.a, k.ga, k.ins, scale);
	for (int i = 0; i < k.op->param_count; i++)
		check_slopes(&k, k.op->param[i].name, k.p[i], k.gp[i],
			     k.params[i], scale);
	case_release(&k);
}

START_TEST(a_layer_is_what_it_is_in_double)
{
	check_outputs(&shapes[_i]);
}
END_TEST

START_TEST(a_layers_gradients_are_its_slopes)
{
	check_gradients(&shapes[_i]);
}
END_TEST

START_TEST(a_layer_in_bf16_is_near_to_it)
{
	if (!narrow) {
		puts("left out: this processor does not multiply bf16");
		return;
	}
	device = narrow;
	ops->enter(device);
	check_outputs(&shapes[_i]);
	check_gradients(&shapes[_i]);
}
END_TEST

/* Nothing of a batch may be left for the next one. */
START_TEST(a_layer_does_the_same_again)
{
	float *y, *gx, *gp;
	struct layer_case k;

	case_init(&k, &shapes[_i]);
	run(&k);
	y = k.y;
	gx = k.gx;
	gp = k.gp[0];
	k.y = draw_array(k.outs);
	k.gx = draw_array(k.ins);
	k.gp[0] = draw_array(k.params[0]);
	run(&k);
	ck_assert_mem_eq(y, k.y, k.outs * sizeof *y);
	ck_assert_mem_eq(gx, k.gx, k.ins * sizeof *gx);
	if (gp)
		ck_assert_mem_eq(gp, k.gp[0], k.params[0] * sizeof *gp);
	free(y);
	free(gx);
	free(gp);
	case_release(&k);
}
END_TEST

START_TEST(running_statistics_are_pytorchs)
{
	const struct shape s = {{OP_BATCH_NORM}, 3, 16, 5, 5, 0, 1, 0, 1e-5};
	struct layer_case k;
	double mean, var;

	case_init(&k, &s);
	for (int c = 0; c < s.c; c++)
		k.buffer[1][c] = 1;
	run(&k);
	for (int c = 0; c < s.c; c++) {
		statistics(&k, c, &mean, &var);
		var *= 75.0 / 74;
		ck_assert_double_eq_tol((double)k.buffer[0][c], .1 * mean,
					1e-6);
		ck_assert_double_eq_tol((double)k.buffer[1][c], .9 + .1 * var,
					1e-6);
	}
	case_release(&k);
}
END_TEST

/* Two ranks' worth of statistics, as one that sees both would have them. */
static uint64_t seen_count;

static int double_moments(void *arg, float *mean, float *var, size_t channels,
			  uint64_t *count)
{
	seen_count = *count;
	*count *= 2;
	return 0;
}

static int double_sum(void *arg, float *values, size_t n)
{
	for (size_t i = 0; i < n; i++)
		values[i] *= 2;
	return 0;
}

/* Where the other rank has the same batch, its statistics and gradients of the
 * input are those of a rank alone. */
START_TEST(synchronised_normalisation_of_twins_is_that_of_one)
{
	const struct shape s = {{OP_BATCH_NORM, .relu = 1}, 3, 16, 5, 5, 0, 1,
				0, 1e-5};
	struct layer_case k;
	float *gx;

	case_init(&k, &s);
	run(&k);
	gx = k.gx;
	k.gx = draw_array(k.ins);
	device->sync_moments = double_moments;
	device->sync_sum = double_sum;
	run(&k);
	device->sync_moments = NULL;
	device->sync_sum = NULL;
	ck_assert_uint_eq(seen_count, 75);
	for (size_t i = 0; i < k.ins; i++)
		ck_assert_float_eq_tol(k.gx[i], gx[i], 1e-6f);
	free(gx);
	case_release(&k);
}
END_TEST

START_TEST(a_shape_that_cannot_be_is_refused_in_words)
{
	struct tensor in = {.n = 1, .c = 3, .h = 2, .w = 2, .plain = 1};
	struct op_site site = {
		.spec = {.kind = OP_CONV, .out = 8, .kernel = 7, .stride = 2},
		.name = "conv1", .in = &in, .training = 1, .first = 1,
	};
	struct err e = ERR_INIT;
	struct op *op;

	ck_assert_int_eq(ops->op_new(device, &site, &op, &e), ERR_USAGE);
	ck_assert_ptr_nonnull(strstr(e.text, "conv1"));
	ck_assert_ptr_nonnull(strstr(e.text, "2 x 2"));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("layers");
	TCase *t = tcase_create("layers");
	int failed, cases = sizeof shapes / sizeof *shapes;
	SRunner *r;

	if (ops->open(&(struct device_options){.threads = 1, .core = -1},
		      &device, NULL) < 0)
		return 1;
	ops->enter(device);
	if (ops->open(&(struct device_options){.threads = 1, .core = -1,
					       .bf16 = 1}, &narrow, NULL) < 0)
		narrow = NULL;
	tcase_set_timeout(t, 120);
	tcase_add_loop_test(t, a_layer_is_what_it_is_in_double, 0, cases);
	tcase_add_loop_test(t, a_layers_gradients_are_its_slopes, 0, cases);
	tcase_add_loop_test(t, a_layer_in_bf16_is_near_to_it, 0, cases);
	tcase_add_loop_test(t, a_layer_does_the_same_again, 0, cases);
	tcase_add_test(t, running_statistics_are_pytorchs);
	tcase_add_test(t, synchronised_normalisation_of_twins_is_that_of_one);
	tcase_add_test(t, a_shape_that_cannot_be_is_refused_in_words);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	ops->close(device);
	ops->close(narrow);
	return failed != 0;
}
