/* test_ops.c: the operations that are not layers (input, losses, updates), and
 * a first layer that uses lists, against double arithmetic. test_layers.c tests
 * the layers. */
#include <check.h>
#include <math.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/run_case.h"
#include "trainers/data/data_files.h"
#include "trainers/ops/cpu.h"

static const struct ops *const ops = &ops_cpu;
static struct device *device;
static uint32_t chance = 1;

/* -1..1 */
static float draw(void)
{
	chance = chance * 1664525u + 1013904223u;
	return (float)(chance >> 8) * 0x1p-23f - 1.0f;
}

static float *alloc_floats(size_t n)
{
	void *p;

	ck_assert_int_eq(ops->alloc(device, n * sizeof(float), &p, NULL), 0);
	return p;
}

static float *draw_array(size_t n)
{
	float *p = alloc_floats(n);

	for (size_t i = 0; i < n; i++)
		p[i] = draw();
	return p;
}

static void assert_near(double got, double want, double scale)
{
	double far = fabs(got - want) / scale;

	ck_assert_msg(far < 1e-5, "%.9g is not %.9g (off by %g)", got, want,
		      far);
}

static struct tensor rows(int n, int c, float *data)
{
	return (struct tensor){.n = n, .c = c, .h = 1, .w = 1, .plain = 1,
			       .bytes = (size_t)n * (size_t)c * 4,
			       .data = data};
}

/* ---- Input ---- */

static struct loader *loader_of(const struct dataset_part *part,
				const struct image_shape *shape,
				const uint32_t *order, size_t count)
{
	struct loader_spec s = {.part = part, .shape = *shape, .batch = 8};
	struct loader *f;

	ck_assert_int_eq(ops->loader_new(device, &s, &f, NULL), 0);
	ck_assert_int_eq(ops->loader_order(f, order, count, 0, NULL), 0);
	return f;
}

START_TEST(bytes_are_divided_by_255_exactly)
{
	const struct image_shape shape = {1, 1, 256, 10, {0}, {1}};
	uint8_t pixels[512];
	uint32_t labels[2] = {7, 70000};
	struct dataset_part part = {2, {.pixels = pixels, .size = 256}, labels};
	const uint32_t order[] = {1, 0};
	struct loader *f;
	float out[512];
	struct tensor t = {.n = 2, .c = 1, .h = 1, .w = 256, .plain = 1,
			   .data = out};

	for (int i = 0; i < 512; i++)
		pixels[i] = (uint8_t)i;
	f = loader_of(&part, &shape, order, 2);
	ops->set_step(device, &(struct step_args){0});
	ops->load_batch(f, 2, &t);
	for (int i = 0; i < 512; i++)
		ck_assert(out[i] == (float)pixels[i] / 255.0f);
	ck_assert_uint_eq(f->labels[0], 70000);
	ck_assert_uint_eq(f->labels[1], 7);
	ops->loader_free(device, f);
}
END_TEST

START_TEST(channels_are_scaled_each_by_its_own)
{
	const struct image_shape shape = {2, 1, 2, 10, {.5f, 0}, {.25f, 2}};
	uint8_t pixels[] = {0, 255, 51, 102, 255, 0, 0, 255};
	uint32_t labels[2] = {0};
	struct dataset_part part = {2, {.pixels = pixels, .size = 4}, labels};
	const uint32_t order[] = {0, 1, 0};
	const float want[] = {2, -2, 0, .5f, -2, 2, .1f, .2f};
	struct loader *f = loader_of(&part, &shape, order, 3);
	float out[8];
	struct tensor t = {.n = 2, .c = 2, .h = 1, .w = 2, .plain = 1,
			   .data = out};

	/* the second sample of the order and the one after it */
	ops->set_step(device, &(struct step_args){.first = 1});
	ops->load_batch(f, 2, &t);
	for (int i = 0; i < 8; i++)
		ck_assert_float_eq_tol(out[i], want[i], 1e-6f);
	ops->loader_free(device, f);
}
END_TEST

/* ---- the first layer by lists ---- */

enum { LISTED = 9, SIDE = 784 };

struct listed {
	uint8_t pixels[LISTED * SIDE];
	uint32_t start[LISTED + 1];
	uint16_t column[LISTED * SIDE];
	uint8_t value[LISTED * SIDE];
	struct samples samples;
};

/* Sample 0 is all zero, sample 1 has no zero, and about one pixel in five of
 * the others is nonzero. */
static void list_samples(struct listed *s)
{
	uint32_t n = 0;

	for (int i = 0; i < LISTED; i++) {
		s->start[i] = n;
		for (int k = 0; k < SIDE; k++) {
			int ink = i && (i == 1 || draw() > .6f);
			float v255 = 1 + fabsf(draw()) * 254;
			uint8_t v = ink ? (uint8_t)v255 : 0;

			s->pixels[i * SIDE + k] = v;
			if (!v)
				continue;
			s->column[n] = (uint16_t)k;
			s->value[n++] = v;
		}
	}
	s->start[LISTED] = n;
	s->samples = (struct samples){s->pixels, SIDE, s->start, s->column,
				      s->value};
}

/* One linear layer over the samples, with the loader's batch as input. */
struct layer_run {
	struct op *op;
	float *weight, *bias, *dw, *db, *y, *dy, *x;
	struct tensor in, out, d_out;
};

static void run_layer(struct layer_run *k, struct loader *f, int n, int out,
		      const float *c, int by_lists)
{
	size_t values = (size_t)(n * out);
	struct op_site site = {
		.spec = {.kind = OP_LINEAR, .out = out, .relu = out % 2},
		.name = "fc", .training = 1, .first = 1,
	};
	struct op_memory m = {
		.in = &k->in, .out = &k->out, .param = {k->weight, k->bias},
		.grad = {k->dw, k->db}, .dy = {&k->d_out},
	};

	k->in = f->in;
	k->in.n = n;
	k->in.data = k->x = alloc_floats((size_t)n * SIDE);
	site.in = &k->in;
	ck_assert_int_eq(ops->op_new(device, &site, &k->op, NULL), 0);
	k->out = k->d_out = k->op->out;
	k->out.data = k->y = alloc_floats(values);
	k->d_out.data = k->dy = alloc_floats(values);
	ck_assert_int_eq(ops->op_bind(device, k->op, &m, NULL), 0);
	ck_assert_int_eq(k->op->takes_lists, 1);
	/* twice: no state of the first batch may remain */
	for (int twice = 0; twice < 2; twice++) {
		memcpy(k->dy, c, values * sizeof(*c));
		ops->load_batch(f, n, by_lists ? NULL : &k->in);
		ops->op_forward(device, k->op, by_lists ? f : NULL);
		ops->op_backward(device, k->op, by_lists ? f : NULL);
	}
}

static void release_layer(struct layer_run *k)
{
	float *all[] = {k->weight, k->bias, k->dw, k->db, k->y, k->dy, k->x};

	ops->op_free(device, k->op);
	for (size_t i = 0; i < sizeof(all) / sizeof(*all); i++)
		ops->free(device, all[i]);
}

static const int listed_outs[] = {16, 17, 50, 63, 64, 65, 128, 200};

START_TEST(a_first_layer_by_lists_is_the_one_by_arrays)
{
	static struct listed s;
	const uint32_t order[] = {8, 0, 3, 1, 3, 2, 7};
	enum { N = sizeof(order) / sizeof(*order) };
	static const uint32_t labels[LISTED];
	int out = listed_outs[_i];
	size_t weights = (size_t)SIDE * (size_t)out;
	float *c = draw_array((size_t)(N * out));
	struct dataset_part part = {LISTED, {0}, labels};
	struct layer_run k[2] = {0};
	struct loader *f;

	list_samples(&s);
	part.samples = s.samples;
	f = loader_of(&part, &mnist_shape, order, N);
	ops->set_step(device, &(struct step_args){0});
	for (int i = 0; i < 2; i++) {
		k[i].weight = draw_array(weights);
		k[i].bias = draw_array((size_t)out);
		k[i].dw = draw_array(weights);
		k[i].db = draw_array((size_t)out);
	}
	memcpy(k[1].weight, k[0].weight, weights * sizeof(float));
	memcpy(k[1].bias, k[0].bias, (size_t)out * sizeof(float));
	for (int i = 0; i < 2; i++)
		run_layer(&k[i], f, N, out, c, i);
	for (int i = 0; i < N * out; i++)
		assert_near((double)k[1].y[i], (double)k[0].y[i], 28);
	for (size_t i = 0; i < weights; i++)
		assert_near((double)k[1].dw[i], (double)k[0].dw[i], 3);
	ck_assert_mem_eq(k[1].db, k[0].db, (size_t)out * sizeof(float));
	release_layer(&k[0]);
	release_layer(&k[1]);
	ops->loader_free(device, f);
	ops->free(device, c);
}
END_TEST

/* ---- losses ---- */

/* PyTorch's label smoothing: a mixture of the label and all classes. */
static double cross_entropy_of(int n, int classes, const float *x,
			       const uint32_t *label, double smoothing,
			       const float *p, double h)
{
	double total = 0;

	for (int i = 0; i < n; i++) {
		double sum = 0, right = 0, all = 0;

		for (int j = 0; j < classes; j++) {
			const float *at = &x[i * classes + j];
			double v = (double)*at + (at == p ? h : 0);

			sum += exp(v);
			all += v / classes;
			if ((uint32_t)j == label[i])
				right = v;
		}
		total += log(sum) - (1 - smoothing) * right -
			 smoothing * all;
	}
	return total / n;
}

static const float smoothings[] = {0, .1f};

START_TEST(cross_entropy_and_its_gradient)
{
	enum { N = 33, CLASSES = 10 };
	const struct loss_spec spec = {LOSS_CROSS_ENTROPY, smoothings[_i], 1};
	double smoothing = (double)smoothings[_i];
	float *x = draw_array(N * CLASSES), *dx = draw_array(N * CLASSES), loss;
	struct tensor y = rows(N, CLASSES, x), dy = rows(N, CLASSES, dx);
	struct tally tally = {1, 2, 3};
	uint32_t label[N];
	double want;

	for (int i = 0; i < N; i++)
		label[i] = (uint32_t)(i * 7 % CLASSES);
	ops->cross_entropy(device, &spec, &y, label, &loss, &tally, &dy);
	want = cross_entropy_of(N, CLASSES, x, label, smoothing, NULL, 0);
	assert_near((double)loss, want, 1);
	assert_near(tally.loss, 1 + want * N, N);
	ck_assert_uint_eq(tally.count, 3 + N);
	for (int i = 0; i < N * CLASSES; i++) {
		double up = cross_entropy_of(N, CLASSES, x, label, smoothing,
					     &x[i], 1e-4);
		double down = cross_entropy_of(N, CLASSES, x, label, smoothing,
					       &x[i], -1e-4);

		assert_near((double)dx[i] * N, (up - down) / 2e-4 * N, 1);
	}
	ops->free(device, x);
	ops->free(device, dx);
}
END_TEST

START_TEST(a_share_of_a_loss_has_that_share_of_its_gradient)
{
	const struct loss_spec whole = {LOSS_CROSS_ENTROPY, .1f, 1};
	const struct loss_spec quarter = {LOSS_CROSS_ENTROPY, .1f, .25f};
	float *x = draw_array(40), a[40], b[40], loss[2];
	struct tensor y = rows(4, 10, x), da = rows(4, 10, a);
	struct tensor db = rows(4, 10, b);
	const uint32_t label[4] = {1, 2, 3, 4};

	ops->cross_entropy(device, &whole, &y, label, &loss[0], NULL, &da);
	ops->cross_entropy(device, &quarter, &y, label, &loss[1], NULL, &db);
	assert_near((double)loss[1] * 4, (double)loss[0], 1);
	for (int i = 0; i < 40; i++)
		assert_near((double)b[i] * 4, (double)a[i], 1);
	ops->free(device, x);
}
END_TEST

START_TEST(cross_entropy_is_finite_for_large_values)
{
	const struct loss_spec spec = {LOSS_CROSS_ENTROPY, 0, 1};
	float x[4] = {1000, -1000, -1000, 1000}, dx[4], loss;
	struct tensor y = rows(2, 2, x), dy = rows(2, 2, dx);
	uint32_t label[2] = {0, 0};

	ops->cross_entropy(device, &spec, &y, label, &loss, NULL, &dy);
	ck_assert(loss == 1000.0f);
	ck_assert(dx[0] == 0 && dx[1] == 0);
	ck_assert(dx[2] == -0.5f && dx[3] == 0.5f);
	ops->cross_entropy(device, &spec, &y, label, &loss, NULL, NULL);
	ck_assert(loss == 1000.0f);
}
END_TEST

START_TEST(the_first_of_equal_values_is_the_greatest)
{
	const struct loss_spec spec = {LOSS_CROSS_ENTROPY, 0, 1};
	float x[9] = {0, 1, 1, 5, 4, 3, -3, -2, -1}, loss;
	uint32_t label[3] = {1, 0, 2}, wrong[3] = {2, 1, 0};
	struct tensor y = rows(3, 3, x);
	struct tally tally = {0, 0, 0};

	ops->cross_entropy(device, &spec, &y, label, &loss, &tally, NULL);
	ck_assert_uint_eq(tally.correct, 3);
	ops->cross_entropy(device, &spec, &y, wrong, &loss, &tally, NULL);
	ck_assert_uint_eq(tally.correct, 3);
	ck_assert_uint_eq(tally.count, 6);
}
END_TEST

static const int mse_counts[] = {1, 15, 16, 17, 1000, 1024, 5003};

START_TEST(mse_and_its_gradient)
{
	const struct loss_spec spec = {LOSS_MSE, 0, 1};
	int n = mse_counts[_i];
	float *a = draw_array((size_t)n), *b = draw_array((size_t)n);
	float *g = draw_array((size_t)n), loss, again;
	struct tensor y = rows(1, n, a), target = rows(1, n, b);
	struct tensor dy = rows(1, n, g);
	double want = 0;

	ops->mse(device, &spec, &y, &target, &loss, NULL, &dy);
	for (int i = 0; i < n; i++) {
		double d = (double)a[i] - (double)b[i];

		want += d * d;
		/* the slope of d^2 / n */
		assert_near((double)g[i] * n, 2 * d, 4);
	}
	assert_near((double)loss, want / n, 1);
	ops->mse(device, &spec, &y, &target, &again, NULL, NULL);
	ck_assert(again == loss);
	ops->free(device, a);
	ops->free(device, b);
	ops->free(device, g);
}
END_TEST

/* ---- Updates ---- */

enum { N = 133, STEPS = 20 };

struct trained {
	double p[N], m[N], v[N];
};

static void adam_step(struct trained *t, const struct optimizer *o, int step,
		      double lr, const float *g)
{
	for (int i = 0; i < N; i++) {
		double gi = (double)g[i] + o->weight_decay * t->p[i];

		t->m[i] = .9 * t->m[i] + .1 * gi;
		t->v[i] = .999 * t->v[i] + .001 * gi * gi;
		t->p[i] -= lr * (t->m[i] / (1 - pow(.9, step))) /
			   (sqrt(t->v[i] / (1 - pow(.999, step))) + 1e-8);
	}
}

/* torch.optim.SGD, as its documentation defines it */
static void sgd_step(struct trained *t, const struct optimizer *o, int step,
		     double lr, const float *g)
{
	for (int i = 0; i < N; i++) {
		double gi = (double)g[i] + o->weight_decay * t->p[i];

		if (o->momentum > 0) {
			t->m[i] = step > 1 ? o->momentum * t->m[i] + gi : gi;
			gi = o->nesterov ? gi + o->momentum * t->m[i] : t->m[i];
		}
		t->p[i] -= lr * gi;
	}
}

static const struct optimizer optimizers[] = {
	{OPTIMIZER_ADAM, .9, .999, 1e-8},
	{OPTIMIZER_ADAM, .9, .999, 1e-8, .weight_decay = .01},
	{OPTIMIZER_SGD},
	{OPTIMIZER_SGD, .momentum = .9},
	{OPTIMIZER_SGD, .momentum = .9, .weight_decay = .01},
	{OPTIMIZER_SGD, .momentum = .9, .nesterov = 1, .weight_decay = .01},
};

START_TEST(an_update_matches_the_recurrence_in_double)
{
	struct update u = {
		.how = optimizers[_i], .count = N, .scale = 1,
		.moment = {alloc_floats(N), alloc_floats(N)},
	};
	float *p = draw_array(N), *g = draw_array(N);
	struct trained t = {{0}, {0}, {0}};

	u.param = p;
	u.grad = g;
	for (int i = 0; i < N; i++)
		t.p[i] = (double)p[i];
	for (int step = 1; step <= STEPS; step++) {
		double lr = 1e-3 * step;

		for (int i = 0; i < N; i++)
			g[i] = draw();
		ops->set_step(device, &(struct step_args){(uint64_t)step, 0,
							  lr});
		ops->update(device, &u);
		(u.how.kind == OPTIMIZER_ADAM ? adam_step : sgd_step)(
			&t, &u.how, step, lr, g);
		for (int i = 0; i < N; i++)
			assert_near((double)p[i], t.p[i], .1);
	}
	ops->free(device, p);
	ops->free(device, g);
	ops->free(device, u.moment[0]);
	ops->free(device, u.moment[1]);
}
END_TEST

START_TEST(a_value_after_the_last_full_part_is_updated)
{
	enum { COUNT = (1 << 17) + 1 }; /* cpu_update.c's PART, and one more */
	float *p = draw_array(COUNT), *g = draw_array(COUNT);
	struct update u = {
		.how = optimizers[_i], .count = COUNT, .scale = 1,
		.param = p, .grad = g,
		.moment = {alloc_floats(COUNT), alloc_floats(COUNT)},
	};
	float last = p[COUNT - 1];

	g[COUNT - 1] = 1;
	ops->set_step(device, &(struct step_args){1, 0, .5});
	ops->update(device, &u);
	ck_assert(p[COUNT - 1] < last);
	ops->free(device, p);
	ops->free(device, g);
	ops->free(device, u.moment[0]);
	ops->free(device, u.moment[1]);
}
END_TEST

START_TEST(a_loss_that_is_not_finite_stops_all_updates)
{
	float p[2] = {1, 2}, g[2] = {1, 1}, m[2] = {0}, loss = 1;
	struct update u = {.how = {OPTIMIZER_SGD}, .count = 2, .grad = g,
			   .scale = 1, .param = p, .moment = {m},
			   .loss = &loss};

	ops->set_step(device, &(struct step_args){6, 0, .5});
	ops->update(device, &u);
	ck_assert(p[0] == .5f);
	ck_assert_uint_eq(ops->halted(device), 0);
	loss = NAN;
	ops->set_step(device, &(struct step_args){7, 0, .5});
	ops->update(device, &u);
	loss = 1;
	ops->set_step(device, &(struct step_args){8, 0, .5});
	ops->update(device, &u);
	ck_assert(p[0] == .5f && p[1] == 1.5f);
	ck_assert_uint_eq(ops->halted(device), 7);
}
END_TEST

START_TEST(non_finite_values_are_found_anywhere)
{
	float *x = draw_array(1000);

	ck_assert_int_eq(ops->finite(device, 1000, x), 1);
	x[999] = INFINITY;
	ck_assert_int_eq(ops->finite(device, 1000, x), 0);
	ck_assert_int_eq(ops->finite(device, 999, x), 1);
	x[17] = -NAN;
	ck_assert_int_eq(ops->finite(device, 999, x), 0);
	ops->free(device, x);
}
END_TEST

/* Entering binds the thread to a core, so this needs the test's own process. */
START_TEST(a_thread_of_a_device_with_one_core_stays_on_that_core)
{
	struct device_options one = {.threads = 1};
	struct device *d;
	cpu_set_t set;

	ck_assert_int_eq(sched_getaffinity(0, sizeof(set), &set), 0);
	for (int core = 0; core < CPU_SETSIZE; core++)
		if (CPU_ISSET((size_t)core, &set))
			one.core = core;
	ck_assert_int_eq(ops->open(&one, &d, NULL), 0);
	ops->enter(d);
	ck_assert_int_eq(sched_getaffinity(0, sizeof(set), &set), 0);
	ck_assert_int_eq(CPU_COUNT(&set), 1);
	ck_assert(CPU_ISSET((size_t)one.core, &set));
	ops->close(d);
}
END_TEST

START_TEST(a_cpu_refuses_tf32)
{
	struct err e = ERR_INIT;
	struct device *d = NULL;

	ck_assert_int_eq(
		ops->open(&(struct device_options){.threads = 1,
						   .core = -1,
						   .precision = PRECISION_TF32},
			  &d, &e),
		ERR_USAGE);
	ck_assert_str_eq(e.text, "--precision tf32: only GPUs have it; on a "
				 "CPU use --precision fp32, which is exact");
	ck_assert_ptr_null(d);
}
END_TEST

START_TEST(unknown_devices_are_refused_by_name)
{
	struct err e = ERR_INIT;

	ck_assert_ptr_eq(ops_find("cpu", &e), &ops_cpu);
	ck_assert_ptr_null(ops_find("tpu", &e));
	ck_assert_ptr_nonnull(strstr(e.text, "tpu"));
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("ops");
	int failed;

	if (ops->open(&(struct device_options){.threads = 1, .core = -1},
		      &device, NULL) < 0)
		return 1;
	ops->enter(device);
	tcase_set_timeout(t, 120);
	tcase_add_test(t, bytes_are_divided_by_255_exactly);
	tcase_add_test(t, channels_are_scaled_each_by_its_own);
	tcase_add_loop_test(t, a_first_layer_by_lists_is_the_one_by_arrays, 0,
			    sizeof(listed_outs) / sizeof(*listed_outs));
	tcase_add_loop_test(t, cross_entropy_and_its_gradient, 0, 2);
	tcase_add_test(t, a_share_of_a_loss_has_that_share_of_its_gradient);
	tcase_add_test(t, cross_entropy_is_finite_for_large_values);
	tcase_add_test(t, the_first_of_equal_values_is_the_greatest);
	tcase_add_loop_test(t, mse_and_its_gradient, 0,
			    sizeof(mse_counts) / sizeof(*mse_counts));
	tcase_add_loop_test(t, an_update_matches_the_recurrence_in_double, 0,
			    sizeof(optimizers) / sizeof(*optimizers));
	tcase_add_loop_test(t, a_value_after_the_last_full_part_is_updated, 0,
			    sizeof(optimizers) / sizeof(*optimizers));
	tcase_add_test(t, a_loss_that_is_not_finite_stops_all_updates);
	tcase_add_test(t, non_finite_values_are_found_anywhere);
	tcase_add_test(t,
		       a_thread_of_a_device_with_one_core_stays_on_that_core);
	tcase_add_test(t, a_cpu_refuses_tf32);
	tcase_add_test(t, unknown_devices_are_refused_by_name);
	failed = run_case(t);
	ops->close(device);
	return failed != 0;
}
