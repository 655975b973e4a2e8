/* norm.cuh: shared by both passes of batch normalisation. A thread has 16 bytes
 * of channels and walks down the rows; sums of a block's rows go to
 * parts[block][2][channels], which a second kernel adds in order, in f64.
 *
 * These kernels only move memory, and reach its bandwidth if enough loads are
 * in flight: each fetches several rows before it uses the first, and variants
 * replace what would be a test between two loads (tests/gpu/kernels.py checks
 * that). */
#ifndef TRAINERS_CUDA_NORM_CUH
#define TRAINERS_CUDA_NORM_CUH

#include "trainers/cuda/device.cuh"

enum { FINISH_WIDE = 32, FINISH_DEEP = 16 };
/* Rows that a thread fetches at once. */
enum { ROWS_X = 4, ROWS_X_DZ = 4, ROWS_MORE = 2 };

/* How the threads walk a tensor: blockIdx.x and threadIdx.x select the
 * channels, blockIdx.y and threadIdx.y the first row. */
struct walk {
	size_t rows;
	unsigned vectors; /* vectors of 16 bytes in a row */
};

struct walk_shape {
	dim3 grid, block;
};

typedef void (*norm_kernel)(struct walk w, struct kernel_norm n);

static inline struct walk norm_walk(const struct kernel_norm *n)
{
	struct walk w = {n->rows,
			 (unsigned)(n->channels / kernel_lanes(n->type))};

	return w;
}

/* A block has BLOCK threads, a power of two of them side by side, so that a
 * warp reads whole rows even with few channels. */
static inline struct walk_shape norm_walk_shape(const struct walk *w,
						unsigned blocks)
{
	unsigned wide = 1, deep, across, down;
	size_t each;

	while (wide < w->vectors && wide < 32)
		wide *= 2;
	deep = BLOCK / wide;
	across = (w->vectors + wide - 1) / wide;
	down = blocks / across ? blocks / across : 1;
	/* rows of a thread, a multiple of what it fetches at once */
	each = (w->rows + (size_t)deep * down - 1) / ((size_t)deep * down);
	each = (each + 3) / 4 * 4;
	if (each)
		down = (unsigned)((w->rows + deep * each - 1) / (deep * each));
	return {dim3(across, down ? down : 1, 1), dim3(wide, deep, 1)};
}

/* The block's sums over its rows: adds a and b of each thread down the block,
 * and the first row of threads writes them. */
template <int N>
static __device__ void norm_write_parts(const struct walk &w, unsigned vector,
					const float *a, const float *b,
					float *parts)
{
	__shared__ float sums[BLOCK][2 * N];
	unsigned me = threadIdx.y * blockDim.x + threadIdx.x;
	size_t channels = (size_t)w.vectors * N;
	float *to = parts + (size_t)blockIdx.y * 2 * channels +
		    (size_t)vector * N;

	for (int i = 0; i < N; i++) {
		sums[me][i] = a[i];
		sums[me][N + i] = b[i];
	}
	for (unsigned half = blockDim.y / 2; half; half /= 2) {
		__syncthreads();
		if (threadIdx.y < half)
			for (int i = 0; i < 2 * N; i++)
				sums[me][i] += sums[me + half * blockDim.x][i];
	}
	if (threadIdx.y || vector >= w.vectors)
		return;
	for (int i = 0; i < N; i++) {
		to[i] = sums[me][i];
		to[channels + i] = sums[me][N + i];
	}
}

/* Sums parts[][0][channel] and parts[][1][channel] in f64 over the block's
 * FINISH_DEEP rows of threads; all get the results. All threads of the block
 * must call it, once. */
static __device__ void norm_add_parts(unsigned parts, size_t channels,
				      size_t channel, const float *from,
				      double *first, double *second)
{
	__shared__ double sums[2][FINISH_DEEP][FINISH_WIDE];
	double a = 0, b = 0;

	if (channel < channels)
#pragma unroll 4
		for (unsigned p = threadIdx.y; p < parts; p += FINISH_DEEP) {
			const float *part = from + (size_t)p * 2 * channels +
					    channel;

			a += (double)part[0];
			b += (double)part[channels];
		}
	sums[0][threadIdx.y][threadIdx.x] = a;
	sums[1][threadIdx.y][threadIdx.x] = b;
	__syncthreads();
	*first = *second = 0;
	for (int i = 0; i < FINISH_DEEP; i++) {
		*first += sums[0][i][threadIdx.x];
		*second += sums[1][i][threadIdx.x];
	}
}

static inline dim3 norm_finish_grid(const struct kernel_norm *n)
{
	return dim3((unsigned)((n->channels + FINISH_WIDE - 1) / FINISH_WIDE));
}

static inline dim3 norm_finish_block(void)
{
	return dim3(FINISH_WIDE, FINISH_DEEP);
}

static __device__ float *norm_sums(const struct kernel_norm &n)
{
	return n.count + KERNEL_NORM_COUNT;
}

/* One thread for each channel. */
static inline unsigned norm_channel_blocks(const struct kernel_norm *n)
{
	return (unsigned)((n->channels + BLOCK - 1) / BLOCK);
}

#endif
