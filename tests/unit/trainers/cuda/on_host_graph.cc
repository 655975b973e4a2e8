/* on_host_graph.cc: cuDNN's graph (backend) API for the passes of a convolution,
 * alone or fused (on_host_run.cc). Its engines are those that a planner has to tell apart: most of them
 * are faster than the right one, but must not be used, and compute NaN.
 * ON_HOST_GRAPH=0: there is no graph API. ON_HOST_FAST=N: engine N takes the
 * least time. */
#include <stdlib.h>
#include <string.h>

#include "tests/unit/trainers/cuda/on_host_graph.h"

struct engine {
	int64_t index;
	double us;    /* what a run pretends to take */
	int64_t room; /* workspace */
	int note;     /* numerical note; -1: none */
	bool compiles, builds, captures;
};

static const engine engines[] = {
	{1, 1, 100, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, false, true, true},
	{2, 1, 100, CUDNN_NUMERICAL_NOTE_REDUCED_PRECISION_REDUCTION, false,
	 true, true},
	{3, 1, 1ll << 40, -1, false, true, true},
	{4, 1, 100, -1, false, false, true},
	{5, 1, 100, -1, true, true, true},
	{6, 1, 100, -1, false, true, false},
	{7, 50, 100, -1, false, true, true},
	{8, 10, 100, CUDNN_NUMERICAL_NOTE_TENSOR_CORE, false, true, true},
	{9, 20, 5000, -1, false, true, true},
};
/* Mode FALLBACK lists the last of these, mode A the others. */
enum { ENGINES = sizeof engines / sizeof *engines };

static const engine *engine_of(int64_t index)
{
	for (const engine &e : engines)
		if (e.index == index)
			return &e;
	return NULL;
}

template <typename T> static void keep_value(descriptor *d, int name, T v)
{
	const char *bytes = (const char *)&v;

	d->attribute[name].assign(bytes, bytes + sizeof v);
}

static size_t size_of(cudnnBackendAttributeType_t type)
{
	switch (type) {
	case CUDNN_TYPE_CHAR:
	case CUDNN_TYPE_BOOLEAN:
		return 1;
	case CUDNN_TYPE_INT64:
	case CUDNN_TYPE_HANDLE:
	case CUDNN_TYPE_VOID_PTR:
	case CUDNN_TYPE_BACKEND_DESCRIPTOR:
	case CUDNN_TYPE_DOUBLE:
		return 8;
	default:
		return 4;
	}
}

static const engine *engine_of_plan(const descriptor *plan)
{
	return engine_of(value<int64_t>(
		child(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG),
		CUDNN_ATTR_ENGINE_GLOBAL_INDEX));
}

static bool is_right(const engine *e, bool narrow)
{
	return e->index == 7 || e->index == 9 || (e->index == 8 && narrow);
}

extern "C" {

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
					   cudnnBackendDescriptor_t *d)
{
	*d = NULL;
	if (!on_host_setting("ON_HOST_GRAPH", 1))
		return CUDNN_STATUS_NOT_SUPPORTED;
	*d = new descriptor{type, false, {}};
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t d)
{
	delete of(d);
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t d,
				       cudnnBackendAttributeName_t name,
				       cudnnBackendAttributeType_t type,
				       int64_t count, const void *values)
{
	const char *bytes = (const char *)values;

	if (of(d)->finalized)
		return CUDNN_STATUS_BAD_PARAM;
	of(d)->attribute[name].assign(bytes,
				      bytes + (size_t)count * size_of(type));
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t d)
{
	descriptor *p = of(d);

	if (p->finalized)
		return CUDNN_STATUS_BAD_PARAM;
	if (p->type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR &&
	    !on_host_can_run(p))
		return CUDNN_STATUS_NOT_SUPPORTED;
	if (p->type == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
		const engine *e = engine_of_plan(p);

		if (!e || !e->builds)
			return CUDNN_STATUS_NOT_SUPPORTED;
		keep_value(p, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
			   e->room);
	}
	p->finalized = true;
	return CUDNN_STATUS_SUCCESS;
}

/* The heuristic's configurations: those that fit into `room`. */
static cudnnStatus_t list(const descriptor *d, int64_t room, int64_t *n,
			  void *values)
{
	bool last = value<cudnnBackendHeurMode_t>(
			    d, CUDNN_ATTR_ENGINEHEUR_MODE) ==
		    CUDNN_HEUR_MODE_FALLBACK;
	int from = last ? ENGINES - 1 : 0, to = last ? ENGINES : ENGINES - 1;

	*n = to - from;
	for (int i = 0; i < room && i < to - from; i++) {
		descriptor *c = of(((cudnnBackendDescriptor_t *)values)[i]);

		keep_value(c, CUDNN_ATTR_ENGINE_GLOBAL_INDEX,
			   engines[from + i].index);
		keep_value(c, CUDNN_ATTR_ENGINE_OPERATION_GRAPH,
			   value<cudnnBackendDescriptor_t>(
				   d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH));
		c->finalized = true;
	}
	if (room && room < *n)
		*n = room;
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t const c,
				       cudnnBackendAttributeName_t name,
				       cudnnBackendAttributeType_t type,
				       int64_t room, int64_t *n, void *values)
{
	descriptor *d = of(c);
	const engine *e = engine_of(
		value<int64_t>(d, CUDNN_ATTR_ENGINE_GLOBAL_INDEX));

	if (!d->finalized)
		return CUDNN_STATUS_BAD_PARAM;
	switch (name) {
	case CUDNN_ATTR_ENGINEHEUR_RESULTS:
		return list(d, room, n, values);
	case CUDNN_ATTR_ENGINECFG_ENGINE:
	case CUDNN_ATTR_ENGINECFG_KNOB_CHOICES: { /* one knob, as the engine */
		descriptor *to = of(*(cudnnBackendDescriptor_t *)values);

		keep_value(to, CUDNN_ATTR_ENGINE_GLOBAL_INDEX, e->index);
		keep_value(to, CUDNN_ATTR_KNOB_CHOICE_KNOB_TYPE,
			   CUDNN_KNOB_TYPE_TILE_SIZE);
		keep_value(to, CUDNN_ATTR_KNOB_CHOICE_KNOB_VALUE,
			   e->index * 10);
		to->finalized = true;
		*n = 1;
		return CUDNN_STATUS_SUCCESS;
	}
	case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
		*n = e->note >= 0;
		*(cudnnBackendNumericalNote_t *)values =
			(cudnnBackendNumericalNote_t)e->note;
		return CUDNN_STATUS_SUCCESS;
	case CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE:
		*n = e->compiles;
		*(cudnnBackendBehaviorNote_t *)values =
			CUDNN_BEHAVIOR_NOTE_RUNTIME_COMPILATION;
		return CUDNN_STATUS_SUCCESS;
	default:
		break;
	}
	auto at = d->attribute.find(name);
	if (at == d->attribute.end() ||
	    at->second.size() > (size_t)room * size_of(type))
		return CUDNN_STATUS_BAD_PARAM;
	memcpy(values, at->second.data(), at->second.size());
	*n = (int64_t)(at->second.size() / size_of(type));
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t h, cudnnBackendDescriptor_t p,
				  cudnnBackendDescriptor_t v)
{
	const descriptor *plan = of(p), *pack = of(v);
	const descriptor *configuration =
		child(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
	const descriptor *graph =
		child(configuration, CUDNN_ATTR_ENGINE_OPERATION_GRAPH);
	const engine *e = engine_of_plan(plan);
	void *room = value<void *>(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);

	if (!plan->finalized || !pack->finalized ||
	    !on_host_has_memory(graph, pack))
		return CUDNN_STATUS_BAD_PARAM;
	if (on_host_is_recording() && !e->captures)
		return CUDNN_STATUS_NOT_SUPPORTED;
	/* the pack may be freed before the work runs; graphs are kept */
	descriptor memory = *pack;
	on_host_enqueue([=]() {
		memset(room, 0xff, (size_t)e->room);
		on_host_clock +=
			e->index == on_host_setting("ON_HOST_FAST", -1) ? 0.5
									: e->us;
		on_host_run(graph, &memory,
			    is_right(e, on_host_is_narrow(graph)));
	});
	return CUDNN_STATUS_SUCCESS;
}

} /* extern "C" */
