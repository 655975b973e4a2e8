/* test_trainer_options.c: valid command lines of a trainer, and those that
 * contradict themselves or make no sense for it; recipe.h on top of them. */
#include <check.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/run_case.h"
#include "trainers/train/recipe.h"
#include "trainers/train/trainer_options.h"

enum { ALL = 127 };

static struct trainer_options o;
static struct err e;

/* Parses the words of one line, after a program's name. */
static int parse(unsigned features, const char *line)
{
	static char text[512];
	char *argv[32] = {"mnist_mlp"};
	int argc = 1;

	unsetenv("DDP_BACKEND");
	o = (struct trainer_options){TRAINER_OPTIONS_INIT, .epochs = 5,
				     .batch = 64, .lr = 0.001};
	e = (struct err)ERR_INIT;
	strcpy(text, line);
	for (char *w = strtok(text, " "); w; w = strtok(NULL, " "))
		argv[argc++] = w;
	return trainer_options_parse(&o, "mnist_mlp", features, argc, argv, &e);
}

static void refused(unsigned features, const char *line, const char *words)
{
	ck_assert_int_eq(parse(features, line), ERR_USAGE);
	if (!strstr(e.text, words))
		ck_abort_msg("%s: '%s' lacks '%s'", line, e.text, words);
}

START_TEST(every_option_is_printed)
{
	unsetenv("DDP_DATA");
	ck_assert_int_eq(parse(ALL, "--arch resnet50 --stem cifar --synthetic "
			       "--image-size 96 --steps 7 --precision bf16 "
			       "--recipe fast --sync-bn --accumulate 2 "
			       "--conv direct"), 0);
	ck_assert_str_eq(o.arch, "resnet50");
	ck_assert_int_eq(o.steps, 7);
	ck_assert_int_eq(o.image_size, 96);
	ck_assert_int_eq(o.precision, PRECISION_BF16);
	ck_assert_int_eq(o.direct, 1);
	ck_assert_int_eq(o.accumulate, 2);
	ck_assert_int_eq(parse(0, ""), 0);
	ck_assert_int_eq(o.precision, PRECISION_FP32);
	ck_assert_int_eq(o.deterministic, 0);
	ck_assert_int_eq(parse(0, "--precision tf32 --deterministic"), 0);
	ck_assert_int_eq(o.precision, PRECISION_TF32);
	ck_assert_int_eq(o.deterministic, 1);
	ck_assert_int_eq(parse(0, "--precision fp16"), 0);
	ck_assert_int_eq(o.precision, PRECISION_FP16);
	ck_assert_int_eq(o.loss_scale, 65536);
	ck_assert_int_eq(parse(0, "--precision fp16 --loss-scale 8"), 0);
	ck_assert_int_eq(o.loss_scale, 8);
	ck_assert_int_eq(o.fuse, 0);
	ck_assert_int_eq(parse(ALL, "--precision fp16 --fuse"), 0);
	ck_assert_int_eq(o.fuse, 1);
	ck_assert_int_eq(parse(0, ""), 0);
	ck_assert_int_eq(o.direct, 0);
	ck_assert_int_eq(o.keep, 1);
	ck_assert_ptr_null(o.resume);
}
END_TEST

/* As --data "$DATA" in a script whose variable is not set. */
START_TEST(an_empty_folder_or_backend_is_none)
{
	char *argv[] = {"mnist_mlp", "--data", "", "--backend", "", NULL};

	ck_assert_int_eq(parse(0, "--data d --backend cpu"), 0);
	ck_assert_int_eq(trainer_options_parse(&o, "mnist_mlp", 0, 5, argv, &e),
			 0);
	ck_assert_ptr_null(o.data);
	ck_assert_ptr_null(o.backend);
}
END_TEST

START_TEST(resuming_has_three_forms)
{
	ck_assert_int_eq(parse(0, "--resume --checkpoint c"), 0);
	ck_assert_str_eq(o.resume, TRAINER_RESUME_IT);
	ck_assert_int_eq(parse(0, "--checkpoint c --resume"), 0);
	ck_assert_str_eq(o.resume, TRAINER_RESUME_IT);
	ck_assert_int_eq(parse(0, "--checkpoint c --resume auto"), 0);
	ck_assert_str_eq(o.resume, TRAINER_RESUME_AUTO);
	ck_assert_int_eq(parse(0, "--resume old.ckpt"), 0);
	ck_assert_str_eq(o.resume, "old.ckpt");
	refused(0, "--resume", "--resume needs --checkpoint FILE");
	refused(0, "--resume auto", "--resume needs --checkpoint FILE");
}
END_TEST

START_TEST(inapplicable_options_are_refused_with_a_message)
{
	refused(0, "--arch resnet18",
		"--arch does not apply here: mnist_mlp is one network");
	refused(0, "--conv direct", "has no convolutions");
	refused(0, "--sync-bn", "has no batch normalisation");
	refused(0, "--synthetic", "has its own data");
	refused(0, "--label-smoothing 0.1", "has no classes");
	refused(0, "--no-augment", "takes images as they are");
	refused(0, "--crop shift", "takes images as they are");
	refused(0, "--crop-size 32", "takes images as they are");
	refused(0, "--save-images x.png", "has no images as its output");
	refused(0, "--recipe fast", "has one recipe");
	refused(TRAINER_CLASSES, "--stem cifar", "is one network");
	ck_assert_int_eq(parse(TRAINER_CLASSES, "--label-smoothing 0.1"), 0);
}
END_TEST

START_TEST(contradictions_are_refused)
{
	refused(0, "--steps 3 --epochs 3", "both set the length");
	refused(0, "--keep 3", "--keep needs --checkpoint");
	refused(ALL, "--image-size 32", "only applies to --synthetic");
	refused(ALL, "--synthetic --data x", "contradict each other");
	refused(0, "--precision fp8",
		"--precision 'fp8': give fp32, tf32, bf16 or fp16");
	refused(0, "--loss-scale 8", "--loss-scale only applies to --precision "
		"fp16: other types do not need it");
	refused(0, "--precision fp16 --loss-scale 24",
		"--loss-scale 24 is not a power of 2");
	refused(ALL, "--crop middle",
		"--crop 'middle' is neither shift nor random-resized");
	refused(ALL, "--crop shift --no-augment", "contradict each other");
	refused(ALL, "--crop-size 32", "--crop-size needs --crop "
		"random-resized");
	refused(ALL, "--crop shift --crop-size 32", "--crop-size needs");
	refused(ALL, "--crop random-resized --crop-size 7",
		"--crop-size");
	refused(ALL, "--conv fft", "'fft' is neither auto nor direct");
	refused(0, "--checkpoint= --epochs 1", "--checkpoint: the name is");
	refused(0, "--log-dir=", "--log-dir: the name is empty");
	/* a folder for all runs is no contradiction */
	setenv("DDP_DATA", "/data", 1);
	ck_assert_int_eq(parse(ALL, "--synthetic"), 0);
	unsetenv("DDP_DATA");
}
END_TEST

/* ---- Recipes ---- */

static const struct recipe adam[] = {RECIPE_ADAM(1e-3), {.name = NULL}};
static struct recipe got;

static int choose(const struct recipe *from, const char *line, int world_size)
{
	int r = parse(ALL, line);

	ck_assert_int_eq(r, 0);
	return recipe_choose(&got, from, &o, world_size, &e);
}

static void not_chosen(const struct recipe *from, const char *line,
		       const char *words)
{
	ck_assert_int_eq(choose(from, line, 1), ERR_USAGE);
	if (!strstr(e.text, words))
		ck_abort_msg("%s: '%s' lacks '%s'", line, e.text, words);
}

START_TEST(recipes_match_the_published_ones)
{
	char text[128];

	ck_assert_int_eq(choose(recipe_resnet, "", 4), 0);
	ck_assert_str_eq(recipe_text(&got, text, sizeof(text)), "SGD, momentum "
			 "0.9, weight decay 1e-05, lr 0.1 constant");
	ck_assert(got.smoothing == 0);
	ck_assert_int_eq(choose(recipe_resnet, "--recipe fast", 1), 0);
	ck_assert_str_eq(recipe_text(&got, text, sizeof(text)), "SGD, "
			 "Nesterov's momentum 0.9, weight decay 0.0005, lr 0.1 "
			 "one-cycle");
	ck_assert(got.smoothing == 0.1f && got.augment == AUGMENT_SHIFT);
	ck_assert_int_eq(choose(adam, "", 1), 0);
	ck_assert_str_eq(recipe_text(&got, text, sizeof(text)),
			 "Adam, lr 0.001 constant");
	ck_assert(got.optimizer.beta2 == 0.999 && got.optimizer.eps == 1e-8);
}
END_TEST

START_TEST(single_numbers_can_be_changed)
{
	ck_assert_int_eq(choose(recipe_resnet, "--recipe fast --momentum 0.8 "
				"--lr 0.4 --weight-decay 0 --schedule cosine "
				"--label-smoothing 0.2 --no-augment", 1), 0);
	ck_assert(got.optimizer.momentum == 0.8 && got.lr == 0.4);
	ck_assert(got.optimizer.weight_decay == 0 && got.optimizer.nesterov);
	ck_assert(got.schedule == SCHEDULE_COSINE && got.smoothing == 0.2f);
	ck_assert(got.augment == AUGMENT_NONE);
	ck_assert_int_eq(choose(recipe_resnet, "--crop random-resized", 1), 0);
	ck_assert(got.augment == AUGMENT_RESIZE);
	ck_assert_int_eq(choose(recipe_resnet, "--crop shift", 1), 0);
	ck_assert(got.augment == AUGMENT_SHIFT);
	ck_assert_int_eq(choose(adam, "--optimizer sgd --lr 0.1", 1), 0);
	ck_assert(got.optimizer.kind == OPTIMIZER_SGD);
	ck_assert(got.optimizer.momentum == 0.9);
	ck_assert_int_eq(choose(recipe_resnet, "--lr-scale linear", 4), 0);
	ck_assert(got.lr == 0.4);
}
END_TEST

START_TEST(impossible_recipes_are_refused)
{
	not_chosen(recipe_resnet, "--recipe slow",
		   "'slow' is not one of this trainer's: published, fast");
	not_chosen(adam, "--momentum 0.9", "--momentum is for sgd");
	not_chosen(adam, "--nesterov", "--nesterov is for sgd");
	not_chosen(adam, "--optimizer sgd", "give --lr as well");
	not_chosen(adam, "--optimizer lion", "'lion' is neither sgd nor adam");
	not_chosen(recipe_resnet, "--momentum 0 --nesterov", "above 0");
	not_chosen(adam, "--schedule linear", "not one of constant, cosine");
	not_chosen(adam, "--lr-scale sqrt", "'sqrt' is neither linear nor");
}
END_TEST

START_TEST(warm_up_is_given_in_epochs)
{
	struct schedule s;

	ck_assert_int_eq(choose(recipe_resnet, "--recipe fast", 1), 0);
	s = recipe_schedule(&got, &o, 800, 100);
	ck_assert(s.total == 800 && s.warmup == 200 && s.lr == 0.1);
	ck_assert_int_eq(choose(recipe_resnet, "--warmup-epochs 0.5", 1), 0);
	s = recipe_schedule(&got, &o, 800, 100);
	ck_assert(s.warmup == 50 && s.kind == SCHEDULE_CONSTANT);
	ck_assert_int_eq(choose(recipe_resnet, "--warmup-epochs 50", 1), 0);
	ck_assert(recipe_schedule(&got, &o, 800, 100).warmup == 800);
	/* a linear warm-up ends at a whole step, one-cycle's where OneCycleLR's
	 * does */
	ck_assert_int_eq(choose(recipe_resnet, "--warmup-epochs 0.505", 1), 0);
	ck_assert(recipe_schedule(&got, &o, 800, 100).warmup == 51);
	ck_assert_int_eq(choose(recipe_resnet, "--recipe fast", 1), 0);
	ck_assert(recipe_schedule(&got, &o, 390, 390).warmup == 97.5);
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("trainer_options");

	tcase_add_test(t, every_option_is_printed);
	tcase_add_test(t, an_empty_folder_or_backend_is_none);
	tcase_add_test(t, resuming_has_three_forms);
	tcase_add_test(t, inapplicable_options_are_refused_with_a_message);
	tcase_add_test(t, contradictions_are_refused);
	tcase_add_test(t, recipes_match_the_published_ones);
	tcase_add_test(t, single_numbers_can_be_changed);
	tcase_add_test(t, impossible_recipes_are_refused);
	tcase_add_test(t, warm_up_is_given_in_epochs);
	return run_case(t);
}
