/* test_pipeline.c: what toy_mp's pipeline reports if a stage cannot be opened.
 * tests/e2e/toy_mp.bats trains with it. */
#include <check.h>

#include "tests/unit/run_case.h"
#include "trainers/train/pipeline.h"

enum { SIDE = 4, SAMPLES = 8, WIDTH = 16 };

static const struct layer layers[] = {{{OP_LINEAR, .out = WIDTH, .relu = 1}}};
static const struct model_spec models[PIPELINE_STAGES] = {
	[PIPELINE_HEAD] = {
		.name = "head", .input = {1, SIDE, SIDE, 10, {0}, {1}},
		.layer_count = 1, .layers = layers,
	},
	[PIPELINE_TAIL] = {
		.name = "tail", .input = {WIDTH, 1, 1, 10, {0}, {1}},
		.loss = LOSS_CROSS_ENTROPY, .layer_count = 1, .layers = layers,
	},
};

static uint8_t pixels[SAMPLES * SIDE * SIDE];
static uint32_t labels[SAMPLES];

static struct ops ops;

static int open_cpu(const struct device_options *o, struct device **d,
		    struct err *e)
{
	int r = ops_cpu.open(o, d, e);

	if (r == 0)
		(*d)->ops = &ops;
	return r;
}

/* Every plan of a net but the first has operations like those of the first. */
static int refuse_later_plans(struct device *d, const struct op_site *s,
			      struct op **out, struct err *e)
{
	if (s->like)
		return err_set(e, ERR_SYSTEM, "no second plan");
	return ops_cpu.op_new(d, s, out, e);
}

/* With two micro-batches, each stage has two plans. */
static int open_pipeline(struct pipeline *p, struct err *e)
{
	const struct pipeline_spec spec = {
		.ops = &ops, .model = {models[0], models[1]},
		.device = {{.threads = 1, .core = -1},
			   {.threads = 1, .core = -1}},
		.part = {.count = SAMPLES,
			 .samples = {.pixels = pixels, .size = SIDE * SIDE},
			 .labels = labels},
		.shape = models[0].input, .micros = 2, .n = SAMPLES / 2,
		.optimizer = {OPTIMIZER_SGD, .momentum = 0.9},
	};

	return pipeline_init(p, &spec, e);
}

START_TEST(a_stage_has_a_plan_for_each_micro_batch)
{
	struct err e = ERR_INIT;
	struct pipeline p;

	ops = ops_cpu;
	ops.open = open_cpu;
	ck_assert_msg(open_pipeline(&p, &e) == 0, "%s", e.text);
	for (int i = 0; i < PIPELINE_STAGES; i++) {
		ck_assert_ptr_nonnull(p.stage[i].plan[0]);
		ck_assert_ptr_nonnull(p.stage[i].plan[1]);
		ck_assert(p.stage[i].plan[0] != p.stage[i].plan[1]);
	}
	pipeline_release(&p);
}
END_TEST

START_TEST(a_plan_that_cannot_be_made_is_reported)
{
	struct err e = ERR_INIT;
	struct pipeline p;

	ops = ops_cpu;
	ops.open = open_cpu;
	ops.op_new = refuse_later_plans;
	ck_assert_int_eq(open_pipeline(&p, &e), ERR_SYSTEM);
	ck_assert_str_eq(e.text, "no second plan");
	pipeline_release(&p);
}
END_TEST

int main(void)
{
	TCase *c = tcase_create("pipeline");

	tcase_set_timeout(c, 60);
	tcase_add_test(c, a_stage_has_a_plan_for_each_micro_batch);
	tcase_add_test(c, a_plan_that_cannot_be_made_is_reported);
	return run_case(c);
}
