/* net.c: the arenas of a model, and its passes forward and backward. */
#include "trainers/models/net.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"

enum { ALIGN = 16 }; /* values */

/* ---- Arenas ---- */

static size_t net_align(size_t n)
{
	return (n + ALIGN - 1) / ALIGN * ALIGN;
}

static int net_count_params(const struct net *net, const struct plan *p,
			    int which)
{
	int n = 0;

	for (int i = 0; i < net->spec->layer_count; i++)
		n += which ? p->op[i]->buffer_count : p->op[i]->param_count;
	return n;
}

static int net_name_layers(struct net *net, struct err *e)
{
	int count = net->spec->layer_count, at = 0;

	net->names = calloc((size_t)count, sizeof(*net->names));
	if (!net->names)
		return err_no_memory(e, "%s", net->spec->name);
	for (int i = 0; i < count; i++, at++) {
		const struct layer *l = &net->spec->layers[i];

		if (l->name[0])
			snprintf(net->names[i], LAYER_NAME_MAX, "%s", l->name);
		else
			snprintf(net->names[i], LAYER_NAME_MAX, "%d", at);
		/* torch.nn.Sequential counts ReLUs as well */
		at += l->op.relu;
	}
	return 0;
}

const char *net_layer_name(const struct net *net, int layer)
{
	return net->names[layer];
}

/* Lists parameters (or buffers) in the order of the layers; returns the size of
 * their arena in values. */
static size_t net_lay_out(struct net *net, const struct plan *p, int buffers,
			  struct net_param *out)
{
	size_t at = 0;

	for (int i = 0; i < net->spec->layer_count; i++) {
		const struct op *op = p->op[i];
		int n = buffers ? op->buffer_count : op->param_count;

		for (int k = 0; k < n; k++, out++) {
			const struct op_param *from =
				buffers ? &op->buffer[k] : &op->param[k];

			*out = (struct net_param){
				.layer = i, .which = k, .at = at,
				.size = from->size, .count = from->count,
				.shape = from->shape};
			snprintf(out->name, sizeof(out->name), "%s.%s",
				 net->names[i], from->name);
			at += net_align(from->size);
		}
	}
	return at;
}

static int net_param_compare(const void *a, const void *b, void *layers)
{
	const struct net_param *p = a, *q = b;
	const struct layer *l = layers;
	int x = l[p->layer].order, y = l[q->layer].order;

	if (x != y)
		return x < y ? -1 : 1;
	if (p->layer != q->layer)
		return p->layer < q->layer ? -1 : 1;
	return p->which - q->which;
}

static int net_alloc_floats(struct net *net, size_t n, float **out,
			    struct err *e)
{
	void *p;
	int r = net->ops->alloc(net->device, n * sizeof(float), &p, e);

	*out = r < 0 ? NULL : p;
	return r;
}

static int net_alloc_gradients(struct net *net, struct err *e)
{
	size_t n = net->arena + NET_LOSS_VALUES;
	void *p;
	int r;

	if (!net->memory.alloc)
		return net_alloc_floats(net, n, &net->gradients, e);
	r = net->memory.alloc(net->memory.arg, n * sizeof(float), &p, e);
	if (r < 0)
		return r;
	net->gradients = p;
	net->ops->zero(net->device, p, n * sizeof(float));
	return 0;
}

static void net_free_gradients(struct net *net)
{
	if (net->memory.alloc)
		net->memory.free(net->memory.arg, net->gradients);
	else
		net->ops->free(net->device, net->gradients);
}

static int net_make_arenas(struct net *net, const struct plan *p, struct err *e)
{
	void *tally;
	int r;

	net->param_count = net_count_params(net, p, 0);
	net->buffer_count = net_count_params(net, p, 1);
	net->param = calloc((size_t)net->param_count, sizeof(*net->param));
	net->buffer = calloc((size_t)net->buffer_count + 1,
			     sizeof(*net->buffer));
	if (!net->param || !net->buffer)
		return err_no_memory(e, "%s", net->spec->name);
	net->arena = net_lay_out(net, p, 0, net->param);
	net->buffer_arena = net_lay_out(net, p, 1, net->buffer);
	qsort_r(net->param, (size_t)net->param_count, sizeof(*net->param),
		net_param_compare, (void *)net->spec->layers);
	qsort_r(net->buffer, (size_t)net->buffer_count, sizeof(*net->buffer),
		net_param_compare, (void *)net->spec->layers);
	for (int i = 0; i < net->param_count; i++)
		net->parameter_count += net->param[i].count;
	r = net_alloc_floats(net, net->arena, &net->parameters, e);
	if (r == 0)
		r = net_alloc_gradients(net, e);
	if (r == 0)
		r = net_alloc_floats(net, net->buffer_arena, &net->buffers, e);
	if (r == 0)
		r = net->ops->alloc(net->device, sizeof(*net->tally), &tally,
				    e);
	if (r)
		return r;
	net->tally = tally;
	net->loss = net->gradients + net->arena;
	return 0;
}

void net_slice(const struct net *net, int layer, size_t *at, size_t *count)
{
	size_t end = 0;

	*at = *count = 0;
	if (layer == net->spec->layer_count) {
		*at = net->arena;
		*count = NET_LOSS_VALUES;
		return;
	}
	for (int i = 0; i < net->param_count; i++) {
		const struct net_param *p = &net->param[i];

		if (p->layer != layer)
			continue;
		if (!end || p->at < *at)
			*at = p->at;
		if (p->at + net_align(p->size) > end)
			end = p->at + net_align(p->size);
	}
	*count = end - *at;
}

enum tensor_type net_input_type(const struct model_spec *spec,
				const struct device *device)
{
	return spec->layers[0].op.kind == OP_LINEAR ? TENSOR_F32 : device->type;
}

/* ---- Plans ---- */

int net_plan_new(struct net *net, int n, enum net_mode mode, struct plan **out,
		 struct err *e)
{
	struct plan *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return err_no_memory(e, "%s", net->spec->name);
	r = plan_make(p, net, net->plans, n, mode, e);
	if (r == 0 && !net->parameters)
		r = net_make_arenas(net, p, e);
	if (r == 0)
		r = plan_bind(p, e);
	if (r < 0)
		net_plan_free(p);
	else
		*out = p;
	return r;
}

void net_plan_free(struct plan *p)
{
	if (!p)
		return;
	plan_release(p);
	free(p);
}

int net_plan(struct net *net, int n, enum net_mode mode, struct plan **out,
	     struct err *e)
{
	struct plan **end = &net->plans;
	int r;

	for (; *end; end = &(*end)->next)
		if ((*end)->n == n && (*end)->mode == mode) {
			*out = *end;
			return 0;
		}
	r = net_plan_new(net, n, mode, out, e);
	if (r == 0)
		*end = *out;
	return r;
}

int net_init(struct net *net, const struct model_spec *spec,
	     struct device *device, struct loader *loader, int n,
	     enum net_mode mode, struct err *e)
{
	struct net_memory memory = net->memory;
	int wants_d_in = net->wants_d_in;
	struct plan *first;

	memset(net, 0, sizeof(*net));
	net->wants_d_in = wants_d_in;
	net->memory = memory;
	net->spec = spec;
	net->ops = device->ops;
	net->device = device;
	net->loader = loader;
	if (net_name_layers(net, e) < 0)
		return -ENOMEM;
	return net_plan(net, n, mode, &first, e);
}

void net_release(struct net *net)
{
	if (!net->ops)
		return;
	for (struct plan *p = net->plans, *next; p; p = next) {
		next = p->next;
		net_plan_free(p);
	}
	net->ops->free(net->device, net->parameters);
	net_free_gradients(net);
	net->ops->free(net->device, net->buffers);
	net->ops->free(net->device, net->kept);
	net->ops->free(net->device, net->tally);
	free(net->names);
	free(net->param);
	free(net->buffer);
	memset(net, 0, sizeof(*net));
}

/* ---- A step ---- */

/* 1 if the first layer reads the loader's lists, and nothing else needs the
 * samples themselves. */
static int net_uses_lists(const struct plan *p, const struct loader *f)
{
	return p->op[0]->takes_lists && f->spec.part->samples.start &&
	       !f->spec.augment && !loader_resizes(&f->spec) &&
	       p->net->spec->loss != LOSS_MSE;
}

void net_load_batch_from(struct plan *p, struct loader *loader)
{
	p->from = loader;
	p->net->ops->load_batch(loader, p->n,
				net_uses_lists(p, loader) ? NULL : p->in);
}

void net_load_batch(struct plan *p)
{
	net_load_batch_from(p, p->net->loader);
}

void net_forward(struct plan *p)
{
	const struct net *net = p->net;

	for (int i = 0; i < net->spec->layer_count; i++)
		net->ops->op_forward(net->device, p->op[i],
				     i ? NULL : p->from);
}

void net_loss(struct plan *p, const struct loss_spec *loss)
{
	struct net *net = p->net;

	if (loss->kind == LOSS_CROSS_ENTROPY)
		net->ops->cross_entropy(net->device, loss, p->out,
					p->from ? p->from->labels :
						  net->labels, net->loss,
					net->tally, p->d_out);
	else
		net->ops->mse(net->device, loss, p->out, p->in, net->loss,
			      net->tally, p->d_out);
}

/* The layer's gradients are complete: adds those of earlier micro-batches. */
static void net_gradients_ready(struct net *net, int layer)
{
	size_t at, count;

	if (net->part == NET_FIRST || net->part == NET_MIDDLE)
		return;
	if (net->part == NET_LAST) {
		net_slice(net, layer, &at, &count);
		net->ops->add(net->device, count, net->kept + at,
			      net->gradients + at);
	}
	if (net->on_ready)
		net->on_ready(net->arg, layer);
}

void net_backward(struct plan *p)
{
	struct net *net = p->net;

	net_gradients_ready(net, net->spec->layer_count);
	for (int i = net->spec->layer_count - 1; i >= 0; i--) {
		net->ops->op_backward(net->device, p->op[i],
				      i ? NULL : p->from);
		if (p->op[i]->param_count)
			net_gradients_ready(net, i);
	}
	if (net->part == NET_FIRST || net->part == NET_MIDDLE)
		net->ops->add(net->device, net->arena + NET_LOSS_VALUES,
			      net->gradients, net->kept);
}

int net_accumulate(struct net *net, enum net_part part, struct err *e)
{
	size_t count = net->arena + NET_LOSS_VALUES;
	int r = 0;

	if (part != NET_WHOLE && !net->kept)
		r = net_alloc_floats(net, count, &net->kept, e);
	if (r == 0 && part == NET_FIRST)
		net->ops->zero(net->device, net->kept, count * sizeof(float));
	if (r == 0)
		net->part = part;
	return r;
}

/* ---- State ---- */

char *model_kind(const struct model_spec *spec, char *out)
{
	const struct image_shape *s = &spec->input;
	int n;

	if (spec->kind[0]) {
		snprintf(out, MODEL_KIND_MAX, "%s", spec->kind);
		return out;
	}
	n = snprintf(out, MODEL_KIND_MAX, "%s %d", spec->name,
		     s->channels * s->height * s->width);
	for (int i = 0; i < spec->layer_count && n < MODEL_KIND_MAX; i++)
		n += snprintf(out + n, (size_t)(MODEL_KIND_MAX - n), "-%d",
			      spec->layers[i].op.out);
	return out;
}

void net_put(struct net *net, float *arena, const float *values)
{
	for (int i = 0; i < net->param_count; i++) {
		const struct net_param *p = &net->param[i];

		net->ops->param_put(net->device, net->plans->op[p->layer],
				    p->which, arena + p->at, values);
		values += p->count;
	}
	if (arena == net->parameters)
		net->ops->params_changed(net->device);
}

void net_get(const struct net *net, const float *arena, float *values)
{
	for (int i = 0; i < net->param_count; i++) {
		const struct net_param *p = &net->param[i];

		net->ops->param_get(net->device, net->plans->op[p->layer],
				    p->which, arena + p->at, values);
		values += p->count;
	}
}

size_t net_buffer_count(const struct net *net)
{
	size_t n = 0;

	for (int i = 0; i < net->buffer_count; i++)
		n += net->buffer[i].count;
	return n;
}

void net_put_buffers(struct net *net, const float *values)
{
	for (int i = 0; i < net->buffer_count; i++) {
		const struct net_param *p = &net->buffer[i];

		net->ops->put(net->device, net->buffers + p->at, values,
			      p->count * sizeof(*values));
		values += p->count;
	}
}

void net_get_buffers(const struct net *net, float *values)
{
	for (int i = 0; i < net->buffer_count; i++) {
		const struct net_param *p = &net->buffer[i];

		net->ops->get(net->device, values, net->buffers + p->at,
			      p->count * sizeof(*values));
		values += p->count;
	}
}

int net_load_raw(struct net *net, const char *path, struct err *e)
{
	size_t want = net->parameter_count * sizeof(float);
	char kind[MODEL_KIND_MAX];
	float *values = malloc(want);
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC), r = 0;

	if (!values) {
		r = err_no_memory(e, "the initial weights");
		goto out;
	}
	if (fd < 0 || fstat(fd, &st) < 0) {
		r = err_set(e, -errno, "cannot read the initial weights %s: %s",
			    path, strerror(errno));
		goto out;
	}
	if (!S_ISREG(st.st_mode) || (size_t)st.st_size != want) {
		r = err_set(e, ERR_DATA, "%s has %lld bytes, but the weights "
			    "of %s are %zu float32, %zu bytes; give --init-from"
			    " a file of this model", path,
			    (long long)st.st_size, model_kind(net->spec, kind),
			    net->parameter_count, want);
		goto out;
	}
	r = file_read_all(fd, values, want);
	if (r < 0)
		err_set(e, r, "cannot read the initial weights %s: %s", path,
			strerror(-r));
	else
		net_put(net, net->parameters, values);
out:
	if (fd >= 0)
		close(fd);
	free(values);
	return r;
}

const char *net_first_not_finite(struct plan *p)
{
	const struct net *net = p->net;

	for (int i = 0; i < net->spec->layer_count; i++) {
		size_t at, count;

		net_slice(net, i, &at, &count);
		if (!net->ops->finite(net->device, count,
				      net->parameters + at) ||
		    !net->ops->tensor_finite(net->device, p->value[i]))
			return net_layer_name(net, i);
	}
	return NULL;
}
