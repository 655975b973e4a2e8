/* plan.c: the operations of a model for n samples, and the sharing of memory
 * between activations: a buffer serves another tensor once its last reader has
 * run. */
#include "trainers/models/net.h"

#include <stdlib.h>
#include <string.h>

struct buffer {
	void *data;
	size_t bytes;
	int used;
};

/* The memory that a plan allocates. */
struct plan_memory {
	struct tensor in, d_in, *value; /* [layer_count] */
	/* [layer_count]: gradients of each output, from its one or two
	 * readers */
	struct tensor (*slope)[2];
	int *sides; /* [layer_count]: number of those gradients */
	struct buffer *buffer;
	int buffer_count;
};

/* The layer (from 0) whose output is layer i's input; -1: the model's input. */
static int plan_from(const struct model_spec *spec, int i)
{
	return spec->layers[i].from ? spec->layers[i].from - 1 : i - 1;
}

/* The layer whose output is added in layer i; -1: the model's input; -2:
 * nothing is added. */
static int plan_add(const struct model_spec *spec, int i)
{
	return spec->layers[i].add ? spec->layers[i].add - 1 : -2;
}

/* Number of layers that read layer k's output; *reader is the last of them. */
static int plan_readers(const struct model_spec *spec, int k, int *reader)
{
	int n = 0;

	for (int i = k + 1; i < spec->layer_count; i++) {
		int reads = plan_from(spec, i) == k;

		reads += plan_add(spec, i) == k;
		if (reads)
			*reader = i;
		n += reads;
	}
	return n;
}

/* ---- Operations ---- */

static int plan_check_layer(const struct model_spec *spec, int i, struct err *e)
{
	int from = plan_from(spec, i), add = plan_add(spec, i);

	if (from >= i || add >= i || (from < 0 && i > 0))
		return err_set(e, ERR_ARGUMENT,
			       "%s: layer %d comes before its input",
			       spec->name, i + 1);
	return 0;
}

static int plan_make_op(struct plan *p, const struct plan *like, int i,
			struct err *e)
{
	const struct net *net = p->net;
	const struct model_spec *spec = net->spec;
	int from = plan_from(spec, i), add = plan_add(spec, i);
	struct op_site site = {
		.spec = spec->layers[i].op, .name = net_layer_name(net, i),
		.in = from < 0 ? p->in : p->value[from],
		.add = add < 0 ? NULL : p->value[add],
		.out_type = i == spec->layer_count - 1 ? TENSOR_F32 :
							 net->device->type,
		.training = p->mode == NET_TRAIN,
		.first = from < 0 && !net->wants_d_in,
		.like = like ? like->op[i] : NULL,
	};
	int r = plan_check_layer(spec, i, e), reader;

	if (plan_readers(spec, i, &reader) == 1)
		site.reader = &spec->layers[reader].op;
	if (from >= 0 && plan_readers(spec, from, &reader) == 1)
		site.source = p->op[from];
	if (r == 0)
		r = net->ops->op_new(net->device, &site, &p->op[i], e);
	if (r == 0)
		*p->value[i] = p->op[i]->out;
	return r;
}

static void plan_describe_input(struct plan *p)
{
	const struct image_shape *s = &p->net->spec->input;
	struct tensor *in = p->in;
	size_t value;

	if (p->net->loader)
		*in = p->net->loader->in;
	else
		*in = (struct tensor){.c = s->channels, .h = s->height,
				      .w = s->width, .plain = 1};
	in->n = p->n;
	in->data = NULL;
	value = in->type == TENSOR_BF16 ? 2 : 4;
	if (!in->layout)
		in->bytes = (size_t)in->n * (size_t)in->c * (size_t)in->h *
			    (size_t)in->w * value;
	else
		in->bytes *= (size_t)p->n; /* a loader gives the bytes of one
					    * sample */
}

int plan_make(struct plan *p, struct net *net, const struct plan *like, int n,
	      enum net_mode mode, struct err *e)
{
	size_t layers = (size_t)net->spec->layer_count;
	struct plan_memory *m = calloc(1, sizeof(*m));

	memset(p, 0, sizeof(*p));
	p->net = net;
	p->n = n;
	p->mode = mode;
	p->memory = m;
	p->op = calloc(layers, sizeof(*p->op));
	p->value = calloc(layers, sizeof(*p->value));
	if (m) {
		m->value = calloc(layers, sizeof(*m->value));
		m->slope = calloc(layers, sizeof(*m->slope));
		m->sides = calloc(layers, sizeof(*m->sides));
		/* one per output, and at most two gradients each */
		m->buffer = calloc(3 * layers + 4, sizeof(*m->buffer));
	}
	if (!p->op || !p->value || !m || !m->value || !m->slope || !m->sides ||
	    !m->buffer)
		return err_no_memory(e, "%s", net->spec->name);
	for (size_t i = 0; i < layers; i++)
		p->value[i] = &m->value[i];
	p->in = &m->in;
	p->out = p->value[layers - 1];
	plan_describe_input(p);
	for (size_t i = 0; i < layers; i++) {
		int r = plan_make_op(p, like, (int)i, e);

		if (r < 0)
			return r;
	}
	return 0;
}

/* ---- Memory ---- */

/* Takes a free buffer of this size, or a new one. Only the sharing is decided
 * here: all buffers are allocated at the end. */
static struct buffer *plan_take_buffer(struct plan_memory *m, size_t bytes)
{
	for (int i = 0; i < m->buffer_count; i++)
		if (!m->buffer[i].used && m->buffer[i].bytes == bytes) {
			m->buffer[i].used = 1;
			return &m->buffer[i];
		}
	m->buffer[m->buffer_count] = (struct buffer){NULL, bytes, 1};
	return &m->buffer[m->buffer_count++];
}

/* Until the buffers are allocated, a tensor's data points to its buffer. */
static void plan_assign_buffer(struct plan_memory *m, struct tensor *t)
{
	t->data = plan_take_buffer(m, t->bytes);
}

static void plan_drop_buffer(struct tensor *t)
{
	((struct buffer *)t->data)->used = 0;
}

/* Assigns buffers for the forward pass; when evaluating, an output's buffer is
 * free after its last reader. */
static void plan_share_forward(struct plan *p)
{
	const struct model_spec *spec = p->net->spec;
	struct plan_memory *m = p->memory;

	plan_assign_buffer(m, p->in);
	for (int i = 0; i < spec->layer_count; i++) {
		plan_assign_buffer(m, p->value[i]);
		for (int k = 0; p->mode == NET_EVALUATE && k < i; k++) {
			int last = 0;

			for (int j = k + 1; j < spec->layer_count; j++)
				if (plan_from(spec, j) == k ||
				    plan_add(spec, j) == k)
					last = j;
			if (last == i)
				plan_drop_buffer(p->value[k]);
		}
	}
}

/* Adds a gradient of layer k's output, of the output's shape, in room's memory
 * or in a new buffer. NULL: there are two already. */
static struct tensor *plan_add_gradient(struct plan *p, int k,
					struct tensor *room)
{
	struct plan_memory *m = p->memory;
	struct tensor *t;

	if (m->sides[k] == 2)
		return NULL;
	t = &m->slope[k][m->sides[k]++];
	*t = *p->value[k];
	if (room)
		t->data = room->data;
	else
		plan_assign_buffer(m, t);
	return t;
}

static struct tensor *plan_gradient(struct plan_memory *m, int k, int i)
{
	return i < m->sides[k] ? &m->slope[k][i] : NULL;
}

/* Assigns gradients, from last layer to first: batch normalisation writes its
 * results over its own gradient, others get a buffer; then the layer's own
 * gradient is free. */
static int plan_share_backward(struct plan *p, struct op_memory *om,
			       struct err *e)
{
	const struct model_spec *spec = p->net->spec;
	struct plan_memory *m = p->memory;
	int last = spec->layer_count - 1;

	plan_add_gradient(p, last, NULL);
	p->d_out = plan_gradient(m, last, 0);
	for (int i = last; i >= 0; i--) {
		int from = plan_from(spec, i), add = plan_add(spec, i);
		int norm = spec->layers[i].op.kind == OP_BATCH_NORM, kept = 0;
		struct tensor *dy = plan_gradient(m, i, 0);

		if (!dy)
			return err_set(
				e, ERR_ARGUMENT,
				"%s: no layer uses the output of layer %d",
				spec->name, i + 1);
		om[i].dy[0] = dy;
		om[i].dy[1] = plan_gradient(m, i, 1);
		if (add >= 0) {
			om[i].d_add = plan_add_gradient(p, add, dy);
			kept = 1;
		}
		if (from >= 0)
			om[i].dx = plan_add_gradient(p, from,
						     norm && !kept ? dy : NULL);
		else if (p->net->wants_d_in) {
			m->d_in = *p->in;
			plan_assign_buffer(m, &m->d_in);
			om[i].dx = p->d_in = &m->d_in;
		}
		if ((add >= 0 && !om[i].d_add) || (from >= 0 && !om[i].dx))
			return err_set(
				e, ERR_ARGUMENT,
				"%s: three layers use one output, see layer %d",
				spec->name, i + 1);
		kept |= norm && from >= 0;
		if (!kept)
			plan_drop_buffer(dy);
		if (om[i].dy[1])
			plan_drop_buffer(om[i].dy[1]);
	}
	return 0;
}

static void plan_resolve(struct tensor *t)
{
	if (t->data)
		t->data = ((struct buffer *)t->data)->data;
}

/* Allocates the buffers and points the tensors at them. */
static int plan_allocate(struct plan *p, struct err *e)
{
	const struct net *net = p->net;
	struct plan_memory *m = p->memory;

	for (int i = 0; i < m->buffer_count; i++) {
		int r = net->ops->alloc(net->device, m->buffer[i].bytes,
					&m->buffer[i].data, e);

		if (r < 0)
			return r;
	}
	plan_resolve(&m->in);
	plan_resolve(&m->d_in);
	for (int i = 0; i < net->spec->layer_count; i++) {
		plan_resolve(&m->value[i]);
		for (int k = 0; k < m->sides[i]; k++)
			plan_resolve(&m->slope[i][k]);
	}
	return 0;
}

static void plan_bind_arenas(struct plan *p, struct op_memory *om)
{
	const struct net *net = p->net;

	for (int k = 0; k < net->param_count; k++) {
		const struct net_param *q = &net->param[k];

		om[q->layer].param[q->which] = net->parameters + q->at;
		om[q->layer].grad[q->which] = net->gradients + q->at;
	}
	for (int k = 0; k < net->buffer_count; k++) {
		const struct net_param *q = &net->buffer[k];

		om[q->layer].buffer[q->which] = net->buffers + q->at;
	}
}

int plan_bind(struct plan *p, struct err *e)
{
	const struct net *net = p->net;
	const struct model_spec *spec = net->spec;
	struct op_memory *om = calloc((size_t)spec->layer_count, sizeof(*om));
	int r = 0;

	if (!om)
		return err_no_memory(e, "%s", spec->name);
	plan_share_forward(p);
	if (p->mode == NET_TRAIN)
		r = plan_share_backward(p, om, e);
	if (r == 0)
		r = plan_allocate(p, e);
	plan_bind_arenas(p, om);
	for (int i = 0; r == 0 && i < spec->layer_count; i++) {
		int from = plan_from(spec, i), add = plan_add(spec, i);

		om[i].in = from < 0 ? p->in : p->value[from];
		om[i].add = add < 0 ? NULL : p->value[add];
		om[i].out = p->value[i];
		r = net->ops->op_bind(net->device, p->op[i], &om[i], e);
	}
	free(om);
	return r;
}

void plan_release(struct plan *p)
{
	const struct net *net = p->net;
	struct plan_memory *m = p->memory;

	for (int i = 0; p->op && i < net->spec->layer_count; i++)
		net->ops->op_free(net->device, p->op[i]);
	for (int i = 0; m && m->buffer && i < m->buffer_count; i++)
		net->ops->free(net->device, m->buffer[i].data);
	free(p->op);
	free(p->value);
	if (m) {
		free(m->value);
		free(m->slope);
		free(m->sides);
		free(m->buffer);
	}
	free(m);
}
