/* on_host_graph.cc: cuDNN's graph (backend) API for one convolution, as plain
 * loops. Its engines are those that a planner has to tell apart: most of them
 * are faster than the right one, but must not be used, and compute NaN.
 * ON_HOST_GRAPH=0: there is no graph API. ON_HOST_FAST=N: engine N takes the
 * least time. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <map>
#include <vector>

#include "tests/unit/trainers/cuda/on_host_dnn.h"

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

struct descriptor {
	cudnnBackendDescriptorType_t type;
	bool finalized;
	std::map<int, std::vector<char>> attribute;
};

static descriptor *of(cudnnBackendDescriptor_t d)
{
	return (descriptor *)d;
}

template <typename T> static T value(const descriptor *d, int name, int i = 0)
{
	auto at = d->attribute.find(name);
	T v = T();

	if (at != d->attribute.end() &&
	    at->second.size() >= (i + 1) * sizeof v)
		memcpy(&v, at->second.data() + i * sizeof v, sizeof v);
	return v;
}

template <typename T> static void keep_value(descriptor *d, int name, T v)
{
	const char *bytes = (const char *)&v;

	d->attribute[name].assign(bytes, bytes + sizeof v);
}

static descriptor *child(const descriptor *d, int name)
{
	return of(value<cudnnBackendDescriptor_t>(d, name));
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

/* ---- What the descriptors mean ---- */

static cudnnTensorStruct tensor_of(const descriptor *t)
{
	auto dim = [&](int i) {
		return (int)value<int64_t>(t, CUDNN_ATTR_TENSOR_DIMENSIONS, i);
	};

	return {value<cudnnDataType_t>(t, CUDNN_ATTR_TENSOR_DATA_TYPE), dim(0),
		dim(1), dim(2), dim(3)};
}

static bool is_nhwc(const descriptor *t)
{
	auto stride = [&](int i) {
		return value<int64_t>(t, CUDNN_ATTR_TENSOR_STRIDES, i);
	};
	cudnnTensorStruct s = tensor_of(t);

	return stride(1) == 1 && stride(3) == s.c &&
	       stride(2) == (int64_t)s.w * s.c &&
	       stride(0) == (int64_t)s.h * s.w * s.c;
}

struct names {
	enum way way;
	int conv, x, w, y;
};

static bool names_of(const descriptor *operation, names *n)
{
	switch (operation->type) {
	case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
		*n = {FORWARD,
		      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
		      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X,
		      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W,
		      CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y};
		return true;
	case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_DATA_DESCRIPTOR:
		*n = {BY_X, CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_CONV_DESC,
		      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DX,
		      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_W,
		      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_DATA_DY};
		return true;
	case CUDNN_BACKEND_OPERATION_CONVOLUTION_BACKWARD_FILTER_DESCRIPTOR:
		*n = {BY_WEIGHT,
		      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_CONV_DESC,
		      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_X,
		      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DW,
		      CUDNN_ATTR_OPERATION_CONVOLUTION_BWD_FILTER_DY};
		return true;
	default:
		return false;
	}
}

/* The convolution of a graph with only that; false: another graph, or not in
 * nhwc. */
static bool shape_of(const descriptor *graph, shape *s, enum way *way)
{
	const descriptor *operation, *conv, *x, *w, *y;
	cudnnTensorStruct filter;
	names n;

	operation = child(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);
	if (!operation || !names_of(operation, &n))
		return false;
	conv = child(operation, n.conv);
	x = child(operation, n.x);
	w = child(operation, n.w);
	y = child(operation, n.y);
	if (!conv || !x || !w || !y || !is_nhwc(x) || !is_nhwc(w) ||
	    !is_nhwc(y))
		return false;
	filter = tensor_of(w);
	*way = n.way;
	*s = {tensor_of(x),
	      tensor_of(y),
	      {filter.type, filter.n, filter.c, filter.h, filter.w},
	      {(int)value<int64_t>(conv, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS),
	       (int)value<int64_t>(conv,
				   CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES)}};
	return true;
}

static const engine *engine_of_plan(const descriptor *plan)
{
	return engine_of(value<int64_t>(
		child(plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG),
		CUDNN_ATTR_ENGINE_GLOBAL_INDEX));
}

/* ---- Running ---- */

static bool is_right(const engine *e, cudnnDataType_t type)
{
	return e->index == 7 || e->index == 9 ||
	       (e->index == 8 && type != CUDNN_DATA_FLOAT);
}

static size_t bytes_of_result(const shape &s, enum way way)
{
	size_t count = way == FORWARD ? (size_t)s.y.n * s.y.c * s.y.h * s.y.w
		       : way == BY_X  ? (size_t)s.x.n * s.x.c * s.x.h * s.x.w
				      : (size_t)s.w.k * s.w.c * s.w.h * s.w.w;

	return count * (s.x.type == CUDNN_DATA_FLOAT ? 4 : 2);
}

static void run(const engine *e, const shape &s, enum way way, void *x, void *w,
		void *y)
{
	void *out = way == FORWARD ? y : way == BY_X ? x : w;

	on_host_clock +=
		e->index == on_host_setting("ON_HOST_FAST", -1) ? 0.5 : e->us;
	if (!is_right(e, s.x.type))
		memset(out, 0xff, bytes_of_result(s, way)); /* NaN */
	else if (way == FORWARD)
		on_host_convolve(s, way, x, w, y);
	else if (way == BY_X)
		on_host_convolve(s, way, w, y, x);
	else
		on_host_convolve(s, way, x, y, w);
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
	enum way way;
	shape s;

	if (p->finalized)
		return CUDNN_STATUS_BAD_PARAM;
	if (p->type == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR &&
	    !shape_of(p, &s, &way))
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
	void *data[4] = {NULL}, *room;
	enum way way;
	shape s;

	if (!plan->finalized || !pack->finalized ||
	    !shape_of(graph, &s, &way))
		return CUDNN_STATUS_BAD_PARAM;
	if (on_host_is_recording() && !e->captures)
		return CUDNN_STATUS_NOT_SUPPORTED;
	for (int i = 0; i < 3; i++) {
		int64_t id = value<int64_t>(
			pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, i);

		data[id & 3] = value<void *>(
			pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, i);
	}
	room = value<void *>(pack, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
	void *x = data[1], *w = data[2], *y = data[3];
	int64_t bytes = e->room;
	on_host_enqueue([=]() {
		memset(room, 0xff, (size_t)bytes);
		run(e, s, way, x, w, y);
	});
	return CUDNN_STATUS_SUCCESS;
}

} /* extern "C" */
