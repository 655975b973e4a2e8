/* trainer_options.c: the option table, the features that options need, and
 * checks of combinations. */
#include "trainers/train/trainer_options.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define AT(field) offsetof(struct trainer_options, field)
#define GIVEN(field) offsetof(struct trainer_options, given.field)

const struct option_spec trainer_option_table[] = {
	{"data", 0, OPTION_STRING, AT(data), 0, 0, 0, "DIR", "DDP_DATA",
	 "directory with the data set's files (MNIST, CIFAR-10; plain, .gz or "
	 ".xz; or those of pack_data), or with a subdirectory mnist or "
	 "cifar10"},
	{"synthetic", 0, OPTION_FLAG, AT(synthetic), GIVEN(synthetic), 0, 0,
	 NULL, NULL, "synthetic images instead of data, for benchmarks"},
	{"image-size", 0, OPTION_INT, AT(image_size), GIVEN(image_size), 8,
	 4096, "N", NULL, "height and width of synthetic images"},
	{"arch", 0, OPTION_STRING, AT(arch), GIVEN(arch), 0, 0, "NAME", NULL,
	 "the network: resnet18, resnet34, resnet50, resnet101, resnet152"},
	{"stem", 0, OPTION_STRING, AT(stem), GIVEN(stem), 0, 0,
	 "torchvision|cifar", NULL,
	 "the first layers: 7x7 of stride 2 and a pool, or 3x3 for small "
	 "images"},
	{"epochs", 0, OPTION_INT, AT(epochs), GIVEN(epochs), 0, 1e6, "N", NULL,
	 "passes over the training data; 0 only evaluates"},
	{"steps", 0, OPTION_INT, AT(steps), GIVEN(steps), 1, 1e12, "N", NULL,
	 "train for N steps, instead of --epochs"},
	{"eval-every", 0, OPTION_INT, AT(eval_every), 0, 0, 1e6, "N", NULL,
	 "evaluate every N epochs; 0: only after the last"},
	{"batch-size", 0, OPTION_INT, AT(batch), 0, 1, 1e6, "N", NULL,
	 "samples per step, over all ranks"},
	{"accumulate", 0, OPTION_INT, AT(accumulate), 0, 1, 1e6, "N", NULL,
	 "split a rank's share of the batch into N micro-batches, to use less "
	 "memory"},
	{"recipe", 0, OPTION_STRING, AT(recipe), GIVEN(recipe), 0, 0, "NAME",
	 NULL, "hyperparameters: published, or fast (Nesterov, one cycle, "
	 "label smoothing); the options below override single ones"},
	{"optimizer", 0, OPTION_STRING, AT(optimizer), 0, 0, 0, "sgd|adam",
	 NULL, "needs --lr if it is not the recipe's"},
	{"lr", 0, OPTION_DOUBLE, AT(lr), GIVEN(lr), 0, 1e6, "X", NULL,
	 "learning rate: the peak of the schedule"},
	{"lr-scale", 0, OPTION_STRING, AT(lr_scale), 0, 0, 0, "none|linear",
	 NULL, "linear: multiply the rate by the number of ranks"},
	{"schedule", 0, OPTION_STRING, AT(schedule), 0, 0, 0,
	 "constant|cosine|one-cycle", NULL,
	 "schedule of the learning rate over all steps"},
	{"warmup-epochs", 0, OPTION_DOUBLE, AT(warmup), GIVEN(warmup), 0, 1e6,
	 "X", NULL, "epochs in which the rate rises; may be a fraction"},
	{"momentum", 0, OPTION_DOUBLE, AT(momentum), GIVEN(momentum), 0, 1,
	 "X", NULL, "momentum of sgd"},
	{"nesterov", 0, OPTION_FLAG, AT(nesterov), GIVEN(nesterov), 0, 0, NULL,
	 NULL, "Nesterov's momentum"},
	{"weight-decay", 0, OPTION_DOUBLE, AT(weight_decay),
	 GIVEN(weight_decay), 0, 1e6, "X", NULL,
	 "L2 penalty on all parameters"},
	{"label-smoothing", 0, OPTION_DOUBLE, AT(smoothing), GIVEN(smoothing),
	 0, 1, "X", NULL, "smoothing of the cross-entropy's targets"},
	{"no-augment", 0, OPTION_FLAG, AT(no_augment), GIVEN(no_augment), 0, 0,
	 NULL, NULL, "no random crops and flips"},
	{"crop", 0, OPTION_STRING, AT(crop), GIVEN(crop), 0, 0,
	 "shift|random-resized", NULL,
	 "crops of training images: shift, by up to 4 pixels, or "
	 "random-resized, a part of 8 to 100 % of the area that is scaled to "
	 "the input's size"},
	{"crop-size", 0, OPTION_INT, AT(crop_size), GIVEN(crop_size), 8, 4096,
	 "N", NULL,
	 "with --crop random-resized: height and width of the network's input; "
	 "default: those of the images"},
	{"sync-bn", 0, OPTION_FLAG, AT(sync_bn), GIVEN(sync_bn), 0, 0, NULL,
	 NULL, "batch normalisation with the statistics of all ranks"},
	{"precision", 0, OPTION_STRING, AT(precision_text), 0, 0, 0,
	 "fp32|tf32|bf16|fp16", NULL,
	 "type of activations and products; weights stay fp32"},
	{"loss-scale", 0, OPTION_INT, AT(loss_scale), GIVEN(loss_scale), 1,
	 1 << 30, "N", NULL,
	 "fp16: what the gradients are multiplied by at first, a power of 2; "
	 "adapts itself"},
	{"deterministic", 0, OPTION_FLAG, AT(deterministic), 0, 0, 0, NULL,
	 NULL, "fail if an operation can only be computed in an order that "
	 "varies, which a GPU may have; default: report it once"},
	{"fuse", 0, OPTION_FLAG, AT(fuse), GIVEN(fuse), 0, 0, NULL, NULL,
	 "fp16: let convolutions compute what they can of the batch "
	 "normalizations around them, where cuDNN has kernels for that"},
	{"conv", 0, OPTION_STRING, AT(conv), GIVEN(conv), 0, 0, "auto|direct",
	 NULL, "convolution on CPUs: auto uses Winograd's algorithm where it "
	 "is faster; direct rounds less"},
	{"seed", 0, OPTION_INT, AT(seed), 0, 0, 4294967295.0, "N", NULL,
	 "seed of the initial weights, the order of samples, crops and flips"},
	{"device", 0, OPTION_STRING, AT(device), 0, 0, 0, "D", NULL,
	 "cpu, cuda or auto"},
	{"oversubscribe-gpu", 0, OPTION_FLAG, AT(oversubscribe_gpu), 0, 0, 0,
	 NULL, NULL, "let several ranks share a GPU: slower, for tests"},
	{"backend", 0, OPTION_STRING, AT(backend), 0, 0, 0, "B", "DDP_BACKEND",
	 "backend of the collectives: cpu, nccl or auto"},
	{"checkpoint", 0, OPTION_STRING, AT(checkpoint), 0, 0, 0, "FILE", NULL,
	 "file for the state, written after each epoch and when SIGTERM "
	 "stops the run. A job that ddprun restarts resumes from it"},
	{"keep", 0, OPTION_INT, AT(keep), GIVEN(keep), 1, 99, "N", NULL,
	 "keep N checkpoints: FILE, and older ones as FILE.1, ..."},
	{"resume", 0, OPTION_STRING, AT(resume), 0, 0, 0, "[auto|FILE]",
	 NULL,
	 "resume from --checkpoint's file, if it exists; auto: from the "
	 "newest whole checkpoint; FILE: from that file",
	 .bare = TRAINER_RESUME_IT},
	{"init-from", 0, OPTION_STRING, AT(init_from), 0, 0, 0, "FILE", NULL,
	 "initial weights, instead of random ones: a file NAME.safetensors, or "
	 "raw little-endian float32 (weight, bias, layer by layer)"},
	{"export", 0, OPTION_STRING, AT(export), 0, 0, 0, "FILE.safetensors",
	 NULL,
	 "write the weights at the end, under PyTorch's names; with --resume "
	 "of a finished run, those of its checkpoint"},
	{"log-dir", 0, OPTION_STRING, AT(log_dir), 0, 0, 0, "DIR", NULL,
	 "directory for metrics.jsonl, TensorBoard events and config.json; "
	 "ddp-plot DIR plots it"},
	{"log-every", 0, OPTION_INT, AT(log_every), 0, 1, 1e9, "N", NULL,
	 "log the loss every N steps; default: 1, on a GPU 50"},
	{"check-every", 0, OPTION_INT, AT(check_every), 0, 0, 1e9, "N", NULL,
	 "compare the parameters of all ranks every N steps, and look for NaN "
	 "in each rank's gradients in every step; 0: do neither"},
	{"save-images", 0, OPTION_STRING, AT(save_images), GIVEN(save_images),
	 0, 0, "FILE", NULL,
	 "PNG of test images above the model's outputs, written after each "
	 "evaluation"},
	{"help", 'h', OPTION_HELP, 0, 0, 0, 0, NULL, NULL, "this text"},
	{"version", 0, OPTION_VERSION, 0, 0, 0, 0, NULL, NULL,
	 "the version of ddprun"},
	{NULL, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL},
};

/* The feature that an option needs; options not listed exist in all
 * trainers. */
static const struct {
	const char *name;
	unsigned needs;
	const char *why; /* "mnist_mlp ..." */
} limited[] = {
	{"synthetic", TRAINER_SYNTHETIC, "has its own data"},
	{"image-size", TRAINER_SYNTHETIC, "has images of one size"},
	{"arch", TRAINER_ARCH, "is one network"},
	{"stem", TRAINER_ARCH, "is one network"},
	{"recipe", TRAINER_RECIPES, "has one recipe"},
	{"label-smoothing", TRAINER_CLASSES, "has no classes"},
	{"no-augment", TRAINER_AUGMENT, "takes images as they are"},
	{"crop", TRAINER_AUGMENT, "takes images as they are"},
	{"crop-size", TRAINER_AUGMENT, "takes images as they are"},
	{"sync-bn", TRAINER_BATCH_NORM, "has no batch normalisation"},
	{"fuse", TRAINER_ARCH, "has no convolutions"},
	{"conv", TRAINER_ARCH, "has no convolutions"},
	{"save-images", TRAINER_IMAGES_OUT, "has no images as its output"},
};
enum { LIMITED = sizeof(limited) / sizeof(*limited) };

/* Index into limited, or -1: the option exists in all trainers. */
static int trainer_options_limit(const char *name)
{
	for (int i = 0; i < LIMITED; i++)
		if (!strcmp(limited[i].name, name))
			return i;
	return -1;
}

static int trainer_options_check_features(const struct trainer_options *o,
					  const char *name, unsigned features,
					  struct err *e)
{
	for (const struct option_spec *s = trainer_option_table; s->name; s++) {
		const char *given = (const char *)o + s->given_offset;
		int i = trainer_options_limit(s->name);

		if (i < 0 || (features & limited[i].needs) ||
		    !*(const int *)(const void *)given)
			continue;
		return err_set(e, ERR_USAGE, "--%s does not apply here: %s %s",
			       s->name, name, limited[i].why);
	}
	return 0;
}

/* An empty environment variable counts as unset. */
static void trainer_options_drop_empty(const char **text)
{
	if (*text && !**text)
		*text = NULL;
}

/* Rejects empty file names. */
static int trainer_options_check_names(const struct trainer_options *o,
				       struct err *e)
{
	const struct {
		const char *option, *value;
	} files[] = {
		{"checkpoint", o->checkpoint}, {"init-from", o->init_from},
		{"log-dir", o->log_dir}, {"save-images", o->save_images},
		{"export", o->export},
	};

	for (size_t i = 0; i < sizeof(files) / sizeof(*files); i++)
		if (files[i].value && !*files[i].value)
			return err_set(e, ERR_USAGE, "--%s: the name is empty",
				       files[i].option);
	return 0;
}

static int trainer_options_check_pairs(const struct trainer_options *o,
				       struct err *e)
{
	int by_file = o->resume && *o->resume &&
		      strcmp(o->resume, TRAINER_RESUME_AUTO) != 0;

	if (o->resume && !o->checkpoint && !by_file)
		return err_set(
			e, ERR_USAGE,
			"--resume needs --checkpoint FILE to resume from");
	if (o->given.keep && !o->checkpoint)
		return err_set(e, ERR_USAGE, "--keep needs --checkpoint FILE: "
			       "it is the number of checkpoints to keep");
	if (o->given.steps && o->given.epochs)
		return err_set(e, ERR_USAGE,
			       "--steps and --epochs both set the length of "
			       "the training; give one of them");
	if (o->given.image_size && !o->synthetic)
		return err_set(e, ERR_USAGE, "--image-size only applies to "
			       "--synthetic; a data set's images have a "
			       "fixed size");
	if (o->synthetic && o->data && o->data != getenv("DDP_DATA"))
		return err_set(e, ERR_USAGE, "--data and --synthetic "
			       "contradict each other");
	return 0;
}

static int trainer_options_check_crop(const struct trainer_options *o,
				      struct err *e)
{
	int resizes = o->crop && !strcmp(o->crop, "random-resized");

	if (o->crop && !resizes && strcmp(o->crop, "shift") != 0)
		return err_set(e, ERR_USAGE, "--crop '%s' is neither shift nor "
			       "random-resized", o->crop);
	if (o->crop && o->no_augment)
		return err_set(e, ERR_USAGE, "--crop %s and --no-augment "
			       "contradict each other", o->crop);
	if (o->given.crop_size && !resizes)
		return err_set(e, ERR_USAGE, "--crop-size needs --crop "
			       "random-resized, which scales images to that "
			       "size");
	return 0;
}

static int trainer_options_check_precision(struct trainer_options *o,
					   struct err *e)
{
	int p = precision_parse(o->precision_text);

	if (p < 0)
		return err_set(e, ERR_USAGE, "--precision '%s': give fp32, "
			       "tf32, bf16 or fp16", o->precision_text);
	o->precision = (enum precision)p;
	if (o->given.loss_scale && o->precision != PRECISION_FP16)
		return err_set(e, ERR_USAGE, "--loss-scale only applies to "
			       "--precision fp16: other types do not need it");
	if (o->fuse && o->precision != PRECISION_FP16)
		return err_set(e, ERR_USAGE, "--fuse needs --precision fp16: "
			       "cuDNN has such kernels for no other type");
	if (o->loss_scale & (o->loss_scale - 1))
		return err_set(e, ERR_USAGE, "--loss-scale %ld is not a power "
			       "of 2, and would round the gradients",
			       o->loss_scale);
	return 0;
}

static int trainer_options_check_conv(struct trainer_options *o, struct err *e)
{
	o->direct = !strcmp(o->conv, "direct");
	if (!o->direct && strcmp(o->conv, "auto") != 0)
		return err_set(e, ERR_USAGE, "--conv '%s' is neither auto nor "
			       "direct", o->conv);
	return 0;
}

int trainer_options_parse_only(const struct option_spec *table, void *o,
			       int argc, char **argv, struct err *e)
{
	int r = option_parse(table, o, argc, argv, 0, e);

	return r < 0 || r == argc
		       ? r : err_set(e, ERR_USAGE, "unexpected argument '%s': "
				     "this program only takes options, see "
				     "--help", argv[r]);
}

int trainer_options_parse(struct trainer_options *o, const char *name,
			  unsigned features, int argc, char **argv,
			  struct err *e)
{
	int r = trainer_options_parse_only(trainer_option_table, o, argc, argv,
					   e);

	if (r < 0)
		return r;
	trainer_options_drop_empty(&o->data);
	trainer_options_drop_empty(&o->backend);
	r = trainer_options_check_features(o, name, features, e);
	if (r == 0)
		r = trainer_options_check_names(o, e);
	if (r == 0)
		r = trainer_options_check_pairs(o, e);
	if (r == 0)
		r = trainer_options_check_crop(o, e);
	if (r == 0)
		r = trainer_options_check_precision(o, e);
	return r == 0 ? trainer_options_check_conv(o, e) : r;
}

void trainer_options_usage(const char *name, const char *about)
{
	printf("usage: %s [options]\n       ddprun [options] %s [options]\n\n"
	       "%s\n", name, name, about);
}

void trainer_options_help(const char *name, const char *about,
			  unsigned features, const struct trainer_options *o)
{
	struct option_spec table[sizeof(trainer_option_table) /
				 sizeof(*trainer_option_table)];
	int n = 0;

	for (const struct option_spec *s = trainer_option_table; s->name; s++) {
		int i = trainer_options_limit(s->name);

		if (i < 0 || (features & limited[i].needs))
			table[n++] = *s;
	}
	table[n].name = NULL;
	trainer_options_usage(name, about);
	printf("Defaults: --epochs %ld --batch-size %ld --lr %g --seed %ld "
	       "--device %s\n\n", o->epochs, o->batch, o->lr, o->seed,
	       o->device);
	option_print_help(table);
}
