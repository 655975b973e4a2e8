/* test_net.c: a net's arenas, PyTorch's initial weights, files of weights, the
 * gradients of whole models, accumulation, and the name of the first layer that
 * is not finite. */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/unit/emulated.h"
#include "tests/unit/run_case.h"
#include "tests/unit/trainers/net_step.h"
#include "trainers/models/net.h"

static const struct layer mlp_layers[] = {{{OP_LINEAR, .out = 50, .relu = 1}},
					  {{OP_LINEAR, .out = 10, .relu = 0}}};
static const struct layer ae_layers[] = {{{OP_LINEAR, .out = 128, .relu = 1}},
					 {{OP_LINEAR, .out = 128, .relu = 1}},
					 {{OP_LINEAR, .out = 128, .relu = 1}},
					 {{OP_LINEAR, .out = 784, .relu = 1}}};
static const struct layer small_layers[] = {{{OP_LINEAR, .out = 17, .relu = 1}},
					    {{OP_LINEAR, .out = 6, .relu = 1}},
					    {{OP_LINEAR, .out = 5, .relu = 0}}};
static const struct layer echo_layers[] = {{{OP_LINEAR, .out = 9, .relu = 1}},
					   {{OP_LINEAR, .out = 12, .relu = 1}}};

/* A block that adds its input, a block with a shortcut layer, a pool. */
static const struct layer block_layers[] = {
	{{OP_CONV, 16, 3, 1, 1}},
	{{OP_BATCH_NORM, .relu = 1}},
	{{OP_MAX_POOL, .kernel = 3, .stride = 2, .pad = 1}},
	{{OP_CONV, 16, 3, 1, 1}},
	{{OP_BATCH_NORM, .relu = 1}, .add = 3},
	{{OP_CONV, 32, 3, 2, 1}},
	{{OP_CONV, 32, 1, 2, 0}, .from = 5},
	{{OP_BATCH_NORM}},
	{{OP_BATCH_NORM, .relu = 1}, .from = 6, .add = 8},
	{{OP_AVERAGE_POOL}},
	{{OP_LINEAR, .out = 5}},
};

#define SPEC(text, c, h, w, what, list)                                        \
	{text, "", {c, h, w, 10, {0}, {1, 1, 1}}, what, INIT_TORCH,            \
	 sizeof(list) / sizeof(*list), list}

static const struct model_spec mlp =
	SPEC("mnist_mlp", 1, 28, 28, LOSS_CROSS_ENTROPY, mlp_layers);
static const struct model_spec ae =
	SPEC("mnist_ae", 1, 28, 28, LOSS_MSE, ae_layers);
static const struct model_spec small =
	SPEC("small", 1, 3, 4, LOSS_CROSS_ENTROPY, small_layers);
static const struct model_spec echo =
	SPEC("echo", 1, 3, 4, LOSS_MSE, echo_layers);
static const struct model_spec blocks =
	SPEC("blocks", 3, 12, 12, LOSS_CROSS_ENTROPY, block_layers);

enum { BATCH = 8, PIXELS_MAX = 3 * 12 * 12 };

static struct net net;
static struct device *device;
static struct loader *loader;
static struct err e;

static uint8_t pixels[2 * BATCH * PIXELS_MAX];
static uint32_t labels[2 * BATCH] = {0, 1, 2, 3, 4, 0, 1, 2, 4, 3, 2, 1};
static struct dataset_part part = {.count = 2 * BATCH,
				   .samples = {.pixels = pixels},
				   .labels = labels};

static void make(const struct model_spec *spec)
{
	const struct image_shape *s = &spec->input;
	size_t size = (size_t)(s->channels * s->height * s->width);
	uint32_t order[2 * BATCH];

	memset(&e, 0, sizeof(e));
	part.samples.size = size;
	for (size_t i = 0; size <= PIXELS_MAX && i < 2 * BATCH * size; i++)
		pixels[i] = i % 3 ? (uint8_t)(i * i * 37 % 251) : 0;
	for (uint32_t i = 0; i < 2 * BATCH; i++)
		order[i] = i;
	ck_assert_int_eq(ops_cpu.open(&(struct device_options){
		.threads = 1, .core = -1}, &device, &e), 0);
	ops_cpu.enter(device);
	ck_assert_int_eq(ops_cpu.loader_new(device, &(struct loader_spec){
		.part = &part, .shape = *s, .batch = 2 * BATCH}, &loader, &e),
		0);
	ck_assert_int_eq(ops_cpu.loader_order(loader, order, 2 * BATCH, 0, &e),
			 0);
	ck_assert_msg(net_init(&net, spec, device, loader, BATCH, NET_TRAIN,
			       &e) == 0, "%s", e.text);
}

static void *lent;
static size_t lent_bytes;

static int lend(void *arg, size_t bytes, void **out, struct err *err)
{
	if (arg)
		return err_set(err, ERR_SYSTEM, "no such memory");
	lent_bytes = bytes;
	lent = *out = aligned_alloc(64, (bytes + 63) / 64 * 64);
	memset(lent, 0xff, bytes);
	return 0;
}

static void take_back(void *arg, void *p)
{
	ck_assert(p == lent);
	free(p);
	lent = NULL;
}

static void release(void)
{
	net_release(&net);
	ops_cpu.loader_free(device, loader);
	ops_cpu.close(device);
}

static struct plan *plan_of(int n, enum net_mode mode)
{
	struct plan *p;

	ck_assert_msg(net_plan(&net, n, mode, &p, &e) == 0, "%s", e.text);
	return p;
}

/* The loss is at the gradients' end. */
START_TEST(gradients_lie_in_the_callers_memory)
{
	net.memory = (struct net_memory){lend, take_back, NULL};
	make(&small);
	ck_assert_ptr_eq(net.gradients, lent);
	ck_assert_uint_eq(lent_bytes,
			  (net.arena + NET_LOSS_VALUES) * sizeof(float));
	for (size_t i = 0; i < net.arena + NET_LOSS_VALUES; i++)
		ck_assert(net.gradients[i] == 0);
	release();
	ck_assert_ptr_null(lent);
}
END_TEST

START_TEST(memory_that_is_not_there_is_an_error)
{
	struct net none = {.memory = {lend, take_back, &e}};

	make(&small);
	ck_assert_int_eq(net_init(&none, &small, device, loader, BATCH,
				  NET_TRAIN, &e), ERR_SYSTEM);
	ck_assert_str_eq(e.text, "no such memory");
	lent = NULL;
	net_release(&none);
	release();
}
END_TEST

START_TEST(the_kind_names_every_width)
{
	char kind[MODEL_KIND_MAX];

	ck_assert_str_eq(model_kind(&mlp, kind), "mnist_mlp 784-50-10");
	ck_assert_str_eq(model_kind(&ae, kind),
			 "mnist_ae 784-128-128-128-784");
	make(&mlp);
	ck_assert_uint_eq(net.parameter_count, 39760);
	release();
	make(&ae);
	ck_assert_uint_eq(net.parameter_count, 234640);
	release();
}
END_TEST

/* torch.manual_seed(0); nn.Linear(784, 50).weight[0, :2] */
START_TEST(seed_0_draws_what_pytorch_draws)
{
	make(&mlp);
	ck_assert_int_eq(net_init_weights(&net, 0, &e), 0);
	ck_assert(net.parameters[0] == -0x1.186p-12f);
	ck_assert(net.parameters[50] == 0x1.39e56ap-6f);
	release();
}
END_TEST

/* Bit by bit, if the reference is available. */
START_TEST(seed_0_is_the_reference_file)
{
	const char *dir = getenv("DDP_TEST_REFERENCE");
	const struct model_spec *spec = _i ? &ae : &mlp;
	char path[4096];
	float *drawn;
	size_t size;

	if (!dir)
		return;
	snprintf(path, sizeof(path), "%s/%s.init.f32", dir, spec->name);
	make(spec);
	size = net.arena * sizeof(float);
	drawn = malloc(size);
	ck_assert_int_eq(net_init_weights(&net, 0, &e), 0);
	memcpy(drawn, net.parameters, size);
	memset(net.parameters, 0, size);
	ck_assert_msg(net_load_raw(&net, path, &e) == 0, "%s", e.text);
	ck_assert_mem_eq(drawn, net.parameters, size);
	free(drawn);
	release();
}
END_TEST

START_TEST(raw_weights_have_pytorchs_layout)
{
	char path[] = "/tmp/test_model.XXXXXX";
	int fd = mkstemp(path);
	float raw[17 * 12 + 17];
	FILE *f;

	make(&small);
	f = fdopen(fd, "w");
	for (size_t i = 0; i < net.parameter_count; i++) {
		float v = (float)i;

		fwrite(&v, sizeof(v), 1, f);
		if (i < sizeof(raw) / sizeof(*raw))
			raw[i] = v;
	}
	fclose(f);
	ck_assert_int_eq(net_load_raw(&net, path, &e), 0);
	for (int in = 0; in < 12; in++)
		for (int out = 0; out < 17; out++)
			ck_assert(net.parameters[in * 17 + out] ==
				  raw[out * 12 + in]);
	/* each at a multiple of 16 */
	for (int out = 0, bias = (17 * 12 + 15) / 16 * 16; out < 17; out++)
		ck_assert(net.parameters[bias + out] == raw[17 * 12 + out]);
	unlink(path);
	release();
}
END_TEST

START_TEST(a_file_of_another_size_is_refused)
{
	char path[] = "/tmp/test_model.XXXXXX";
	int fd = mkstemp(path);

	make(&small);
	ck_assert_int_eq(ftruncate(fd, 1000), 0);
	close(fd);
	ck_assert_int_eq(net_load_raw(&net, path, &e), ERR_DATA);
	ck_assert_ptr_nonnull(strstr(e.text, path));
	ck_assert_ptr_nonnull(strstr(e.text, "1000 bytes"));
	unlink(path);
	ck_assert_int_eq(net_load_raw(&net, path, &e), -ENOENT);
	ck_assert_ptr_nonnull(strstr(e.text, path));
	ck_assert_int_lt(net_load_raw(&net, "/tmp", &e), 0);
	release();
}
END_TEST

START_TEST(stored_state_is_restored)
{
	float *in, *out;
	size_t n;

	make(&blocks);
	n = net.parameter_count;
	in = malloc(n * sizeof(*in));
	out = malloc(n * sizeof(*out));
	for (size_t i = 0; i < n; i++)
		in[i] = (float)i;
	net_put(&net, net.parameters, in);
	net_get(&net, net.parameters, out);
	ck_assert_mem_eq(in, out, n * sizeof(*in));
	n = net_buffer_count(&net);
	ck_assert_uint_eq(n, 2 * (16 + 16 + 32 + 32));
	net_put_buffers(&net, in);
	net_get_buffers(&net, out);
	ck_assert_mem_eq(in, out, n * sizeof(*in));
	free(in);
	free(out);
	release();
}
END_TEST

START_TEST(the_slices_of_the_layers_are_the_whole_arena)
{
	size_t at, count, sum = 0;

	make(&blocks);
	for (int i = 0; i <= blocks.layer_count; i++) {
		net_slice(&net, i, &at, &count);
		if (!count)
			continue;
		ck_assert_uint_eq(at, sum);
		sum += count;
	}
	ck_assert_uint_eq(sum, net.arena + NET_LOSS_VALUES);
	release();
}
END_TEST

static const struct loss_spec *loss_of(const struct model_spec *spec)
{
	static struct loss_spec loss;

	loss = (struct loss_spec){spec->loss, 0, 1};
	return &loss;
}

static float loss_at(struct plan *p, size_t parameter, float value)
{
	float keep = net.parameters[parameter];

	net.parameters[parameter] = value;
	ops_cpu.params_changed(device);
	net_load_batch(p);
	net_forward(p);
	net_loss(p, loss_of(net.spec));
	net.parameters[parameter] = keep;
	return *net.loss;
}

static const struct model_spec *const sloped[] = {&small, &echo, &blocks};

/* Compares with float differences: coarse, but a wrongly wired layer is off by
 * far more. Skips values at which the slopes to the left and right differ: a
 * ReLU bends there. */
START_TEST(a_models_gradients_match_finite_differences)
{
	const float h = 5e-4f, near = 2e-3f;
	float *gradients, loss;
	int steep = 0, bent = 0, tried = 0;
	size_t step;
	struct plan *p;

	make(sloped[_i]);
	p = plan_of(BATCH, NET_TRAIN);
	gradients = malloc(net.arena * sizeof(float));
	ck_assert_int_eq(net_init_weights(&net, 3, &e), 0);
	net_step(p, loss_of(net.spec));
	loss = *net.loss;
	memcpy(gradients, net.gradients, net.arena * sizeof(float));
	step = net.arena / 700 + 1;
	for (size_t i = 0; i < net.arena; i += step, tried++) {
		float up = (loss_at(p, i, net.parameters[i] + h) - loss) / h;
		float down = (loss - loss_at(p, i, net.parameters[i] - h)) / h;

		if (fabsf(up - down) > near) {
			bent++;
			continue;
		}
		ck_assert_msg(fabsf((up + down) / 2 - gradients[i]) < near,
			      "parameter %zu: %g is not %g", i,
			      (double)gradients[i], (double)(up + down) / 2);
		steep += fabsf(gradients[i]) > 5e-3f;
	}
	ck_assert_int_gt(steep, 20);
	ck_assert_int_lt(bent, tried / 2);
	free(gradients);
	release();
}
END_TEST

/* Without batch normalisation two halves equal the whole. */
START_TEST(micro_batches_give_the_gradient_of_the_whole_batch)
{
	struct loss_spec half = {LOSS_CROSS_ENTROPY, 0, .5f};
	float *whole, loss;
	struct plan *p;

	make(&small);
	ck_assert_int_eq(net_init_weights(&net, 0, &e), 0);
	ops_cpu.set_step(device, &(struct step_args){1, 0, 0});
	net_step(plan_of(2 * BATCH, NET_TRAIN), loss_of(&small));
	loss = *net.loss;
	whole = malloc(net.arena * sizeof(*whole));
	memcpy(whole, net.gradients, net.arena * sizeof(*whole));
	p = plan_of(BATCH, NET_TRAIN);
	ck_assert_int_eq(net_accumulate(&net, NET_FIRST, &e), 0);
	net_step(p, &half);
	ops_cpu.set_step(device, &(struct step_args){1, BATCH, 0});
	ck_assert_int_eq(net_accumulate(&net, NET_LAST, &e), 0);
	net_step(p, &half);
	ck_assert_float_eq_tol(*net.loss, loss, 1e-5f);
	for (size_t i = 0; i < net.arena; i++)
		ck_assert_float_eq_tol(net.gradients[i], whole[i], 1e-6f);
	free(whole);
	release();
}
END_TEST

static int told[32], tellings;

static void tell(void *arg, int layer)
{
	told[tellings++] = layer;
}

START_TEST(layers_are_reported_ready_from_last_to_first)
{
	static const int want[] = {11, 10, 8, 7, 6, 5, 4, 3, 1, 0};

	make(&blocks);
	net.on_ready = tell;
	tellings = 0;
	net_step(plan_of(BATCH, NET_TRAIN), loss_of(&blocks));
	ck_assert_int_eq(tellings, sizeof(want) / sizeof(*want));
	ck_assert_mem_eq(told, want, sizeof(want));
	ck_assert_int_eq(net_accumulate(&net, NET_FIRST, &e), 0);
	net_step(plan_of(BATCH, NET_TRAIN), loss_of(&blocks));
	ck_assert_int_eq(tellings, sizeof(want) / sizeof(*want));
	release();
}
END_TEST

START_TEST(the_first_layer_that_is_not_finite_is_named)
{
	struct plan *p;
	size_t at, count;

	make(&blocks);
	p = plan_of(BATCH, NET_TRAIN);
	ck_assert_int_eq(net_init_weights(&net, 0, &e), 0);
	net_step(p, loss_of(&blocks));
	ck_assert_ptr_null(net_first_not_finite(p));
	net_slice(&net, 6, &at, &count);
	net.parameters[at + 5] = NAN;
	ops_cpu.params_changed(device);
	net_step(p, loss_of(&blocks));
	ck_assert(isnan(*net.loss));
	/* layers are counted with the ReLUs between them */
	ck_assert_str_eq(net_first_not_finite(p), "8");
	release();
}
END_TEST

static void evaluated(struct plan *p, struct tally *t)
{
	memset(net.tally, 0, sizeof(*net.tally));
	net_load_batch(p);
	net_forward(p);
	net_loss(p, loss_of(net.spec));
	*t = *net.tally;
}

START_TEST(evaluation_uses_running_statistics_and_counts_exactly)
{
	struct tally whole, half[2];

	make(&blocks);
	ck_assert_int_eq(net_init_weights(&net, 0, &e), 0);
	for (int i = 0; i < 50; i++)
		net_step(plan_of(BATCH, NET_TRAIN), loss_of(&blocks));
	ops_cpu.set_step(device, &(struct step_args){0});
	evaluated(plan_of(2 * BATCH, NET_EVALUATE), &whole);
	evaluated(plan_of(BATCH, NET_EVALUATE), &half[0]);
	ops_cpu.set_step(device, &(struct step_args){.first = BATCH});
	evaluated(plan_of(BATCH, NET_EVALUATE), &half[1]);
	ck_assert_uint_eq(whole.count, 2 * BATCH);
	ck_assert_uint_eq(half[0].count, BATCH);
	ck_assert_uint_eq(whole.correct, half[0].correct + half[1].correct);
	ck_assert_double_eq_tol(whole.loss, half[0].loss + half[1].loss, 1e-3);
	release();
}
END_TEST

/* Makes the running statistics those of the batch: from zero, the first step
 * sets them to a tenth of the batch's, with the variance of a sample. */
static void take_statistics_of_the_batch(const struct plan *p)
{
	size_t n = net_buffer_count(&net);
	float *values = malloc(n * sizeof(*values)), *v = values;

	net_get_buffers(&net, values);
	for (int i = 0; i < net.buffer_count; i++) {
		const struct net_param *q = &net.buffer[i];
		const struct tensor *t = p->value[q->layer];
		float count = (float)(t->n * t->h * t->w);

		for (size_t k = 0; k < q->count; k++)
			*v++ *= q->which ? 10 * (count - 1) / count : 10;
	}
	net_put_buffers(&net, values);
	free(values);
}

START_TEST(evaluation_with_batch_statistics_matches_training)
{
	struct plan *p, *q;

	make(&blocks);
	p = plan_of(BATCH, NET_TRAIN);
	q = plan_of(BATCH, NET_EVALUATE);
	ck_assert_int_eq(net_init_weights(&net, 0, &e), 0);
	memset(net.buffers, 0, net.buffer_arena * sizeof(*net.buffers));
	net_load_batch(p);
	net_forward(p);
	take_statistics_of_the_batch(p);
	net_load_batch(q);
	net_forward(q);
	for (int i = 0; i < BATCH * 5; i++)
		ck_assert_float_eq_tol(((float *)q->out->data)[i],
				       ((float *)p->out->data)[i], 1e-4f);
	release();
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("net");

	if (emulator_lacks("the speed"))
		return 0;
	tcase_set_timeout(t, 200);
	tcase_add_test(t, gradients_lie_in_the_callers_memory);
	tcase_add_test(t, memory_that_is_not_there_is_an_error);
	tcase_add_test(t, the_kind_names_every_width);
	tcase_add_test(t, seed_0_draws_what_pytorch_draws);
	tcase_add_loop_test(t, seed_0_is_the_reference_file, 0, 2);
	tcase_add_test(t, raw_weights_have_pytorchs_layout);
	tcase_add_test(t, a_file_of_another_size_is_refused);
	tcase_add_loop_test(
		t, a_models_gradients_match_finite_differences, 0, 3);
	tcase_add_test(t, stored_state_is_restored);
	tcase_add_test(t, the_slices_of_the_layers_are_the_whole_arena);
	tcase_add_test(t, micro_batches_give_the_gradient_of_the_whole_batch);
	tcase_add_test(
		t, layers_are_reported_ready_from_last_to_first);
	tcase_add_test(t, the_first_layer_that_is_not_finite_is_named);
	tcase_add_test(
		t, evaluation_uses_running_statistics_and_counts_exactly);
	tcase_add_test(
		t, evaluation_with_batch_statistics_matches_training);
	return run_case(t);
}
