/* on_host_dnn.cc: cuDNN's legacy calls as plain loops, beside
 * on_host_cuda.cc. */
#include "tests/unit/trainers/cuda/on_host_dnn.h"

#include <malloc.h>
#include <stdlib.h>
#include <string.h>

#include <algorithm>
#include <vector>

#include "trainers/cuda/half.h"

struct cudnnContext {
	int unused;
};
/* Read and write one value, f32, bf16 or fp16. */
static float get(const void *p, size_t i, cudnnDataType_t type)
{
	uint32_t u;
	float f;

	if (type == CUDNN_DATA_FLOAT)
		return ((const float *)p)[i];
	if (type == CUDNN_DATA_HALF)
		return half_value(((const uint16_t *)p)[i]);
	u = (uint32_t)((const uint16_t *)p)[i] << 16;
	memcpy(&f, &u, sizeof f);
	return f;
}

static void set(void *p, size_t i, cudnnDataType_t type, float f)
{
	uint32_t u;

	if (type == CUDNN_DATA_FLOAT) {
		((float *)p)[i] = f;
		return;
	}
	if (type == CUDNN_DATA_HALF) {
		((uint16_t *)p)[i] = half_round(f);
		return;
	}
	memcpy(&u, &f, sizeof u);
	((uint16_t *)p)[i] = (uint16_t)((u + 0x7fff + (u >> 16 & 1)) >> 16);
}

static size_t count(const cudnnTensorStruct &t)
{
	return (size_t)t.n * t.c * t.h * t.w;
}

static size_t count(const cudnnFilterStruct &t)
{
	return (size_t)t.k * t.c * t.h * t.w;
}

static size_t count_out(const shape &s, enum way way)
{
	return way == FORWARD ? count(s.y)
	       : way == BY_X  ? count(s.x)
			      : count(s.w);
}

std::vector<float> on_host_load(const void *p, size_t n, cudnnDataType_t t)
{
	std::vector<float> v(n);

	for (size_t i = 0; i < n; i++)
		v[i] = get(p, i, t);
	return v;
}

void on_host_store(void *p, const std::vector<float> &v, cudnnDataType_t t)
{
	for (size_t i = 0; i < v.size(); i++)
		set(p, i, t, v[i]);
}

std::vector<float> on_host_rounded(const std::vector<float> &v,
				   cudnnDataType_t t)
{
	std::vector<float> room(v.size());

	on_host_store(room.data(), v, t);
	return on_host_load(room.data(), v.size(), t);
}

/* A row of channels of x, and one of y, that a tap of the filter connects. */
struct rows {
	size_t x, y;
};

static std::vector<rows> rows_of(const shape &s, int tap)
{
	std::vector<rows> all;
	size_t row = 0;

	for (int n = 0; n < s.y.n; n++)
		for (int oy = 0; oy < s.y.h; oy++)
			for (int ox = 0; ox < s.y.w; ox++, row++) {
				int iy =
					oy * s.c.stride - s.c.pad + tap / s.w.w;
				int ix =
					ox * s.c.stride - s.c.pad + tap % s.w.w;

				if (iy >= 0 && iy < s.x.h && ix >= 0 &&
				    ix < s.x.w)
					all.push_back(
						{((size_t)(n * s.x.h + iy) *
							  s.x.w +
						  ix) * s.x.c,
						 row * s.y.c});
			}
	return all;
}

/* Adds the products of these rows and the filter's, which are `step` apart. With
 * a sanitizer's checks of each it takes minutes; the caller has checked all. */
__attribute__((no_sanitize("address", "undefined"))) static void add_products(
	enum way way, const shape &s, const rows *from, const rows *to,
	float *x, float *w, size_t step, float *y)
{
	for (int k = 0; k < s.w.k; k++, w += step)
		for (const rows *r = from; r < to; r++) {
			float *__restrict px = x + r->x, *__restrict pw = w;
			float v = y[r->y + k], sum = 0;

			if (way == FORWARD) {
				for (int c = 0; c < s.w.c; c++)
					sum += px[c] * pw[c];
				y[r->y + k] += sum;
			} else if (way == BY_X) {
				for (int c = 0; c < s.w.c; c++)
					px[c] += pw[c] * v;
			} else {
				for (int c = 0; c < s.w.c; c++)
					pw[c] += px[c] * v;
			}
		}
}

/* A few rows at a time: they stay in the CPU's cache while the filter's pass. */
std::vector<float> on_host_products(const shape &s, enum way way,
				    std::vector<float> a, std::vector<float> b)
{
	enum { SOME = 4096 };
	std::vector<float> sums(count_out(s, way));
	std::vector<float> &x = way == BY_X ? sums : a;
	std::vector<float> &w = way == BY_X ? a : way == FORWARD ? b : sums;
	std::vector<float> &y = way == FORWARD ? sums : b;
	size_t channels = (size_t)s.w.c, some = SOME / channels + 1;
	int taps = s.w.h * s.w.w;

	if (x.size() != count(s.x) || w.size() != count(s.w) ||
	    y.size() != count(s.y) || s.x.n != s.y.n || s.x.c != s.w.c ||
	    s.y.c != s.w.k)
		abort();
	for (int tap = 0; tap < taps; tap++) {
		std::vector<rows> all = rows_of(s, tap);

		for (size_t i = 0; i < all.size(); i += some)
			add_products(way, s, &all[i],
				     all.data() +
					     std::min(i + some, all.size()),
				     x.data(), w.data() + tap * channels,
				     taps * channels, y.data());
	}
	return sums;
}

/* The same in memory. */
static void convolve(const shape &s, enum way way, const void *a, const void *b,
		     void *out)
{
	size_t na = way == BY_X ? count(s.w) : count(s.x);
	size_t nb = way == FORWARD ? count(s.w) : count(s.y);

	on_host_store(out, on_host_products(s, way,
					    on_host_load(a, na, s.x.type),
					    on_host_load(b, nb, s.x.type)),
		      s.x.type);
}

template <typename P> static void one_choice(int *n, P *p)
{
	memset(p, 0, sizeof *p);
	p->determinism = CUDNN_DETERMINISTIC;
	p->mathType = CUDNN_TENSOR_OP_MATH;
	p->memory = 1000;
	*n = 1;
}

extern "C" {

size_t cudnnGetVersion(void)
{
	return (size_t)on_host_setting("ON_HOST_CUDNN", CUDNN_VERSION);
}

const char *cudnnGetErrorString(cudnnStatus_t s)
{
	return s ? "an error of the test's" : "none";
}

cudnnStatus_t cudnnCreate(cudnnHandle_t *h)
{
	/* keep the memory of copies of tensors: to ask the operating system for
	 * it again took a quarter of all time */
	mallopt(M_MMAP_THRESHOLD, 32 << 20);
	mallopt(M_TRIM_THRESHOLD, 1 << 30);
	*h = new cudnnContext;
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroy(cudnnHandle_t h)
{
	delete h;
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetStream(cudnnHandle_t h, cudaStream_t s)
{
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnCreateTensorDescriptor(cudnnTensorDescriptor_t *t)
{
	*t = new cudnnTensorStruct;
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroyTensorDescriptor(cudnnTensorDescriptor_t t)
{
	delete t;
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetTensor4dDescriptor(cudnnTensorDescriptor_t t,
					 cudnnTensorFormat_t format,
					 cudnnDataType_t type, int n, int c,
					 int h, int w)
{
	*t = {type, n, c, h, w};
	return format == CUDNN_TENSOR_NHWC && count(*t) < (size_t)1 << 31
		       ? CUDNN_STATUS_SUCCESS
		       : CUDNN_STATUS_NOT_SUPPORTED;
}

cudnnStatus_t cudnnCreateFilterDescriptor(cudnnFilterDescriptor_t *f)
{
	*f = new cudnnFilterStruct;
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroyFilterDescriptor(cudnnFilterDescriptor_t f)
{
	delete f;
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetFilter4dDescriptor(cudnnFilterDescriptor_t f,
					 cudnnDataType_t type,
					 cudnnTensorFormat_t format, int k,
					 int c, int h, int w)
{
	*f = {type, k, c, h, w};
	return format == CUDNN_TENSOR_NHWC ? CUDNN_STATUS_SUCCESS
					   : CUDNN_STATUS_NOT_SUPPORTED;
}

cudnnStatus_t cudnnCreateConvolutionDescriptor(cudnnConvolutionDescriptor_t *c)
{
	*c = new cudnnConvolutionStruct;
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnDestroyConvolutionDescriptor(cudnnConvolutionDescriptor_t c)
{
	delete c;
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnSetConvolution2dDescriptor(
	cudnnConvolutionDescriptor_t c, int pad_h, int pad_w, int u, int v,
	int dilation_h, int dilation_w, cudnnConvolutionMode_t mode,
	cudnnDataType_t type)
{
	*c = {pad_h, u};
	return pad_h == pad_w && u == v && type == CUDNN_DATA_FLOAT &&
			       mode == CUDNN_CROSS_CORRELATION
		       ? CUDNN_STATUS_SUCCESS
		       : CUDNN_STATUS_NOT_SUPPORTED;
}

cudnnStatus_t cudnnSetConvolutionMathType(cudnnConvolutionDescriptor_t c,
					  cudnnMathType_t math)
{
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionForwardAlgorithm_v7(
	cudnnHandle_t h, const cudnnTensorDescriptor_t x,
	const cudnnFilterDescriptor_t w, const cudnnConvolutionDescriptor_t c,
	const cudnnTensorDescriptor_t y, const int most, int *n,
	cudnnConvolutionFwdAlgoPerf_t *p)
{
	one_choice(n, p);
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionBackwardDataAlgorithm_v7(
	cudnnHandle_t h, const cudnnFilterDescriptor_t w,
	const cudnnTensorDescriptor_t y, const cudnnConvolutionDescriptor_t c,
	const cudnnTensorDescriptor_t x, const int most, int *n,
	cudnnConvolutionBwdDataAlgoPerf_t *p)
{
	one_choice(n, p);
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnGetConvolutionBackwardFilterAlgorithm_v7(
	cudnnHandle_t h, const cudnnTensorDescriptor_t x,
	const cudnnTensorDescriptor_t y, const cudnnConvolutionDescriptor_t c,
	const cudnnFilterDescriptor_t w, const int most, int *n,
	cudnnConvolutionBwdFilterAlgoPerf_t *p)
{
	one_choice(n, p);
	return CUDNN_STATUS_SUCCESS;
}

/* Never called: graphs do that. */
cudnnStatus_t cudnnFindConvolutionForwardAlgorithmEx(
	cudnnHandle_t h, const cudnnTensorDescriptor_t x, const void *px,
	const cudnnFilterDescriptor_t w, const void *pw,
	const cudnnConvolutionDescriptor_t c, const cudnnTensorDescriptor_t y,
	void *py, const int most, int *n, cudnnConvolutionFwdAlgoPerf_t *p,
	void *room, size_t size)
{
	return CUDNN_STATUS_NOT_SUPPORTED;
}

cudnnStatus_t cudnnFindConvolutionBackwardDataAlgorithmEx(
	cudnnHandle_t h, const cudnnFilterDescriptor_t w, const void *pw,
	const cudnnTensorDescriptor_t y, const void *py,
	const cudnnConvolutionDescriptor_t c, const cudnnTensorDescriptor_t x,
	void *px, const int most, int *n, cudnnConvolutionBwdDataAlgoPerf_t *p,
	void *room, size_t size)
{
	return CUDNN_STATUS_NOT_SUPPORTED;
}

cudnnStatus_t cudnnFindConvolutionBackwardFilterAlgorithmEx(
	cudnnHandle_t h, const cudnnTensorDescriptor_t x, const void *px,
	const cudnnTensorDescriptor_t y, const void *py,
	const cudnnConvolutionDescriptor_t c, const cudnnFilterDescriptor_t w,
	void *pw, const int most, int *n,
	cudnnConvolutionBwdFilterAlgoPerf_t *p, void *room, size_t size)
{
	return CUDNN_STATUS_NOT_SUPPORTED;
}

cudnnStatus_t cudnnConvolutionForward(
	cudnnHandle_t h, const void *alpha, const cudnnTensorDescriptor_t x,
	const void *px, const cudnnFilterDescriptor_t w, const void *pw,
	const cudnnConvolutionDescriptor_t c, cudnnConvolutionFwdAlgo_t a,
	void *room, size_t size, const void *beta,
	const cudnnTensorDescriptor_t y, void *py)
{
	shape s = {*x, *y, *w, *c};

	memset(room, 0xff, size);
	on_host_enqueue([=]() { convolve(s, FORWARD, px, pw, py); });
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnConvolutionBackwardData(
	cudnnHandle_t h, const void *alpha, const cudnnFilterDescriptor_t w,
	const void *pw, const cudnnTensorDescriptor_t y, const void *py,
	const cudnnConvolutionDescriptor_t c, cudnnConvolutionBwdDataAlgo_t a,
	void *room, size_t size, const void *beta,
	const cudnnTensorDescriptor_t x, void *px)
{
	shape s = {*x, *y, *w, *c};

	memset(room, 0xff, size);
	on_host_enqueue([=]() { convolve(s, BY_X, pw, py, px); });
	return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnConvolutionBackwardFilter(
	cudnnHandle_t h, const void *alpha, const cudnnTensorDescriptor_t x,
	const void *px, const cudnnTensorDescriptor_t y, const void *py,
	const cudnnConvolutionDescriptor_t c, cudnnConvolutionBwdFilterAlgo_t a,
	void *room, size_t size, const void *beta,
	const cudnnFilterDescriptor_t w, void *pw)
{
	shape s = {*x, *y, *w, *c};

	memset(room, 0xff, size);
	on_host_enqueue([=]() { convolve(s, BY_WEIGHT, px, py, pw); });
	return CUDNN_STATUS_SUCCESS;
}

} /* extern "C" */
