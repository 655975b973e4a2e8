/* arena.cu: arithmetic over whole arenas in one pass each, four values per
 * thread; the values left over at the end are handled one by one. */
#include <math.h>

#include "trainers/cuda/device.cuh"

typedef pack<float> four;

/* Vectors that a thread fetches at once, of one array and of each of two. */
enum { DEEP = 4, DEEP_TWO = 2 };

/* a += b, ROWS vectors of each, `stride` apart. */
template <typename T, int ROWS>
static __device__ void arena_add_rows(void *a, const void *b, size_t at,
				      size_t stride)
{
	words4 to[ROWS], from[ROWS];

#pragma unroll
	for (int k = 0; k < ROWS; k++) {
		to[k] = fetch(a, at + k * stride);
		from[k] = fetch(b, at + k * stride);
	}
	fetched();
#pragma unroll
	for (int k = 0; k < ROWS; k++) {
		float u[pack<T>::N], v[pack<T>::N];

		pack<T>::unpack(u, to[k]);
		pack<T>::unpack(v, from[k]);
		for (int i = 0; i < pack<T>::N; i++)
			u[i] += v[i];
		pack<T>::store(u, a, at + k * stride);
	}
}

template <typename T>
static __device__ void arena_add_vectors(size_t vectors, void *a, const void *b)
{
	size_t i = thread_at(), stride = thread_count();

	for (; i + (DEEP_TWO - 1) * stride < vectors; i += DEEP_TWO * stride)
		arena_add_rows<T, DEEP_TWO>(a, b, i, stride);
	for (; i < vectors; i += stride)
		arena_add_rows<T, 1>(a, b, i, stride);
}

static __global__ void __launch_bounds__(BLOCK)
arena_add(size_t count, const float *x, float *y)
{
	size_t vectors = count / 4;

	arena_add_vectors<float>(vectors, y, x);
	for (size_t i = vectors * 4 + thread_at(); i < count;
	     i += thread_count())
		y[i] += x[i];
}

int kernel_add(kernel_stream s, size_t count, const float *x, float *y)
{
	LAUNCH(arena_add, blocks_for(count / 4 / DEEP_TWO), BLOCK, s, count, x,
	       y);
	return LAUNCHED();
}

static __global__ void arena_scale(size_t count, float by, float *y)
{
	for (size_t i = thread_at(); i < count; i += thread_count())
		y[i] *= by;
}

int kernel_scale(kernel_stream s, size_t count, float by, float *y)
{
	LAUNCH(arena_scale, blocks_for(count), BLOCK, s, count, by, y);
	return LAUNCHED();
}

template <typename T>
static __global__ void __launch_bounds__(BLOCK)
arena_add_values(size_t vectors, void *a, const void *b)
{
	arena_add_vectors<T>(vectors, a, b);
}

int kernel_add_values(kernel_stream s, enum kernel_type type, size_t count,
		      void *a, const void *b)
{
	size_t vectors = count / kernel_lanes(type);

	LAUNCH_TYPED(type, arena_add_values, blocks_for(vectors / DEEP_TWO),
		     BLOCK, s, vectors, a, b);
	return LAUNCHED();
}

/* Rounds ROWS times two vectors. */
template <typename T, int ROWS>
static __device__ void arena_narrow_rows(const float *from, uint16_t *to,
					 size_t at, size_t stride)
{
	words4 low[ROWS], high[ROWS];

#pragma unroll
	for (int k = 0; k < ROWS; k++) {
		low[k] = fetch(from, 2 * (at + k * stride));
		high[k] = fetch(from, 2 * (at + k * stride) + 1);
	}
	fetched();
#pragma unroll
	for (int k = 0; k < ROWS; k++) {
		float v[8];

		four::unpack(v, low[k]);
		four::unpack(v + 4, high[k]);
		pack<T>::store(v, to, at + k * stride);
	}
}

template <typename T>
static __global__ void __launch_bounds__(BLOCK)
arena_narrow(size_t count, const float *from, uint16_t *to)
{
	size_t vectors = count / 8, stride = thread_count(), at = thread_at();

	for (; at + (DEEP_TWO - 1) * stride < vectors; at += DEEP_TWO * stride)
		arena_narrow_rows<T, DEEP_TWO>(from, to, at, stride);
	for (; at < vectors; at += stride)
		arena_narrow_rows<T, 1>(from, to, at, stride);
	for (size_t i = vectors * 8 + thread_at(); i < count;
	     i += thread_count())
		to[i] = narrow1<T>(from[i]);
}

int kernel_narrow(kernel_stream s, enum kernel_type type, size_t count,
		  const float *from, uint16_t *to)
{
	LAUNCH_NARROW(type, arena_narrow, blocks_for(count / 8 / DEEP_TWO),
		      BLOCK, s, count, from, to);
	return LAUNCHED();
}

template <typename T, int ROWS>
static __device__ void arena_widen_rows(const uint16_t *from, float *to,
					size_t at, size_t stride)
{
	words4 w[ROWS];

#pragma unroll
	for (int k = 0; k < ROWS; k++)
		w[k] = fetch(from, at + k * stride);
	fetched();
#pragma unroll
	for (int k = 0; k < ROWS; k++) {
		float v[8];

		pack<T>::unpack(v, w[k]);
		four::store(v, to, 2 * (at + k * stride));
		four::store(v + 4, to, 2 * (at + k * stride) + 1);
	}
}

template <typename T>
static __global__ void __launch_bounds__(BLOCK)
arena_widen(size_t count, const uint16_t *from, float *to)
{
	size_t vectors = count / 8, stride = thread_count(), at = thread_at();

	for (; at + (DEEP - 1) * stride < vectors; at += DEEP * stride)
		arena_widen_rows<T, DEEP>(from, to, at, stride);
	for (; at < vectors; at += stride)
		arena_widen_rows<T, 1>(from, to, at, stride);
	for (size_t i = vectors * 8 + thread_at(); i < count;
	     i += thread_count())
		to[i] = widen1<T>(from[i]);
}

int kernel_widen(kernel_stream s, enum kernel_type type, size_t count,
		 const uint16_t *from, float *to)
{
	LAUNCH_NARROW(type, arena_widen, blocks_for(count / 8 / DEEP), BLOCK, s,
		      count, from, to);
	return LAUNCHED();
}

/* ---- An optimizer's step ---- */

struct rates {
	float lr;         /* adam: lr / (1 - beta1^t) */
	float root;       /* 1 / sqrt(1 - beta2^t) */
	float b1, b2, c1, c2; /* c1 = 1 - b1 */
	float scale;      /* the factor of gradients */
};

static __device__ void update_find_rates(const struct kernel_state *k,
					 const struct kernel_update *u,
					 struct rates *r)
{
	double t = (double)(u->scaler ?
			    loss_scaler_updates(u->scaler, k->step) : k->step);

	r->lr = (float)k->lr;
	r->scale = u->scaler ? u->scale / u->scaler->scale : u->scale;
	if (!u->adam)
		return;
	r->lr = (float)(k->lr / (1 - pow(u->beta1, t)));
	r->root = (float)(1 / sqrt(1 - pow(u->beta2, t)));
	r->b1 = (float)u->beta1;
	r->b2 = (float)u->beta2;
	r->c1 = (float)(1 - u->beta1);
	r->c2 = (float)(1 - u->beta2);
}

static __device__ float update_adam(const struct kernel_update &u,
				    const struct rates &r, float g, float p,
				    float *m, float *v)
{
	g = g * r.scale + p * u.decay;
	*m = *m * r.b1 + g * r.c1;
	*v = *v * r.b2 + g * g * r.c2;
	return p - r.lr * (*m / (sqrtf(*v) * r.root + u.eps));
}

static __device__ float update_sgd(const struct kernel_update &u,
				   const struct rates &r, float g, float p,
				   float *m)
{
	g = g * r.scale + p * u.decay;
	*m = *m * u.momentum + g;
	return p - r.lr * (u.nesterov ? g + *m * u.momentum : *m);
}

static __device__ uint32_t update_narrow(const struct kernel_update &u,
					 float low, float high)
{
	return u.type == KERNEL_F16 ? narrow2<fp16>(low, high) :
				      narrow2<bf16>(low, high);
}

static __device__ void arena_update_four(const struct kernel_update &u,
					 const struct rates &r, size_t i)
{
	float g[4], p[4], m[4], v[4];

	four::load(g, u.grad, i);
	four::load(p, u.param, i);
	four::load(m, u.moment[0], i);
	if (u.adam)
		four::load(v, u.moment[1], i);
	for (int k = 0; k < 4; k++)
		p[k] = u.adam ? update_adam(u, r, g[k], p[k], &m[k], &v[k])
			      : update_sgd(u, r, g[k], p[k], &m[k]);
	four::store(p, u.param, i);
	four::store(m, u.moment[0], i);
	if (u.adam)
		four::store(v, u.moment[1], i);
	if (u.narrow) {
		uint32_t *to = (uint32_t *)u.narrow + 2 * i;

		to[0] = update_narrow(u, p[0], p[1]);
		to[1] = update_narrow(u, p[2], p[3]);
	}
}

static __device__ void arena_update_one(const struct kernel_update &u,
					const struct rates &r, size_t i)
{
	float p = u.param[i];

	p = u.adam ? update_adam(u, r, u.grad[i], p, &u.moment[0][i],
				 &u.moment[1][i])
		   : update_sgd(u, r, u.grad[i], p, &u.moment[0][i]);
	u.param[i] = p;
	if (u.narrow)
		u.narrow[i] = (uint16_t)update_narrow(u, p, 0);
}

/* ROWS vectors of gradients, `stride` apart: the index of the last that is not
 * finite, and 1, or `last`. */
template <int ROWS>
static __device__ unsigned long long
update_find_overflow(const float *grad, size_t at, size_t stride,
		     unsigned long long last)
{
	words4 row[ROWS];

#pragma unroll
	for (int k = 0; k < ROWS; k++)
		row[k] = fetch(grad, at + k * stride);
	fetched();
#pragma unroll
	for (int k = 0; k < ROWS; k++) {
		float v[4];

		four::unpack(v, row[k]);
		for (int i = 0; i < 4; i++)
			if (!is_finite(v[i]))
				last = 4 * (at + k * stride) + i + 1;
	}
	return last;
}

/* The greatest index is the same in whatever order threads find them. */
static __global__ void __launch_bounds__(BLOCK)
update_look(struct kernel_state *k, size_t count, const float *grad)
{
	size_t vectors = count / 4, stride = thread_count(), at = thread_at();
	unsigned long long last = 0;

	for (; at + (DEEP - 1) * stride < vectors; at += DEEP * stride)
		last = update_find_overflow<DEEP>(grad, at, stride, last);
	for (; at < vectors; at += stride)
		last = update_find_overflow<1>(grad, at, stride, last);
	for (size_t i = vectors * 4 + thread_at(); i < count; i += stride)
		if (!is_finite(grad[i]))
			last = i + 1;
	if (last)
		atomicMax(&k->overflow, last);
}

static __device__ bool update_overflows(const struct kernel_state *k,
					const struct kernel_update &u)
{
	return k->overflow || (u.loss && !is_finite(*u.loss));
}

/* 1 if this step, or an earlier one, has a loss that is not finite, or if the
 * scaler skips this step. Only the thread that records the step can see its own
 * mark; for the others the loss itself gives the same result. */
static __device__ bool update_has_halted(struct kernel_state *k,
					 const struct kernel_update &u)
{
	bool bad = u.scaler ? update_overflows(k, u) :
			      u.loss && !is_finite(*u.loss);

	if (bad && !u.scaler && thread_at() == 0 && !k->halted)
		k->halted = k->step;
	return bad || k->halted;
}

static __global__ void __launch_bounds__(BLOCK)
update_pass(struct kernel_state *k, struct kernel_update u)
{
	__shared__ struct rates rates;
	__shared__ bool halted;
	size_t vectors = u.count / 4;

	if (threadIdx.x == 0) {
		halted = update_has_halted(k, u);
		update_find_rates(k, &u, &rates);
	}
	__syncthreads();
	if (halted)
		return;
	for (size_t i = thread_at(); i < vectors; i += thread_count())
		arena_update_four(u, rates, i);
	for (size_t i = vectors * 4 + thread_at(); i < u.count;
	     i += thread_count())
		arena_update_one(u, rates, i);
}

/* After the update, because its blocks read what this changes. An overflow of 0
 * becomes LOSS_SCALER_NOWHERE: only the loss is not finite. */
static __global__ void update_scaler(struct kernel_state *k,
				     struct kernel_update u)
{
	if (k->halted)
		return;
	if (!update_overflows(k, u))
		loss_scaler_accept(u.scaler);
	else if (loss_scaler_skip(u.scaler, k->step, k->overflow - 1))
		k->halted = k->step;
	k->overflow = 0;
}

int kernel_update(kernel_stream s, struct kernel_state *k,
		  const struct kernel_update *u)
{
	if (u->scaler)
		LAUNCH(update_look, blocks_for(u->count / 4 / DEEP), BLOCK, s,
		       k, u->count, u->grad);
	LAUNCH(update_pass, blocks_for(u->count / 4), BLOCK, s, k, *u);
	if (u->scaler)
		LAUNCH(update_scaler, 1, 1, s, k, *u);
	return LAUNCHED();
}

/* ---- the state of a step ---- */

static __global__ void state_set_step(struct kernel_state *k, uint64_t step,
				      uint64_t first, double lr)
{
	k->step = step;
	k->first = first;
	k->lr = lr;
}

int kernel_set_step(kernel_stream s, struct kernel_state *k, uint64_t step,
		    uint64_t first, double lr)
{
	LAUNCH(state_set_step, 1, 1, s, k, step, first, lr);
	return LAUNCHED();
}

static __global__ void state_clear_finite(struct kernel_state *k)
{
	k->not_finite = 0;
}

/* All threads that find such a value write the same number. BITS: those of the
 * exponent, which are all set in such a value. */
template <typename T, uint32_t BITS>
static __global__ void state_find_not_finite(struct kernel_state *k,
					     size_t count, const T *x)
{
	for (size_t i = thread_at(); i < count; i += thread_count())
		if ((x[i] & BITS) == BITS)
			k->not_finite = 1;
}

int kernel_finite(kernel_stream s, struct kernel_state *k,
		  enum kernel_type type, size_t count, const void *x)
{
	LAUNCH(state_clear_finite, 1, 1, s, k);
	if (type == KERNEL_F32)
		LAUNCH((state_find_not_finite<uint32_t, 0x7f800000u>),
		       blocks_for(count), BLOCK, s, k, count,
		       (const uint32_t *)x);
	else if (type == KERNEL_BF16)
		LAUNCH((state_find_not_finite<uint16_t, 0x7f80u>),
		       blocks_for(count), BLOCK, s, k, count,
		       (const uint16_t *)x);
	else
		LAUNCH((state_find_not_finite<uint16_t, 0x7c00u>),
		       blocks_for(count), BLOCK, s, k, count,
		       (const uint16_t *)x);
	return LAUNCHED();
}
