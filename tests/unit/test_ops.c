/* test_ops.c: every operation against double arithmetic, every gradient against
 * finite differences of it. */
#include <check.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "trainers/ops.h"

static const struct ops *const ops = &ops_cpu;
static uint32_t chance = 1;

/* -1..1 */
static float draw(void)
{
	chance = chance * 1664525u + 1013904223u;
	return (float)(chance >> 8) * 0x1p-23f - 1.0f;
}

static float *draw_array(size_t n)
{
	float *p = ops->alloc(n * sizeof *p);

	ck_assert_ptr_nonnull(p);
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

/* ---- gather ---- */

START_TEST(gather_divides_every_byte_by_255_exactly)
{
	uint8_t pixels[512];
	uint32_t index[2] = {1, 0};
	float out[512];

	for (int i = 0; i < 512; i++)
		pixels[i] = (uint8_t)i;
	ops->gather(2, &(struct samples){.pixels = pixels, .size = 256}, index,
		    out);
	for (int i = 0; i < 512; i++)
		ck_assert(out[i] == (float)pixels[i] / 255.0f);
}
END_TEST

START_TEST(gather_takes_the_samples_in_the_order_of_the_index)
{
	uint8_t pixels[6] = {0, 0, 255, 255, 51, 51};
	uint32_t index[3] = {2, 0, 1};
	float out[6], want[6] = {.2f, .2f, 0, 0, 1, 1};

	ops->gather(3, &(struct samples){.pixels = pixels, .size = 2}, index,
		    out);
	for (int i = 0; i < 6; i++)
		ck_assert(out[i] == want[i]);
}
END_TEST

/* ---- linear ---- */

static const struct shape {
	int n, in, out, relu;
	float zeros; /* share of x that is zero, as an image's margin */
} shapes[] = {
	{1, 1, 1, 0, 0},     {3, 7, 5, 1, 0},      {64, 50, 10, 0, 0},
	{8, 784, 50, 1, .8f}, {33, 784, 128, 1, .8f}, {4, 128, 784, 1, 0},
	{5, 784, 50, 0, 1},  {7, 100, 17, 1, .7f}, {2, 64, 16, 0, .9f},
};

struct layer_case {
	struct linear l;
	int n;
	float *weight, *bias, *x, *y, *dy, *dx, *c;
};

static void case_init(struct layer_case *k, const struct shape *s)
{
	size_t n = (size_t)s->n, in = (size_t)s->in, out = (size_t)s->out;

	k->n = s->n;
	k->weight = draw_array(in * out);
	k->bias = draw_array(out);
	k->x = draw_array(n * in);
	for (size_t i = 0; i < n * in; i++)
		if (fabsf(draw()) < s->zeros)
			k->x[i] = 0;
	k->c = draw_array(n * out); /* the loss is sum(c * y) */
	k->y = ops->alloc(n * out * sizeof(float));
	k->dy = ops->alloc(n * out * sizeof(float));
	k->dx = ops->alloc(n * in * sizeof(float));
	memcpy(k->dy, k->c, n * out * sizeof(float));
	k->l = (struct linear){s->in, s->out, s->relu, k->weight, k->bias,
			       draw_array(in * out), draw_array(out)};
}

static void case_release(struct layer_case *k)
{
	float *all[] = {k->weight, k->bias, k->x, k->y, k->dy, k->dx, k->c,
			k->l.weight_grad, k->l.bias_grad};

	for (size_t i = 0; i < sizeof all / sizeof *all; i++)
		ops->free(all[i]);
}

/* Output j of sample i, in double; *p is read with h added to it. */
static double output(const struct layer_case *k, int i, int j, const float *p,
		     double h)
{
	const struct linear *l = &k->l;
	const float *b = &l->bias[j];
	double sum = (double)*b + (b == p ? h : 0);

	for (int a = 0; a < l->in; a++) {
		const float *x = &k->x[i * l->in + a];
		const float *w = &l->weight[a * l->out + j];

		sum += ((double)*x + (x == p ? h : 0)) *
		       ((double)*w + (w == p ? h : 0));
	}
	return l->relu && sum < 0 ? 0 : sum;
}

static double loss_with(const struct layer_case *k, const float *p, double h)
{
	double sum = 0;

	for (int i = 0; i < k->n; i++)
		for (int j = 0; j < k->l.out; j++)
			sum += (double)k->c[i * k->l.out + j] *
			       output(k, i, j, p, h);
	return sum;
}

static double slope(const struct layer_case *k, const float *p)
{
	const double h = 1e-5;

	return (loss_with(k, p, h) - loss_with(k, p, -h)) / (2 * h);
}

START_TEST(linear_forward_is_the_double_sum)
{
	struct layer_case k;

	case_init(&k, &shapes[_i]);
	ops->linear_forward(&k.l, k.n, k.x, k.y);
	for (int i = 0; i < k.n; i++)
		for (int j = 0; j < k.l.out; j++)
			assert_near((double)k.y[i * k.l.out + j],
				    output(&k, i, j, NULL, 0),
				    sqrt((double)k.l.in));
	case_release(&k);
}
END_TEST

START_TEST(linear_backward_is_the_slope)
{
	struct layer_case k;
	size_t weights, values;

	case_init(&k, &shapes[_i]);
	weights = (size_t)k.l.in * (size_t)k.l.out;
	values = (size_t)k.l.in * (size_t)k.n;
	ops->linear_forward(&k.l, k.n, k.x, k.y);
	ops->linear_backward(&k.l, k.n, k.x, k.y, k.dy, k.dx);
	/* some twenty of each, spread over the whole array */
	for (size_t i = 0; i < weights; i += weights / 20 + 1)
		assert_near((double)k.l.weight_grad[i],
			    slope(&k, &k.weight[i]), sqrt(k.n) + 1);
	for (int j = 0; j < k.l.out; j += k.l.out / 20 + 1)
		assert_near((double)k.l.bias_grad[j], slope(&k, &k.bias[j]),
			    sqrt(k.n) + 1);
	for (size_t i = 0; i < values; i += values / 20 + 1)
		assert_near((double)k.dx[i], slope(&k, &k.x[i]),
			    sqrt(k.l.out) + 1);
	case_release(&k);
}
END_TEST

START_TEST(linear_backward_without_dx_gives_the_same_gradients)
{
	struct layer_case k;
	size_t weights;
	float *first;

	case_init(&k, &shapes[_i]);
	weights = (size_t)k.l.in * (size_t)k.l.out * sizeof(float);
	first = malloc(weights);
	ops->linear_forward(&k.l, k.n, k.x, k.y);
	ops->linear_backward(&k.l, k.n, k.x, k.y, k.dy, k.dx);
	memcpy(first, k.l.weight_grad, weights);
	memcpy(k.dy, k.c, (size_t)k.n * (size_t)k.l.out * sizeof(float));
	ops->linear_backward(&k.l, k.n, k.x, k.y, k.dy, NULL);
	ck_assert_mem_eq(first, k.l.weight_grad, weights);
	free(first);
	case_release(&k);
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

/* Sample 0 is all zero, sample 1 has no zero, the others have about one pixel
 * in five. */
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

static const int listed_outs[] = {16, 17, 50, 63, 64, 65, 128, 200};

START_TEST(a_first_layer_by_lists_is_the_one_by_arrays)
{
	static struct listed s;
	const uint32_t index[] = {8, 0, 3, 1, 3, 2, 7};
	enum { N = sizeof index / sizeof *index };
	int out = listed_outs[_i];
	struct shape shape = {N, SIDE, out, _i % 2, 0};
	size_t weights = (size_t)SIDE * (size_t)out;
	void *room = ops->alloc(ops->sparse_room(N, SIDE));
	float *y = draw_array((size_t)(N * out));
	float *dy = draw_array((size_t)(N * out));
	float *dw = draw_array(weights), *db = draw_array((size_t)out);
	struct layer_case k;
	struct linear sparse;

	list_samples(&s);
	case_init(&k, &shape);
	sparse = k.l;
	sparse.weight_grad = dw;
	sparse.bias_grad = db;
	ops->gather(N, &s.samples, index, k.x);
	/* twice: nothing of the first batch may be left */
	for (int twice = 0; twice < 2; twice++) {
		memcpy(dy, k.c, (size_t)(N * out) * sizeof *dy);
		ops->sparse_forward(&sparse, N, &s.samples, index, room, y);
		ops->sparse_backward(&sparse, N, &s.samples, index, room, y,
				     dy);
	}
	ops->linear_forward(&k.l, N, k.x, k.y);
	ops->linear_backward(&k.l, N, k.x, k.y, k.dy, NULL);
	for (int i = 0; i < N * out; i++)
		assert_near((double)y[i], (double)k.y[i], 28);
	for (size_t i = 0; i < weights; i++)
		assert_near((double)dw[i], (double)k.l.weight_grad[i], 3);
	ck_assert_mem_eq(db, k.l.bias_grad, (size_t)out * sizeof *db);
	case_release(&k);
	ops->free(room);
	ops->free(y);
	ops->free(dy);
	ops->free(dw);
	ops->free(db);
}
END_TEST

/* ---- losses ---- */

static double cross_entropy_of(int n, int classes, const float *x,
			       const uint8_t *label, const float *p, double h)
{
	double total = 0;

	for (int i = 0; i < n; i++) {
		double sum = 0, right = 0;

		for (int j = 0; j < classes; j++) {
			const float *at = &x[i * classes + j];
			double v = (double)*at + (at == p ? h : 0);

			sum += exp(v);
			if (j == label[i])
				right = v;
		}
		total += log(sum) - right;
	}
	return total / n;
}

START_TEST(cross_entropy_and_its_gradient)
{
	enum { N = 33, CLASSES = 10 };
	float *x = draw_array(N * CLASSES), *dx = draw_array(N * CLASSES), loss;
	uint8_t label[N];

	for (int i = 0; i < N; i++)
		label[i] = (uint8_t)(i * 7 % CLASSES);
	ops->cross_entropy(N, CLASSES, x, label, &loss, dx);
	assert_near((double)loss,
		    cross_entropy_of(N, CLASSES, x, label, NULL, 0), 1);
	for (int i = 0; i < N * CLASSES; i++) {
		double up = cross_entropy_of(N, CLASSES, x, label, &x[i], 1e-4);
		double down =
			cross_entropy_of(N, CLASSES, x, label, &x[i], -1e-4);

		assert_near((double)dx[i] * N, (up - down) / 2e-4 * N, 1);
	}
	ops->free(x);
	ops->free(dx);
}
END_TEST

START_TEST(cross_entropy_stands_large_values)
{
	float x[4] = {1000, -1000, -1000, 1000}, dx[4], loss;
	uint8_t label[2] = {0, 0};

	ops->cross_entropy(2, 2, x, label, &loss, dx);
	ck_assert(loss == 1000.0f);
	ck_assert(dx[0] == 0 && dx[1] == 0);
	ck_assert(dx[2] == -0.5f && dx[3] == 0.5f);
	ops->cross_entropy(2, 2, x, label, &loss, NULL);
	ck_assert(loss == 1000.0f);
}
END_TEST

static const size_t mse_counts[] = {1, 15, 16, 17, 1000, 1024, 5003};

START_TEST(mse_and_its_gradient)
{
	size_t n = mse_counts[_i];
	float *y = draw_array(n), *target = draw_array(n), *dy = draw_array(n);
	float loss, again;
	double want = 0;

	ops->mse(n, y, target, &loss, dy);
	for (size_t i = 0; i < n; i++) {
		double d = (double)y[i] - (double)target[i];

		/* the slope of d^2 / n, by differences that are exact for a
		 * square */
		double up = (d + 1e-3) * (d + 1e-3) / (double)n;
		double down = (d - 1e-3) * (d - 1e-3) / (double)n;

		want += d * d;
		assert_near((double)dy[i] * (double)n,
			    (up - down) / 2e-3 * (double)n, 4);
	}
	assert_near((double)loss, want / (double)n, 1);
	ops->mse(n, y, target, &again, NULL);
	ck_assert(again == loss);
	ops->free(y);
	ops->free(target);
	ops->free(dy);
}
END_TEST

START_TEST(count_correct_takes_the_first_of_equals)
{
	float x[9] = {0, 1, 1, 5, 4, 3, -3, -2, -1};
	uint8_t label[3] = {1, 0, 2}, wrong[3] = {2, 1, 0};

	ck_assert_int_eq(ops->count_correct(3, 3, x, label), 3);
	ck_assert_int_eq(ops->count_correct(3, 3, x, wrong), 0);
}
END_TEST

/* ---- Adam ---- */

START_TEST(adam_is_the_double_recurrence)
{
	enum { N = 133, STEPS = 20 };
	struct adam a = {1e-3, .9, .999, 1e-8, 0};
	float *p = draw_array(N), *g = draw_array(N);
	float *m = ops->alloc(N * sizeof *m), *v = ops->alloc(N * sizeof *v);
	double dp[N], dm[N] = {0}, dv[N] = {0};

	for (int i = 0; i < N; i++)
		dp[i] = (double)p[i];
	for (a.step = 1; a.step <= STEPS; a.step++) {
		double t = (double)a.step;

		for (int i = 0; i < N; i++) {
			double gi;

			g[i] = draw();
			gi = (double)g[i];
			dm[i] = .9 * dm[i] + .1 * gi;
			dv[i] = .999 * dv[i] + .001 * gi * gi;
			dp[i] -= 1e-3 * (dm[i] / (1 - pow(.9, t))) /
				 (sqrt(dv[i] / (1 - pow(.999, t))) + 1e-8);
		}
		ops->adam(&a, N, g, p, m, v);
		for (int i = 0; i < N; i++)
			assert_near((double)p[i], dp[i], .1);
	}
	ops->free(p);
	ops->free(g);
	ops->free(m);
	ops->free(v);
}
END_TEST

START_TEST(unknown_devices_are_refused_by_name)
{
	struct err e = ERR_INIT;

	ck_assert_ptr_eq(ops_find("cpu", &e), &ops_cpu);
	ck_assert_ptr_eq(ops_find("auto", &e), &ops_cpu);
	ck_assert_ptr_null(ops_find("cuda", &e));
	ck_assert_ptr_nonnull(strstr(e.text, "no CUDA operations"));
	ck_assert_ptr_null(ops_find("tpu", &e));
	ck_assert_ptr_nonnull(strstr(e.text, "tpu"));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ops");
	TCase *t = tcase_create("ops");
	struct err e = ERR_INIT;
	SRunner *r;
	int failed, cases = sizeof shapes / sizeof *shapes;

	ops->start(1, &e);
	tcase_set_timeout(t, 120);
	tcase_add_test(t, gather_divides_every_byte_by_255_exactly);
	tcase_add_test(t, gather_takes_the_samples_in_the_order_of_the_index);
	tcase_add_loop_test(t, linear_forward_is_the_double_sum, 0, cases);
	tcase_add_loop_test(t, linear_backward_is_the_slope, 0, cases);
	tcase_add_loop_test(
		t, linear_backward_without_dx_gives_the_same_gradients, 0,
		cases);
	tcase_add_loop_test(t, a_first_layer_by_lists_is_the_one_by_arrays, 0,
			    sizeof listed_outs / sizeof *listed_outs);
	tcase_add_test(t, cross_entropy_and_its_gradient);
	tcase_add_test(t, cross_entropy_stands_large_values);
	tcase_add_loop_test(t, mse_and_its_gradient, 0,
			    sizeof mse_counts / sizeof *mse_counts);
	tcase_add_test(t, count_correct_takes_the_first_of_equals);
	tcase_add_test(t, adam_is_the_double_recurrence);
	tcase_add_test(t, unknown_devices_are_refused_by_name);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
