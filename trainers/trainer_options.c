/* trainer_options.c: the table, and what is wrong between two options. */
#include "trainers/trainer_options.h"

#include <stdio.h>

#define AT(field) offsetof(struct trainer_options, field)

const struct option_spec trainer_option_table[] = {
	{"data", 0, OPTION_STRING, AT(data), 0, 0, 0, "DIR", "DDP_DATA",
	 "folder with MNIST's four files, gzipped or plain, or with a folder "
	 "mnist that has them; without it the trainer draws digits itself"},
	{"epochs", 0, OPTION_INT, AT(epochs), 0, 0, 1e6, "N", NULL,
	 "how often to go through the training data; 0 only tests"},
	{"batch-size", 0, OPTION_INT, AT(batch), 0, 1, 1e6, "N", NULL,
	 "samples a step, of all ranks together"},
	{"lr", 0, OPTION_DOUBLE, AT(lr), 0, 0, 1e6, "X", NULL,
	 "learning rate"},
	{"seed", 0, OPTION_INT, AT(seed), 0, 0, 4294967295.0, "N", NULL,
	 "of the first weights and of the order of the samples"},
	{"device", 0, OPTION_STRING, AT(device), 0, 0, 0, "D", NULL,
	 "cpu, cuda or auto"},
	{"backend", 0, OPTION_STRING, AT(backend), 0, 0, 0, "B", "DDP_BACKEND",
	 "what carries the collectives: cpu, nccl or auto"},
	{"checkpoint", 0, OPTION_STRING, AT(checkpoint), 0, 0, 0, "FILE", NULL,
	 "file that keeps the state, written after each epoch"},
	{"resume", 0, OPTION_FLAG, AT(resume), 0, 0, 0, NULL, NULL,
	 "go on from --checkpoint's file, if it is there"},
	{"log-dir", 0, OPTION_STRING, AT(log_dir), 0, 0, 0, "DIR", NULL,
	 "folder for metrics.jsonl and TensorBoard events: the loss of each "
	 "step, the results of each epoch"},
	{"init-from", 0, OPTION_STRING, AT(init_from), 0, 0, 0, "FILE", NULL,
	 "start from these weights (raw little-endian float32: layer by layer "
	 "weight, bias) instead of drawing some"},
	{"arch", 0, OPTION_STRING, AT(arch), 0, 0, 0, "A", NULL,
	 "resnet: resnet18, resnet34, resnet50, resnet101 or resnet152"},
	{"stem", 0, OPTION_STRING, AT(stem), 0, 0, 0, "S", NULL,
	 "resnet: how it begins: cifar (3x3), or torchvision (7x7 with stride "
	 "2, max-pool)"},
	{"synthetic", 0, OPTION_FLAG, AT(synthetic), 0, 0, 0, NULL, NULL,
	 "resnet: train on images of noise, to see how fast it is"},
	{"image-size", 0, OPTION_INT, AT(image_size), 0, 1, 4096, "N", NULL,
	 "the side of synthetic images"},
	{"steps", 0, OPTION_INT, AT(steps), 0, 0, 1e12, "N", NULL,
	 "stop after so many steps; 0: when the epochs are done"},
	{"precision", 0, OPTION_STRING, AT(precision), 0, 0, 0, "P", NULL,
	 "fp32, or bf16 with fp32 master weights"},
	{"help", 'h', OPTION_HELP, 0, 0, 0, 0, NULL, NULL, "this text"},
	{"version", 0, OPTION_VERSION, 0, 0, 0, 0, NULL, NULL,
	 "the version of ddprun"},
	{NULL, 0, 0, 0, 0, 0, 0, NULL, NULL, NULL},
};

/* An empty variable is as one that is not set. */
static void drop_empty(const char **text)
{
	if (*text && !**text)
		*text = NULL;
}

int trainer_options_parse(struct trainer_options *o, int argc, char **argv,
			  struct err *e)
{
	int r = option_parse(trainer_option_table, o, argc, argv, 0, e);

	if (r < 0)
		return r;
	if (r < argc)
		return err_set(e, ERR_USAGE, "unexpected argument '%s'; all is "
			       "said by options, see --help", argv[r]);
	drop_empty(&o->data);
	drop_empty(&o->backend);
	if (o->resume && !o->checkpoint)
		return err_set(e, ERR_USAGE, "--resume needs --checkpoint FILE "
			       "to go on from");
	if (o->checkpoint && !*o->checkpoint)
		return err_set(e, ERR_USAGE, "--checkpoint: the file's name is "
			       "empty");
	return 0;
}

void trainer_options_help(const char *name, const char *about,
			  const struct trainer_options *o)
{
	printf("usage: %s [options]\n       ddprun [options] %s [options]\n\n"
	       "%s\nDefaults: --epochs %ld --batch-size %ld --lr %g --seed %ld "
	       "--device %s\n\n", name, name, about, o->epochs, o->batch, o->lr,
	       o->seed, o->device);
	option_print_help(trainer_option_table);
}
