/* test_model.c: a model's arenas, PyTorch's initial weights, files of weights,
 * and the gradients of a whole model. */
#include <check.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "trainers/model.h"

static const struct layer mlp_layers[] = {{LAYER_LINEAR, 50, 1},
					  {LAYER_LINEAR, 10, 0}};
static const struct layer ae_layers[] = {{LAYER_LINEAR, 128, 1},
					 {LAYER_LINEAR, 128, 1},
					 {LAYER_LINEAR, 128, 1},
					 {LAYER_LINEAR, 784, 1}};
static const struct layer small_layers[] = {{LAYER_LINEAR, 17, 1},
					    {LAYER_LINEAR, 6, 1},
					    {LAYER_LINEAR, 5, 0}};
static const struct layer echo_layers[] = {{LAYER_LINEAR, 9, 1},
					   {LAYER_LINEAR, 12, 1}};

static const struct model_spec mlp = {"mnist_mlp", 784, LOSS_CROSS_ENTROPY, 2,
				      mlp_layers};
static const struct model_spec ae = {"mnist_ae", 784, LOSS_MSE, 4, ae_layers};
static const struct model_spec small = {"small", 12, LOSS_CROSS_ENTROPY, 3,
					small_layers};
static const struct model_spec echo = {"echo", 12, LOSS_MSE, 2, echo_layers};

static struct model m;
static struct err e;

static void make(const struct model_spec *spec)
{
	memset(&e, 0, sizeof e);
	ck_assert_int_eq(model_init(&m, spec, &ops_cpu, 8, &e), 0);
}

START_TEST(the_kind_names_every_width)
{
	char kind[MODEL_KIND_MAX];

	ck_assert_str_eq(model_kind(&mlp, kind), "mnist_mlp 784-50-10");
	ck_assert_str_eq(model_kind(&ae, kind),
			 "mnist_ae 784-128-128-128-784");
	ck_assert_uint_eq(model_parameter_count(&mlp), 39760);
	ck_assert_uint_eq(model_parameter_count(&ae), 234640);
}
END_TEST

/* torch.manual_seed(0); nn.Linear(784, 50).weight[0, :2] */
START_TEST(seed_0_draws_what_pytorch_draws)
{
	make(&mlp);
	model_draw(&m, 0);
	ck_assert(m.parameters[0] == -0x1.186p-12f);
	ck_assert(m.parameters[50] == 0x1.39e56ap-6f);
	model_release(&m);
}
END_TEST

/* Bit by bit, where the reference is at hand. */
START_TEST(seed_0_is_the_reference_file)
{
	const char *dir = getenv("DDP_TEST_REFERENCE");
	const struct model_spec *spec = _i ? &ae : &mlp;
	char path[4096];
	float *drawn;
	size_t size;

	if (!dir)
		return;
	snprintf(path, sizeof path, "%s/%s.init.f32", dir, spec->name);
	make(spec);
	size = m.parameter_count * sizeof(float);
	drawn = malloc(size);
	model_draw(&m, 0);
	memcpy(drawn, m.parameters, size);
	memset(m.parameters, 0, size);
	ck_assert_msg(model_load_raw(&m, path, &e) == 0, "%s", e.text);
	ck_assert_mem_eq(drawn, m.parameters, size);
	free(drawn);
	model_release(&m);
}
END_TEST

START_TEST(raw_weights_lie_as_pytorch_has_them)
{
	char path[] = "/tmp/test_model.XXXXXX";
	int fd = mkstemp(path);
	float raw[17 * 12 + 17];
	FILE *f;

	make(&small);
	f = fdopen(fd, "w");
	for (size_t i = 0; i < m.parameter_count; i++) {
		float v = (float)i;

		fwrite(&v, sizeof v, 1, f);
		if (i < sizeof raw / sizeof *raw)
			raw[i] = v;
	}
	fclose(f);
	ck_assert_int_eq(model_load_raw(&m, path, &e), 0);
	for (int in = 0; in < 12; in++)
		for (int out = 0; out < 17; out++)
			ck_assert(m.linear[0].weight[in * 17 + out] ==
				  raw[out * 12 + in]);
	for (int out = 0; out < 17; out++)
		ck_assert(m.linear[0].bias[out] == raw[17 * 12 + out]);
	unlink(path);
	model_release(&m);
}
END_TEST

START_TEST(a_file_of_another_size_is_refused)
{
	char path[] = "/tmp/test_model.XXXXXX";
	int fd = mkstemp(path);

	make(&small);
	ck_assert_int_eq(ftruncate(fd, 1000), 0);
	close(fd);
	ck_assert_int_eq(model_load_raw(&m, path, &e), ERR_DATA);
	ck_assert_ptr_nonnull(strstr(e.text, path));
	ck_assert_ptr_nonnull(strstr(e.text, "1000 bytes"));
	unlink(path);
	ck_assert_int_eq(model_load_raw(&m, path, &e), -ENOENT);
	ck_assert_ptr_nonnull(strstr(e.text, path));
	ck_assert_int_lt(model_load_raw(&m, "/tmp", &e), 0);
	model_release(&m);
}
END_TEST

static void take_batch(void)
{
	static uint8_t pixels[8 * 12];
	static const uint32_t index[8] = {0, 1, 2, 3, 4, 5, 6, 7};
	static struct samples samples = {.pixels = pixels, .size = 12};

	for (int i = 0; i < 8 * 12; i++)
		pixels[i] = i % 3 ? (uint8_t)(i * 37 % 251) : 0;
	model_take(&m, 8, &samples, index);
}

static float loss_at(size_t parameter, float value, const uint8_t *labels)
{
	float keep = m.parameters[parameter];

	m.parameters[parameter] = value;
	model_forward(&m, labels);
	m.parameters[parameter] = keep;
	return *model_loss(&m);
}

/* By float differences: coarse, but a layer wired wrong is off by far more.
 * Where the slopes to the left and to the right differ a ReLU bends. */
START_TEST(the_gradients_of_a_whole_model_are_its_slopes)
{
	const uint8_t labels[8] = {0, 1, 2, 3, 4, 0, 1, 2};
	const float h = 2e-3f;
	float *gradients, loss;
	int steep = 0, bent = 0;

	make(_i ? &echo : &small);
	gradients = malloc(m.parameter_count * sizeof(float));
	model_draw(&m, 3);
	take_batch();
	model_step(&m, labels);
	loss = *model_loss(&m);
	memcpy(gradients, m.gradients, m.parameter_count * sizeof(float));
	for (size_t i = 0; i < m.parameter_count; i++) {
		float up = (loss_at(i, m.parameters[i] + h, labels) - loss) / h;
		float down = (loss - loss_at(i, m.parameters[i] - h, labels)) /
			     h;

		if (fabsf(up - down) > 1e-3f) {
			bent++;
			continue;
		}
		ck_assert_msg(fabsf((up + down) / 2 - gradients[i]) < 1e-3f,
			      "parameter %zu: %g is not %g", i,
			      (double)gradients[i], (double)(up + down) / 2);
		steep += fabsf(gradients[i]) > 5e-3f;
	}
	ck_assert_int_gt(steep, 20);
	ck_assert_int_lt(bent, (int)m.parameter_count / 4);
	free(gradients);
	model_release(&m);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("model");
	TCase *t = tcase_create("model");
	SRunner *r;
	int failed;

	tcase_set_timeout(t, 60);
	tcase_add_test(t, the_kind_names_every_width);
	tcase_add_test(t, seed_0_draws_what_pytorch_draws);
	tcase_add_loop_test(t, seed_0_is_the_reference_file, 0, 2);
	tcase_add_test(t, raw_weights_lie_as_pytorch_has_them);
	tcase_add_test(t, a_file_of_another_size_is_refused);
	tcase_add_loop_test(
		t, the_gradients_of_a_whole_model_are_its_slopes, 0, 2);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
