/* test_kernels_norm.c: the CUDA kernels of batch normalisation and pooling, run
 * on the host, against the formulas. */
#include "tests/unit/emulated.h"
#include "tests/unit/run_case.h"
#include "tests/unit/trainers/cuda/kernels.h"

static const double epsilon = 1e-5;

/* ---- Batch normalisation ---- */

struct bench {
	struct kernel_norm k;
	struct box x, other, y, dy, dy1, dx, dz;
	float *own;
	int n, c, places;
};

static struct bench bench_new(int n, int c, int h, int w, enum tensor_type type)
{
	struct bench b = {.n = n, .c = c, .places = h * w};
	size_t padded = (size_t)layout_channels(c, type);
	float **arrays[] = {
		&b.k.mean, &b.k.var, &b.k.inv, &b.k.mul, &b.k.add, &b.k.by_x,
		&b.k.shift, (float **)&b.k.weight, (float **)&b.k.bias,
		&b.k.running_mean, &b.k.running_var, &b.k.grad_weight,
		&b.k.grad_bias};
	size_t count = sizeof(arrays) / sizeof(*arrays);

	b.x = box_new(n, c, h, w, type);
	b.other = box_new(n, c, h, w, type);
	b.dy = box_new(n, c, h, w, type);
	b.dy1 = box_new(n, c, h, w, type);
	b.y = box_empty(n, c, h, w, type);
	b.dx = box_empty(n, c, h, w, type);
	b.dz = box_empty(n, c, h, w, type);
	b.own = room((count * padded + 4 + 2 * padded) * sizeof(float));
	memset(b.own, 0, (count * padded + 4 + 2 * padded) * sizeof(float));
	for (size_t i = 0; i < count; i++) {
		*arrays[i] = b.own + i * padded;
		for (int k = 0; i > 6 && k < c; k++)
			(*arrays[i])[k] = drawn() + (i == 10 ? 2 : 0);
	}
	b.k.count = b.own + count * padded;
	b.k.type = kernel_type_of(type);
	b.k.rows = (size_t)n * (size_t)h * (size_t)w;
	b.k.channels = padded;
	b.k.training = 1;
	b.k.x = b.x.t.data;
	b.k.y = b.y.t.data;
	b.k.dy = b.dy.t.data;
	b.k.dx = b.dx.t.data;
	b.k.room = room(kernel_norm_room(padded));
	return b;
}

static void bench_free(struct bench *b)
{
	struct box *boxes[] = {&b->x, &b->other, &b->y, &b->dy, &b->dy1, &b->dx,
			       &b->dz};

	for (size_t i = 0; i < 7; i++)
		box_free(boxes[i]);
	free(b->own);
	free(b->k.room);
}

/* The mean and biased variance of channel c. */
static void moments(const struct bench *b, int c, double *mean, double *var)
{
	double count = b->n * b->places;

	*mean = *var = 0;
	for (int i = 0; i < b->n; i++)
		for (int p = 0; p < b->places; p++)
			*mean += (double)at(&b->x, i, c, p) / count;
	for (int i = 0; i < b->n; i++)
		for (int p = 0; p < b->places; p++) {
			double d = (double)at(&b->x, i, c, p) - *mean;

			*var += d * d / count;
		}
}

static void check_forward(struct bench *b, int c, double mean, double var)
{
	double inv = 1 / sqrt(var + epsilon);

	for (int i = 0; i < b->n; i++)
		for (int p = 0; p < b->places; p++) {
			double v = ((double)at(&b->x, i, c, p) - mean) * inv *
					   (double)b->k.weight[c] +
				   (double)b->k.bias[c];

			if (b->k.other)
				v += (double)at(&b->other, i, c, p);
			if (b->k.relu && v < 0)
				v = 0;
			near((double)at(&b->y, i, c, p), v, b->k.type, "y");
		}
}

/* The gradient behind the ReLU, rounded as the kernels do when they store
 * it. */
static double slope(const struct bench *b, int i, int c, int p)
{
	double dz = (double)at(&b->dy, i, c, p);

	if (b->k.dy1)
		dz += (double)at(&b->dy1, i, c, p);
	return b->k.relu && at(&b->y, i, c, p) <= 0 ? 0 : dz;
}

static void check_backward(struct bench *b, int c, double mean, double var)
{
	double inv = 1 / sqrt(var + epsilon), sum = 0, product = 0;
	double count = b->n * b->places, gamma = (double)b->k.weight[c];

	for (int i = 0; i < b->n; i++)
		for (int p = 0; p < b->places; p++) {
			double dz = slope(b, i, c, p);

			sum += dz;
			product += dz *
				   ((double)at(&b->x, i, c, p) - mean) * inv;
		}
	near((double)b->k.grad_bias[c], sum, 0, "the gradient of the bias");
	near((double)b->k.grad_weight[c], product, 0, "that of the weight");
	for (int i = 0; i < b->n; i++)
		for (int p = 0; p < b->places; p++) {
			double hat = ((double)at(&b->x, i, c, p) - mean) * inv;
			double want = gamma * inv *
				      (slope(b, i, c, p) - sum / count -
				       hat * product / count);

			near_by((double)at(&b->dx, i, c, p), want, b->k.type,
				3, "dx");
		}
}

static void forward(struct bench *b)
{
	kernel_norm_moments(NULL, &b->k);
	kernel_norm_apply(NULL, &b->k);
	box_read(&b->y);
}

static void backward(struct bench *b)
{
	kernel_norm_slopes(NULL, &b->k);
	kernel_norm_back(NULL, &b->k);
	layout_unpack(&b->dx.t, b->k.dx, b->dx.v);
}

/* way: bits: 1 ReLU, 2 an input is added (and needs its gradient), 4 two layers
 * read the output. */
static void check_norm(int n, int c, int h, int w, enum tensor_type type,
		       int way)
{
	struct bench b = bench_new(n, c, h, w, type);
	float *before = floats((size_t)c * 2);

	b.k.relu = way & 1;
	b.k.other = way & 2 ? b.other.t.data : NULL;
	b.k.dz = way & 2 ? b.dz.t.data : way & 4 ? b.dy.t.data : NULL;
	b.k.dy1 = way & 4 ? b.dy1.t.data : NULL;
	if (!(way & 2))
		b.k.dx = b.dy.t.data; /* as in a plan */
	memcpy(before, b.k.running_mean, (size_t)c * sizeof(*before));
	memcpy(before + c, b.k.running_var, (size_t)c * sizeof(*before));
	forward(&b);
	backward(&b);
	for (int k = 0; k < c; k++) {
		double mean, var, count = n * h * w;

		moments(&b, k, &mean, &var);
		check_forward(&b, k, mean, var);
		check_backward(&b, k, mean, var);
		near((double)b.k.running_mean[k],
		     0.9 * (double)before[k] + 0.1 * mean, 0, "running_mean");
		near((double)b.k.running_var[k],
		     0.9 * (double)before[c + k] +
			     0.1 * var * (count > 1 ? count / (count - 1) : 1),
		     0, "running_var");
	}
	if (way & 2) {
		box_read(&b.dz);
		for (int i = 0; i < n; i++)
			near((double)at(&b.dz, i, 0, 0), slope(&b, i, 0, 0),
			     b.k.type, "what was added wants");
	}
	free(before);
	bench_free(&b);
}

START_TEST(norm_matches_its_formula)
{
	enum tensor_type type = (enum tensor_type)(_i % 3);
	int way = _i / 3;

	srand(3);
	check_norm(3, 5, 4, 3, type, way);
	check_norm(2, 64, 5, 7, type, way);
	check_norm(5, 24, 1, 1, type, way);
	check_norm(2, 260, 2, 2, type, way); /* more than a warp's width */
	check_norm(9, 4, 20, 20, type, way); /* several blocks of rows */
}
END_TEST

START_TEST(norm_by_running_statistics_in_place)
{
	enum tensor_type type = (enum tensor_type)_i;
	struct bench b = bench_new(3, 10, 4, 4, type);

	b.k.training = 0;
	b.k.relu = 1;
	memcpy(b.y.t.data, b.x.t.data, b.x.t.bytes);
	b.k.x = b.k.y;
	kernel_norm_running(NULL, &b.k);
	kernel_norm_apply(NULL, &b.k);
	box_read(&b.y);
	for (int c = 0; c < 10; c++)
		check_forward(&b, c, (double)b.k.running_mean[c],
			      (double)b.k.running_var[c]);
	bench_free(&b);
}
END_TEST

/* A mean that is large relative to the spread loses no digits. */
START_TEST(norm_keeps_digits_beside_a_large_mean)
{
	struct bench b = bench_new(4, 4, 16, 16, TENSOR_F32);
	double mean, var;

	for (size_t i = 0; i < box_count(&b.x); i++)
		b.x.v[i] = 1000 + b.x.v[i];
	layout_pack(&b.x.t, b.x.v, b.x.t.data);
	kernel_norm_moments(NULL, &b.k);
	moments(&b, 2, &mean, &var);
	ck_assert_double_le(fabs((double)b.k.var[2] / var - 1), 1e-4);
	bench_free(&b);
}
END_TEST

/* Replaces n values on both ranks by their sums, as an all_reduce does. */
static void over_ranks(struct bench *b, size_t from, size_t n)
{
	for (size_t i = from; i < from + n; i++)
		b[0].k.count[i] = b[1].k.count[i] =
			b[0].k.count[i] + b[1].k.count[i];
}

static void cut(struct box *to, const struct box *whole, int from)
{
	memcpy(to->v, whole->v + box_count(whole) / (size_t)whole->t.n *
					 (size_t)from,
	       box_count(to) * sizeof(*to->v));
	layout_pack(&to->t, to->v, to->t.data);
}

/* The parts of a batch on two ranks, with 3 and 5 samples. */
static void share(struct bench *part, const struct bench *whole)
{
	for (int r = 0, from = 0; r < 2; from += part[r++].n) {
		size_t bytes = whole->k.channels * sizeof(float);

		cut(&part[r].x, &whole->x, from);
		cut(&part[r].dy, &whole->dy, from);
		memcpy((float *)part[r].k.weight, whole->k.weight, bytes);
		memcpy((float *)part[r].k.bias, whole->k.bias, bytes);
		memcpy(part[r].k.running_mean, whole->k.running_mean, bytes);
		memcpy(part[r].k.running_var, whole->k.running_var, bytes);
		part[r].k.relu = 1;
		part[r].k.sync = 1;
	}
}

START_TEST(norm_of_two_ranks_matches_one_rank)
{
	enum { C = 9 };
	struct bench whole = bench_new(8, C, 3, 3, TENSOR_F32);
	struct bench part[2] = {bench_new(3, C, 3, 3, TENSOR_F32),
				bench_new(5, C, 3, 3, TENSOR_F32)};
	size_t padded = whole.k.channels;
	int (*const steps[])(kernel_stream, const struct kernel_norm *) = {
		kernel_norm_moments, kernel_norm_spread, kernel_norm_settle,
		kernel_norm_apply, kernel_norm_slopes,
		kernel_norm_slopes_settle, kernel_norm_back};

	whole.k.relu = 1;
	share(part, &whole);
	forward(&whole);
	backward(&whole);
	for (size_t s = 0; s < sizeof(steps) / sizeof(*steps); s++) {
		for (int r = 0; r < 2; r++)
			steps[s](NULL, &part[r].k);
		if (s == 0)
			over_ranks(part, 0, KERNEL_NORM_COUNT + padded);
		else if (s == 1)
			over_ranks(part, KERNEL_NORM_COUNT, padded);
		else if (s == 4)
			over_ranks(part, KERNEL_NORM_COUNT, 2 * padded);
	}
	ck_assert(part[0].k.count[0] == 72);
	for (int r = 0, from = 0; r < 2; from += part[r++].n) {
		box_read(&part[r].y);
		box_read(&part[r].dx);
		for (int i = 0; i < part[r].n; i++)
			for (int c = 0; c < C; c++) {
				near((double)at(&part[r].y, i, c, 4),
				     (double)at(&whole.y, from + i, c, 4), 0,
				     "y");
				near((double)at(&part[r].dx, i, c, 4),
				     (double)at(&whole.dx, from + i, c, 4), 0,
				     "dx");
			}
		for (int c = 0; c < C; c++)
			near((double)part[r].k.running_var[c],
			     (double)whole.k.running_var[c], 0, "running_var");
	}
	for (int c = 0; c < C; c++)
		near((double)(part[0].k.grad_weight[c] +
			      part[1].k.grad_weight[c]),
		     (double)whole.k.grad_weight[c], 0, "the weight's");
	bench_free(&whole);
	bench_free(&part[0]);
	bench_free(&part[1]);
}
END_TEST

/* ---- Pooling ---- */

/* The place of the maximum in window (oy, ox); the first of equal values. */
static int greatest(const struct box *x, const struct kernel_pool *p, int n,
		    int c, int oy, int ox)
{
	int best = -1;

	for (int k = 0; k < p->kernel * p->kernel; k++) {
		int y = oy * p->stride - p->pad + k / p->kernel;
		int z = ox * p->stride - p->pad + k % p->kernel;

		if (y < 0 || y >= p->h || z < 0 || z >= p->w)
			continue;
		if (best < 0 || at(x, n, c, y * p->w + z) > at(x, n, c, best))
			best = y * p->w + z;
	}
	return best;
}

static void check_pool(int c, int h, int w, int kernel, int stride, int pad,
		       enum tensor_type type)
{
	int oh = layout_windows(h, kernel, stride, pad);
	int ow = layout_windows(w, kernel, stride, pad);
	struct box x = box_new(3, c, h, w, type), y, dy, dy1, dx;
	struct kernel_pool p = {
		.type = kernel_type_of(type), .n = 3, .h = h, .w = w,
		.out_h = oh, .out_w = ow,
		.channels = layout_channels(c, type), .kernel = kernel,
		.stride = stride, .pad = pad};
	double *want = calloc(box_count(&x), sizeof(*want));
	uint8_t *where;

	y = box_empty(3, c, oh, ow, type);
	dy = box_new(3, c, oh, ow, type);
	dy1 = box_new(3, c, oh, ow, type);
	dx = box_empty(3, c, h, w, type);
	where = room(layout_count(&y.t));
	kernel_max_pool(NULL, &p, x.t.data, y.t.data, where);
	kernel_max_pool_back(NULL, &p, dy.t.data, dy1.t.data, where,
			     dx.t.data);
	box_read(&y);
	box_read(&dx);
	for (int n = 0; n < 3; n++)
		for (int k = 0; k < c; k++)
			for (int o = 0; o < oh * ow; o++) {
				int g = greatest(&x, &p, n, k, o / ow, o % ow);

				if (at(&y, n, k, o) != at(&x, n, k, g))
					ck_abort_msg("value %d, %d, %d is "
						     "another", n, k, o);
				want[(n * c + k) * h * w + g] +=
					(double)at(&dy, n, k, o) +
					(double)at(&dy1, n, k, o);
			}
	for (size_t i = 0; i < box_count(&x); i++)
		near((double)dx.v[i], want[i], p.type, "dx");
	free(want);
	free(where);
	box_free(&x);
	box_free(&y);
	box_free(&dy);
	box_free(&dy1);
	box_free(&dx);
}

START_TEST(max_pool_takes_the_greatest)
{
	enum tensor_type type = (enum tensor_type)_i;

	srand(4);
	check_pool(5, 8, 8, 3, 2, 1, type);
	check_pool(16, 7, 9, 3, 2, 1, type);
	check_pool(4, 6, 6, 2, 2, 0, type);
	check_pool(3, 5, 5, 3, 1, 1, type);
	check_pool(3, 7, 6, 2, 3, 0, type); /* places that no window covers */
	check_pool(8, 1, 1, 3, 2, 1, type);
}
END_TEST

START_TEST(max_pool_lets_nan_through)
{
	struct box x = box_new(1, 4, 2, 2, TENSOR_F32);
	struct box y = box_empty(1, 4, 1, 1, TENSOR_F32);
	struct kernel_pool p = {.n = 1, .h = 2, .w = 2, .out_h = 1, .out_w = 1,
				.channels = 4, .kernel = 2, .stride = 2};
	uint8_t *where = room(4);

	x.v[2] = NAN; /* in channel 0 */
	layout_pack(&x.t, x.v, x.t.data);
	kernel_max_pool(NULL, &p, x.t.data, y.t.data, where);
	ck_assert(isnan(((float *)y.t.data)[0]));
	ck_assert_uint_eq(where[0], 2);
	ck_assert(!isnan(((float *)y.t.data)[1]));
	free(where);
	box_free(&x);
	box_free(&y);
}
END_TEST

START_TEST(average_pool_covers_all_places)
{
	enum tensor_type type = (enum tensor_type)(_i % 3);
	int c = _i < 3 ? 5 : 72;
	struct box x = box_new(3, c, 7, 3, type);
	struct box dx = box_empty(3, c, 7, 3, type);
	struct kernel_transpose t = {kernel_type_of(type), 3, c, 21,
				     layout_channels(c, type)};
	float *y = floats(3 * (size_t)c), *dy = floats(3 * (size_t)c);
	float *dy1 = floats(3 * (size_t)c);

	kernel_average(NULL, &t, x.t.data, y);
	kernel_average_back(NULL, &t, dy, dy1, dx.t.data);
	box_read(&dx);
	for (int n = 0; n < 3; n++)
		for (int k = 0; k < c; k++) {
			double sum = 0;
			int i = n * c + k;

			for (int p = 0; p < 21; p++)
				sum += (double)at(&x, n, k, p);
			near((double)y[i], sum / 21, 0, "y");
			near((double)at(&dx, n, k, 20),
			     (double)(dy[i] + dy1[i]) / 21, t.type, "dx");
		}
	free(y);
	free(dy);
	free(dy1);
	box_free(&x);
	box_free(&dx);
}
END_TEST

static void backwards(void)
{
	on_host_backwards = 1;
}

static Suite *suite(int reversed)
{
	Suite *s = suite_create(reversed ? "kernels_norm, last thread first"
					 : "kernels_norm");
	TCase *t = tcase_create("all");

	tcase_set_timeout(t, 120);
	if (reversed)
		tcase_add_checked_fixture(t, backwards, NULL);
	tcase_add_loop_test(t, norm_matches_its_formula, reversed ? 21 : 0, 24);
	tcase_add_loop_test(t, norm_by_running_statistics_in_place, 0, 3);
	tcase_add_test(t, norm_keeps_digits_beside_a_large_mean);
	tcase_add_test(t, norm_of_two_ranks_matches_one_rank);
	tcase_add_loop_test(t, max_pool_takes_the_greatest, 0, 3);
	tcase_add_test(t, max_pool_lets_nan_through);
	tcase_add_loop_test(t, average_pool_covers_all_places, 0, 6);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	int failed;

	if (emulator_lacks("the speed"))
		return 0;
	failed = run_suite(suite(0));
	return failed + run_suite(suite(1));
}
