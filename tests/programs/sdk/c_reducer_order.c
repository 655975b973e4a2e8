/* c_reducer_order.c: a program's collectives in the middle of a reducer's
 * steps. Both must be right wherever the program puts them. Prints "rank R of
 * N: ok" or what was wrong.
 *
 *   c_reducer_order [progress]   with a progress thread
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/programs/sdk/ranks.h"
#include "worker-sdk/ddp.h"

enum { PARAMS = 5, STEPS = 60, LARGE = 3000, TOTAL = 4 + LARGE };
static const size_t counts[PARAMS] = {1, 1, LARGE, 1, 1};
static const size_t begins[PARAMS] = {0, 1, 2, 2 + LARGE, 3 + LARGE};

static ddp_comm *world;
static float grads[TOTAL];

static unsigned draw(void)
{
	static unsigned state;

	state = state * 1103515245u + 12345u + (unsigned)rank;
	return state >> 16;
}

/* Rank r's gradient of parameter i in a step: whole numbers, so that averages
 * are exact. */
static float part_of(int r, int i, int step)
{
	return (float)((r + 1) * (i + 1) * size + step % 7 * size);
}

static float mean_of(int i, int step, int users)
{
	float sum = 0;

	for (int r = 0; r < users; r++)
		sum += part_of(r, i, step);
	return sum / (float)size;
}

/* Collectives that a training loop may call anywhere. */
static void average_loss(int step)
{
	float loss = (float)(step * size + rank), want = 0;

	for (int r = 0; r < size; r++)
		want += (float)(step * size + r) / (float)size;
	must(ddp_all_reduce(world, &loss, &loss, 1, DDP_F32, DDP_AVG), "loss");
	if (loss < want - .01f || loss > want + .01f)
		DIE("step %d: the loss is %g, not %g", step, (double)loss,
		    (double)want);
}

static void other_calls(int step)
{
	int seed = rank ? -1 : step, all[64], rc;

	must(ddp_broadcast(world, &seed, 1, DDP_I32, 0), "broadcast");
	if (seed != step)
		DIE("step %d: the seed is %d", step, seed);
	rc = ddp_should_stop(world);
	must(rc < 0 ? rc : 0, "should_stop");
	if (rc)
		DIE("step %d: it should stop", step);
	must(ddp_all_gather(world, &rank, all, 1, DDP_I32), "all_gather");
	for (int r = 0; r < size; r++)
		if (all[r] != r)
			DIE("step %d: all[%d] is %d", step, r, all[r]);
}

static void check(int i, float want, int step, const char *what)
{
	for (size_t k = 0; k < counts[i]; k++)
		if (grads[begins[i] + k] != want)
			DIE("%s, step %d: parameter %d has %g, not %g", what,
			    step, i, (double)grads[begins[i] + k],
			    (double)want);
}

static void set(int i, int step)
{
	for (size_t k = 0; k < counts[i]; k++)
		grads[begins[i] + k] = part_of(rank, i, step);
}

/* Each rank's own order. */
static void shuffle(int order[PARAMS], int same)
{
	for (int i = 0; i < PARAMS; i++)
		order[i] = i;
	for (int i = PARAMS - 1; i > 0 && !same; i--) {
		int j = (int)(draw() % (unsigned)(i + 1)), t = order[i];

		order[i] = order[j];
		order[j] = t;
	}
}

/* unused: the last two ranks do not use the parameters 1 and 3. same: ready is
 * called in the same order on all ranks. */
static void steps(const char *what, int unused, int same,
		  const struct ddp_reducer_options *more)
{
	struct ddp_reducer_options o = more ? *more
					    : (struct ddp_reducer_options){0};
	int users = unused && size > 1 ? size > 2 ? size - 2 : 1 : size;
	ddp_reducer *r;

	o.first_bucket = o.bucket = 4; /* a bucket each */
	o.find_unused = unused;
	must(ddp_reducer_new(&r, world, grads, DDP_F32, counts, PARAMS, &o),
	     "new");
	for (int step = 0; step < STEPS; step++) {
		int order[PARAMS];

		shuffle(order, same);
		must(ddp_reducer_begin(r, 1), "begin");
		for (int k = 0; k < PARAMS; k++) {
			int i = order[k];

			if (k == 2)
				other_calls(step);
			if (step % 16 == 0 && draw() % 4 == 0)
				usleep(200);
			if (i % 2 && rank >= users)
				continue;
			set(i, step);
			must(ddp_reducer_ready(r, i), "ready");
		}
		average_loss(step);
		other_calls(step);
		must(ddp_reducer_finish(r), "finish");
		for (int i = 0; i < PARAMS; i++)
			check(i, mean_of(i, step, i % 2 ? users : size), step,
			      what);
	}
	ddp_reducer_free(r);
}

static int begin_average(void *arg, ddp_comm *c, void *bucket, size_t count,
			 enum ddp_type type, ddp_request **request)
{
	*(int *)arg += 1;
	return ddp_all_reduce_async(c, bucket, bucket, count, type, DDP_AVG,
				    request);
}

/* A hook that waits for the others, both on the communicator that it gets and
 * on the program's. */
static int compare_and_average(void *arg, ddp_comm *c, void *bucket,
			       size_t count, enum ddp_type type,
			       ddp_request **request)
{
	float most = ((float *)bucket)[0], *all = malloc(sizeof(float) * 64);
	int rc = ddp_all_reduce(c, &most, &most, 1, DDP_F32, DDP_MAX);

	if (!rc)
		rc = ddp_all_gather(c, bucket, all, 1, DDP_F32);
	for (int r = 0; r < size && !rc; r++)
		if (all[r] > most)
			DIE("the hook's maximum is %g", (double)most);
	free(all);
	average_loss((int)count);
	return rc ? rc : begin_average(arg, c, bucket, count, type, request);
}

/* Two models, whose steps are interleaved. */
static void two_reducers(void)
{
	float other[2];
	const size_t one[2] = {1, 1};
	struct ddp_reducer_options o = {.first_bucket = 4, .bucket = 4};
	ddp_reducer *a, *b;

	must(ddp_reducer_new(&a, world, grads, DDP_F32, counts, 2, &o), "a");
	must(ddp_reducer_new(&b, world, other, DDP_F32, one, 2, &o), "b");
	for (int step = 0; step < STEPS; step++) {
		ddp_reducer *first = rank % 2 ? a : b;
		ddp_reducer *second = rank % 2 ? b : a;

		for (int i = 0; i < 2; i++) {
			set(i, step);
			other[i] = part_of(rank, i, step + 1);
		}
		must(ddp_reducer_begin(a, 1), "begin a");
		must(ddp_reducer_begin(b, 1), "begin b");
		for (int i = 1; i >= 0; i--) {
			must(ddp_reducer_ready(first, i), "ready first");
			must(ddp_reducer_ready(second, i), "ready second");
		}
		average_loss(step);
		must(ddp_reducer_finish(a), "finish a");
		must(ddp_reducer_finish(b), "finish b");
		for (int i = 0; i < 2; i++) {
			check(i, mean_of(i, step, size), step, "two reducers");
			if (other[i] != mean_of(i, step + 1, size))
				DIE("step %d: the second reducer has %g", step,
				    (double)other[i]);
		}
	}
	ddp_reducer_free(b);
	ddp_reducer_free(a);
}

/* A reducer that is freed after its world. */
static void outlived(void)
{
	ddp_reducer *r;

	must(ddp_reducer_new(&r, world, grads, DDP_F32, counts, 2, NULL),
	     "new");
	ddp_finalize(world);
	if (size > 1 &&
	    (ddp_reducer_begin(r, 1) != DDP_ERR_ARGUMENT ||
	     !strstr(ddp_last_error(), "the reducer's world was finalized")))
		DIE("a reducer without a world: %s", ddp_last_error());
	ddp_reducer_free(r);
}

int main(int argc, char **argv)
{
	int hooks = 0;
	struct ddp_reducer_options o = {.hook = begin_average,
					.hook_arg = &hooks};

	must(ddp_init(&world, &(struct ddp_options){.backend = "cpu"}), "init");
	rank = ddp_rank(world);
	size = ddp_world_size(world);
	if (argc > 1)
		must(ddp_progress_start(world, -1), "progress_start");
	steps("plain", 0, 0, NULL);
	steps("find_unused", 1, 0, NULL);
	steps("hook and find_unused", 1, 0, &o);
	o.hook = compare_and_average;
	steps("hook that waits", 0, 1, &o);
	if (hooks != 2 * STEPS * PARAMS)
		DIE("%d calls of the hook", hooks);
	two_reducers();
	outlived();
	printf("rank %d of %d: ok\n", rank, size);
	return 0;
}
