/* test_layers.c: every kind of layer through the table of operations, against
 * the same in double, and every gradient against finite differences. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/run_case.h"
#include "tests/unit/trainers/ops/layer_case.h"
#include "trainers/ops/cpu.h"

/* ---- Cases ---- */

static const struct shape shapes[] = {
	/* plain rows */
	{{OP_LINEAR, .out = 1}, 1, 1, 1, 1, 0, 1, 1, 1e-5},
	{{OP_LINEAR, .out = 5, .relu = 1}, 3, 7, 1, 1, 0, 1, 1, 1e-5},
	{{OP_LINEAR, .out = 50, .relu = 1}, 8, 1, 28, 28, 0, 1, 1, 1e-5},
	{{OP_LINEAR, .out = 784, .relu = 1}, 4, 128, 1, 1, 0, 1, 1, 1e-5},
	{{OP_LINEAR, .out = 10}, 64, 50, 1, 1, 0, 2, 1, 1e-5},
	/* a model's first layer, with both stems */
	{{OP_CONV, 64, 3, 1, 1}, 2, 3, 8, 8, 0, 1, 1, 1e-5},
	{{OP_CONV, 64, 7, 2, 3}, 2, 3, 16, 16, 0, 1, 1, 1e-5},
	{{OP_CONV, 16, 3, 1, 1}, 2, 3, 7, 5, 0, 2, 1, 1e-5},
	/* layers inside a model: Winograd's shapes, strides, 1x1, odd
	 * channels */
	{{OP_CONV, 32, 3, 1, 1}, 2, 32, 8, 8, 0, 1, 0, 4e-5},
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

/* Checks some values, spread over the whole array. Skips values at which the
 * slopes to the left and right differ: a ReLU bends there, or the maximum
 * changes. */
static void check_slopes(const struct layer_case *k, const char *what,
			 const float *values, const float *got, size_t count,
			 double scale)
{
	const double h = 1e-5;
	double *room = malloc(k->outs * sizeof(*room));
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
	want = malloc(k.outs * sizeof(*want));
	outputs(&k, want);
	scale = k.params[0] > 2 * (size_t)k.out.c ?
			sqrt((double)k.params[0] / k.out.c) : 4;
	for (size_t i = 0; i < k.outs; i++)
		if (!(fabs((double)k.y[i] - want[i]) < near(k.s) * scale))
			ck_abort_msg("value %zu: %.9g is not %.9g", i,
				     (double)k.y[i], want[i]);
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

START_TEST(a_layer_matches_its_formula_in_double)
{
	check_outputs(&shapes[_i]);
}
END_TEST

START_TEST(a_layers_gradients_match_finite_differences)
{
	check_gradients(&shapes[_i]);
}
END_TEST

START_TEST(a_layer_in_bf16_is_near_its_formula)
{
	struct device *wide = device;

	if (!narrow) {
		puts("left out: this processor does not multiply bf16");
		return;
	}
	device = narrow;
	ops->enter(device);
	check_outputs(&shapes[_i]);
	check_gradients(&shapes[_i]);
	device = wide;
}
END_TEST

static void check_half(const float *v, size_t n)
{
	float *rounded = calloc(n, sizeof(*v));

	ck_assert_ptr_nonnull(rounded);
	memcpy(rounded, v, n * sizeof(*v));
	cpu_half_round(n, rounded);
	ck_assert_mem_eq(rounded, v, n * sizeof(*v));
	free(rounded);
}

/* What a GPU stores in fp16 consists of numbers of fp16. */
START_TEST(a_layer_in_fp16_is_near_its_formula)
{
	struct device *wide = device;
	struct layer_case k;

	device = half;
	ops->enter(device);
	check_outputs(&shapes[_i]);
	check_gradients(&shapes[_i]);
	case_init(&k, &shapes[_i]);
	run(&k);
	if (k.out.layout)
		check_half(k.y, k.outs);
	if (k.in.layout) {
		check_half(k.gx, k.ins);
		if (k.s->add)
			check_half(k.ga, k.ins);
	}
	if (k.s->spec.kind == OP_CONV)
		check_half(k.gp[0], k.params[0]);
	case_release(&k);
	device = wide;
}
END_TEST

/* No state of a batch may affect the next one. */
START_TEST(a_layer_gives_the_same_result_twice)
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
	ck_assert_mem_eq(y, k.y, k.outs * sizeof(*y));
	ck_assert_mem_eq(gx, k.gx, k.ins * sizeof(*gx));
	if (gp)
		ck_assert_mem_eq(gp, k.gp[0], k.params[0] * sizeof(*gp));
	free(y);
	free(gx);
	free(gp);
	case_release(&k);
}
END_TEST

START_TEST(running_statistics_match_pytorchs)
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

/* Statistics of two ranks, as a rank that sees both batches would compute
 * them. */
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

/* If the other rank has the same batch, statistics and gradients of the input
 * are those of a single rank. */
START_TEST(synchronised_normalisation_of_two_matches_one)
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

START_TEST(an_impossible_shape_is_refused_with_a_reason)
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

/* The shapes are possible; only oneDNN looks at the padding. */
START_TEST(a_convolution_that_onednn_refuses_is_an_error)
{
	struct tensor in = {.n = 1, .c = 3, .h = 5, .w = 5, .plain = 1};
	struct op_site site = {
		.spec = {.kind = OP_CONV, .out = 8, .kernel = 3, .stride = 1,
			 .pad = -1},
		.name = "conv1", .in = &in, .training = 1, .first = 1,
	};
	struct err e = ERR_INIT;
	struct op *op;

	ck_assert_int_lt(ops->op_new(device, &site, &op, &e), 0);
	ck_assert_ptr_nonnull(strstr(e.text, "conv1"));
}
END_TEST

/* (2 - 3) / 2 + 1 is 1 in C: the window would read beyond the image. */
START_TEST(a_window_larger_than_its_image_is_an_error)
{
	struct tensor in = {.n = 1, .c = 3, .h = 2, .w = 4, .plain = 1};
	struct op_site site = {
		.spec = {.kind = OP_MAX_POOL, .kernel = 3, .stride = 2},
		.name = "pool1", .in = &in, .training = 1, .first = 1,
	};
	struct err e = ERR_INIT;
	struct op *op;

	ck_assert_int_eq(ops->op_new(device, &site, &op, &e), ERR_USAGE);
	ck_assert_str_eq(e.text, "layer pool1: an image of 2 x 4 is too small "
			 "for a window of 3");
}
END_TEST

/* _i: n, c, h or w */
START_TEST(a_sum_of_two_shapes_is_an_error)
{
	struct tensor in = {.n = 1, .c = 3, .h = 4, .w = 4, .plain = 1}, other;
	struct op_site conv = {
		.spec = {.kind = OP_CONV, .out = 16, .kernel = 3, .stride = 1,
			 .pad = 1},
		.name = "conv1", .in = &in, .training = 1, .first = 1,
	};
	struct op_site norm = {
		.spec = {.kind = OP_BATCH_NORM}, .name = "bn1", .add = &other,
		.training = 1,
	};
	struct err e = ERR_INIT;
	struct op *first, *op;

	ck_assert_int_eq(ops->op_new(device, &conv, &first, &e), 0);
	norm.in = &first->out;
	other = first->out;
	*(int *[]){&other.n, &other.c, &other.h, &other.w}[_i] *= 2;
	ck_assert_int_eq(ops->op_new(device, &norm, &op, &e), ERR_USAGE);
	ck_assert_ptr_nonnull(
		strstr(e.text,
		       "layer bn1: the tensor that it adds has another shape"));
	ops->op_free(device, first);
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("layers");
	int failed, cases = sizeof(shapes) / sizeof(*shapes);

	if (ops->open(&(struct device_options){.threads = 1, .core = -1},
		      &device, NULL) < 0)
		return 1;
	ops->enter(device);
	if (ops->open(&(struct device_options){.threads = 1,
					       .core = -1,
					       .precision = PRECISION_BF16},
		      &narrow, NULL) < 0)
		narrow = NULL;
	if (ops->open(&(struct device_options){.threads = 1,
					       .core = -1,
					       .precision = PRECISION_FP16},
		      &half, NULL) < 0)
		return 1;
	tcase_set_timeout(t, 120);
	tcase_add_loop_test(t, a_layer_matches_its_formula_in_double, 0, cases);
	tcase_add_loop_test(t,
			a_layers_gradients_match_finite_differences, 0, cases);
	tcase_add_loop_test(t, a_layer_in_bf16_is_near_its_formula, 0, cases);
	tcase_add_loop_test(t, a_layer_in_fp16_is_near_its_formula, 0, cases);
	tcase_add_loop_test(t, a_layer_gives_the_same_result_twice, 0, cases);
	tcase_add_test(t, running_statistics_match_pytorchs);
	tcase_add_test(t, synchronised_normalisation_of_two_matches_one);
	tcase_add_test(t, an_impossible_shape_is_refused_with_a_reason);
	tcase_add_test(t, a_convolution_that_onednn_refuses_is_an_error);
	tcase_add_test(t, a_window_larger_than_its_image_is_an_error);
	tcase_add_loop_test(t, a_sum_of_two_shapes_is_an_error, 0, 4);
	failed = run_case(t);
	ops->close(device);
	ops->close(narrow);
	ops->close(half);
	return failed != 0;
}
