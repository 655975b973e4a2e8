/* train_state.c: the sections of a checkpoint. */
#include "trainers/train_state.h"

#include <errno.h>
#include <string.h>

#include "worker-sdk/ddp.h"

enum { SECTIONS = 4 };

int train_state_init(struct train_state *s, struct model *model,
		     struct err *e)
{
	size_t size = model->parameter_count * sizeof(float);

	memset(s, 0, sizeof *s);
	s->model = model;
	s->m = model->ops->alloc(size);
	s->v = model->ops->alloc(size);
	if (!s->m || !s->v)
		return err_set(e, -ENOMEM, "%s: no memory for the optimizer's "
			       "state (%zu bytes)", model->spec->name,
			       2 * size);
	return 0;
}

void train_state_release(struct train_state *s)
{
	if (!s->model)
		return;
	s->model->ops->free(s->m);
	s->model->ops->free(s->v);
	memset(s, 0, sizeof *s);
}

static void list_sections(struct train_state *s, struct train_position *at,
			  struct ddp_section *out)
{
	size_t size = s->model->parameter_count * sizeof(float);

	out[0] = (struct ddp_section){"position", at, sizeof *at};
	out[1] = (struct ddp_section){"parameters", s->model->parameters, size};
	out[2] = (struct ddp_section){"adam.m", s->m, size};
	out[3] = (struct ddp_section){"adam.v", s->v, size};
}

int train_state_save(struct train_state *s, const char *path, struct err *e)
{
	struct ddp_section sections[SECTIONS];
	char kind[MODEL_KIND_MAX];
	int r;

	list_sections(s, &s->at, sections);
	r = ddp_checkpoint_save(path, model_kind(s->model->spec, kind),
				sections, SECTIONS);
	if (r < 0)
		return err_set(e, r, "%s", ddp_last_error());
	return 0;
}

int train_state_load(struct train_state *s, const char *path, uint64_t samples,
		     struct err *e)
{
	struct ddp_section sections[SECTIONS];
	struct train_position at = {0};
	char kind[MODEL_KIND_MAX];
	int r;

	list_sections(s, &at, sections);
	r = ddp_checkpoint_load(path, model_kind(s->model->spec, kind),
				sections, SECTIONS);
	if (r == -ENOENT)
		return 0;
	if (r < 0)
		return err_set(e, r, "%s", ddp_last_error());
	if (at.seed != s->at.seed || at.batch != s->at.batch)
		return err_set(e, ERR_USAGE, "--resume: %s is of a run with "
			       "--seed %lld --batch-size %lld, this one has "
			       "%lld and %lld; its order of samples would be "
			       "another one, so give the same", path,
			       (long long)at.seed, (long long)at.batch,
			       (long long)s->at.seed, (long long)s->at.batch);
	if (at.epoch < 0 || at.step < 0 || at.sample < 0 ||
	    (uint64_t)at.sample >= samples)
		return err_set(e, ERR_DATA, "--resume: the position in %s is "
			       "damaged (epoch %lld)", path,
			       (long long)at.epoch);
	s->at = at;
	return 1;
}
