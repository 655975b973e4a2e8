/* gpu_times.c: gpu_times [DEVICE [PRECISION [ARCH [BATCH [SIDE [ONCE]]]]]]:
 * times a training step of a ResNet, plain and recorded, and its parts, by kind
 * of operation and by layer. PRECISION fused is fp16 with --fuse. Prints
 * medians; with ONCE of one run each. */
#include <time.h>

#include "tests/gpu/nets.h"

enum { ROUNDS = 7 };

static int rounds = ROUNDS, steps = 10, calls = 5;

static const char *const kinds[OP_KINDS] = {"linear", "conv", "batch norm",
					    "max pool", "average"};

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int by_size(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

static double median(double *v)
{
	qsort(v, (size_t)rounds, sizeof(*v), by_size);
	return v[rounds / 2];
}

static const struct loss_spec loss = {LOSS_CROSS_ENTROPY, 0, 1};
static const struct optimizer sgd = {OPTIMIZER_SGD, .momentum = 0.9,
				     .weight_decay = 1e-5};

/* Seconds per step; g is the recorded step, if any. */
static double time_steps(struct bed *b, struct graph *g)
{
	double v[ROUNDS];

	for (int i = 0; i < rounds; i++) {
		double start;

		bed_wait(b);
		start = now();
		for (uint64_t k = 1; k <= (uint64_t)steps; k++) {
			bed_set_step(b, k, 1e-6);
			if (g)
				b->ops->graph_launch(b->d, g);
			else
				bed_step(b, &loss, &sgd);
		}
		bed_wait(b);
		v[i] = (now() - start) / steps;
	}
	return median(v);
}

static struct graph *record(struct bed *b)
{
	struct graph *g;
	struct err e = ERR_INIT;

	bed_set_step(b, 1, 1e-6);
	must(b->ops->capture_begin(b->d, &e), &e);
	bed_step(b, &loss, &sgd);
	must(b->ops->capture_end(b->d, &g, &e), &e);
	return g;
}

/* Seconds per call of an operation. */
static double time_op(struct bed *b, struct op *op,
		      void (*call)(struct device *, struct op *,
				   const struct loader *))
{
	double v[ROUNDS];

	for (int i = 0; i < rounds; i++) {
		double start;

		bed_wait(b);
		start = now();
		for (int k = 0; k < calls; k++)
			call(b->d, op, NULL);
		bed_wait(b);
		v[i] = (now() - start) / calls;
	}
	return median(v);
}

static void time_layers(struct bed *b)
{
	double sum[OP_KINDS][2] = {{0}};

	printf("%-28s %-10s %10s %10s %12s\n", "layer", "kind", "forward us",
	       "back us", "out MiB");
	for (int i = 0; i < b->net.spec->layer_count; i++) {
		struct op *op = b->plan->op[i];
		double f = time_op(b, op, b->ops->op_forward);
		double r = time_op(b, op, b->ops->op_backward);

		printf("%-28s %-10s %10.1f %10.1f %12.1f\n",
		       net_layer_name(&b->net, i), kinds[op->spec.kind],
		       f * 1e6, r * 1e6, (double)op->out.bytes / 1048576);
		sum[op->spec.kind][0] += f;
		sum[op->spec.kind][1] += r;
	}
	for (int k = 0; k < OP_KINDS; k++)
		printf("# all of %-20s %-10s %10.1f %10.1f\n", kinds[k], "",
		       sum[k][0] * 1e6, sum[k][1] * 1e6);
}

static long number(int argc, char **argv, int i, long otherwise)
{
	return argc > i ? strtol(argv[i], NULL, 10) : otherwise;
}

int main(int argc, char **argv)
{
	int fuse = argc > 2 && !strcmp(argv[2], "fused");
	int precision = fuse ? PRECISION_FP16 :
			       precision_parse(argc > 2 ? argv[2] : "bf16");
	int n = (int)number(argc, argv, 4, 256);
	int side = (int)number(argc, argv, 5, 224);
	struct image_shape s = {3, side, side, 1000, {0.5f, 0.5f, 0.5f},
				{0.25f, 0.25f, 0.25f}};
	struct device_options o = {.threads = 1,
				   .core = -1,
				   .cache = getenv("DDP_CACHE"),
				   .precision = (enum precision)precision,
				   .fuse = fuse};
	struct err e = ERR_INIT;
	const struct ops *ops = ops_find(argc > 1 ? argv[1] : "cuda", &e);
	struct images images;
	struct device *d;
	struct resnet r;
	struct graph *g;
	struct bed b;
	double plain;

	if (!ops)
		DIE("%s", e.text);
	if (precision < 0)
		DIE("%s: give fp32, tf32, bf16, fp16 or fused", argv[2]);
	if (argc > 6)
		rounds = steps = calls = 1;
	setvbuf(stdout, NULL, _IOLBF, 0);
	must(resnet_init(&r, argc > 3 ? argv[3] : "resnet50", "torchvision",
			 &s, &e), &e);
	must(ops->open(&o, &d, &e), &e);
	ops->enter(d);
	images = images_new(&s, (uint32_t)n * 2);
	bed_init(&b, d, &r.spec, &images, n, 0);
	must(net_init_weights(&b.net, 1, &e), &e);
	plain = time_steps(&b, NULL);
	g = record(&b);
	printf("# %s, batch %d, %d x %d: %.2f ms a step, %.0f images/s\n",
	       d->name, n, side, side, plain * 1e3, n / plain);
	if (g) {
		double recorded = time_steps(&b, g);

		printf("# recorded: %.2f ms a step, %.0f images/s\n",
		       recorded * 1e3, n / recorded);
	}
	ops->graph_free(d, g);
	time_layers(&b);
	bed_release(&b);
	images_free(&images);
	resnet_release(&r);
	ops->close(d);
	return 0;
}
