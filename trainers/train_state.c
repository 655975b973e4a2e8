/* train_state.c: the sections of a checkpoint. All are in PyTorch's layout, so
 * that another device can go on from them. */
#include "trainers/train_state.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "worker-sdk/ddp.h"

enum { SECTIONS = 5 };

int train_state_init(struct train_state *s, struct net *net,
		     const struct optimizer *optimizer, struct err *e)
{
	size_t size = net->arena * sizeof(float);
	int moments = optimizer->kind == OPTIMIZER_ADAM ? 2 : 1, r = 0;

	memset(s, 0, sizeof *s);
	s->net = net;
	for (int i = 0; r == 0 && i < moments; i++) {
		void *p;

		r = net->ops->alloc(net->device, size, &p, e);
		s->moment[i] = r < 0 ? NULL : p;
	}
	return r;
}

void train_state_release(struct train_state *s)
{
	if (!s->net)
		return;
	for (int i = 0; i < 2; i++)
		s->net->ops->free(s->net->device, s->moment[i]);
	memset(s, 0, sizeof *s);
}

/* The state in the host's memory, as it is in a file. */
struct image {
	struct train_position at;
	float *values; /* parameters, moments, running statistics */
	struct ddp_section section[SECTIONS];
	int count;
};

static int make_image(struct image *m, const struct train_state *s,
		      struct err *e)
{
	static const char *const names[] = {"moment.0", "moment.1"};
	size_t n = s->net->parameter_count, buffers = net_buffer_count(s->net);
	float *p = malloc((3 * n + buffers) * sizeof *p);

	if (!p)
		return err_set(e, -ENOMEM, "no memory for a checkpoint of %zu "
			       "parameters", n);
	m->values = p;
	m->at = s->at;
	m->count = 2;
	m->section[0] = (struct ddp_section){"position", &m->at, sizeof m->at};
	m->section[1] = (struct ddp_section){"parameters", p, n * sizeof *p};
	p += n;
	for (int i = 0; i < 2; i++)
		if (s->moment[i]) {
			m->section[m->count++] = (struct ddp_section){
				names[i], p, n * sizeof *p};
			p += n;
		}
	if (buffers)
		m->section[m->count++] = (struct ddp_section){
			"buffers", p, buffers * sizeof *p};
	return 0;
}

/* Between the sections and the device. */
static void move(struct train_state *s, struct image *m, int into)
{
	float *arena[3] = {s->net->parameters, s->moment[0], s->moment[1]};
	int k = 1;

	for (int i = 0; i < 3; i++) {
		if (!arena[i])
			continue;
		if (into)
			net_put(s->net, arena[i], m->section[k++].data);
		else
			net_get(s->net, arena[i], m->section[k++].data);
	}
	if (k == m->count)
		return;
	if (into)
		net_put_buffers(s->net, m->section[k].data);
	else
		net_get_buffers(s->net, m->section[k].data);
}

int train_state_save(struct train_state *s, const char *path, struct err *e)
{
	char kind[MODEL_KIND_MAX];
	struct image m;
	int r = make_image(&m, s, e);

	if (r < 0)
		return r;
	move(s, &m, 0);
	r = ddp_checkpoint_save(path, model_kind(s->net->spec, kind), m.section,
				m.count);
	if (r < 0)
		err_set(e, r, "%s", ddp_last_error());
	free(m.values);
	return r;
}

static int check_position(const struct train_state *s,
			  const struct train_position *at, const char *path,
			  uint64_t samples, struct err *e)
{
	if (at->seed != s->at.seed || at->batch != s->at.batch)
		return err_set(e, ERR_USAGE, "--resume: %s is of a run with "
			       "--seed %lld --batch-size %lld, this one has "
			       "%lld and %lld; its order of samples would be "
			       "another one, so give the same", path,
			       (long long)at->seed, (long long)at->batch,
			       (long long)s->at.seed, (long long)s->at.batch);
	if (at->epoch < 0 || at->step < 0 || at->sample < 0 ||
	    (uint64_t)at->sample >= samples)
		return err_set(e, ERR_DATA, "--resume: the position in %s is "
			       "damaged (epoch %lld)", path,
			       (long long)at->epoch);
	return 0;
}

int train_state_load(struct train_state *s, const char *path, uint64_t samples,
		     struct err *e)
{
	char kind[MODEL_KIND_MAX];
	struct image m;
	int r = make_image(&m, s, e);

	if (r < 0)
		return r;
	r = ddp_checkpoint_load(path, model_kind(s->net->spec, kind), m.section,
				m.count);
	if (r == 0)
		r = check_position(s, &m.at, path, samples, e);
	else if (r != -ENOENT)
		err_set(e, r, "%s", ddp_last_error());
	if (r == 0) {
		move(s, &m, 1);
		s->at = m.at;
	}
	free(m.values);
	return r == -ENOENT ? 0 : r < 0 ? r : 1;
}
