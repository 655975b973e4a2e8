/* zero1.c: ZeRO stage 1 (Rajbhandari et al., 2020): every rank has all
 * parameters, but the optimizer's state of its own share only. The program
 * trains a linear model in that way and, for comparison, with the whole state
 * on each rank, and fails if the two differ.
 *
 *   ddprun --standalone --nproc-per-node 4 ./zero1 [sgd|adam] [PARAMETERS] */
#include <ddp.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STEPS = 200, SAMPLES = 16 }; /* samples of a rank in a step */

struct optimizer {
	int adam, steps;
	float *m, *v; /* the state: values of each parameter; v: Adam only */
	size_t count;
};

/* A replica: `padded` parameters, a multiple of the number of ranks. */
struct model {
	float *param, *grad;
	struct optimizer optimizer;
	float loss;
};

static int rank, ranks;
static size_t count, padded;

static void must(int rc)
{
	if (rc >= 0)
		return;
	fprintf(stderr, "%s\n", ddp_last_error());
	ddp_record_error(ddp_last_error());
	exit(1);
}

static float *zeros(size_t n)
{
	float *p = (float *)calloc(n + 1, sizeof(float));

	if (!p) {
		fprintf(stderr, "no memory for %zu values\n", n);
		exit(1);
	}
	return p;
}

/* ---- The optimizer: SGD with momentum, or Adam (Kingma, Ba 2015) ---- */

static void optimizer_init(struct optimizer *o, int adam, size_t n)
{
	memset(o, 0, sizeof(*o));
	o->adam = adam;
	o->count = n;
	o->m = zeros(n);
	o->v = adam ? zeros(n) : NULL;
}

static size_t optimizer_values(const struct optimizer *o)
{
	return o->count * (o->adam ? 2 : 1);
}

static void optimizer_step(struct optimizer *o, float *param,
			   const float *grad)
{
	float m_unbias, v_unbias;

	o->steps++;
	m_unbias = 1 - powf(0.9f, (float)o->steps);
	v_unbias = 1 - powf(0.999f, (float)o->steps);
	for (size_t i = 0; i < o->count; i++) {
		if (!o->adam) {
			o->m[i] = 0.9f * o->m[i] + grad[i];
			param[i] -= 0.3f * o->m[i];
			continue;
		}
		o->m[i] = 0.9f * o->m[i] + 0.1f * grad[i];
		o->v[i] = 0.999f * o->v[i] + 0.001f * grad[i] * grad[i];
		param[i] -= 0.02f * (o->m[i] / m_unbias) /
			    (sqrtf(o->v[i] / v_unbias) + 1e-8f);
	}
}

/* ---- The model: y = w x, where w is to become `truth` ---- */

/* A number in -1..1 for each input: the same on every rank. */
static float noise(uint64_t a, uint64_t b)
{
	uint64_t x = a * 0x9e3779b97f4a7c15u + b * 0xd1b54a32d192ed03u + 1;

	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return (float)((x ^ (x >> 31)) >> 40) / (float)(1 << 23) - 1;
}

static float truth(size_t i)
{
	return noise(0, i);
}

static float input(uint64_t sample, size_t i)
{
	return noise(sample + 1, i) * sqrtf(3 / (float)count);
}

/* Sets the gradient and the loss of this rank's samples of a step. */
static void model_backward(struct model *m, int step)
{
	uint64_t first = (uint64_t)(step * ranks + rank) * SAMPLES;

	memset(m->grad, 0, padded * sizeof(float));
	m->loss = 0;
	for (uint64_t s = first; s < first + SAMPLES; s++) {
		float error = 0;

		for (size_t i = 0; i < count; i++)
			error += (m->param[i] - truth(i)) * input(s, i);
		for (size_t i = 0; i < count; i++)
			m->grad[i] += error * input(s, i) / (float)SAMPLES;
		m->loss += error * error / (float)SAMPLES;
	}
}

static void model_init(struct model *m, int adam, size_t state)
{
	m->param = zeros(padded);
	m->grad = zeros(padded);
	m->loss = 0;
	optimizer_init(&m->optimizer, adam, state);
}

static void model_release(struct model *m)
{
	free(m->param);
	free(m->grad);
	free(m->optimizer.m);
	free(m->optimizer.v);
}

/* ---- The two ways ---- */

/* Each rank updates all parameters. */
static void step_whole(ddp_comm *world, struct model *m)
{
	must(ddp_all_reduce(world, m->grad, m->grad, padded, DDP_F32,
			    DDP_AVG));
	optimizer_step(&m->optimizer, m->param, m->grad);
}

/* Each rank gets the averages of its share, updates its share, and gets the
 * other shares. Together that moves as many bytes as one all_reduce. */
static void step_zero1(ddp_comm *world, struct model *m)
{
	size_t share = padded / (size_t)ranks;
	float *grad = m->grad + (size_t)rank * share;
	float *param = m->param + (size_t)rank * share;

	must(ddp_reduce_scatter(world, m->grad, grad, share, DDP_F32,
				DDP_AVG));
	optimizer_step(&m->optimizer, param, grad);
	must(ddp_all_gather(world, param, m->param, share, DDP_F32));
}

/* The largest difference between the parameters. */
static float difference(const struct model *a, const struct model *b)
{
	float most = 0;

	for (size_t i = 0; i < count; i++) {
		float d = fabsf(a->param[i] - b->param[i]);

		/* also true for NaN */
		if (!(d <= most))
			most = d;
	}
	return most;
}

int main(int argc, char **argv)
{
	int adam = argc < 2 || strcmp(argv[1], "sgd") != 0;
	struct model whole, zero1;
	float first = 0, most;
	ddp_comm *world;
	size_t n;

	must(ddp_init(&world, NULL));
	rank = ddp_rank(world);
	ranks = ddp_world_size(world);
	count = argc > 2 ? strtoul(argv[2], NULL, 10) : 100;
	n = (size_t)ranks;
	padded = (count + n - 1) / n * n;
	model_init(&whole, adam, padded);
	model_init(&zero1, adam, padded / n);
	for (int step = 0; step < STEPS; step++) {
		model_backward(&whole, step);
		step_whole(world, &whole);
		model_backward(&zero1, step);
		step_zero1(world, &zero1);
		if (step == 0)
			first = zero1.loss;
	}
	most = difference(&whole, &zero1);
	if (!(most <= 1e-4f)) {
		fprintf(stderr, "rank %d: the parameters differ by %g\n", rank,
			(double)most);
		return 1;
	}
	if (rank == 0)
		printf("%s, %zu parameters, %d ranks: loss %.4f, then %.4f; "
		       "state of a rank: %zu values in place of %zu\n",
		       adam ? "adam" : "sgd", count, ranks, (double)first,
		       (double)zero1.loss, optimizer_values(&zero1.optimizer),
		       optimizer_values(&whole.optimizer));
	model_release(&whole);
	model_release(&zero1);
	ddp_finalize(world);
	return 0;
}
