/* test_digits.c: the drawn digits are always the same, evenly spread, and hard
 * enough that a linear model stays behind one with a hidden layer. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "trainers/data/digits.h"
#include "trainers/model.h"

enum { TRAIN = 12000, TEST = 2000, BATCH = 50, EPOCHS = 8 };

START_TEST(a_sample_is_always_drawn_alike)
{
	uint8_t a[DATASET_PIXELS], b[DATASET_PIXELS], other[DATASET_PIXELS];
	int label = digits_draw(1, 77, a);

	digits_draw(1, 78, other);
	ck_assert_int_eq(digits_draw(1, 77, b), label);
	ck_assert_mem_eq(a, b, sizeof a);
	ck_assert_mem_ne(a, other, sizeof a);
	digits_draw(2, 77, b);
	ck_assert_mem_ne(a, b, sizeof a);
}
END_TEST

START_TEST(every_digit_comes_about_as_often)
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

static double test_accuracy(struct model *m, const struct dataset *d)
{
	uint32_t index[BATCH];
	int right = 0;

	for (uint32_t i = 0; i < TEST; i += BATCH) {
		for (uint32_t k = 0; k < BATCH; k++)
			index[k] = i + k;
		model_take(m, BATCH, &d->test.samples, index);
		model_forward(m, d->test.labels + i);
		right += ops_cpu.count_correct(BATCH, DATASET_CLASSES,
					       model_output(m),
					       d->test.labels + i);
	}
	return 100.0 * right / TEST;
}

static double trained_accuracy(const struct model_spec *spec,
			       const struct dataset *d)
{
	struct adam adam = {1e-3, .9, .999, 1e-8, 0};
	uint32_t index[BATCH];
	struct err e = ERR_INIT;
	struct model m;
	float *m1, *m2;
	double accuracy;

	ck_assert_int_eq(model_init(&m, spec, &ops_cpu, BATCH, &e), 0);
	model_draw(&m, 0);
	m1 = calloc(m.parameter_count, sizeof *m1);
	m2 = calloc(m.parameter_count, sizeof *m2);
	for (int epoch = 0; epoch < EPOCHS; epoch++)
		for (uint32_t i = 0; i < TRAIN; i += BATCH) {
			for (uint32_t k = 0; k < BATCH; k++)
				index[k] = i + k;
			model_take(&m, BATCH, &d->train.samples, index);
			model_step(&m, d->train.labels + i);
			adam.step++;
			ops_cpu.adam(&adam, m.parameter_count, m.gradients,
				     m.parameters, m1, m2);
		}
	accuracy = test_accuracy(&m, d);
	free(m1);
	free(m2);
	model_release(&m);
	return accuracy;
}

START_TEST(a_linear_model_stays_behind_one_with_a_hidden_layer)
{
	static const struct layer one[] = {{LAYER_LINEAR, 10, 0}};
	static const struct layer two[] = {{LAYER_LINEAR, 50, 1},
					   {LAYER_LINEAR, 10, 0}};
	struct model_spec linear = {"linear", DATASET_PIXELS,
				    LOSS_CROSS_ENTROPY, 1, one};
	struct model_spec mlp = {"mlp", DATASET_PIXELS, LOSS_CROSS_ENTROPY, 2,
				 two};
	struct err e = ERR_INIT;
	struct payload p;
	struct dataset d;
	double a, b;

	ck_assert_int_eq(digits_make(TRAIN, TEST, &p, &e), 0);
	ck_assert_int_eq(dataset_view(p.data, p.size, &d, &e), 0);
	ops_cpu.start(1, &e);
	a = trained_accuracy(&linear, &d);
	b = trained_accuracy(&mlp, &d);
	ck_assert_msg(a > 60 && a < 97, "linear: %.2f %%", a);
	ck_assert_msg(b > a + 2 && b > 85, "hidden layer: %.2f %%, linear: "
		      "%.2f %%", b, a);
	free(p.data);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("digits");
	TCase *t = tcase_create("digits");
	SRunner *r;
	int failed;

	tcase_set_timeout(t, 120);
	tcase_add_test(t, a_sample_is_always_drawn_alike);
	tcase_add_test(t, every_digit_comes_about_as_often);
	tcase_add_test(t,
		       a_linear_model_stays_behind_one_with_a_hidden_layer);
	suite_add_tcase(s, t);
	r = srunner_create(s);
	srunner_run_all(r, CK_NORMAL);
	failed = srunner_ntests_failed(r);
	srunner_free(r);
	return failed != 0;
}
