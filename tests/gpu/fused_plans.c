/* fused_plans.c: fused_plans DEVICE.json... fp16|bf16...: which of the fused
 * graphs of the trainers (conv_graph.h) cuDNN plans for a GPU that is only
 * described, for every convolution of ResNet-18 to 152; no driver is needed.
 * Each saves a training step a pass over memory. For each device, type and
 * fusion it prints the shapes without a deterministic plan, and why; then how
 * many have one, and the engines. Exits with 77 if this cuDNN takes no
 * description. */
#include "base/file.h"
#include "tests/gpu/conv_shapes.h"

enum { JSON_MAX = 8192, ENGINES_MAX = 16 };

static const struct fusion {
	const char *name;
	int first; /* also possible for a network's first convolution */
	enum conv_pass graph;
} fusions[] = {
	{"forward + statistics", 1, CONV_STATS},
	{"scale, bias, ReLU + forward + statistics", 0, CONV_NORM_STATS},
	{"scale, bias, ReLU + by_weight", 0, CONV_NORM_BY_WEIGHT},
	{"by_x + dReLU + sums of dBN", 0, CONV_BY_X_NORM},
};

/* ---- Planning ---- */

struct found {
	int shapes, planned;
	size_t room; /* the largest workspace */
	char engine[ENGINES_MAX][16];
	int count[ENGINES_MAX];
};

static void found_add(struct found *t, const char *name, size_t room)
{
	int i = 0, length = (int)strcspn(name, " ");
	char engine[16];

	snprintf(engine, sizeof(engine), "%.*s", length, name);
	while (t->count[i] && strcmp(t->engine[i], engine) != 0 &&
	       i < ENGINES_MAX - 1)
		i++;
	memcpy(t->engine[i], engine, sizeof(engine));
	t->count[i]++;
	t->planned++;
	t->room = room > t->room ? room : t->room;
}

static const char *const verdicts[CONV_VERDICTS] = {
	"taken", "not deterministic", "too coarse", "compiled at run time",
	"too much workspace", "refused"};

/* Adds to found; prints a shape without a plan. */
static void fusion_plan(const struct fusion *f, const struct conv_target *t,
			const struct conv_shape *s, struct found *found)
{
	int verdict[CONV_VERDICTS] = {0}, count = 0;
	struct conv_plan *p;
	cudnnStatus_t rc = conv_plan_open(t, s, f->graph, &p);

	if (!rc)
		count = conv_plan_count(p);
	found->shapes++;
	for (int i = 0; i < count && !verdict[CONV_TAKEN]; i++) {
		verdict[conv_plan_take(p, i, (size_t)1 << 30)]++;
		if (verdict[CONV_TAKEN])
			found_add(found, conv_plan_name(p, i),
				  conv_plan_room(p));
	}
	if (!verdict[CONV_TAKEN]) {
		printf("none: %s: %d x %d @ %d, %d of %d x %d / %d: %s",
		       f->name, s->n, s->c, s->h, s->k, s->kernel, s->kernel,
		       s->stride, rc ? cudnnGetErrorString(rc) : "");
		for (int v = 1; v < CONV_VERDICTS; v++)
			if (verdict[v])
				printf(" %d %s", verdict[v], verdicts[v]);
		printf("%s\n", rc || count ? "" : "no engine");
	}
	conv_plan_close(p);
}

static void fusion_plan_all(const struct fusion *f,
			    const struct conv_target *t, const struct list *l)
{
	struct found found = {0};

	for (int i = 0; i < l->count; i++)
		if (f->first || !l->first[i])
			fusion_plan(f, t, &l->shape[i], &found);
	printf("%s: %d of %d shapes, workspace up to %.1f MiB,", f->name,
	       found.planned, found.shapes, (double)found.room / (1 << 20));
	for (int i = 0; i < ENGINES_MAX && found.count[i]; i++)
		printf(" %s x %d", found.engine[i], found.count[i]);
	printf("\n");
}

/* An exit status. */
static int fuse_device(const char *path, enum precision precision)
{
	struct conv_target t = {0};
	struct list list = {0};
	char json[JSON_MAX];
	cudnnStatus_t rc;

	if (file_read_text(path, json, sizeof(json)) <= 0) {
		fprintf(stderr, "cannot read %s\n", path);
		return 2;
	}
	rc = conv_target_describe(&t, json);
	if (rc) {
		printf("cuDNN %zu does not take %s: %s\n", cudnnGetVersion(),
		       path, cudnnGetErrorString(rc));
		conv_target_release(&t);
		return cudnnGetVersion() < 90800 ? 77 : 2;
	}
	list_add_all(&list, precision, 0);
	for (size_t i = 0; i < sizeof(fusions) / sizeof(*fusions); i++)
		fusion_plan_all(&fusions[i], &t, &list);
	conv_target_release(&t);
	return 0;
}

int main(int argc, char **argv)
{
	int devices = 1, worst = 0;

	while (devices < argc && is_device(argv[devices]))
		devices++;
	for (int i = devices; i < argc; i++)
		if (strcmp(argv[i], "fp16") && strcmp(argv[i], "bf16"))
			devices = argc;
	if (devices == 1 || devices == argc) {
		fprintf(stderr, "usage: fused_plans DEVICE.json... "
			"fp16|bf16...\n");
		return 2;
	}
	keep_compiler();
	for (int d = 1; d < devices; d++)
		for (int i = devices; i < argc; i++) {
			int fp16 = strcmp(argv[i], "fp16") == 0, rc;

			printf("# %s %s\n", argv[d], argv[i]);
			rc = fuse_device(argv[d], fp16 ? PRECISION_FP16 :
							 PRECISION_BF16);
			worst = rc > worst ? rc : worst;
		}
	return worst;
}
