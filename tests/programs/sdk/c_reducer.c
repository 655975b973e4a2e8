/* c_reducer.c: a small network whose gradients, averaged by the reducer, must
 * be those of one process with the whole batch. Prints "rank R of N: ok" or
 * what was wrong.
 *
 *   c_reducer all [progress]   with a progress thread
 *   c_reducer dies [progress]  rank 1 dies in a step. Prints the error
 *   c_reducer WHAT             rank 1 differs in: n, count, type, bucket,
 *                              unused, hook, null. Prints the error
 */
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/programs/sdk/ranks.h"
#include "worker-sdk/ddp.h"

/* x[BATCH][IN] -> tanh(x w1 + b1) -> h w2 + b2, half the squared error a
 * sample. `some` and `none` are parameters that few ranks or none use. */
enum { IN = 40, HIDDEN = 70, OUT = 30, BATCH = 12 };
enum { W1, B1, W2, B2, SOME, NONE, PARAMS };
static const size_t counts[PARAMS] = {IN * HIDDEN, HIDDEN, HIDDEN *OUT, OUT,
				      500, 50};
enum { TOTAL = IN * HIDDEN + HIDDEN + HIDDEN * OUT + OUT + 550 };

static ddp_comm *world;
static double parameters[TOTAL];

static double *at(double *arena, int parameter)
{
	for (int i = 0; i < parameter; i++)
		arena += counts[i];
	return arena;
}

/* Deterministic, in (-1, 1). */
static double noise(unsigned long i)
{
	unsigned long h = (i + 1) * 0x9e3779b97f4a7c15ul;

	h ^= h >> 31;
	h *= 0xbf58476d1ce4e5b9ul;
	return (double)(h >> 11) * 0x1p-52 - 1;
}

static double hidden_of(const double *x, int j)
{
	const double *w = at(parameters, W1);
	double sum = at(parameters, B1)[j];

	for (int i = 0; i < IN; i++)
		sum += x[i] * w[i * HIDDEN + j];
	return tanh(sum);
}

/* Adds the gradients of samples [from, to) times scale to those in g. */
static void backward(double *g, int from, int to, double scale)
{
	const double *w2 = at(parameters, W2);

	for (int s = from; s < to; s++) {
		double x[IN], h[HIDDEN], dh[HIDDEN] = {0};

		for (int i = 0; i < IN; i++)
			x[i] = noise((unsigned long)(s * IN + i));
		for (int j = 0; j < HIDDEN; j++)
			h[j] = hidden_of(x, j);
		for (int k = 0; k < OUT; k++) {
			double d = at(parameters, B2)[k] - noise(77 + k + s);

			for (int j = 0; j < HIDDEN; j++)
				d += h[j] * w2[j * OUT + k];
			d *= scale;
			at(g, B2)[k] += d;
			for (int j = 0; j < HIDDEN; j++) {
				at(g, W2)[j * OUT + k] += d * h[j];
				dh[j] += d * w2[j * OUT + k];
			}
		}
		for (int j = 0; j < HIDDEN; j++) {
			double d = dh[j] * (1 - h[j] * h[j]);

			at(g, B1)[j] += d;
			for (int i = 0; i < IN; i++)
				at(g, W1)[i * HIDDEN + j] += d * x[i];
		}
	}
}

/* Each rank's part of the whole batch. */
static void whole(double *g, int samples)
{
	memset(g, 0, TOTAL * sizeof(*g));
	backward(g, 0, samples * size, 1.0 / (samples * size));
}

static void near(const double *got, const double *want, size_t n, double off,
		 const char *what)
{
	double most = 0;

	for (size_t i = 0; i < n; i++)
		most = fmax(most, fabs(want[i]));
	for (size_t i = 0; i < n; i++)
		if (!(fabs(got[i] - want[i]) <= off * most))
			DIE("%s: element %zu is %.17g, not %.17g", what, i,
			    got[i], want[i]);
}

static void same_bits(const void *p, size_t bytes, const char *what)
{
	unsigned char *root = malloc(bytes);

	memcpy(root, p, bytes);
	must(ddp_broadcast(world, root, bytes, DDP_U8, 0), "broadcast");
	if (memcmp(root, p, bytes))
		DIE("%s: not the bits of rank 0", what);
	free(root);
}

static ddp_reducer *new(void *g, enum ddp_type type, int n, size_t first,
			size_t later, const struct ddp_reducer_options *more)
{
	struct ddp_reducer_options o = {0};
	ddp_reducer *r;

	if (more)
		o = *more;
	o.first_bucket = first;
	o.bucket = later;
	must(ddp_reducer_new(&r, world, g, type, counts, n, &o), "new");
	return r;
}

/* Marks parameters 0..n-1, each rank in an order of its own. */
static void ready(ddp_reducer *r, int n, int shuffle)
{
	int order[PARAMS];

	for (int i = 0; i < n; i++)
		order[i] = n - 1 - i;
	for (int i = n - 1; i > 0 && shuffle; i--) {
		int j = (int)(fabs(noise((unsigned long)(rank * 99 + i * 7 +
							 shuffle))) *
			      (i + 1)),
		    t = order[i];

		order[i] = order[j];
		order[j] = t;
	}
	for (int i = 0; i < n; i++)
		must(ddp_reducer_ready(r, order[i]), "ready");
}

/* ---- What is checked ---- */

static double grads[TOTAL], want[TOTAL];

static void plain(size_t first, size_t later)
{
	ddp_reducer *r = new(grads, DDP_F64, B2 + 1, first, later, NULL);
	size_t n = TOTAL - 550;

	whole(want, BATCH);
	for (int step = 0; step < 20; step++) {
		memset(grads, 0, sizeof(grads));
		must(ddp_reducer_begin(r, 1), "begin");
		backward(grads, rank * BATCH, (rank + 1) * BATCH, 1.0 / BATCH);
		ready(r, B2 + 1, step);
		must(ddp_reducer_finish(r), "finish");
		near(grads, want, n, 1e-13, "plain");
		same_bits(grads, n * sizeof(double), "plain");
		if (ddp_reducer_used(r, W2) != 1)
			DIE("w2 is not used");
	}
	ddp_reducer_free(r);
}

/* Three backward passes, of which the last one synchronises. */
static void accumulated(void)
{
	ddp_reducer *r = new(grads, DDP_F64, B2 + 1, 800, 5000, NULL);
	int part = BATCH / 3;

	whole(want, BATCH);
	for (int step = 0; step < 5; step++) {
		memset(grads, 0, sizeof(grads));
		for (int i = 0; i < 3; i++) {
			int from = rank * BATCH + i * part;

			must(ddp_reducer_begin(r, i == 2), "begin");
			backward(grads, from, from + part, 1.0 / BATCH);
			ready(r, B2 + 1, step);
			if (i != 1) /* it may be left out */
				must(ddp_reducer_finish(r), "finish");
		}
		near(grads, want, TOTAL - 550, 1e-13, "accumulated");
	}
	ddp_reducer_free(r);
}

/* Only the last rank uses `some`, in the first or in both passes. No rank uses
 * `none`, which keeps its values. */
static void unused(int local_only)
{
	struct ddp_reducer_options o = {.find_unused = 1};
	ddp_reducer *r = new(grads, DDP_F64, PARAMS, 800, 5000, &o);
	int uses = rank == size - 1;

	whole(want, BATCH);
	for (int step = 0; step < 4; step++) {
		memset(grads, 0, sizeof(grads));
		if (local_only) {
			must(ddp_reducer_begin(r, 0), "begin");
			if (uses)
				must(ddp_reducer_ready(r, SOME), "ready");
		}
		must(ddp_reducer_begin(r, 1), "begin");
		backward(grads, rank * BATCH, (rank + 1) * BATCH, 1.0 / BATCH);
		for (int i = 0; i < 500; i++)
			at(grads, SOME)[i] = uses ? i : 1e9;
		for (int i = 0; i < 50; i++)
			at(grads, NONE)[i] = rank * 1000 + i;
		ready(r, B2 + 1, step);
		if (uses && !local_only && step != 3)
			must(ddp_reducer_ready(r, SOME), "ready");
		must(ddp_reducer_finish(r), "finish");
		near(grads, want, TOTAL - 550, 1e-13, "unused");
		if (ddp_reducer_used(r, NONE) || !ddp_reducer_used(r, B1) ||
		    ddp_reducer_used(r, SOME) != (local_only || step != 3))
			DIE("step %d: used is wrong", step);
		for (int i = 0; i < 500; i++)
			if (at(grads, SOME)[i] !=
			    (local_only || step != 3 ? (double)i / size
			     : uses		     ? i
						     : 1e9))
				DIE("some[%d] is %g", i, at(grads, SOME)[i]);
		for (int i = 0; i < 50; i++)
			if (at(grads, NONE)[i] != rank * 1000 + i)
				DIE("none[%d] is %g", i, at(grads, NONE)[i]);
	}
	ddp_reducer_free(r);
}

/* The loss is divided by the number of ranks, and gradients are summed. */
static void summed(void)
{
	ddp_reducer *r = new(grads, DDP_F64, B2 + 1, 800, 5000, NULL);

	whole(want, BATCH);
	for (int step = 0; step < 4; step++) {
		int sums = step % 2;

		must(ddp_reducer_use_sums(r, sums), "use_sums");
		memset(grads, 0, sizeof(grads));
		must(ddp_reducer_begin(r, 1), "begin");
		backward(grads, rank * BATCH, (rank + 1) * BATCH,
			 1.0 / BATCH / (sums ? size : 1));
		ready(r, B2 + 1, step);
		must(ddp_reducer_finish(r), "finish");
		near(grads, want, TOTAL - 550, 1e-13, "summed");
	}
	ddp_reducer_free(r);
}

static float small[TOTAL];

static void as_f32(int bf16, struct ddp_reducer_options *o)
{
	double back[TOTAL], most[TOTAL] = {0};
	ddp_reducer *r;

	o->bf16 = bf16;
	r = new(small, DDP_F32, B2 + 1, 800, 5000, o);
	whole(want, BATCH);
	for (int i = 0; i < size; i++) {
		memset(grads, 0, sizeof(grads));
		backward(grads, i * BATCH, (i + 1) * BATCH, 1.0 / BATCH);
		for (int k = 0; k < TOTAL; k++)
			most[k] += fabs(grads[k]) / size;
	}
	memset(grads, 0, sizeof(grads));
	backward(grads, rank * BATCH, (rank + 1) * BATCH, 1.0 / BATCH);
	for (int k = 0; k < TOTAL; k++)
		small[k] = (float)grads[k];
	must(ddp_reducer_begin(r, 1), "begin");
	ready(r, B2 + 1, 3);
	must(ddp_reducer_finish(r), "finish");
	for (int k = 0; k < TOTAL; k++)
		back[k] = (double)small[k];
	same_bits(small, sizeof(small) - 550 * sizeof(float), "f32");
	if (!bf16)
		near(back, want, TOTAL - 550, 1e-6, "f32");
	/* one rounding a rank, then one for each host that passes it on */
	for (int k = 0; k < TOTAL - 550 && bf16; k++)
		if (!(fabs(back[k] - want[k]) <=
		      (2 + size) * 0x1p-8 * most[k] + 1e-30))
			DIE("bf16: element %d is %g, not %g", k, back[k],
			    want[k]);
	ddp_reducer_free(r);
}

static int hook_calls;

/* Sums, then divides: the reducer's work, done in another way. */
static int hook(void *arg, ddp_comm *c, void *bucket, size_t count,
		enum ddp_type type, ddp_request **request)
{
	float *p = bucket;
	int rc;

	hook_calls++;
	if (arg)
		return ddp_all_reduce_async(c, bucket, bucket, count, type,
					    DDP_AVG, request);
	rc = ddp_all_reduce(c, bucket, bucket, count, type, DDP_SUM);
	for (size_t i = 0; i < count; i++)
		p[i] /= (float)size;
	return rc;
}

static void hooked(void)
{
	struct ddp_reducer_options o = {.hook = hook};

	as_f32(0, &o);
	o.hook_arg = &o;
	as_f32(0, &o);
	as_f32(1, &o);
	if (hook_calls != 3 * 4)
		DIE("%d calls of the hook", hook_calls);
}

static void refuses(int rc, const char *text)
{
	if (rc != DDP_ERR_ARGUMENT || !strstr(ddp_last_error(), text))
		DIE("not refused with '%s': %d: %s", text, rc,
		    ddp_last_error());
}

static void misused(void)
{
	ddp_reducer *r = new(grads, DDP_F64, B2 + 1, 800, 5000, NULL), *bad;

	refuses(ddp_reducer_ready(r, 1), "parameter 1: no step was begun");
	refuses(ddp_reducer_finish(r), "no step was begun");
	must(ddp_reducer_begin(r, 1), "begin");
	refuses(ddp_reducer_begin(r, 1), "was not finished");
	refuses(ddp_reducer_use_sums(r, 1), "a step is under way");
	refuses(ddp_reducer_use_sums(NULL, 1), "the reducer is NULL");
	refuses(ddp_reducer_ready(r, 4), "parameter 4 does not exist");
	refuses(ddp_reducer_ready(r, -1), "parameter -1 does not exist");
	must(ddp_reducer_ready(r, 3), "ready");
	refuses(ddp_reducer_ready(r, 3), "parameter 3 is already ready");
	must(ddp_reducer_ready(r, 0), "ready");
	must(ddp_reducer_ready(r, 1), "ready");
	refuses(ddp_reducer_finish(r), "parameter 2 was not ready");
	must(ddp_reducer_ready(r, 2), "ready");
	must(ddp_reducer_finish(r), "finish");
	refuses(ddp_reducer_used(r, 4), "no parameter 4");
	refuses(ddp_reducer_begin(NULL, 1), "NULL");
	refuses(ddp_reducer_new(NULL, world, grads, DDP_F64, counts, 4, NULL),
		"NULL");
	refuses(ddp_reducer_new(&bad, NULL, grads, DDP_F64, counts, 4, NULL),
		"NULL");
	refuses(ddp_reducer_new(&bad, world, NULL, DDP_F64, counts, 4, NULL),
		"grads is NULL");
	refuses(ddp_reducer_new(&bad, world, grads, DDP_I32, counts, 4, NULL),
		"f32 or f64");
	refuses(ddp_reducer_new(&bad, world, grads, DDP_F64, counts, -4, NULL),
		"negative");
	refuses(ddp_reducer_new(&bad, world, grads, DDP_F64, NULL, 4, NULL),
		"counts is NULL");
	refuses(ddp_reducer_new(&bad, world, grads, DDP_F64, counts, 4,
				&(struct ddp_reducer_options){.bf16 = 1}),
		"bf16 is for f32");
	ddp_reducer_free(r);
	ddp_reducer_free(NULL);
}

static void nothing(void)
{
	ddp_reducer *r = new(NULL, DDP_F32, 0, 0, 0, NULL);

	must(ddp_reducer_begin(r, 1), "begin");
	must(ddp_reducer_finish(r), "finish");
	ddp_reducer_free(r);
}

static int differs(const char *what)
{
	struct ddp_reducer_options o = {0};
	enum ddp_type type = DDP_F64;
	size_t mine[PARAMS], n = PARAMS;
	void *g = grads;
	ddp_reducer *r;
	int rc;

	memcpy(mine, counts, sizeof(mine));
	if (rank == 1) {
		n -= !strcmp(what, "n");
		mine[SOME] += !strcmp(what, "count");
		type = !strcmp(what, "type") ? DDP_F32 : type;
		o.bucket = !strcmp(what, "bucket") ? 1000 : 0;
		o.find_unused = !strcmp(what, "unused");
		o.hook = !strcmp(what, "hook") ? hook : NULL;
		g = !strcmp(what, "null") ? NULL : g;
	}
	rc = ddp_reducer_new(&r, world, g, type, mine, (int)n, &o);
	printf("rank %d: %d: %s\n", rank, rc, ddp_last_error());
	ddp_barrier(world); /* the communicator is still good */
	return rc != DDP_ERR_ARGUMENT;
}

static int dies(void)
{
	ddp_reducer *r = new(grads, DDP_F64, B2 + 1, 800, 5000, NULL);
	int rc = 0;

	for (int step = 0; step < 3 && !rc; step++) {
		rc = ddp_reducer_begin(r, 1);
		for (int i = B2; i >= 0 && !rc; i--) {
			if (step == 1 && i == W1 && rank == 1)
				raise(SIGKILL);
			rc = ddp_reducer_ready(r, i);
		}
		if (!rc)
			rc = ddp_reducer_finish(r);
	}
	printf("rank %d: %s: %s\n", rank, ddp_error_name(rc), ddp_last_error());
	if (ddp_reducer_begin(r, 1) != rc)
		DIE("it goes on after a failure");
	ddp_reducer_free(r);
	return rc == 0;
}

int main(int argc, char **argv)
{
	struct ddp_reducer_options none = {0};
	int rc = 0;

	if (argc < 2)
		return 2;
	must(ddp_init(&world, &(struct ddp_options){.backend = "cpu"}), "init");
	rank = ddp_rank(world);
	size = ddp_world_size(world);
	for (int i = 0; i < TOTAL; i++)
		parameters[i] = noise(1000000u + (unsigned)i) / 4;
	if (argc > 2)
		must(ddp_progress_start(world, -1), "progress_start");
	if (!strcmp(argv[1], "dies")) {
		rc = dies();
	} else if (strcmp(argv[1], "all")) {
		rc = differs(argv[1]);
	} else {
		plain(0, 0);
		plain(800, 5000);
		plain(1, 1);
		accumulated();
		summed();
		unused(0);
		unused(1);
		as_f32(0, &none);
		as_f32(1, &none);
		hooked();
		misused();
		nothing();
		must(ddp_barrier(world), "barrier");
		printf("rank %d of %d: ok\n", rank, size);
	}
	ddp_finalize(world);
	return rc;
}
