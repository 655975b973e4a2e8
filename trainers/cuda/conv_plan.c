/* conv_plan.c: the configurations that cuDNN's heuristics list for an operation
 * graph, and the plan made of one of them. cuDNN's descriptors refer to each
 * other, so a plan keeps all that it is made of. */
#include "trainers/cuda/conv_plan.h"

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct config {
	cudnnBackendDescriptor_t desc;
	int known; /* the other fields are set, which takes 44 descriptors */
	int varies, coarse, compiles;
	char name[CONV_ENGINE_MAX];
};

struct conv_plan {
	const struct conv_target *target;
	struct conv_shape shape;
	struct conv_graph graph;
	struct config config[CONV_CONFIGS_MAX];
	int count;
	int taken; /* -1: none */
	cudnnBackendDescriptor_t plan, pack;
	int64_t room;
	struct conv_memory packed; /* what the pack points to */
};

/* ---- Descriptors ---- */

static cudnnStatus_t plan_set(cudnnBackendDescriptor_t d,
			      cudnnBackendAttributeName_t name,
			      cudnnBackendAttributeType_t type, int64_t count,
			      const void *values)
{
	return cudnnBackendSetAttribute(d, name, type, count, values);
}

static cudnnStatus_t plan_set_desc(cudnnBackendDescriptor_t d,
				   cudnnBackendAttributeName_t name,
				   cudnnBackendDescriptor_t v)
{
	return plan_set(d, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &v);
}

static void plan_destroy(cudnnBackendDescriptor_t *d)
{
	if (*d)
		cudnnBackendDestroyDescriptor(*d);
	*d = NULL;
}

/* ---- A described GPU ---- */

cudnnStatus_t conv_target_describe(struct conv_target *t, const char *json)
{
#if CUDNN_VERSION >= 90800
	cudnnStatus_t rc = cudnnBackendCreateDescriptor(
		CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR, &t->device);

	t->handle = NULL;
	if (!rc)
		rc = plan_set(t->device,
			      CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION,
			      CUDNN_TYPE_CHAR, (int64_t)strlen(json), json);
	return rc ? rc : cudnnBackendFinalize(t->device);
#else
	return CUDNN_STATUS_NOT_SUPPORTED;
#endif
}

void conv_target_release(struct conv_target *t)
{
	plan_destroy(&t->device);
}

#if CUDNN_VERSION >= 90800
#define DEVICEPROP(owner) CUDNN_ATTR_##owner##_DEVICEPROP
#else /* never used: conv_target_describe fails */
#define DEVICEPROP(owner) CUDNN_ATTR_OPERATIONGRAPH_HANDLE
#endif

/* ---- Configurations ---- */

static void config_read_notes(struct config *c, cudnnBackendDescriptor_t engine,
			      const struct conv_shape *s)
{
	cudnnBackendNumericalNote_t note[CUDNN_NUMERICAL_NOTE_TYPE_COUNT];
	cudnnBackendBehaviorNote_t habit[CUDNN_BEHAVIOR_NOTE_TYPE_COUNT];
	int64_t n = 0;
	int narrow = s->bf16 || s->fp16;

	/* an engine whose notes cannot be read is not used */
	if (cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE,
				     CUDNN_TYPE_NUMERICAL_NOTE,
				     CUDNN_NUMERICAL_NOTE_TYPE_COUNT, &n, note))
		c->varies = 1;
	for (int64_t i = 0; i < n; i++) {
		c->varies |= note[i] == CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
		c->coarse |= note[i] ==
			     CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION;
		/* f32 on tensor cores is TF32 */
		if (!narrow && !s->tf32)
			c->coarse |=
				note[i] == CUDNN_NUMERICAL_NOTE_TENSOR_CORE;
		/* to 16 bits */
		if (!narrow)
			c->coarse |= note[i] ==
				     CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS;
	}
	n = 0;
	if (!cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE,
				      CUDNN_TYPE_BEHAVIOR_NOTE,
				      CUDNN_BEHAVIOR_NOTE_TYPE_COUNT, &n,
				      habit))
		for (int64_t i = 0; i < n; i++)
			c->compiles |=
				habit[i] ==
				CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION;
}

/* Appends " type=value" of one knob. */
static size_t config_name_knob(struct config *c, size_t at,
			       cudnnBackendDescriptor_t knob)
{
	cudnnBackendKnobType_t type;
	int64_t value, n;

	if (cudnnBackendGetAttribute(knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE,
				     CUDNN_TYPE_KNOB_TYPE, 1, &n, &type) ||
	    cudnnBackendGetAttribute(knob, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE,
				     CUDNN_TYPE_INT64, 1, &n, &value) ||
	    at >= sizeof(c->name))
		return at;
	return at + (size_t)snprintf(c->name + at, sizeof(c->name) - at,
				     " %d=%lld", (int)type, (long long)value);
}

static void config_name(struct config *c, cudnnBackendDescriptor_t engine)
{
	cudnnBackendDescriptor_t knob[CUDNN_KNOB_TYPE_COUNTS] = {0};
	int64_t index = -1, n = 0;
	size_t at;
	int made = 0;

	cudnnBackendGetAttribute(engine, CUDNN_ATTR_ENGINE_GLOBAL_INDEX,
				 CUDNN_TYPE_INT64, 1, &n, &index);
	at = (size_t)snprintf(c->name, sizeof(c->name), "eng%lld",
			      (long long)index);
	while (made < CUDNN_KNOB_TYPE_COUNTS &&
	       !cudnnBackendCreateDescriptor(
		       CUDNN_BACKEND_KNOB_CHOICE_DESCRIPTOR, &knob[made]))
		made++;
	n = 0;
	cudnnBackendGetAttribute(c->desc, CUDNN_ATTR_ENGINECFG_KNOB_CHOICES,
				 CUDNN_TYPE_BACKEND_DESCRIPTOR, made, &n, knob);
	for (int64_t i = 0; i < n && i < made; i++)
		at = config_name_knob(c, at, knob[i]);
	for (int i = 0; i < made; i++)
		plan_destroy(&knob[i]);
}

/* Reads the configurations that have not been read yet. */
static struct config *plan_config(struct conv_plan *p, int i)
{
	struct config *c = &p->config[i];
	cudnnBackendDescriptor_t engine = NULL;
	int64_t n = 0;

	if (c->known)
		return c;
	c->known = 1;
	if (cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINE_DESCRIPTOR,
					 &engine) ||
	    cudnnBackendGetAttribute(c->desc, CUDNN_ATTR_ENGINECFG_ENGINE,
				     CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &n,
				     &engine)) {
		c->varies = 1;
		snprintf(c->name, sizeof(c->name), "unknown");
	} else {
		config_read_notes(c, engine, &p->shape);
		config_name(c, engine);
	}
	plan_destroy(&engine);
	return c;
}

/* Appends the heuristic's configurations. A failure only means fewer. */
static void plan_take_results(struct conv_plan *p,
			      cudnnBackendDescriptor_t heuristic)
{
	cudnnBackendDescriptor_t desc[CONV_CONFIGS_MAX] = {0};
	int64_t n = 0, got = 0;
	int made = 0;

	cudnnBackendGetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS,
				 CUDNN_TYPE_BACKEND_DESCRIPTOR, 0, &n, NULL);
	while (made < n && made < CONV_CONFIGS_MAX - p->count &&
	       !cudnnBackendCreateDescriptor(CUDNN_BACKEND_ENGINECFG_DESCRIPTOR,
					     &desc[made]))
		made++;
	cudnnBackendGetAttribute(heuristic, CUDNN_ATTR_ENGINEHEUR_RESULTS,
				 CUDNN_TYPE_BACKEND_DESCRIPTOR, made, &got,
				 desc);
	for (int i = 0; i < made; i++) {
		if (i < got)
			p->config[p->count++].desc = desc[i];
		else
			plan_destroy(&desc[i]);
	}
}

static void plan_ask(struct conv_plan *p, cudnnBackendHeurMode_t mode)
{
	cudnnBackendDescriptor_t heuristic = NULL;
	cudnnStatus_t rc = cudnnBackendCreateDescriptor(
		CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR, &heuristic);

	if (!rc)
		rc = plan_set_desc(heuristic,
				   CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
				   p->graph.graph);
	if (!rc)
		rc = plan_set(heuristic, CUDNN_ATTR_ENGINEHEUR_MODE,
			      CUDNN_TYPE_HEUR_MODE, 1, &mode);
	if (!rc && p->target->device)
		rc = plan_set_desc(heuristic, DEVICEPROP(ENGINEHEUR),
				   p->target->device);
	if (!rc)
		rc = cudnnBackendFinalize(heuristic);
	if (!rc)
		plan_take_results(p, heuristic);
	plan_destroy(&heuristic);
}

cudnnStatus_t conv_plan_open(const struct conv_target *t,
			     const struct conv_shape *s, enum conv_pass pass,
			     struct conv_plan **out)
{
	struct conv_plan *p = calloc(1, sizeof(*p));
	cudnnStatus_t rc;

	*out = NULL;
	if (!p)
		return CUDNN_STATUS_ALLOC_FAILED;
	p->target = t;
	p->shape = *s;
	p->taken = -1;
	rc = conv_graph_init(&p->graph, t->handle, &p->shape, pass);
	if (rc) {
		conv_plan_close(p);
		return rc;
	}
	plan_ask(p, CUDNN_HEUR_MODE_A);
	plan_ask(p, CUDNN_HEUR_MODE_FALLBACK);
	*out = p;
	return CUDNN_STATUS_SUCCESS;
}

void conv_plan_close(struct conv_plan *p)
{
	if (!p)
		return;
	plan_destroy(&p->pack);
	plan_destroy(&p->plan);
	for (int i = 0; i < p->count; i++)
		plan_destroy(&p->config[i].desc);
	conv_graph_release(&p->graph);
	free(p);
}

int conv_plan_count(const struct conv_plan *p)
{
	return p->count;
}

const char *conv_plan_name(struct conv_plan *p, int i)
{
	return plan_config(p, i)->name;
}

/* ---- The plan ---- */

static cudnnStatus_t plan_build(struct conv_plan *p, int i)
{
	int64_t n = 0;
	cudnnStatus_t rc = cudnnBackendCreateDescriptor(
		CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR, &p->plan);

	if (!rc)
		rc = plan_set_desc(p->plan,
				   CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
				   p->config[i].desc);
	if (!rc && p->target->device)
		rc = plan_set_desc(p->plan, DEVICEPROP(EXECUTION_PLAN),
				   p->target->device);
	if (!rc && p->target->handle)
		rc = plan_set(p->plan, CUDNN_ATTR_EXECUTION_PLAN_HANDLE,
			      CUDNN_TYPE_HANDLE, 1, &p->target->handle);
	if (!rc)
		rc = cudnnBackendFinalize(p->plan);
	if (!rc)
		rc = cudnnBackendGetAttribute(
			p->plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
			CUDNN_TYPE_INT64, 1, &n, &p->room);
	return rc;
}

enum conv_verdict conv_plan_take(struct conv_plan *p, int i, size_t room_max)
{
	const struct config *c = plan_config(p, i);
	enum conv_verdict v = CONV_TAKEN;

	plan_destroy(&p->pack);
	plan_destroy(&p->plan);
	p->taken = -1;
	if (c->varies)
		return CONV_VARIES;
	if (c->coarse)
		return CONV_COARSE;
	if (c->compiles)
		return CONV_COMPILES;
	if (plan_build(p, i))
		v = CONV_REFUSED;
	else if (p->room < 0 || (uint64_t)p->room > room_max)
		v = CONV_ROOM;
	if (v == CONV_TAKEN)
		p->taken = i;
	else
		plan_destroy(&p->plan);
	return v;
}

size_t conv_plan_room(const struct conv_plan *p)
{
	return p->taken < 0 ? 0 : (size_t)p->room;
}

void conv_plan_settle(struct conv_plan *p)
{
	for (int i = 0; i < p->count; i++)
		if (i != p->taken)
			plan_destroy(&p->config[i].desc);
}

/* A finalized pack cannot be changed, so other memory needs another pack. */
static cudnnStatus_t plan_pack(struct conv_plan *p, const struct conv_memory *m)
{
	int64_t ids[CONV_TENSORS];
	void *data[CONV_TENSORS];
	int count = 0;
	cudnnStatus_t rc;

	for (int t = 0; t < CONV_TENSORS; t++)
		if (p->graph.uses & 1u << t) {
			ids[count] = conv_tensor_id((enum conv_tensor)t);
			data[count++] = (void *)m->at[t];
		}
	plan_destroy(&p->pack);
	rc = cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR,
					  &p->pack);
	if (!rc)
		rc = plan_set(p->pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
			      CUDNN_TYPE_INT64, count, ids);
	if (!rc)
		rc = plan_set(p->pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS,
			      CUDNN_TYPE_VOID_PTR, count, data);
	if (!rc)
		rc = plan_set(p->pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE,
			      CUDNN_TYPE_VOID_PTR, 1, &m->room);
	if (!rc)
		rc = cudnnBackendFinalize(p->pack);
	if (rc)
		plan_destroy(&p->pack);
	else
		p->packed = *m;
	return rc;
}

cudnnStatus_t conv_plan_run(struct conv_plan *p, cudnnHandle_t handle,
			    const struct conv_memory *m)
{
	cudnnStatus_t rc = CUDNN_STATUS_SUCCESS;

	if (!p->pack || memcmp(m, &p->packed, sizeof(*m)) != 0)
		rc = plan_pack(p, m);
	return rc ? rc : cudnnBackendExecute(handle, p->plan, p->pack);
}
