/* test_kernels.c: the CUDA twin's kernels for losses, arenas and input, run on
 * the host, against the CPU twin and the formulas. */
#include "tests/unit/emulated.h"
#include "tests/unit/run_case.h"
#include "tests/unit/trainers/cuda/cpu_twin.h"
#include "tests/unit/trainers/data/crop_reference.h"

/* ---- Layouts ---- */

START_TEST(transposed_tensors_match_the_hosts)
{
	static const int shapes[][4] = {{2, 3, 5, 4}, {3, 8, 1, 1},
					{1, 13, 7, 2}, {2, 64, 3, 3}};
	enum tensor_type type = (enum tensor_type)(_i % 3);
	const int *s = shapes[_i / 3];
	struct box b = box_new(s[0], s[1], s[2], s[3], type);
	struct kernel_transpose t = {kernel_type_of(type), s[0], s[1],
				     s[2] * s[3], layout_channels(s[1], type)};
	size_t count = box_count(&b);
	void *there = room(b.t.bytes);
	float *back = room(count * sizeof(*back));

	kernel_to_nhwc(NULL, &t, b.v, there);
	ck_assert_mem_eq(there, b.t.data, b.t.bytes);
	kernel_from_nhwc(NULL, &t, there, back);
	ck_assert_mem_eq(back, b.v, count * sizeof(*back));
	free(there);
	free(back);
	box_free(&b);
}
END_TEST

START_TEST(bf16_is_the_nearest)
{
	enum { N = 3003 }; /* vectors, and values behind them */
	struct tensor t = {.n = 1, .c = N, .h = 1, .w = 1, .plain = 1,
			   .type = TENSOR_BF16, .bytes = N * 2};
	float *v = floats(N), *back = room(N * sizeof(*back));
	uint16_t *here = room(N * 2), *there = room(N * 2);

	v[0] = NAN;
	v[1] = INFINITY;
	v[2] = 1 + 0x1p-8f;       /* a tie, down to even */
	v[3] = 1 + 3 * 0x1p-8f;   /* a tie, up to even */
	v[4] = 3.4e38f;           /* rounds to infinity */
	layout_pack(&t, v, here);
	kernel_narrow(NULL, KERNEL_BF16, N, v, there);
	ck_assert_mem_eq(here, there, N * 2);
	kernel_widen(NULL, KERNEL_BF16, N, there, back);
	ck_assert(isnan(back[0]) && isinf(back[1]) && isinf(back[4]));
	ck_assert(back[2] == 1 && back[3] == 1 + 2 * 0x1p-7f);
	for (int i = 5; i < N; i++)
		ck_assert(fabsf(back[i] - v[i]) <= fabsf(v[i]) * 0x1p-8f);
	free(v);
	free(back);
	free(here);
	free(there);
}
END_TEST

/* All numbers of fp16 and the places between them, against the CPU twin's own
 * way to round. */
START_TEST(fp16_is_the_cpus)
{
	enum { N = 65536 + 3 };
	struct tensor t = {.n = 1, .c = N, .h = 1, .w = 1, .plain = 1,
			   .type = TENSOR_F16, .bytes = N * 2};
	float *v = room(N * sizeof(*v)), *back = room(N * sizeof(*back));
	uint16_t *here = room(N * 2), *there = room(N * 2);
	static const float between[] = {1, 1 + 0x1p-12f, 1 + 0x1p-11f,
					1 + 3 * 0x1p-12f};

	for (int i = 0; i < N; i++) {
		here[i] = (uint16_t)i;
		there[i] = 0xffff;
	}
	kernel_widen(NULL, KERNEL_F16, N, here, v);
	for (int i = 0; i < N; i++)
		v[i] *= between[_i];
	layout_pack(&t, v, here);
	kernel_narrow(NULL, KERNEL_F16, N, v, there);
	ck_assert_mem_eq(here, there, N * 2);
	kernel_widen(NULL, KERNEL_F16, N, there, back);
	cpu_half_round(N, v);
	for (int i = 0; i < N; i++)
		if (isnan(v[i]) ? !isnan(back[i])
				: memcmp(&v[i], &back[i], sizeof(*v)) != 0)
			ck_abort_msg("%a, not %a", (double)back[i],
				     (double)v[i]);
	free(v);
	free(back);
	free(here);
	free(there);
}
END_TEST

/* ---- Losses ---- */

static const struct loss_scaler *scaler; /* that losses have; NULL: none */

static void check_loss(int n, int c, float smoothing, float scale, int is_mse)
{
	size_t count = (size_t)n * (size_t)c;
	struct loss_spec s = {is_mse ? LOSS_MSE : LOSS_CROSS_ENTROPY, smoothing,
			      scale, scaler};
	double most = 1e-6 * (scaler ? (double)scaler->scale : 1);
	struct tensor y, dy, target;
	struct tally want = {0, 0, 0};
	struct kernel_tally tally = {0.5, 1, 2};
	float loss = NAN, want_loss = NAN;
	uint32_t *labels = room((size_t)n * sizeof(*labels));
	struct kernel_loss l = {.n = n, .c = c, .smoothing = smoothing,
				.scale = scale, .labels = labels,
				.loss = &loss, .tally = &tally,
				.scaler = scaler};

	layout_rows(&y, n, c);
	dy = target = y;
	l.y = y.data = floats(count);
	l.dy = floats(count);
	dy.data = floats(count);
	l.target = target.data = floats(count);
	l.room = room(KERNEL_LOSS_ROOM * sizeof(double));
	for (int i = 0; i < n; i++)
		labels[i] = (uint32_t)(i ? rand() % c : c - 1);
	if (n > 1) /* equal values: the first of them counts */
		for (int j = 0; j < c; j++)
			((float *)y.data)[c + j] = 1;
	if (is_mse) {
		kernel_mse(NULL, &l);
		ops_cpu.mse(cpu, &s, &y, &target, &want_loss, &want, &dy);
	} else {
		kernel_cross_entropy(NULL, &l);
		ops_cpu.cross_entropy(cpu, &s, &y, labels, &want_loss, &want,
				      &dy);
		ck_assert_uint_eq(tally.correct, want.correct + 1);
	}
	near((double)loss, (double)want_loss, 0, "the loss");
	near(tally.loss, want.loss + 0.5, 0, "the tally's loss");
	ck_assert_uint_eq(tally.count, want.count + 2);
	for (size_t i = 0; i < count; i++)
		ck_assert_double_le(fabs((double)l.dy[i] -
					 (double)((float *)dy.data)[i]),
				    most);
	free(labels);
	free((void *)l.y);
	free(l.dy);
	free(dy.data);
	free(target.data);
	free(l.room);
}

START_TEST(losses_match_the_cpus)
{
	struct loss_scaler s = loss_scaler_new(4096);

	scaler = _i ? &s : NULL;
	check_loss(64, 10, 0, 1, 0);
	check_loss(7, 10, 0.1f, 0.5f, 0);
	check_loss(17, 1000, 0.1f, 1, 0);
	check_loss(2, 70000, 0.1f, 1, 0); /* more than 16 bits */
	check_loss(16 * 128 + 5, 3, 0.1f, 1, 0); /* more than a sample a warp */
	check_loss(1, 33, 0, 1, 0);
	check_loss(3, 2, 0, 1, 0);
	check_loss(64, 784, 0, 1, 1);
	check_loss(1, 5, 0, 0.25f, 1);
	check_loss(900, 784, 0, 1, 1); /* more than all blocks at once */
}
END_TEST

START_TEST(a_loss_that_is_not_a_number_is_reported)
{
	float y[20] = {0}, loss = 0;
	uint32_t labels[2] = {0, 1};
	struct kernel_loss l = {.n = 2, .c = 10, .scale = 1, .y = y,
				.labels = labels, .loss = &loss};

	y[13] = NAN;
	kernel_cross_entropy(NULL, &l);
	ck_assert(isnan(loss));
	y[13] = INFINITY;
	kernel_cross_entropy(NULL, &l);
	ck_assert(!isfinite(loss));
}
END_TEST

/* ---- A linear layer's gradient ---- */

START_TEST(masks_and_sums)
{
	static const int shapes[][2] = {{64, 50}, {1, 10}, {33, 100}, {16, 32}};
	int n = shapes[_i / 4][0], out = shapes[_i / 4][1];
	size_t count = (size_t)n * (size_t)out;
	float *y = floats(count), *dy = floats(count), *dy1 = floats(count);
	float *sum = floats((size_t)out), *was = room(count * sizeof(*was));
	int relu = _i & 1, two = _i >> 1 & 1;

	memcpy(was, dy, count * sizeof(*was));
	kernel_mask_and_sum(NULL, n, out, relu ? y : NULL, dy,
			    two ? dy1 : NULL, sum);
	for (int o = 0; o < out; o++) {
		double want = 0;

		for (int i = 0; i < n; i++) {
			size_t k = (size_t)i * (size_t)out + (size_t)o;
			float v = two ? was[k] + dy1[k] : was[k];

			v = relu && y[k] <= 0 ? 0 : v;
			ck_assert(dy[k] == v);
			want += (double)v;
		}
		near((double)sum[o], want, 0, "the sum");
	}
	free(y);
	free(dy);
	free(dy1);
	free(sum);
	free(was);
}
END_TEST

/* ---- Arenas ---- */

START_TEST(arithmetic)
{
	enum { N = 5003 };
	float *x = floats(N), *y = floats(N), *was = floats(N);
	enum kernel_type type = (enum kernel_type)_i;
	struct box a = box_new(2, 6, 3, 3, (enum tensor_type)_i);
	struct box b = box_new(2, 6, 3, 3, a.t.type);
	struct box sum = box_new(2, 6, 3, 3, a.t.type);

	memcpy(was, y, N * sizeof(*y));
	kernel_add(NULL, N, x, y);
	kernel_scale(NULL, N, 3, x);
	for (int i = 0; i < N; i++)
		ck_assert(y[i] == was[i] + x[i] / 3 ||
			  fabsf(y[i] - was[i] - x[i] / 3) < 1e-6f);
	memcpy(sum.t.data, a.t.data, a.t.bytes);
	kernel_add_values(NULL, type, layout_count(&a.t), sum.t.data,
			  b.t.data);
	box_read(&sum);
	for (size_t i = 0; i < box_count(&a); i++)
		near((double)sum.v[i], (double)a.v[i] + (double)b.v[i], type,
		     "a sum");
	free(x);
	free(y);
	free(was);
	box_free(&a);
	box_free(&b);
	box_free(&sum);
}
END_TEST

START_TEST(finds_values_that_are_not_numbers)
{
	enum { N = 2001 };
	float *x = floats(N);
	uint16_t *y = room(N * 2);
	static const float bad[] = {NAN, INFINITY, -INFINITY};
	enum kernel_type type = _i < 3 ? KERNEL_BF16 : KERNEL_F16;

	/* the greatest numbers of both types */
	for (int i = 0; i < N; i++)
		y[i] = type == KERNEL_BF16 ? 0x7f7f : 0xfbff;
	kernel_finite(NULL, &state, 0, N, x);
	ck_assert_int_eq(state.not_finite, 0);
	kernel_finite(NULL, &state, type, N, y);
	ck_assert_int_eq(state.not_finite, 0);
	x[N - 1] = bad[_i % 3];
	kernel_finite(NULL, &state, 0, N, x);
	ck_assert_int_eq(state.not_finite, 1);
	kernel_narrow(NULL, type, 1, &x[N - 1], &y[N - 1]);
	kernel_finite(NULL, &state, type, N, y);
	ck_assert_int_eq(state.not_finite, 1);
	kernel_finite(NULL, &state, type, N - 1, y);
	ck_assert_int_eq(state.not_finite, 0);
	free(x);
	free(y);
}
END_TEST

/* ---- Input ---- */

enum { SAMPLES = 9 };

static float pixel(const struct kernel_load_batch *t, uint32_t sample, int c,
		   int y, int x)
{
	struct augment a = {0, 0, 0};
	struct crop part;
	int iy, ix, v = 0;

	if (t->augment == AUGMENT_RESIZE || t->out_height != t->height) {
		part = t->augment == AUGMENT_RESIZE ?
			crop_draw(t->seed, t->order->epoch, sample, t->height,
				  t->width) :
			crop_centre(t->height, t->width, t->out_height);
		v = reference_pixel(
			t->pixels + ((int)sample * t->channels + c) *
					    t->height * t->width,
			t->width, &part, t->out_height, t->out_width, y, x);
		return t->exact ? (float)v / 255.0f :
			((float)v / 255.0f - t->mean[c]) / t->std[c];
	}
	if (t->augment)
		a = augment_draw(t->seed, t->order->epoch, sample);
	iy = y + a.dy;
	ix = (a.flip ? t->width - 1 - x : x) + a.dx;
	if (iy >= 0 && iy < t->height && ix >= 0 && ix < t->width)
		v = t->pixels[(((int)sample * t->channels + c) * t->height +
			       iy) * t->width + ix];
	return t->exact ? (float)v / 255.0f :
			  ((float)v / 255.0f - t->mean[c]) / t->std[c];
}

/* side: of the result; 0: the sample's. */
static void check_take(int channels, int h, int w, enum kernel_type type,
		       int augment, int side)
{
	static const uint32_t order[] = {3, 8, 0, 5, 5, 1, 7};
	int out_h = side ? side : h, out_w = side ? side : w;
	size_t size = (size_t)(channels * h * w), bytes;
	size_t out_size = (size_t)(channels * out_h * out_w);
	int narrow = type != KERNEL_F32;
	struct box out = box_empty(4, channels, out_h, out_w,
				   (enum tensor_type)type);
	uint8_t *pixels = room(SAMPLES * size);
	void *first;
	uint32_t labels[SAMPLES] = {1000, 1, 2, 3, 70000, 5, 6, 7, 8}, got[4];
	uint8_t *batch = room(4 * size);
	struct kernel_order o = {.batch = NULL};
	struct kernel_load_batch t = {
		.pixels = pixels, .labels = labels, .order = &o,
		.channels = channels, .height = h, .width = w, .n = 4,
		.mean = {0.5f, 0.4f, 0.3f}, .std = {0.2f, 0.3f, 0.25f, 1},
		.exact = channels == 1, .augment = augment, .seed = 11,
		.out_height = out_h, .out_width = out_w, .labels_out = got,
		.out = out.t.data, .type = type};

	for (size_t i = 0; i < SAMPLES * size; i++)
		pixels[i] = (uint8_t)rand();
	if (!narrow) {
		out.t.plain = 1;
		out.t.layout = NULL;
		free(out.t.data);
		t.out = out.t.data = room(4 * out_size * sizeof(float));
	}
	bytes = narrow ? out.t.bytes : 4 * out_size * sizeof(float);
	first = room(bytes);
	kernel_order(NULL, &o, order, 5);
	kernel_set_step(NULL, &state, 1, 2, 0);
	kernel_load_batch(NULL, &state, &t);
	/* the same from pixels of the batch alone */
	memcpy(first, out.t.data, bytes);
	memset(out.t.data, 0xff, bytes);
	for (int i = 0; i < 4; i++)
		memcpy(batch + (size_t)i * size,
		       pixels + order[2 + i] * size, size);
	t.pixels = NULL;
	kernel_order_batch(NULL, &o, batch);
	kernel_load_batch(NULL, &state, &t);
	ck_assert_mem_eq(first, out.t.data, bytes);
	t.pixels = pixels;
	if (narrow)
		box_read(&out);
	else
		layout_unpack(&out.t, out.t.data, out.v);
	for (int i = 0; i < 4; i++) {
		ck_assert_uint_eq(got[i], labels[order[2 + i]]);
		for (int c = 0; c < channels; c++)
			for (int p = 0; p < out_h * out_w; p++) {
				float want = pixel(&t, order[2 + i], c,
						   p / out_w, p % out_w);

				if (narrow)
					near((double)at(&out, i, c, p),
					     (double)want, type, "a pixel");
				else
					ck_assert(at(&out, i, c, p) == want);
			}
	}
	memset(got, 0, sizeof(got));
	t.out = NULL;
	kernel_load_batch(NULL, &state, &t);
	ck_assert_uint_eq(got[3], labels[order[5]]);
	free(pixels);
	free(batch);
	free(first);
	box_free(&out);
}

START_TEST(loads_samples_in_the_given_order)
{
	enum kernel_type type = (enum kernel_type)(_i / 2);
	int augment = _i & 1;

	check_take(1, 28, 28, type, augment, 0);
	check_take(3, 32, 32, type, augment, 0);
	check_take(3, 41, 37, type, augment, 0); /* more than one block */
	check_take(4, 3, 3, type, augment, 0);
}
END_TEST

START_TEST(scales_parts_of_samples)
{
	enum kernel_type type = (enum kernel_type)(_i % 3);
	int augment = _i < 3 ? AUGMENT_RESIZE : AUGMENT_NONE;

	check_take(1, 28, 28, type, augment, 17);
	check_take(3, 20, 33, type, augment, 40); /* more than one block */
	check_take(3, 41, 37, type, AUGMENT_RESIZE, 0);
	check_take(4, 1, 1, type, augment, 8);
	check_take(3, 1, 1, type, AUGMENT_RESIZE, 0);
	check_take(2, 1, 50, type, augment, 8);
	check_take(1, 300, 200, type, augment, 8);
}
END_TEST

int main(void)
{
	TCase *t = cpu_twin_case();

	if (emulator_lacks("the speed"))
		return 0;
	tcase_add_loop_test(t, transposed_tensors_match_the_hosts, 0, 12);
	tcase_add_test(t, bf16_is_the_nearest);
	tcase_add_loop_test(t, fp16_is_the_cpus, 0, 4);
	tcase_add_loop_test(t, losses_match_the_cpus, 0, 2);
	tcase_add_test(t, a_loss_that_is_not_a_number_is_reported);
	tcase_add_loop_test(t, masks_and_sums, 0, 16);
	tcase_add_loop_test(t, arithmetic, 0, 3);
	tcase_add_loop_test(t, finds_values_that_are_not_numbers, 0, 6);
	tcase_add_loop_test(t, loads_samples_in_the_given_order, 0, 6);
	tcase_add_loop_test(t, scales_parts_of_samples, 0, 6);
	return run_case(t);
}
