/* on_host_run.cc: computes the operation graphs of cuDNN's graph API that
 * on_host_graph.cc plans, one operation after the other, as plain loops. Tensors
 * between two operations have the type that they are declared with; factors of
 * a convolution are rounded to the filter's. */
#include <stdint.h>

#include <limits>
#include <string>

#include "tests/unit/trainers/cuda/on_host_graph.h"

typedef std::vector<float> floats;

/* ---- Descriptors ---- */

static cudnnTensorStruct tensor_of(const descriptor *t)
{
	auto dim = [&](int i) {
		return (int)value<int64_t>(t, CUDNN_ATTR_TENSOR_DIMENSIONS, i);
	};

	return {value<cudnnDataType_t>(t, CUDNN_ATTR_TENSOR_DATA_TYPE), dim(0),
		dim(1), dim(2), dim(3)};
}

static size_t count_of(const descriptor *t)
{
	cudnnTensorStruct s = tensor_of(t);

	return (size_t)s.n * s.c * s.h * s.w;
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

static bool is_virtual(const descriptor *t)
{
	return value<bool>(t, CUDNN_ATTR_TENSOR_IS_VIRTUAL);
}

static int64_t id_of(const descriptor *t)
{
	return value<int64_t>(t, CUDNN_ATTR_TENSOR_UNIQUE_ID);
}

static bool is_tensor(const descriptor *d)
{
	return d && d->type == CUDNN_BACKEND_TENSOR_DESCRIPTOR;
}

/* ---- Operations ---- */

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

static cudnnPointwiseMode_t mode_of(const descriptor *operation)
{
	return value<cudnnPointwiseMode_t>(
		child(operation, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR),
		CUDNN_ATTR_POINTWISE_MODE);
}

static std::string name_of(const descriptor *operation)
{
	static const char *const ways[] = {"forward ", "by_x ", "by_weight "};
	names n;

	if (names_of(operation, &n))
		return ways[n.way];
	if (operation->type == CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR)
		return "sums ";
	if (operation->type ==
	    CUDNN_BACKEND_OPERATION_BN_BWD_WEIGHTS_DESCRIPTOR)
		return "norm_back ";
	if (operation->type != CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
		return "? ";
	switch (mode_of(operation)) {
	case CUDNN_POINTWISE_MUL:
		return "mul ";
	case CUDNN_POINTWISE_ADD:
		return "add ";
	case CUDNN_POINTWISE_SUB:
		return "sub ";
	case CUDNN_POINTWISE_RELU_FWD:
		return "relu ";
	case CUDNN_POINTWISE_RELU_BWD:
		return "relu_back ";
	default:
		return "? ";
	}
}

static std::vector<const descriptor *> operations(const descriptor *graph)
{
	std::vector<const descriptor *> all;

	for (size_t i = 0; i < values<cudnnBackendDescriptor_t>(
				       graph, CUDNN_ATTR_OPERATIONGRAPH_OPS);
	     i++)
		all.push_back(child(graph, CUDNN_ATTR_OPERATIONGRAPH_OPS, i));
	return all;
}

/* The tensors that an operation reads and writes. Its attributes of 8 bytes are
 * descriptors: numbers have 4. */
static std::vector<const descriptor *> tensors(const descriptor *operation)
{
	std::vector<const descriptor *> all;

	for (const auto &a : operation->attribute) {
		const descriptor *t = child(operation, a.first);

		if (is_tensor(t))
			all.push_back(t);
	}
	return all;
}

/* The filter of the graph's convolution. */
static const descriptor *filter_of(const descriptor *graph)
{
	names n;

	for (const descriptor *o : operations(graph))
		if (names_of(o, &n))
			return child(o, n.w);
	return NULL;
}

bool on_host_is_narrow(const descriptor *graph)
{
	return tensor_of(filter_of(graph)).type != CUDNN_DATA_FLOAT;
}

/* cuDNN fuses tensors of fp16 in memory, with a value per channel in fp16 if it
 * is a factor of the prologue, and in f32 elsewhere. */
static bool can_fuse(const descriptor *graph)
{
	std::string all;

	for (const descriptor *o : operations(graph)) {
		all += name_of(o);
		for (const descriptor *t : tensors(o)) {
			cudnnTensorStruct s = tensor_of(t);
			bool per_channel = s.n == 1 && s.h == 1 && s.w == 1;

			if (!per_channel && !is_virtual(t) &&
			    s.type != CUDNN_DATA_HALF)
				return false;
		}
	}
	int fuse = on_host_setting("ON_HOST_FUSE", 15);

	return (all == "forward sums " && fuse & 1) ||
	       (all == "mul add relu forward sums " && fuse & 2) ||
	       (all == "mul add relu by_weight " && fuse & 4) ||
	       (all == "by_x sub mul mul add relu_back norm_back " && fuse & 8);
}

bool on_host_can_run(const descriptor *graph)
{
	std::vector<const descriptor *> all = operations(graph);

	if (all.empty() || !filter_of(graph))
		return false;
	for (const descriptor *o : all)
		for (const descriptor *t : tensors(o))
			if (!t->finalized || !is_nhwc(t))
				return false;
	return all.size() == 1 || can_fuse(graph);
}

/* ---- Memory ---- */

static void *memory_of(const descriptor *pack, int64_t id)
{
	size_t n = values<int64_t>(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);

	for (size_t i = 0; i < n; i++)
		if (value<int64_t>(pack, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS,
				   i) == id)
			return value<void *>(
				pack, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, i);
	return NULL;
}

bool on_host_has_memory(const descriptor *graph, const descriptor *pack)
{
	for (const descriptor *o : operations(graph))
		for (const descriptor *t : tensors(o))
			if (!is_virtual(t)) {
				uintptr_t at = (uintptr_t)memory_of(pack,
								    id_of(t));

				if (!at || at % 16)
					return false;
			}
	return true;
}

struct run {
	const descriptor *pack;
	bool right;
	std::map<int64_t, floats> inner; /* virtual tensors */

	floats read(const descriptor *t)
	{
		if (is_virtual(t))
			return inner.at(id_of(t));
		return on_host_load(memory_of(pack, id_of(t)), count_of(t),
				    tensor_of(t).type);
	}

	void write(const descriptor *t, floats v)
	{
		if (!right)
			v.assign(v.size(), std::numeric_limits<float>::
						   quiet_NaN());
		if (is_virtual(t))
			inner[id_of(t)] = on_host_rounded(v, tensor_of(t).type);
		else
			on_host_store(memory_of(pack, id_of(t)), v,
				      tensor_of(t).type);
	}
};

/* ---- Running ---- */

static void run_conv(run &r, const descriptor *o, const names &n)
{
	const descriptor *x = child(o, n.x), *w = child(o, n.w);
	const descriptor *y = child(o, n.y), *conv = child(o, n.conv);
	cudnnTensorStruct filter = tensor_of(w);
	shape s = {tensor_of(x),
		   tensor_of(y),
		   {filter.type, filter.n, filter.c, filter.h, filter.w},
		   {(int)value<int64_t>(conv,
					CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS),
		    (int)value<int64_t>(conv,
					CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES)}};
	auto factor = [&](const descriptor *t) {
		return tensor_of(t).type == filter.type
			       ? r.read(t)
			       : on_host_rounded(r.read(t), filter.type);
	};

	if (n.way == FORWARD)
		r.write(y, on_host_products(s, n.way, factor(x), factor(w)));
	else if (n.way == BY_X)
		r.write(x, on_host_products(s, n.way, factor(w), factor(y)));
	else
		r.write(w, on_host_products(s, n.way, factor(x), factor(y)));
}

static void run_pointwise(run &r, const descriptor *o)
{
	cudnnPointwiseMode_t mode = mode_of(o);
	floats x = r.read(child(o, CUDNN_ATTR_OPERATION_POINTWISE_XDESC)), b;

	if (mode == CUDNN_POINTWISE_RELU_BWD) {
		b = r.read(child(o, CUDNN_ATTR_OPERATION_POINTWISE_DYDESC));
		for (size_t i = 0; i < x.size(); i++)
			x[i] = x[i] > 0 ? b[i] : 0;
		r.write(child(o, CUDNN_ATTR_OPERATION_POINTWISE_DXDESC), x);
		return;
	}
	if (mode != CUDNN_POINTWISE_RELU_FWD)
		b = r.read(child(o, CUDNN_ATTR_OPERATION_POINTWISE_BDESC));
	for (size_t i = 0; i < x.size(); i++) {
		float c = b.empty() ? 0 : b[i % b.size()]; /* or a channel's */

		x[i] = mode == CUDNN_POINTWISE_MUL   ? x[i] * c
		       : mode == CUDNN_POINTWISE_ADD ? x[i] + c
		       : mode == CUDNN_POINTWISE_SUB ? x[i] - c
		       : x[i] < 0		     ? 0
						     : x[i];
	}
	r.write(child(o, CUDNN_ATTR_OPERATION_POINTWISE_YDESC), x);
}

static void run_sums(run &r, const descriptor *o)
{
	const descriptor *t = child(o, CUDNN_ATTR_OPERATION_GENSTATS_XDESC);
	floats x = r.read(t);
	size_t c = (size_t)tensor_of(t).c;
	floats sum(c), squares(c);

	for (size_t i = 0; i < x.size(); i++) {
		sum[i % c] += x[i];
		squares[i % c] += x[i] * x[i];
	}
	r.write(child(o, CUDNN_ATTR_OPERATION_GENSTATS_SUMDESC), sum);
	r.write(child(o, CUDNN_ATTR_OPERATION_GENSTATS_SQSUMDESC), squares);
}

#define NORM(name) child(o, CUDNN_ATTR_OPERATION_BN_BWD_WEIGHTS_##name)

static void run_norm_back(run &r, const descriptor *o)
{
	floats x = r.read(NORM(X_DESC)), dy = r.read(NORM(DY_DESC));
	floats mean = r.read(NORM(MEAN_DESC)), inv = r.read(NORM(INVSTD_DESC));
	floats scale = r.read(NORM(BN_SCALE_DESC));
	size_t c = mean.size();
	floats d_scale(c), d_bias(c), by_dy(c), by_x(c), shift(c);
	float rows = (float)(x.size() / c);

	for (size_t i = 0; i < x.size(); i++) {
		size_t k = i % c;

		d_bias[k] += dy[i];
		d_scale[k] += dy[i] * (x[i] - mean[k]) * inv[k];
	}
	for (size_t k = 0; k < c; k++) {
		by_dy[k] = scale[k] * inv[k];
		by_x[k] = -by_dy[k] * inv[k] * d_scale[k] / rows;
		shift[k] = -by_dy[k] * d_bias[k] / rows - by_x[k] * mean[k];
	}
	r.write(NORM(DBN_SCALE_DESC), d_scale);
	r.write(NORM(DBN_BIAS_DESC), d_bias);
	r.write(NORM(EQ_DY_SCALE_DESC), by_dy);
	r.write(NORM(EQ_X_SCALE_DESC), by_x);
	r.write(NORM(EQ_BIAS), shift);
}

void on_host_run(const descriptor *graph, const descriptor *pack, bool right)
{
	run r = {pack, right, {}};
	names n;

	for (const descriptor *o : operations(graph))
		if (names_of(o, &n))
			run_conv(r, o, n);
		else if (o->type ==
			 CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR)
			run_pointwise(r, o);
		else if (o->type ==
			 CUDNN_BACKEND_OPERATION_GEN_STATS_DESCRIPTOR)
			run_sums(r, o);
		else
			run_norm_back(r, o);
}
