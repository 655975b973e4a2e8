/* conv_plans.c: conv_plans DEVICE.json... [fp32|tf32|bf16|fp16...] [BATCH]:
 * lets cuDNN plan every convolution of ResNet-18 to 152, of 32 and 224 pixels,
 * on GPUs that are only described; no driver is needed. For each device and
 * each precision (bf16) it prints both, then a line for each pass of each
 * shape: the engine, its workspace, and how many configurations there are.
 * Exits with 1 if one has no plan, with 77 if this cuDNN takes no
 * description. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/file.h"
#include "tests/gpu/conv_shapes.h"

enum { JSON_MAX = 8192 };

/* ---- Planning ---- */

static const char *const verdicts[CONV_VERDICTS] = {
	"taken", "not deterministic", "too coarse", "compiled at run time",
	"too much workspace", "refused"};

/* 1: there is a plan. */
static int plan(const struct conv_target *t, const struct conv_shape *s,
		enum conv_pass pass)
{
	int verdict[CONV_VERDICTS] = {0}, taken = -1;
	struct conv_plan *p = NULL;
	cudnnStatus_t rc = conv_plan_open(t, s, pass, &p);

	printf("%-9s %4d x %4d @ %-3d %4d of %d x %d / %d  ",
	       conv_pass_names[pass], s->n, s->c, s->h, s->k, s->kernel,
	       s->kernel, s->stride);
	if (rc) {
		printf("cuDNN: %s\n", cudnnGetErrorString(rc));
		return 0;
	}
	for (int i = 0; i < conv_plan_count(p) && taken < 0; i++) {
		enum conv_verdict v = conv_plan_take(p, i, (size_t)1 << 30);

		verdict[v]++;
		if (v == CONV_TAKEN)
			taken = i;
	}
	printf("%3d ", conv_plan_count(p));
	if (taken >= 0)
		printf("%6.1f MiB  %s", (double)conv_plan_room(p) / (1 << 20),
		       conv_plan_name(p, taken));
	else
		printf("NONE:");
	for (int v = 1; v < CONV_VERDICTS; v++)
		if (verdict[v])
			printf("; %d %s", verdict[v], verdicts[v]);
	printf("\n");
	conv_plan_close(p);
	return taken >= 0;
}

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

static int plan_all(const struct conv_target *t, const struct list *l)
{
	int passes = 0, missing = 0;
	double start = now();

	printf("# pass, batch x channels @ side, filters, configurations, "
	       "workspace, engine and knobs, refused before it\n");
	for (int i = 0; i < l->count; i++)
		for (int pass = 0; pass < CONV_PASSES; pass++) {
			if (pass == CONV_BY_X && l->first[i])
				continue;
			passes++;
			missing += !plan(t, &l->shape[i],
					 (enum conv_pass)pass);
		}
	printf("# %d shapes, %d passes, %d without a plan, cuDNN %zu, "
	       "%.1f s\n", l->count, passes, missing, cudnnGetVersion(),
	       now() - start);
	return missing != 0;
}

/* An exit status. */
static int plan_device(const char *path, enum precision precision, int batch)
{
	char json[JSON_MAX];
	struct list list = {0};
	struct conv_target t = {0};
	int rc;

	if (file_read_text(path, json, sizeof(json)) <= 0) {
		fprintf(stderr, "cannot read %s\n", path);
		return 2;
	}
	rc = (int)conv_target_describe(&t, json);
	if (rc) {
		printf("cuDNN %zu does not take %s: %s\n", cudnnGetVersion(),
		       path, cudnnGetErrorString((cudnnStatus_t)rc));
		conv_target_release(&t);
		return cudnnGetVersion() < 90800 ? 77 : 2;
	}
	list_add_all(&list, precision, batch);
	rc = plan_all(&t, &list);
	conv_target_release(&t);
	return rc;
}

int main(int argc, char **argv)
{
	int wanted[PRECISIONS], precisions = 0, batch = 0, worst = 0;
	int devices = 1;

	while (devices < argc && is_device(argv[devices]))
		devices++;
	for (int i = devices; i < argc; i++) {
		int p = precision_parse(argv[i]);

		if (p < 0 && i == argc - 1 && (batch = atoi(argv[i])))
			break;
		if (p < 0 || precisions == PRECISIONS)
			devices = 1;
		else
			wanted[precisions++] = p;
	}
	if (!precisions)
		wanted[precisions++] = PRECISION_BF16;
	if (devices == 1) {
		fprintf(stderr, "usage: conv_plans DEVICE.json... "
			"[fp32|tf32|bf16|fp16...] [BATCH]\n");
		return 2;
	}
	keep_compiler();
	for (int d = 1; d < devices; d++)
		for (int i = 0; i < precisions; i++) {
			int rc;

			printf("# %s %s\n", argv[d],
			       precision_name(wanted[i]));
			rc = plan_device(argv[d], (enum precision)wanted[i],
					 batch);
			worst = rc > worst ? rc : worst;
		}
	return worst;
}
