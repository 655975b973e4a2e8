/* init_weights.c: a model's initial weights, the same numbers as PyTorch's. */
#include <math.h>
#include <stdlib.h>

#include "base/mt19937.h"
#include "trainers/models/net.h"

/* at::Tensor::uniform_ on the CPU: 24 random bits a value, all in float32, the
 * product and the sum rounded once (PyTorch's kernel is compiled with FMA). */
static void init_uniform(struct mt19937 *rng, size_t n, float from, float to,
			 float *p)
{
	float range = to - from;

	for (size_t i = 0; i < n; i++) {
		uint32_t bits = mt19937_next(rng) & 0xffffffu;

		p[i] = fmaf((float)bits * 0x1p-24f, range, from);
	}
}

static void init_symmetric(struct mt19937 *rng, size_t n, double bound,
			   float *p)
{
	init_uniform(rng, n, (float)-bound, (float)bound, p);
}

/* normal_fill_16 of aten: eight pairs by Box and Muller's transform. */
static void init_box_muller(float *p, float std)
{
	for (int i = 0; i < 8; i++) {
		float u = 1 - p[i], v = p[i + 8];
		float radius = sqrtf(-2 * logf(u));
		float angle = 2.0f * (float)M_PI * v;

		p[i] = radius * cosf(angle) * std;
		p[i + 8] = radius * sinf(angle) * std;
	}
}

/* at::Tensor::normal_ on the CPU of at least 16 values: sixteen at a time; a
 * remainder redraws the last sixteen. */
static void init_normal(struct mt19937 *rng, size_t n, double std, float *p)
{
	init_uniform(rng, n, 0, 1, p);
	for (size_t i = 0; i + 16 <= n; i += 16)
		init_box_muller(p + i, (float)std);
	if (n % 16 && n >= 16) {
		init_uniform(rng, 16, 0, 1, p + n - 16);
		init_box_muller(p + n - 16, (float)std);
	}
}

static size_t init_fan_in(const struct net_param *p)
{
	return p->count / (size_t)p->shape[0];
}

/* reset_parameters of nn.Linear and nn.Conv2d: kaiming_uniform_(a = sqrt(5))
 * for the weight, with exactly its order of roundings, then 1 / sqrt(fan_in)
 * for the bias. */
static void init_default(struct mt19937 *rng, const struct net_param *weight,
			 const struct net_param *p, float *out)
{
	double a = sqrt(5.0), gain = sqrt(2.0 / (1.0 + a * a));
	double fan = sqrt((double)init_fan_in(weight));

	init_symmetric(rng, p->count,
		       p == weight ? sqrt(3.0) * (gain / fan) : 1.0 / fan, out);
}

static enum op_kind init_op_kind(const struct net *net,
				 const struct net_param *p)
{
	return net->spec->layers[p->layer].op.kind;
}

static void init_torch(const struct net *net, struct mt19937 *rng, float *out)
{
	const struct net_param *weight = net->param; /* the first parameter is a
						      * weight */

	for (int i = 0; i < net->param_count; i++) {
		const struct net_param *p = &net->param[i];

		weight = p->which == 0 ? p : weight;
		if (init_op_kind(net, p) != OP_BATCH_NORM)
			init_default(rng, weight, p, out);
		else
			for (size_t k = 0; k < p->count; k++)
				out[k] = p->which == 0;
		out += p->count;
	}
}

/* torchvision's constructor: draws every layer with its default, the last
 * linear layer included, then each convolution again with
 * kaiming_normal_(fan_out, relu). */
static void init_resnet(const struct net *net, struct mt19937 *rng, float *out)
{
	float *p = out;

	for (int i = 0; i < net->param_count; i++)
		if (init_op_kind(net, &net->param[i]) == OP_CONV)
			for (size_t k = 0; k < net->param[i].count; k++)
				mt19937_next(rng);
	for (int i = 0; i < net->param_count; i++) {
		const struct net_param *q = &net->param[i];

		if (init_op_kind(net, q) == OP_LINEAR)
			init_default(rng, q - q->which, q, p);
		else
			for (size_t k = 0; k < q->count; k++)
				p[k] = q->which == 0;
		p += q->count;
	}
	p = out;
	for (int i = 0; i < net->param_count; i++) {
		const struct net_param *q = &net->param[i];
		size_t fan_out = q->count / (size_t)q->shape[1];

		if (init_op_kind(net, q) == OP_CONV)
			init_normal(rng, q->count, sqrt(2.0 / (double)fan_out),
				    p);
		p += q->count;
	}
}

static void init_buffers(struct net *net, float *room)
{
	float *p = room;

	for (int i = 0; i < net->buffer_count; i++) {
		const struct net_param *q = &net->buffer[i];

		for (size_t k = 0; k < q->count; k++)
			*p++ = q->which == 1; /* the variance */
	}
	net_put_buffers(net, room);
}

int net_init_weights(struct net *net, uint64_t seed, struct err *e)
{
	size_t n = net->parameter_count + net_buffer_count(net);
	float *values = malloc(n * sizeof(*values));
	struct mt19937 rng;

	if (!values)
		return err_no_memory(e, "the first weights");
	mt19937_seed(&rng, (uint32_t)seed);
	if (net->spec->init == INIT_RESNET)
		init_resnet(net, &rng, values);
	else
		init_torch(net, &rng, values);
	net_put(net, net->parameters, values);
	init_buffers(net, values);
	free(values);
	return 0;
}
