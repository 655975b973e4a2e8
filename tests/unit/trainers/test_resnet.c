/* test_resnet.c: the networks are torchvision's: names, shapes, numbers of
 * parameters; and, if DDP_TEST_REFERENCE and DDP_TEST_DATA name folders,
 * PyTorch's losses and gradients from the same weights on the same images. */
#include <check.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/unit/emulated.h"
#include "tests/unit/run_case.h"
#include "tests/unit/trainers/net_step.h"
#include "trainers/models/resnet_layers.h"
#include "trainers/models/net.h"

static const struct image_shape cifar = {
	3, 32, 32, 10, {.4914f, .4822f, .4465f}, {.2023f, .1994f, .2010f}};

static struct device *open_cpu(int direct)
{
	struct device_options o = {.threads = 2, .core = -1, .direct = direct};
	struct device *d;
	struct err e = ERR_INIT;

	ck_assert_msg(ops_cpu.open(&o, &d, &e) == 0, "%s", e.text);
	ops_cpu.enter(d);
	return d;
}

/* ---- The networks ---- */

static const struct count {
	const char *arch;
	int classes;
	size_t parameters;
} counts[] = {
	{"resnet18", 10, 11181642},   {"resnet18", 100, 11227812},
	{"resnet34", 10, 21289802},   {"resnet50", 10, 23528522},
	{"resnet101", 10, 42520650},  {"resnet152", 10, 58164298},
};

/* Counts from the layers' shapes alone, without allocating. */
static size_t count_parameters(const struct model_spec *s)
{
	int channels[512] = {0};
	size_t sum = 0;

	ck_assert_int_le(s->layer_count, 512);
	for (int i = 0; i < s->layer_count; i++) {
		const struct layer *l = &s->layers[i];
		int from = l->from ? l->from - 1 : i - 1;
		int in = from < 0 ? s->input.channels : channels[from];
		int k = l->op.kernel;

		channels[i] = l->op.out ? l->op.out : in;
		if (l->op.kind == OP_CONV)
			sum += (size_t)(l->op.out * in * k * k);
		if (l->op.kind == OP_BATCH_NORM)
			sum += 2 * (size_t)in;
		if (l->op.kind == OP_LINEAR)
			sum += (size_t)(l->op.out * in + l->op.out);
	}
	return sum;
}

START_TEST(a_network_has_torchvisions_number_of_parameters)
{
	const struct count *c = &counts[_i];
	struct image_shape shape = cifar;
	struct err e = ERR_INIT;
	struct resnet r;

	shape.classes = c->classes;
	ck_assert_int_eq(resnet_init(&r, c->arch, "torchvision", &shape, &e),
			 0);
	ck_assert_uint_eq(count_parameters(&r.spec), c->parameters);
	resnet_release(&r);
}
END_TEST

START_TEST(unknown_networks_are_refused_with_a_message)
{
	struct err e = ERR_INIT;
	struct resnet r;

	ck_assert_int_eq(resnet_init(&r, "resnet20", "cifar", &cifar, &e),
			 ERR_USAGE);
	ck_assert_ptr_nonnull(strstr(e.text, "resnet152"));
	ck_assert_int_eq(resnet_init(&r, "resnet18", "mnist", &cifar, &e),
			 ERR_USAGE);
	ck_assert_ptr_nonnull(strstr(e.text, "torchvision"));
}
END_TEST

static const char *const first_names[] = {
	"conv1.weight", "bn1.weight", "bn1.bias", "layer1.0.conv1.weight",
	"layer1.0.bn1.weight", "layer1.0.bn1.bias", "layer1.0.conv2.weight",
	"layer1.0.bn2.weight", "layer1.0.bn2.bias", "layer1.0.conv3.weight",
	"layer1.0.bn3.weight", "layer1.0.bn3.bias",
	"layer1.0.downsample.0.weight", "layer1.0.downsample.1.weight",
	"layer1.0.downsample.1.bias", "layer1.1.conv1.weight",
};

START_TEST(parameters_come_in_pytorchs_order)
{
	struct device *d = open_cpu(0);
	struct err e = ERR_INIT;
	struct net net = {0};
	struct resnet r;

	ck_assert_int_eq(resnet_init(&r, "resnet50", "cifar", &cifar, &e), 0);
	ck_assert_msg(net_init(&net, &r.spec, d, NULL, 1, NET_EVALUATE, &e) ==
		      0, "%s", e.text);
	for (size_t i = 0; i < sizeof(first_names) / sizeof(*first_names); i++)
		ck_assert_str_eq(net.param[i].name, first_names[i]);
	ck_assert_str_eq(net.param[net.param_count - 1].name, "fc.bias");
	ck_assert_str_eq(net.buffer[1].name, "bn1.running_var");
	ck_assert_uint_eq(net.parameter_count, count_parameters(&r.spec));
	net_release(&net);
	resnet_release(&r);
	ops_cpu.close(d);
}
END_TEST

static double norm_of(const float *p, size_t n)
{
	double sum = 0;

	for (size_t i = 0; i < n; i++)
		sum += (double)p[i] * (double)p[i];
	return sqrt(sum);
}

/* torch.manual_seed(0); torchvision.models.resnet18(num_classes=10): the first
 * two values and the norm. */
static const struct drawn {
	const char *name;
	float first[2];
	double norm;
} drawn[] = {
	{"conv1.weight", {.00219705328f, .0353360772f}, 2.45929371},
	{"layer1.0.conv1.weight", {-.067895733f, -.024918761f}, 11.3885175},
	{"layer2.0.downsample.0.weight", {-.11010067f, .07413943f}, 11.3844126},
	{"layer4.1.conv2.weight", {.01085349f, -.02317819f}, 31.9818144},
	{"fc.weight", {-.020315496f, .018677866f}, 1.8380639},
	{"fc.bias", {.025505360f, -.004076222f}, .0816720630},
};

START_TEST(first_weights_are_drawn_as_torchvision_draws_them)
{
	struct device *d = open_cpu(0);
	struct err e = ERR_INIT;
	struct net net = {0};
	struct resnet r;
	float *values, *p;
	size_t found = 0;

	ck_assert_int_eq(resnet_init(&r, "resnet18", "torchvision", &cifar,
				     &e), 0);
	ck_assert_int_eq(net_init(&net, &r.spec, d, NULL, 1, NET_EVALUATE, &e),
			 0);
	ck_assert_int_eq(net_init_weights(&net, 0, &e), 0);
	values = p = malloc(net.parameter_count * sizeof(*values));
	net_get(&net, net.parameters, values);
	for (int i = 0; i < net.param_count; i++) {
		const struct net_param *q = &net.param[i];
		const struct drawn *want = &drawn[found];

		if (found < sizeof(drawn) / sizeof(*drawn) &&
		    strcmp(q->name, want->name) == 0) {
			ck_assert_float_eq_tol(p[0], want->first[0], 1e-7f);
			ck_assert_float_eq_tol(p[1], want->first[1], 1e-7f);
			ck_assert_double_eq_tol(norm_of(p, q->count),
						want->norm, 1e-6 * want->norm);
			found++;
		}
		p += q->count;
	}
	ck_assert_uint_eq(found, sizeof(drawn) / sizeof(*drawn));
	free(values);
	net_release(&net);
	resnet_release(&r);
	ops_cpu.close(d);
}
END_TEST

/* ---- Against PyTorch ----
 *
 * The reference's README gives the tolerances. In ResNet-50 at these batches
 * each step amplifies a difference in the last digit 1,000 times: PyTorch
 * itself, rerun on one thread, differed from its own curve by 3e-6 at step 1,
 * 5e-3 at step 2 and 7e-2 at step 3. Ours is checked on two threads: with
 * Winograd up to step 1; without it up to step 5 if the CPU has AVX-512, else
 * up to step 1 as well, since sums in another order differed by 3e-2 at step 2.
 * DDP_TEST_LONG=1 prints all steps in both ways, and takes a minute. */

enum { SPANS = 3, STEPS_MAX = 20 };

/* What runs without DDP_TEST_LONG. A learning rate that is wrong by 0.2 %, or a
 * momentum by 0.1 %, exceeds the limit at step 3, and at no step of the third
 * span. */
enum { SHORT_CURVES = 5, SHORT_SPANS = 2 };

static const struct curve {
	const char *file, *arch, *stem;
	int batch;
	int direct; /* no Winograd */
	/* up to this step, the loss may differ by this fraction */
	struct {
		int last;
		double off;
	} span[SPANS];
	double norm_off;
} curves[] = {
	{"resnet18_cifar_stem", "resnet18", "cifar", 32,
	 0, {{3, 6e-6}, {8, 1e-4}, {19, 7e-4}}, 1.2e-3},
	{"resnet18", "resnet18", "torchvision", 64,
	 0, {{3, 1e-4}, {6, 2e-3}}, 6e-4},
	{"resnet50", "resnet50", "torchvision", 32,
	 0, {{0, 3e-6}, {1, 1e-2}}, 8e-3},
	{"resnet50_cifar_stem", "resnet50", "cifar", 16,
	 0, {{0, 2e-6}, {1, 2e-3}}, 7e-3},
	{"resnet50", "resnet50", "torchvision", 32,
	 1, {{0, 3e-6}, {5, 1e-2}}, 8e-3},
	/* from here on only in the long test */
	{"resnet18_cifar_stem", "resnet18", "cifar", 32,
	 1, {{3, 6e-6}, {8, 1e-4}, {19, 7e-4}}, 1.2e-3},
	{"resnet18", "resnet18", "torchvision", 64,
	 1, {{3, 1e-4}, {6, 2e-3}}, 6e-4},
	{"resnet50_cifar_stem", "resnet50", "cifar", 16,
	 1, {{0, 2e-6}, {1, 2e-3}}, 7e-3},
};

static uint32_t chance;

static float draw(double bound)
{
	chance = chance * 1664525u + 1013904223u;
	return (float)((2 * ((double)(chance >> 8) * 0x1p-24) - 1) * bound);
}

/* The weights of make_reference.py. */
static void fill_weights(struct net *net)
{
	float *values = malloc(net->parameter_count * sizeof(*values));
	float *p = values;

	ck_assert_ptr_nonnull(values);
	chance = 1;
	for (int i = 0; i < net->param_count; i++) {
		const struct net_param *q = &net->param[i];
		double fan_in = (double)q->count / q->shape[0];
		int conv = net->spec->layers[q->layer].op.kind == OP_CONV;
		int random = conv || (q->shape[1] > 1 && q->which == 0);

		for (size_t k = 0; k < q->count; k++)
			*p++ = random ? draw(conv ? sqrt(6 / fan_in) :
						   1 / sqrt(fan_in)) :
				       (q->which == 0 ? 1.0f : 0.0f);
	}
	net_put(net, net->parameters, values);
	free(values);
}

/* Reads the first n images of the first file. */
static void read_images(const char *data, size_t n, uint8_t *pixels,
			uint32_t *labels)
{
	char command[4096];
	FILE *f;

	snprintf(command, sizeof(command),
		 "xz -dc '%s/cifar10/data_batch_1.bin.xz' 2>/dev/null", data);
	f = popen(command, "r");
	ck_assert_ptr_nonnull(f);
	for (size_t i = 0; i < n; i++) {
		int label = fgetc(f);

		ck_assert_int_ge(label, 0);
		labels[i] = (uint32_t)label;
		ck_assert_uint_eq(fread(pixels + i * 3072, 1, 3072, f), 3072);
	}
	pclose(f);
}

static int has_avx512(void)
{
#ifdef __x86_64__
	return __builtin_cpu_supports("avx512f") != 0;
#else
	return 0;
#endif
}

/* The last step of a span that is checked on this CPU. */
static int last_of(const struct curve *c, int i)
{
	int last = c->span[i].last;

	return last > 1 && !has_avx512() && strcmp(c->arch, "resnet50") == 0
		       ? 1 : last;
}

static void check_loss(const struct curve *c, int step, double got, double want)
{
	double off = fabs(got - want) / want, limit = INFINITY;

	for (int i = SPANS - 1; i >= 0; i--)
		if (step <= last_of(c, i) && c->span[i].off > 0)
			limit = 3 * c->span[i].off;
	printf("%s%s step %d: %.8g, PyTorch %.8g, off by %.1e of %.1e\n",
	       c->file, c->direct ? ", direct" : "", step, got, want, off,
	       limit);
	ck_assert_msg(off <= limit, "%s%s step %d: %.9g is not %.9g (off by "
		      "%.2e)", c->file, c->direct ? ", direct" : "", step, got,
		      want, off);
}

static void check_norm(const struct curve *c, const struct net *net,
		       const float *gradients, const char *name, double want)
{
	for (int i = 0; i < net->param_count; i++) {
		const struct net_param *q = &net->param[i];

		if (strcmp(q->name, name) == 0) {
			double got = norm_of(gradients, q->count);

			ck_assert_msg(fabs(got - want) <=
				      3 * c->norm_off * want, "%s: the norm of "
				      "%s's gradient is %.9g, not %.9g",
				      c->file, name, got, want);
			return;
		}
		gradients += q->count;
	}
	ck_abort_msg("%s has no parameter %s", c->file, name);
}

struct trial {
	const struct curve *curve;
	struct net net;
	struct device *device;
	struct loader *loader;
	float *moment, *gradients; /* after step 0, from PyTorch */
	double loss[STEPS_MAX];
};

static void run_steps(struct trial *t, int steps)
{
	struct loss_spec loss = {LOSS_CROSS_ENTROPY, 0, 1};
	struct net *net = &t->net;
	struct update u = {
		.how = {OPTIMIZER_SGD, .momentum = .9, .weight_decay = 1e-5},
		.count = net->arena, .grad = net->gradients, .scale = 1,
		.param = net->parameters, .moment = {t->moment},
		.loss = net->loss,
	};
	struct plan *p;

	ck_assert_int_eq(net_plan(net, t->curve->batch, NET_TRAIN, &p, NULL),
			 0);
	for (int s = 0; s < steps; s++) {
		ops_cpu.set_step(t->device, &(struct step_args){
			(uint64_t)s + 1, (uint64_t)(s * t->curve->batch),
			.001});
		net_step(p, &loss);
		t->loss[s] = (double)*net->loss;
		if (s == 0)
			net_get(net, net->gradients, t->gradients);
		ops_cpu.update(t->device, &u);
	}
}

static void compare(const struct trial *t, const char *folder, int steps)
{
	const struct curve *c = t->curve;
	char path[4096], line[256], name[128];
	int step, norms = 0;
	double value;
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s.losses.txt", folder, c->file);
	f = fopen(path, "r");
	ck_assert_msg(f != NULL, "cannot read %s", path);
	while (fgets(line, sizeof(line), f)) {
		if (sscanf(line, "%d %lf", &step, &value) == 2 && step < steps)
			check_loss(c, step, t->loss[step], value);
		if (sscanf(line, "# grad norm at step 0: %127s %lf", name,
			   &value) == 2) {
			check_norm(c, &t->net, t->gradients, name, value);
			norms++;
		}
	}
	fclose(f);
	ck_assert_int_eq(norms, t->net.param_count);
}

static int takes_long(void)
{
	return getenv("DDP_TEST_LONG") != NULL;
}

/* The number of steps: as many as the reference has, or those of the short
 * test. */
static int steps_of(const struct curve *c)
{
	int steps = 1;

	if (takes_long())
		return c->batch == 16 ? 6 : STEPS_MAX;
	for (int i = 0; i < SHORT_SPANS; i++)
		if (last_of(c, i) >= steps)
			steps = last_of(c, i) + 1;
	return steps;
}

START_TEST(losses_and_gradients_match_pytorchs)
{
	const char *folder = getenv("DDP_TEST_REFERENCE");
	const char *data = getenv("DDP_TEST_DATA");
	const struct curve *c = &curves[_i];
	struct trial t = {.curve = c};
	struct dataset_part part = {0};
	struct err e = ERR_INIT;
	uint32_t *labels;
	uint8_t *pixels;
	uint32_t order[2048];
	struct resnet r;
	int steps = steps_of(c);

	if (!folder || !data) {
		puts("left out: DDP_TEST_REFERENCE or DDP_TEST_DATA is not "
		     "set");
		return;
	}
	part.count = (uint32_t)(steps * c->batch);
	for (uint32_t i = 0; i < part.count; i++)
		order[i] = i;
	pixels = malloc((size_t)part.count * 3072);
	labels = malloc(part.count * sizeof(*labels));
	ck_assert(pixels && labels);
	read_images(data, part.count, pixels, labels);
	part.samples = (struct samples){.pixels = pixels, .size = 3072};
	part.labels = labels;

	t.device = open_cpu(c->direct);
	ck_assert_int_eq(resnet_init(&r, c->arch, c->stem, &cifar, &e), 0);
	ck_assert_int_eq(ops_cpu.loader_new(t.device, &(struct loader_spec){
		.part = &part, .shape = cifar, .batch = c->batch}, &t.loader,
		&e), 0);
	ck_assert_int_eq(
		ops_cpu.loader_order(t.loader, order, part.count, 0, &e), 0);
	ck_assert_msg(net_init(&t.net, &r.spec, t.device, t.loader, c->batch,
			       NET_TRAIN, &e) == 0, "%s", e.text);
	fill_weights(&t.net);
	t.moment = calloc(t.net.arena, sizeof(*t.moment));
	t.gradients = malloc(t.net.parameter_count * sizeof(*t.gradients));
	ck_assert(t.moment && t.gradients);
	run_steps(&t, steps);
	compare(&t, folder, steps);

	net_release(&t.net);
	ops_cpu.loader_free(t.device, t.loader);
	ops_cpu.close(t.device);
	resnet_release(&r);
	free(t.moment);
	free(t.gradients);
	free(pixels);
	free(labels);
}
END_TEST

int main(void)
{
	TCase *t = tcase_create("resnet");

	if (emulator_lacks("the speed"))
		return 0;
	tcase_set_timeout(t, 600);
	tcase_add_loop_test(t, a_network_has_torchvisions_number_of_parameters,
			    0, sizeof(counts) / sizeof(*counts));
	tcase_add_test(t, unknown_networks_are_refused_with_a_message);
	tcase_add_test(t, parameters_come_in_pytorchs_order);
	tcase_add_test(t,
		       first_weights_are_drawn_as_torchvision_draws_them);
	tcase_add_loop_test(t, losses_and_gradients_match_pytorchs, 0,
			    takes_long() ? sizeof(curves) / sizeof(*curves) :
					   SHORT_CURVES);
	return run_case(t);
}
