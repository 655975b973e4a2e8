/* model.c: lays the arenas out, walks the layers forward and back. */
#include "trainers/model.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file.h"
#include "base/mt19937.h"

static int layer_in(const struct model_spec *spec, int i)
{
	return i ? spec->layers[i - 1].out : spec->inputs;
}

size_t model_parameter_count(const struct model_spec *spec)
{
	size_t n = 0;

	for (int i = 0; i < spec->layer_count; i++) {
		size_t out = (size_t)spec->layers[i].out;

		n += out * (size_t)layer_in(spec, i) + out;
	}
	return n;
}

char *model_kind(const struct model_spec *spec, char *out)
{
	int n = snprintf(out, MODEL_KIND_MAX, "%s %d", spec->name,
			 spec->inputs);

	for (int i = 0; i < spec->layer_count && n < MODEL_KIND_MAX; i++)
		n += snprintf(out + n, (size_t)(MODEL_KIND_MAX - n), "-%d",
			      spec->layers[i].out);
	return out;
}

/* Points each layer at its slices of the arenas. */
static void slice_arenas(struct model *m)
{
	float *p = m->parameters, *g = m->gradients;

	for (int i = 0; i < m->spec->layer_count; i++) {
		struct linear *l = &m->linear[i];
		size_t weights;

		l->in = layer_in(m->spec, i);
		l->out = m->spec->layers[i].out;
		l->relu = m->spec->layers[i].relu;
		weights = (size_t)l->in * (size_t)l->out;
		l->weight = p;
		l->bias = p + weights;
		l->weight_grad = g;
		l->bias_grad = g + weights;
		p += weights + (size_t)l->out;
		g += weights + (size_t)l->out;
	}
}

static float *alloc_floats(struct model *m, size_t n, size_t *wanted)
{
	*wanted = n * sizeof(float);
	return m->ops->alloc(n * sizeof(float));
}

int model_init(struct model *m, const struct model_spec *spec,
	       const struct ops *ops, int capacity, struct err *e)
{
	size_t bytes = 0, widest = 0, cap = (size_t)capacity;

	memset(m, 0, sizeof *m);
	m->spec = spec;
	m->ops = ops;
	m->capacity = capacity;
	m->parameter_count = model_parameter_count(spec);
	m->linear = calloc((size_t)spec->layer_count, sizeof *m->linear);
	m->values = calloc((size_t)spec->layer_count + 1, sizeof *m->values);
	if (!m->linear || !m->values)
		goto no_memory;
	m->parameters = alloc_floats(m, m->parameter_count, &bytes);
	if (!m->parameters)
		goto no_memory;
	m->gradients = alloc_floats(m, m->parameter_count + 1, &bytes);
	if (!m->gradients)
		goto no_memory;
	slice_arenas(m);
	for (int i = 0; i <= spec->layer_count; i++) {
		size_t width = (size_t)layer_in(spec, i);

		if (i && width > widest)
			widest = width;
		m->values[i] = alloc_floats(m, cap * width, &bytes);
		if (!m->values[i])
			goto no_memory;
	}
	for (int i = 0; i < 2; i++) {
		m->delta[i] = alloc_floats(m, cap * widest, &bytes);
		if (!m->delta[i])
			goto no_memory;
	}
	if (ops->sparse_room && capacity <= SPARSE_SAMPLES_MAX &&
	    m->linear[0].out >= SPARSE_OUTPUTS_MIN) {
		bytes = ops->sparse_room(capacity, (size_t)spec->inputs);
		m->room = ops->alloc(bytes);
		if (!m->room)
			goto no_memory;
	}
	return 0;

no_memory:
	return err_set(e, -ENOMEM, "%s: no memory for a model of %zu "
		       "parameters and batches of %d samples (%zu bytes at "
		       "once); use a smaller --batch-size", spec->name,
		       m->parameter_count, capacity, bytes);
}

void model_release(struct model *m)
{
	if (!m->ops)
		return;
	for (int i = 0; m->values && i <= m->spec->layer_count; i++)
		m->ops->free(m->values[i]);
	for (int i = 0; i < 2; i++)
		m->ops->free(m->delta[i]);
	m->ops->free(m->room);
	m->ops->free(m->parameters);
	m->ops->free(m->gradients);
	free(m->linear);
	free(m->values);
	memset(m, 0, sizeof *m);
}

/* at::Tensor::uniform_ on the CPU: 24 random bits a value, all in float32, the
 * product and the sum rounded once (PyTorch's kernel is compiled with FMA). */
static void draw_uniform(struct mt19937 *rng, size_t n, double bound, float *p)
{
	float from = (float)-bound, range = (float)bound - from;

	for (size_t i = 0; i < n; i++) {
		uint32_t bits = mt19937_next(rng) & 0xffffffu;

		p[i] = fmaf((float)bits * 0x1p-24f, range, from);
	}
}

/* p: one layer's weight as PyTorch has it, [out][in]; becomes ours, [in][out],
 * through room for as many. */
static void turn_weight(const struct linear *l, float *p, float *room)
{
	size_t in = (size_t)l->in, out = (size_t)l->out;

	memcpy(room, p, in * out * sizeof *p);
	for (size_t i = 0; i < in; i++)
		for (size_t j = 0; j < out; j++)
			p[i * out + j] = room[j * in + i];
}

static void turn_weights(struct model *m)
{
	float *p = m->parameters;

	for (int i = 0; i < m->spec->layer_count; i++) {
		const struct linear *l = &m->linear[i];

		/* no gradients are in use yet */
		turn_weight(l, p, m->gradients);
		p += (size_t)l->in * (size_t)l->out + (size_t)l->out;
	}
}

/* nn.Linear.reset_parameters: kaiming_uniform_(a = sqrt(5)) for the weight,
 * with its very order of roundings, then 1 / sqrt(fan_in) for the bias. */
void model_draw(struct model *m, uint64_t seed)
{
	struct mt19937 rng;
	float *p = m->parameters;

	mt19937_seed(&rng, (uint32_t)seed);
	for (int i = 0; i < m->spec->layer_count; i++) {
		size_t out = (size_t)m->linear[i].out;
		size_t in = (size_t)m->linear[i].in;
		double a = sqrt(5.0), gain = sqrt(2.0 / (1.0 + a * a));
		double fan = sqrt((double)in);

		draw_uniform(&rng, out * in, sqrt(3.0) * (gain / fan), p);
		draw_uniform(&rng, out, 1.0 / fan, p + out * in);
		p += out * in + out;
	}
	turn_weights(m);
}

int model_load_raw(struct model *m, const char *path, struct err *e)
{
	size_t want = m->parameter_count * sizeof(float);
	char kind[MODEL_KIND_MAX];
	struct stat st;
	int fd = open(path, O_RDONLY | O_CLOEXEC), r = 0;

	if (fd < 0 || fstat(fd, &st) < 0) {
		r = err_set(e, -errno, "cannot read the initial weights %s: %s",
			    path, strerror(errno));
		goto out;
	}
	if (!S_ISREG(st.st_mode) || (size_t)st.st_size != want) {
		r = err_set(e, ERR_DATA, "%s has %lld bytes, but the weights "
			    "of %s are %zu float32, %zu bytes; give --init-from"
			    " a file of this model", path,
			    (long long)st.st_size, model_kind(m->spec, kind),
			    m->parameter_count, want);
		goto out;
	}
	r = file_read_all(fd, m->parameters, want);
	if (r < 0)
		err_set(e, r, "cannot read the initial weights %s: %s", path,
			strerror(-r));
	else
		turn_weights(m);
out:
	if (fd >= 0)
		close(fd);
	return r;
}

void model_take(struct model *m, int n, const struct samples *s,
		const uint32_t *index)
{
	m->n = n;
	m->samples = s;
	m->index = index;
	m->sparse = m->room && s->start;
	/* With lists only a loss against the sample itself needs all of it. */
	if (!m->sparse || m->spec->loss == LOSS_MSE)
		m->ops->gather(n, s, index, m->values[0]);
}

const float *model_output(const struct model *m)
{
	return m->values[m->spec->layer_count];
}

float *model_loss(struct model *m)
{
	return m->gradients + m->parameter_count;
}

/* Sets the loss, and the gradient of the outputs where d is not NULL. */
static void take_loss(struct model *m, const uint8_t *labels, float *d)
{
	int last = m->spec->layer_count;
	int out = m->linear[last - 1].out;

	if (m->spec->loss == LOSS_CROSS_ENTROPY)
		m->ops->cross_entropy(m->n, out, m->values[last], labels,
				      model_loss(m), d);
	else
		m->ops->mse((size_t)m->n * (size_t)out, m->values[last],
			    m->values[0], model_loss(m), d);
}

static void walk_forward(struct model *m)
{
	int i = 0;

	if (m->sparse) {
		m->ops->sparse_forward(&m->linear[0], m->n, m->samples,
				       m->index, m->room, m->values[1]);
		i = 1;
	}
	for (; i < m->spec->layer_count; i++)
		m->ops->linear_forward(&m->linear[i], m->n, m->values[i],
				       m->values[i + 1]);
}

void model_forward(struct model *m, const uint8_t *labels)
{
	walk_forward(m);
	take_loss(m, labels, NULL);
}

static void tell(struct model *m, int layer)
{
	if (m->on_ready)
		m->on_ready(m->arg, layer);
}

void model_step(struct model *m, const uint8_t *labels)
{
	float *dy = m->delta[0], *dx = m->delta[1];

	walk_forward(m);
	take_loss(m, labels, dy);
	tell(m, m->spec->layer_count);
	for (int i = m->spec->layer_count - 1; i > 0; i--) {
		float *t = dy;

		m->ops->linear_backward(&m->linear[i], m->n, m->values[i],
					m->values[i + 1], dy, dx);
		tell(m, i);
		dy = dx;
		dx = t;
	}
	if (m->sparse)
		m->ops->sparse_backward(&m->linear[0], m->n, m->samples,
					m->index, m->room, m->values[1], dy);
	else
		m->ops->linear_backward(&m->linear[0], m->n, m->values[0],
					m->values[1], dy, NULL);
	tell(m, 0);
}
