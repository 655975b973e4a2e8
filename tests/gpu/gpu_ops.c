/* gpu_ops.c: gpu_ops TWIN [PART [fused|chain]]: compares each operation of a
 * twin, in f32, bf16 and fp16 with a scaled loss, with the cpu's, then whole
 * steps of ResNets, then recorded steps with plain ones. TWIN is cuda, or cpu,
 * which checks this program. fused: only fp16, with device_options.fuse on
 * both; chain: that of TWIN with TWIN's without it. Prints a line for each
 * model with the largest difference; exits with 1 if one is too large. */
#include <math.h>

#include "tests/gpu/nets.h"

enum { LAYERS_MAX = 8, SAMPLES = 48 };

/* A model for some operations, and how much the twins may differ: in bf16, with
 * its 8 bits, a value near zero may fall on the other side of a ReLU, and the
 * next layers amplify that. */
struct model {
	const char *name;
	int n, channels, side, classes;
	enum loss_kind loss;
	struct layer layers[LAYERS_MAX];
	int augment;
};

#define LINEAR(n, r) {.op = {.kind = OP_LINEAR, .out = n, .relu = r}}
#define CONV(o, k, s, p)                                                      \
	{.op = {.kind = OP_CONV, .out = o, .kernel = k, .stride = s, .pad = p}}
#define NORM(r) {.op = {.kind = OP_BATCH_NORM, .relu = r}}
#define MAX(k, s, p)                                                          \
	{.op = {.kind = OP_MAX_POOL, .kernel = k, .stride = s, .pad = p}}
#define AVERAGE {.op = {.kind = OP_AVERAGE_POOL}}
#define HEAD AVERAGE, LINEAR(10, 0)

static const struct model models[] = {
	{"linear", 16, 1, 28, 10, LOSS_CROSS_ENTROPY, {LINEAR(10, 0)}},
	{"linear, relu", 16, 1, 28, 10, LOSS_CROSS_ENTROPY,
	 {LINEAR(50, 1), LINEAR(10, 0)}},
	{"linear, odd", 5, 1, 7, 3, LOSS_CROSS_ENTROPY,
	 {LINEAR(37, 1), LINEAR(3, 0)}},
	{"mean of squares", 8, 1, 10, 10, LOSS_MSE,
	 {LINEAR(20, 1), LINEAR(100, 0)}},
	{"1000 classes", 8, 1, 10, 1000, LOSS_CROSS_ENTROPY, {LINEAR(1000, 0)}},
	{"conv 3x3", 8, 3, 16, 10, LOSS_CROSS_ENTROPY,
	 {CONV(16, 3, 1, 1), HEAD}},
	{"conv 3x3, augmented", 8, 3, 16, 10, LOSS_CROSS_ENTROPY,
	 {CONV(16, 3, 1, 1), HEAD}, .augment = AUGMENT_SHIFT},
	{"conv 3x3, resized parts", 8, 3, 16, 10, LOSS_CROSS_ENTROPY,
	 {CONV(16, 3, 1, 1), HEAD}, .augment = AUGMENT_RESIZE},
	{"conv 7x7 stride 2", 8, 3, 32, 10, LOSS_CROSS_ENTROPY,
	 {CONV(64, 7, 2, 3), HEAD}},
	{"conv 1x1 stride 2", 8, 4, 8, 10, LOSS_CROSS_ENTROPY,
	 {CONV(32, 1, 2, 0), CONV(64, 1, 1, 0), HEAD}},
	{"conv, odd channels", 4, 3, 9, 10, LOSS_CROSS_ENTROPY,
	 {CONV(13, 3, 2, 1), CONV(21, 3, 1, 1), HEAD}},
	{"norm", 8, 3, 16, 10, LOSS_CROSS_ENTROPY,
	 {CONV(16, 3, 1, 1), NORM(0), HEAD}},
	{"norm, relu", 8, 3, 16, 10, LOSS_CROSS_ENTROPY,
	 {CONV(64, 3, 1, 1), NORM(1), HEAD}},
	{"norm, odd channels", 8, 3, 16, 10, LOSS_CROSS_ENTROPY,
	 {CONV(13, 3, 1, 1), NORM(1), CONV(5, 3, 1, 1), NORM(1), HEAD}},
	{"norm, add, relu", 8, 3, 8, 10, LOSS_CROSS_ENTROPY,
	 {CONV(32, 3, 1, 1), NORM(1), CONV(32, 3, 1, 1),
	  {.op = {.kind = OP_BATCH_NORM, .relu = 1}, .add = 2}, HEAD}},
	{"max pool", 8, 3, 9, 10, LOSS_CROSS_ENTROPY,
	 {CONV(16, 3, 1, 1), NORM(1), MAX(3, 2, 1), HEAD}},
};

static int failed;
static enum { PLAIN, FUSED, CHAIN } mode;

/* ---- Comparing ---- */

/* The length of a - b relative to that of b. */
static double distance(const float *a, const float *b, size_t n)
{
	double off = 0, all = 0;

	for (size_t i = 0; i < n; i++) {
		double d = (double)a[i] - (double)b[i];

		off += d * d;
		all += (double)b[i] * (double)b[i];
	}
	return sqrt(off) / (sqrt(all) + 1e-12);
}

struct verdict {
	double limit, most;
	char where[96];
};

static void look(struct verdict *v, const char *what, const char *name,
		 const float *a, const float *b, size_t n)
{
	double d = distance(a, b, n);

	if (v->most >= d) /* NaN counts as more */
		return;
	v->most = d;
	snprintf(v->where, sizeof(v->where), "%s%s%s", what,
		 *name ? " of " : "", name);
}

static float *read_tensor(struct bed *b, const struct tensor *t, size_t *n)
{
	float *v;

	*n = (size_t)t->n * (size_t)t->c * (size_t)t->h * (size_t)t->w;
	v = memory(*n * sizeof(*v));
	b->ops->tensor_get(b->d, t, v);
	bed_wait(b);
	return v;
}

static void look_tensors(struct verdict *v, const char *what, const char *name,
			 struct bed *a, const struct tensor *ta, struct bed *b,
			 const struct tensor *tb)
{
	size_t na, nb;
	float *va = read_tensor(a, ta, &na), *vb = read_tensor(b, tb, &nb);

	if (na != nb)
		DIE("%s of %s: %zu values, not %zu", what, name, na, nb);
	look(v, what, name, va, vb, na);
	free(va);
	free(vb);
}

/* Compares two arenas, parameter by parameter. */
static void look_arenas(struct verdict *v, const char *what, struct bed *a,
			const float *arena_a, struct bed *b,
			const float *arena_b)
{
	size_t bytes = a->net.parameter_count * sizeof(float), at = 0;
	float *va = memory(bytes), *vb = memory(bytes);

	net_get(&a->net, arena_a, va);
	net_get(&b->net, arena_b, vb);
	bed_wait(a);
	bed_wait(b);
	for (int i = 0; i < a->net.param_count; i++) {
		const struct net_param *p = &a->net.param[i];

		look(v, what, p->name, va + at, vb + at, p->count);
		at += p->count;
	}
	free(va);
	free(vb);
}

static void look_buffers(struct verdict *v, struct bed *a, struct bed *b)
{
	size_t n = net_buffer_count(&a->net);
	float *va = memory(n * sizeof(*va)), *vb = memory(n * sizeof(*vb));

	net_get_buffers(&a->net, va);
	net_get_buffers(&b->net, vb);
	look(v, "running statistics", "", va, vb, n);
	free(va);
	free(vb);
}

static void give_same(struct bed *a, struct bed *b)
{
	size_t n = net_buffer_count(&b->net);
	float *v = memory((b->net.parameter_count + n) * sizeof(*v));
	struct err e = ERR_INIT;

	must(net_init_weights(&b->net, 9, &e), &e);
	net_get(&b->net, b->net.parameters, v);
	net_put(&a->net, a->net.parameters, v);
	net_get_buffers(&b->net, v);
	net_put_buffers(&a->net, v);
	for (int i = 0; i < 2; i++) {
		b->ops->zero(b->d, b->moment[i],
			     b->net.arena * sizeof(float));
		a->ops->zero(a->d, a->moment[i],
			     a->net.arena * sizeof(float));
	}
	free(v);
}

static void look_outputs(struct verdict *v, struct bed *a, struct bed *b,
			 const struct plan *p, const struct plan *q,
			 const char *what)
{
	int count = a->net.spec->layer_count;

	/* in evaluation, layers may reuse the memory of earlier ones */
	for (int i = p->mode == NET_TRAIN ? 0 : count - 1; i < count; i++)
		if (!p->op[i]->is_hidden && !q->op[i]->is_hidden)
			look_tensors(v, what, net_layer_name(&a->net, i), a,
			     p->value[i], b, q->value[i]);
}

static void look_loss(struct verdict *v, struct bed *a, struct bed *b)
{
	float x = bed_loss(a), y = bed_loss(b);
	struct tally ta, tb;

	look(v, "the loss", "", &x, &y, 1);
	a->ops->get(a->d, &ta, a->net.tally, sizeof(ta));
	b->ops->get(b->d, &tb, b->net.tally, sizeof(tb));
	x = (float)ta.loss;
	y = (float)tb.loss;
	look(v, "the tally's loss", "", &x, &y, 1);
	if (ta.count != tb.count)
		DIE("the tally has %llu samples, not %llu",
		    (unsigned long long)ta.count, (unsigned long long)tb.count);
}

/* Runs the same step on a and b and compares everything observable. */
static void compare_step(struct verdict *v, struct bed *a, struct bed *b,
			 uint64_t step, const struct loss_spec *loss,
			 const struct optimizer *how)
{
	struct bed *both[] = {a, b};

	for (int i = 0; i < 2; i++) {
		bed_set_step(both[i], step, 0.01);
		bed_step(both[i], loss, how);
		bed_wait(both[i]);
	}
	look_outputs(v, a, b, a->plan, b->plan, "the output");
	look_loss(v, a, b);
	look_arenas(v, "the gradient", a, a->net.gradients, b,
		    b->net.gradients);
	look_tensors(v, "the gradient", "the input", a, a->plan->d_in, b,
		     b->plan->d_in);
	look_arenas(v, "the parameters", a, a->net.parameters, b,
		    b->net.parameters);
	look_arenas(v, "a moment", a, a->moment[0], b, b->moment[0]);
	look_buffers(v, a, b);
}

static void compare_evaluation(struct verdict *v, struct bed *a, struct bed *b,
			       const struct loss_spec *loss)
{
	struct bed *both[] = {a, b};
	struct plan *p[2];
	struct err e = ERR_INIT;

	for (int i = 0; i < 2; i++) {
		must(net_plan(&both[i]->net, 3, NET_EVALUATE, &p[i], &e), &e);
		bed_set_step(both[i], 1, 0);
		net_load_batch(p[i]);
		net_forward(p[i]);
		net_loss(p[i], loss);
		bed_wait(both[i]);
	}
	look_outputs(v, a, b, p[0], p[1], "evaluation's output");
	look_loss(v, a, b);
}

/* eps is large: otherwise a gradient of mere rounding errors makes a step. */
static const struct optimizer adam = {OPTIMIZER_ADAM, .beta1 = 0.9,
				      .beta2 = 0.999, .eps = 1e-2};
static const struct optimizer sgd = {OPTIMIZER_SGD, .momentum = 0.9,
				     .nesterov = 1, .weight_decay = 5e-4};

/* ---- A recorded step ---- */

struct state {
	float *values;
	size_t n;
};

/* Reads parameters, moments and running statistics. */
static struct state read_state(struct bed *b)
{
	size_t n = b->net.parameter_count;
	struct state s = {.n = 2 * n + net_buffer_count(&b->net)};

	s.values = memory(s.n * sizeof(float));
	net_get(&b->net, b->net.parameters, s.values);
	net_get(&b->net, b->moment[0], s.values + n);
	net_get_buffers(&b->net, s.values + 2 * n);
	bed_wait(b);
	return s;
}

static void write_state(struct bed *b, const struct state *s)
{
	size_t n = b->net.parameter_count;

	net_put(&b->net, b->net.parameters, s->values);
	net_put(&b->net, b->moment[0], s->values + n);
	net_put_buffers(&b->net, s->values + 2 * n);
	bed_wait(b);
}

/* The first of these steps are skipped: the scale is too large. */
static void scale_too_much(struct bed *b)
{
	if (b->scaler)
		bed_scale_loss(b, 0x1p28f);
}

/* Three plain steps, and three by a graph from the same state, must give the
 * same bits. */
static void check_graph(struct bed *b, const char *name,
			const struct loss_spec *loss)
{
	struct state start = read_state(b), plain, recorded;
	struct loss_scaler scaler = {.scale = 0}, again;
	struct graph *g = NULL;
	struct err e = ERR_INIT;

	scale_too_much(b);
	for (uint64_t step = 1; step <= 3; step++) {
		bed_set_step(b, step, 0.01 * (double)step);
		bed_step(b, loss, &sgd);
	}
	plain = read_state(b);
	if (b->scaler)
		scaler = bed_scaler(b);
	scale_too_much(b);
	write_state(b, &start);
	for (uint64_t step = 1; step <= 3; step++) {
		int first = !g;

		bed_set_step(b, step, 0.01 * (double)step);
		if (first) {
			must(b->ops->capture_begin(b->d, &e), &e);
			bed_step(b, loss, &sgd);
			must(b->ops->capture_end(b->d, &g, &e), &e);
		}
		if (g)
			b->ops->graph_launch(b->d, g);
	}
	recorded = read_state(b);
	if (memcmp(plain.values, recorded.values, plain.n * sizeof(float))) {
		printf("%s: a recorded step is not the plain one (off by %g)\n",
		       name, distance(recorded.values, plain.values, plain.n));
		failed = 1;
	}
	if (b->scaler) {
		again = bed_scaler(b);
		if (memcmp(&scaler, &again, sizeof(again))) {
			printf("%s: a recorded step scales another way\n",
			       name);
			failed = 1;
		}
	}
	b->ops->graph_free(b->d, g);
	free(start.values);
	free(plain.values);
	free(recorded.values);
}

/* ---- One model on both ---- */

static int alone(void *arg, float *values, size_t n)
{
	(void)arg;
	(void)values;
	(void)n;
	return 0;
}

static void on_note(const char *line)
{
	printf("note: %s\n", line);
}

/* sync: sums over all ranks. There is only one, so that changes nothing. */
static struct device *open_device(const struct ops *ops,
				  enum precision precision, int sync, int fuse)
{
	struct device_options o = {.threads = 2,
				   .fuse = fuse,
				   .core = -1,
				   .precision = precision,
				   .cache = getenv("DDP_CACHE"),
				   .note = on_note};
	struct device *d;
	struct err e = ERR_INIT;

	must(ops->open(&o, &d, &e), &e);
	ops->enter(d);
	if (sync)
		d->sync_sum = alone;
	return d;
}

static void compare(const struct ops *ops, const struct model_spec *spec,
		    const char *name, int n, int augment,
		    enum precision precision, int sync, double limit)
{
	int fp16 = precision == PRECISION_FP16;
	/* the cpu rounds to fp16 in the same places */
	struct device *here = open_device(
		mode == CHAIN ? ops : &ops_cpu,
		fp16 ? precision : PRECISION_FP32, 0, mode == FUSED);
	struct device *there = open_device(ops, precision, sync, mode != PLAIN);
	struct images images = images_new(&spec->input, SAMPLES);
	struct loss_spec loss = {spec->loss,
				 spec->loss == LOSS_MSE ? 0 : 0.1f, 1};
	struct verdict v = {.limit = limit};
	struct bed a, b;

	bed_init(&a, there, spec, &images, n, augment);
	bed_init(&b, here, spec, &images, n, augment);
	give_same(&a, &b);
	if (fp16) {
		bed_scale_loss(&a, 1024);
		bed_scale_loss(&b, 1024);
	}
	compare_step(&v, &a, &b, 1, &loss, &sgd);
	/* after one step both differ by rounding errors: make them equal */
	give_same(&a, &b);
	if (precision != PRECISION_BF16)
		compare_step(&v, &a, &b, 2, &loss, &adam);
	give_same(&a, &b);
	compare_evaluation(&v, &a, &b, &loss);
	check_graph(&a, name, &loss);
	printf("%-28s %s%s%s %.2e of %.0e, %s%s\n", name,
	       precision == PRECISION_FP32 ? "f32 " : precision_name(precision),
	       mode == FUSED ? " fused" : mode == CHAIN ? " chain" : "",
	       sync ? " sync" : "", v.most, v.limit, v.where,
	       v.most <= v.limit ? "" : " FAILED");
	if (!(v.most <= v.limit))
		failed = 1;
	bed_release(&a);
	bed_release(&b);
	images_free(&images);
	there->ops->close(there);
	here->ops->close(here);
}

static void compare_model(const struct ops *ops, const struct model *m,
			  enum precision precision)
{
	static const double limits[PRECISIONS] = {
		[PRECISION_FP32] = 2e-4, [PRECISION_BF16] = 0.12,
		[PRECISION_FP16] = 5e-3};
	struct model_spec spec = {
		.name = m->name, .loss = m->loss, .layers = m->layers,
		.init = INIT_TORCH,
		.input = {m->channels, m->side, m->side, m->classes,
			  {0}, {1, 1, 1, 1}}};
	int norm = 0;

	if (m->channels == 3)
		for (int i = 0; i < 3; i++) {
			spec.input.mean[i] = 0.45f;
			spec.input.std[i] = 0.22f;
		}
	while (spec.layer_count < LAYERS_MAX &&
	       (m->layers[spec.layer_count].op.out ||
		m->layers[spec.layer_count].op.kind)) {
		norm |= m->layers[spec.layer_count].op.kind == OP_BATCH_NORM;
		spec.layer_count++;
	}
	if (mode != PLAIN && !norm)
		return;
	for (int sync = 0; sync <= norm; sync++)
		compare(ops, &spec, m->name, m->n, m->augment, precision, sync,
			limits[precision]);
}

static const struct {
	const char *name, *arch, *stem;
	int side;
} resnets[] = {
	{"resnet18 cifar 8", "resnet18", "cifar", 8},
	{"resnet18 cifar 32", "resnet18", "cifar", 32},
	{"resnet18 torchvision 64", "resnet18", "torchvision", 64},
	{"resnet50 torchvision 64", "resnet50", "torchvision", 64},
};

static void compare_resnet(const struct ops *ops, int i,
			   enum precision precision)
{
	static const double limits[PRECISIONS] = {
		[PRECISION_FP32] = 5e-3, [PRECISION_BF16] = 1,
		[PRECISION_FP16] = 0.5};
	int side = resnets[i].side;
	struct image_shape s = {3, side, side, 10, {0.5f, 0.5f, 0.5f},
				{0.25f, 0.25f, 0.25f}};
	struct resnet r;
	struct err e = ERR_INIT;

	must(resnet_init(&r, resnets[i].arch, resnets[i].stem, &s, &e), &e);
	compare(ops, &r.spec, resnets[i].name, 8, side > 8, precision, 0,
		limits[precision]);
	resnet_release(&r);
}

/* ---- Limits ---- */

/* A batch of more values than cuDNN takes is refused before any memory is asked
 * for. */
static void check_limit(const struct ops *ops)
{
	struct device *d = open_device(ops, 0, 0, 0);
	struct tensor in = {.n = 4096, .c = 3, .h = 224, .w = 224,
			    .plain = 1};
	struct op_site s = {.spec = {OP_CONV, .out = 64, .kernel = 7,
				     .stride = 2, .pad = 3},
			    .name = "conv1", .in = &in, .first = 1};
	struct op *op = NULL;
	struct err e = ERR_INIT;
	int r = ops->op_new(d, &s, &op, &e);

	printf("limit: %d: %s\n", r, r < 0 ? e.text : "accepted");
	if (r != ERR_USAGE || !strstr(e.text, "--batch-size")) {
		printf("limit: FAILED\n");
		failed = 1;
	}
	if (r == 0)
		ops->op_free(d, op);
	ops->close(d);
}

/* ---- Waits ---- */

static int waits;

static int count_wait(void *arg, void *event, struct err *e)
{
	waits++;
	if (!event)
		return err_set(e, ERR_INTERNAL, "there is no event");
	return arg ? err_set(e, ERR_TIMEOUT, "rank 1 is late") : 0;
}

/* A device waits through its caller, also before its queue is long. */
static void check_waits(const struct ops *ops)
{
	struct device *d = open_device(ops, 0, 0, 0);
	struct step_args step = {.step = 1};
	struct err e = ERR_INIT;
	void *p = NULL;
	char byte = 0;
	int r;

	d->wait_event = count_wait;
	for (; step.step <= 5; step.step++)
		ops->set_step(d, &step);
	printf("waits: %d in 5 steps\n", waits);
	failed |= waits != 3;
	r = ops->wait(d, &e);
	failed |= r != 0 || waits != 4;
	if (ops->alloc(d, 1, &p, &e) == 0)
		ops->get(d, &byte, p, 1);
	failed |= waits != 5;
	ops->free(d, p);
	d->wait_arg = d;
	ops->set_step(d, &step);
	r = ops->wait(d, &e);
	printf("waits: %d: %s\n", r, e.text);
	failed |= r != ERR_TIMEOUT || !strstr(e.text, ": rank 1 is late");
	d->wait_event = NULL;
	r = ops->wait(d, &e);
	failed |= r != 0;
	ops->close(d);
}

int main(int argc, char **argv)
{
	struct err e = ERR_INIT;
	const struct ops *ops = ops_find(argc > 1 ? argv[1] : "cuda", &e);
	const char *part = argc > 2 ? argv[2] : "";
	const char *how = argc > 3 ? argv[3] : "";
	static const enum precision precisions[] = {
		PRECISION_FP32, PRECISION_FP16, PRECISION_BF16};
	/* no bf16 on the cpu twin, which can check this program anywhere */
	int count = ops && strcmp(ops->kind, "cpu") ? 3 : 2;

	setvbuf(stdout, NULL, _IOLBF, 0);
	if (!ops)
		DIE("%s", e.text);
	mode = !strcmp(how, "fused") ? FUSED :
	       !strcmp(how, "chain") ? CHAIN : PLAIN;
	for (int k = 0; k < count; k++) {
		if (mode != PLAIN && precisions[k] != PRECISION_FP16)
			continue;
		for (size_t i = 0; i < sizeof(models) / sizeof(*models); i++)
			if (strstr(models[i].name, part))
				compare_model(ops, &models[i], precisions[k]);
		for (int i = 0; i < (int)(sizeof(resnets) / sizeof(*resnets));
		     i++)
			if (strstr(resnets[i].name, part))
				compare_resnet(ops, i, precisions[k]);
	}
	if (strcmp(ops->kind, "cpu") && strstr("limit", part))
		check_limit(ops);
	if (strcmp(ops->kind, "cpu") && strstr("waits", part))
		check_waits(ops);
	printf("%s\n", failed ? "FAILED" : "ok");
	return failed;
}
