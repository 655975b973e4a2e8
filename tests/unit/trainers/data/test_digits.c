/* test_digits.c: the drawn digits are the same in every run, evenly spread, and
 * so hard that a linear model does worse than one with a hidden layer. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/run_case.h"
#include "tests/unit/trainers/net_step.h"
#include "trainers/data/data_files.h"
#include "trainers/data/digits.h"
#include "trainers/models/net.h"

enum { TRAIN = 12000, TEST = 2000, BATCH = 50, EPOCHS = 8 };

START_TEST(a_sample_is_always_drawn_alike)
{
	uint8_t a[DATASET_PIXELS], b[DATASET_PIXELS], other[DATASET_PIXELS];
	int label = digits_draw(1, 77, a);

	digits_draw(1, 78, other);
	ck_assert_int_eq(digits_draw(1, 77, b), label);
	ck_assert_mem_eq(a, b, sizeof(a));
	ck_assert_mem_ne(a, other, sizeof(a));
	digits_draw(2, 77, b);
	ck_assert_mem_ne(a, b, sizeof(a));
}
END_TEST

START_TEST(digits_are_equally_likely)
{
	uint8_t pixels[DATASET_PIXELS];
	int count[DATASET_CLASSES] = {0};

	for (uint32_t i = 0; i < 5000; i++) {
		int label = digits_draw(1, i, pixels), ink = 0;

		ck_assert(label >= 0 && label < DATASET_CLASSES);
		count[label]++;
		for (int k = 0; k < DATASET_PIXELS; k++)
			ink += pixels[k] > 100;
		ck_assert_int_gt(ink, 5);
	}
	for (int i = 0; i < DATASET_CLASSES; i++) {
		ck_assert_int_gt(count[i], 400);
		ck_assert_int_lt(count[i], 600);
	}
}
END_TEST

/* The box in which a digit is written lies inside the image. */
START_TEST(few_strokes_reach_the_edge)
{
	uint8_t pixels[DATASET_PIXELS];
	int edge = 0, all = 0;

	for (uint32_t i = 0; i < 2000; i++) {
		digits_draw(1, i, pixels);
		for (int k = 0; k < DATASET_PIXELS; k++) {
			int x = k % DATASET_SIDE, y = k / DATASET_SIDE;

			if (pixels[k] <= 100)
				continue;
			all++;
			edge += x % (DATASET_SIDE - 1) == 0 ||
				y % (DATASET_SIDE - 1) == 0;
		}
	}
	ck_assert_msg(edge * 100 < all * 3, "%d of %d inked pixels", edge, all);
}
END_TEST

static struct device *device;

static struct loader *loader_of(const struct dataset *d,
				const struct dataset_part *part)
{
	struct loader_spec s = {
		.part = part, .shape = d->shape, .batch = BATCH};
	struct err e = ERR_INIT;
	uint32_t *order = malloc(part->count * sizeof(*order));
	struct loader *f;

	for (uint32_t i = 0; i < part->count; i++)
		order[i] = i;
	ck_assert_int_eq(ops_cpu.loader_new(device, &s, &f, &e), 0);
	ck_assert_int_eq(ops_cpu.loader_order(f, order, part->count, 0, &e), 0);
	free(order);
	return f;
}

static double test_accuracy(struct net *net, struct loader *f)
{
	struct loss_spec loss = {LOSS_CROSS_ENTROPY, 0, 1};
	struct plan *p;

	ck_assert_int_eq(net_plan(net, BATCH, NET_EVALUATE, &p, NULL), 0);
	memset(net->tally, 0, sizeof(*net->tally));
	for (uint32_t i = 0; i < TEST; i += BATCH) {
		ops_cpu.set_step(device, &(struct step_args){.first = i});
		net_load_batch_from(p, f);
		net_forward(p);
		net_loss(p, &loss);
	}
	return 100.0 * (double)net->tally->correct / TEST;
}

static double trained_accuracy(const struct model_spec *spec,
			       const struct dataset *d)
{
	struct loader *train = loader_of(d, &d->train);
	struct loader *test = loader_of(d, &d->test);
	struct loss_spec loss = {LOSS_CROSS_ENTROPY, 0, 1};
	struct err e = ERR_INIT;
	struct net net = {0};
	struct plan *p;
	uint64_t step = 0;
	double accuracy;

	ck_assert_int_eq(net_init(&net, spec, device, train, BATCH, NET_TRAIN,
				  &e), 0);
	ck_assert_int_eq(net_plan(&net, BATCH, NET_TRAIN, &p, &e), 0);
	net_init_weights(&net, 0, &e);
	struct update u = {
		.how = {OPTIMIZER_ADAM, .9, .999, 1e-8}, .count = net.arena,
		.grad = net.gradients, .scale = 1, .param = net.parameters,
		.moment = {calloc(net.arena, sizeof(float)),
			   calloc(net.arena, sizeof(float))},
	};
	for (int epoch = 0; epoch < EPOCHS; epoch++)
		for (uint32_t i = 0; i < TRAIN; i += BATCH) {
			ops_cpu.set_step(device, &(struct step_args){
				++step, i, 1e-3});
			net_step(p, &loss);
			ops_cpu.update(device, &u);
		}
	accuracy = test_accuracy(&net, test);
	free(u.moment[0]);
	free(u.moment[1]);
	net_release(&net);
	ops_cpu.loader_free(device, train);
	ops_cpu.loader_free(device, test);
	return accuracy;
}

START_TEST(a_hidden_layer_beats_a_linear_model)
{
	static const struct layer one[] = {{{OP_LINEAR, .out = 10, .relu = 0}}};
	static const struct layer two[] = {{{OP_LINEAR, .out = 50, .relu = 1}},
					   {{OP_LINEAR, .out = 10, .relu = 0}}};
	struct model_spec linear = {"linear", "", mnist_shape,
				    LOSS_CROSS_ENTROPY, INIT_TORCH, 1, one};
	struct model_spec mlp = {"mlp", "", mnist_shape, LOSS_CROSS_ENTROPY,
				 INIT_TORCH, 2, two};
	struct err e = ERR_INIT;
	struct payload p;
	struct dataset d;
	double a, b;

	ck_assert_int_eq(digits_make(TRAIN, TEST, &p, &e), 0);
	ck_assert_int_eq(dataset_view(p.data, p.size, &d, &e), 0);
	ck_assert_int_eq(ops_cpu.open(&(struct device_options){
		.threads = 1, .core = -1}, &device, &e), 0);
	ops_cpu.enter(device);
	a = trained_accuracy(&linear, &d);
	b = trained_accuracy(&mlp, &d);
	ck_assert_msg(a > 60 && a < 97, "linear: %.2f %%", a);
	ck_assert_msg(b > a + 2 && b > 85, "hidden layer: %.2f %%, linear: "
		      "%.2f %%", b, a);
	ops_cpu.close(device);
	free(p.data);
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("digits");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, a_sample_is_always_drawn_alike);
	tcase_add_test(t, digits_are_equally_likely);
	tcase_add_test(t, few_strokes_reach_the_edge);
	tcase_add_test(t,
		       a_hidden_layer_beats_a_linear_model);
	return run_case(t);
}
