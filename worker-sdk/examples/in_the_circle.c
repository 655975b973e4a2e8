/* in_the_circle.c: learns which points lie in a circle. A whole data-parallel
 * training program in 80 lines; docs/write-your-own.md explains it. */
#include <ddp.h>
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

static ddp_comm *world;

static int must(int rc)
{
	if (rc >= 0)
		return rc;
	fprintf(stderr, "%s\n", ddp_last_error());
	ddp_record_error(ddp_last_error());
	_Exit(1);
}

static void on_term(int number) { (void)number, ddp_request_stop(world); }

enum { TRAIN = 4096, TEST = 1001, BATCH = 32, VALUES = 6 };

/* Is w right about point i? Adds the gradient of its loss to grad. */
static int learn(const float *w, int i, float *grad)
{
	float a = (float)fmod(0.7548776662466927 * (i + 1), 1) * 2 - 1;
	float b = (float)fmod(0.5698402909980532 * (i + 1), 1) * 2 - 1;
	float x[VALUES] = {1, a, b, a * a, a * b, b * b}, out = 0;
	int in = a * a + b * b < 0.6f;

	for (int k = 0; k < VALUES; k++)
		out += w[k] * x[k];
	for (int k = 0; k < VALUES && grad; k++)
		grad[k] += (1 / (1 + expf(-out)) - (float)in) * x[k];
	return (out > 0) == in;
}

static void train(float *w, const struct ddp_sampler *mine, uint64_t batch)
{
	for (uint64_t i = 0; i + batch <= ddp_sampler_size(mine); i += batch) {
		float g[VALUES] = {0};

		for (uint64_t k = i; k < i + batch; k++)
			learn(w, (int)ddp_sampler_index(mine, k), g);
		must(ddp_all_reduce(world, g, g, VALUES, DDP_F32, DDP_AVG));
		for (int k = 0; k < VALUES; k++)
			w[k] -= 4 * g[k] / (float)batch;
	}
}

int main(int argc, char **argv)
{
	const char *file = argc > 1 ? argv[1] : "circle.ckpt";
	struct { int epoch; float w[VALUES]; } s = {0, {0}};
	struct ddp_section all = {"state", &s, sizeof(s)};
	struct ddp_sampler mine;
	int rank, size, i, ok, epochs = argc > 2 ? atoi(argv[2]) : 10;

	must(ddp_init(&world, NULL));
	signal(SIGTERM, on_term);
	rank = ddp_rank(world), size = ddp_world_size(world);
	must(ddp_sampler_init(&mine, TRAIN, rank, size, 1, 1, DDP_PAD));
	ok = rank ? 0 : ddp_checkpoint_load(file, "circle", &all, 1);
	must(ok == -ENOENT ? 0 : ok);
	must(ddp_broadcast(world, &s, sizeof(s), DDP_U8, 0));
	while (s.epoch < epochs && !must(ddp_should_stop(world))) {
		ddp_sampler_set_epoch(&mine, (uint64_t)s.epoch++);
		train(s.w, &mine, (uint64_t)((BATCH + size - 1) / size));
		for (ok = 0, i = rank; i < TEST; i += size)
			ok += learn(s.w, TRAIN + i, NULL);
		must(ddp_all_reduce(world, &ok, &ok, 1, DDP_I32, DDP_SUM));
		must(rank ? 0 : ddp_checkpoint_save(file, "circle", &all, 1));
		if (rank == 0)
			dprintf(1, "epoch %d: %d of %d\n", s.epoch, ok, TEST);
	}
	ddp_sampler_release(&mine), ddp_finalize(world);
	return s.epoch < epochs ? 128 + SIGTERM : 0;
}
