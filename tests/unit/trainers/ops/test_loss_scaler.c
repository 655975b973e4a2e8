/* test_loss_scaler.c: the loss scale's rule, updates and losses with it, and
 * fp16 on the CPU. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/run_case.h"
#include "trainers/ops/cpu.h"

static const struct ops *const ops = &ops_cpu;
static struct device *device;

/* ---- The rule ---- */

/* The numbers are GradScaler's. */
START_TEST(the_scale_is_halved_at_once_and_doubled_after_2000)
{
	struct loss_scaler s = loss_scaler_new(LOSS_SCALE_FIRST);

	ck_assert(s.scale == 65536);
	ck_assert_int_eq(loss_scaler_skip(&s, 1, 7), 0);
	ck_assert_int_eq(loss_scaler_skip(&s, 2, 9), 0);
	ck_assert(s.scale == 16384);
	ck_assert_uint_eq(s.skipped, 2);
	ck_assert_uint_eq(s.in_a_row, 2);
	ck_assert_uint_eq(s.last_step, 2);
	ck_assert_uint_eq(s.last_at, 9);
	for (int i = 0; i < 1999; i++)
		loss_scaler_accept(&s);
	ck_assert(s.scale == 16384);
	ck_assert_uint_eq(s.in_a_row, 0);
	loss_scaler_accept(&s);
	ck_assert(s.scale == 32768);
	for (int i = 0; i < 1999; i++)
		loss_scaler_accept(&s);
	/* a skipped step restarts the count */
	ck_assert_int_eq(loss_scaler_skip(&s, 4002, 0), 0);
	loss_scaler_accept(&s);
	ck_assert(s.scale == 16384);
	ck_assert_uint_eq(s.good, 1);
	ck_assert_uint_eq(s.skipped, 3);
}
END_TEST

START_TEST(a_scale_below_1_is_too_small)
{
	struct loss_scaler s = loss_scaler_new(LOSS_SCALE_FIRST);

	for (uint64_t step = 1; step <= 16; step++)
		ck_assert_int_eq(loss_scaler_skip(&s, step, 0), 0);
	ck_assert(s.scale == 1);
	ck_assert_int_eq(loss_scaler_skip(&s, 17, 0), 1);
	ck_assert(s.scale == .5f);
}
END_TEST

START_TEST(the_scale_and_its_inverse_stay_numbers)
{
	struct loss_scaler s = loss_scaler_new(0x1p125f);

	for (int i = 0; i < 3 * LOSS_SCALE_GROWS_AFTER; i++)
		loss_scaler_accept(&s);
	ck_assert(s.scale == 0x1p126f);
	ck_assert(isnormal(1 / s.scale));
}
END_TEST

/* ---- Updates ---- */

enum { N = (1 << 17) + 3 }; /* more than a part of cpu_update.c */

struct arenas {
	float *g, *p, *m, *v;
	struct loss_scaler s;
	float loss;
	struct update u;
};

static float *draw_array(void)
{
	float *x;
	void *p;

	ck_assert_int_eq(ops->alloc(device, N * sizeof(*x), &p, NULL), 0);
	x = p;
	for (int i = 0; i < N; i++)
		x[i] = (float)rand() / (float)RAND_MAX * 2 - 1;
	return x;
}

static void arenas_init(struct arenas *a, struct optimizer how)
{
	srand(5);
	*a = (struct arenas){draw_array(), draw_array(), draw_array(),
			     draw_array(),
			     loss_scaler_new(LOSS_SCALE_FIRST), 1,
			     {.how = how, .count = N, .scale = 1}};
	for (int i = 0; i < N; i++)
		a->v[i] = fabsf(a->v[i]);
	a->u.grad = a->g;
	a->u.param = a->p;
	a->u.moment[0] = a->m;
	a->u.moment[1] = a->v;
	a->u.loss = &a->loss;
	a->u.scaler = &a->s;
}

static void arenas_release(struct arenas *a)
{
	ops->free(device, a->g);
	ops->free(device, a->p);
	ops->free(device, a->m);
	ops->free(device, a->v);
}

static void update(struct arenas *a, uint64_t step)
{
	ops->set_step(device, &(struct step_args){step, 0, .01});
	ops->update(device, &a->u);
}

static int are_same(const struct arenas *a, const struct arenas *b)
{
	return !memcmp(a->p, b->p, N * sizeof(float)) &&
	       !memcmp(a->m, b->m, N * sizeof(float)) &&
	       !memcmp(a->v, b->v, N * sizeof(float));
}

static const struct optimizer optimizers[] = {
	{OPTIMIZER_ADAM, .9, .999, 1e-8, .weight_decay = .01},
	{OPTIMIZER_SGD, .momentum = .9, .weight_decay = .01},
	{OPTIMIZER_SGD, .momentum = .9, .nesterov = 1},
};

START_TEST(a_scaled_gradient_makes_the_same_update)
{
	struct arenas a, b;

	arenas_init(&a, optimizers[_i]);
	arenas_init(&b, optimizers[_i]);
	b.u.scaler = NULL;
	for (int i = 0; i < N; i++)
		a.g[i] *= 65536;
	for (uint64_t step = 1; step <= 3; step++) {
		update(&a, step);
		update(&b, step);
	}
	ck_assert(are_same(&a, &b));
	ck_assert_uint_eq(a.s.good, 3);
	ck_assert_uint_eq(a.s.skipped, 0);
	arenas_release(&a);
	arenas_release(&b);
}
END_TEST

/* Step 2 is skipped: the two others are the steps 1 and 2 of a run without
 * it, also in the powers of Adam's betas. */
START_TEST(a_step_with_an_overflow_is_skipped_and_not_counted)
{
	static const float bad[] = {INFINITY, -INFINITY, NAN};
	static const int places[] = {0, 1 << 17, N - 1};
	struct arenas a, b;
	float was;

	arenas_init(&a, optimizers[_i]);
	arenas_init(&b, optimizers[_i]);
	b.u.scaler = NULL;
	for (int i = 0; i < N; i++)
		a.g[i] *= 65536;
	update(&a, 1);
	update(&b, 1);
	was = a.g[places[_i]];
	a.g[places[_i]] = bad[_i];
	update(&a, 2);
	ck_assert(are_same(&a, &b));
	ck_assert(a.s.scale == 32768);
	ck_assert_uint_eq(a.s.skipped, 1);
	ck_assert_uint_eq(a.s.last_step, 2);
	ck_assert_uint_eq(a.s.last_at, (uint64_t)places[_i]);
	a.g[places[_i]] = was;
	for (int i = 0; i < N; i++)
		a.g[i] /= 2;
	update(&a, 3);
	update(&b, 2);
	ck_assert(are_same(&a, &b));
	ck_assert_uint_eq(a.s.in_a_row, 0);
	ck_assert_uint_eq(ops->halted(device), 0);
	arenas_release(&a);
	arenas_release(&b);
}
END_TEST

START_TEST(a_loss_that_is_not_finite_is_skipped_17_times)
{
	struct arenas a, b;

	arenas_init(&a, optimizers[1]);
	arenas_init(&b, optimizers[1]);
	a.loss = NAN;
	for (uint64_t step = 1; step <= 16; step++)
		update(&a, step);
	ck_assert_uint_eq(ops->halted(device), 0);
	update(&a, 17);
	ck_assert_uint_eq(ops->halted(device), 17);
	ck_assert(a.s.last_at == LOSS_SCALER_NOWHERE);
	/* from then on nothing changes */
	a.loss = 1;
	update(&a, 18);
	ck_assert_uint_eq(ops->halted(device), 17);
	ck_assert(a.s.scale == .5f);
	ck_assert(are_same(&a, &b));
	arenas_release(&a);
	arenas_release(&b);
}
END_TEST

/* ---- Losses ---- */

START_TEST(the_scale_multiplies_a_losss_gradient_but_not_the_loss)
{
	struct loss_scaler s = loss_scaler_new(1024);
	float x[6] = {1, -2, .5f, 3, 0, .25f}, t[6] = {0, 1, 0, 0, 1, 1};
	float d[2][6], loss[2] = {0, 0};
	uint32_t labels[2] = {2, 0};
	struct tensor y = {.n = 2, .c = 3, .h = 1, .w = 1, .plain = 1,
			   .data = x, .bytes = sizeof(x)};
	struct tensor target = y, dy = y;

	target.data = t;
	for (int i = 0; i < 2; i++) {
		struct loss_spec spec = {LOSS_MSE, _i ? .1f : 0, .5f,
					 i ? &s : NULL};

		dy.data = d[i];
		if (_i == 2)
			ops->mse(device, &spec, &y, &target, &loss[i], NULL,
				 &dy);
		else
			ops->cross_entropy(device, &spec, &y, labels, &loss[i],
					   NULL, &dy);
	}
	ck_assert(loss[0] == loss[1]);
	for (int i = 0; i < 6; i++)
		ck_assert(d[1][i] == 1024 * d[0][i]);
}
END_TEST

/* ---- fp16 ---- */

/* By the definition, in double. */
static double nearest_half(double x)
{
	int e;
	double spacing, r;

	if (x == 0 || !isfinite(x))
		return x;
	frexp(x, &e);
	spacing = ldexp(1, (e - 1 < -14 ? -14 : e - 1) - 10);
	r = nearbyint(x / spacing) * spacing;
	return fabs(r) > 65504 ? copysign(INFINITY, x) : r;
}

static void check_half(float x)
{
	float got = x;
	double want = nearest_half((double)x);

	cpu_half_round(1, &got);
	if (!((double)got == want && !signbit(got) == !signbit(want)))
		ck_abort_msg("%a becomes %a, not %a", (double)x, (double)got,
			     want);
}

/* Each number of fp16, the middles between two, and their neighbours. */
START_TEST(every_number_of_fp16_is_kept_and_ties_become_even)
{
	for (int e = -24; e <= 15; e++)
		for (int k = 0; k < 1024; k++) {
			float x = ldexpf(1 + (float)k / 1024, e);
			float half = ldexpf(1, (e < -14 ? -14 : e) - 11);

			check_half(x);
			check_half(-x);
			check_half(x + half);
			check_half(nextafterf(x + half, 0));
			check_half(nextafterf(x + half, INFINITY));
			check_half(nextafterf(-x - half, 0));
		}
	check_half(0x1p-25f);
	check_half(nextafterf(0x1p-25f, 1));
	check_half(1e-30f);
	check_half(65519.996f);
	check_half(65520);
	check_half(3e38f);
}
END_TEST

START_TEST(infinity_and_nan_stay)
{
	float x[19] = {INFINITY, -INFINITY, NAN, 0, -0.0f, 1e5f, -1e5f};

	x[17] = 1 + 0x1p-11f;
	x[18] = -NAN;
	cpu_half_round(19, x);
	ck_assert(isinf(x[0]) && x[0] > 0 && isinf(x[1]) && x[1] < 0);
	ck_assert(isnan(x[2]) && isnan(x[18]));
	ck_assert(x[3] == 0 && signbit(x[4]) && !signbit(x[3]));
	ck_assert(isinf(x[5]) && x[5] > 0 && isinf(x[6]) && x[6] < 0);
	ck_assert(x[17] == 1);
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("loss_scaler");

	if (ops->open(&(struct device_options){.threads = 1, .core = -1},
		      &device, NULL) < 0)
		return 1;
	tcase_add_test(t, the_scale_is_halved_at_once_and_doubled_after_2000);
	tcase_add_test(t, a_scale_below_1_is_too_small);
	tcase_add_test(t, the_scale_and_its_inverse_stay_numbers);
	tcase_add_loop_test(t, a_scaled_gradient_makes_the_same_update, 0, 3);
	tcase_add_loop_test(
		t, a_step_with_an_overflow_is_skipped_and_not_counted, 0, 3);
	tcase_add_test(t, a_loss_that_is_not_finite_is_skipped_17_times);
	tcase_add_loop_test(
		t, the_scale_multiplies_a_losss_gradient_but_not_the_loss, 0,
		3);
	tcase_add_test(t, every_number_of_fp16_is_kept_and_ties_become_even);
	tcase_add_test(t, infinity_and_nan_stay);
	return run_case(t) != 0;
}
