/* dense.cu: the parts of a linear layer's gradient that are not products. */
#include "trainers/cuda/device.cuh"

enum { WIDE = 32, DENSE_DEEP = 16 };

/* A block has WIDE outputs; its rows of threads take turns with the samples. */
static __global__ void mask_and_sum(int n, int out, const float *y, float *dy,
				    const float *dy1, float *sum)
{
	__shared__ float sums[DENSE_DEEP][WIDE];
	int o = (int)(blockIdx.x * WIDE + threadIdx.x);
	float mine = 0;

	for (int i = (int)threadIdx.y; o < out && i < n; i += DENSE_DEEP) {
		size_t at = (size_t)i * out + o;
		float v = dy1 ? dy[at] + dy1[at] : dy[at];

		/* this form of the comparison lets NaN through */
		if (y && y[at] <= 0)
			v = 0;
		if (y || dy1)
			dy[at] = v;
		mine += v;
	}
	sums[threadIdx.y][threadIdx.x] = mine;
	__syncthreads();
	if (threadIdx.y || o >= out)
		return;
	for (int i = 1; i < DENSE_DEEP; i++)
		mine += sums[i][threadIdx.x];
	sum[o] = mine;
}

int kernel_mask_and_sum(kernel_stream s, int n, int out, const float *y,
			float *dy, const float *dy1, float *sum)
{
	LAUNCH(mask_and_sum, (unsigned)((out + WIDE - 1) / WIDE),
	       dim3(WIDE, DENSE_DEEP), s, n, out, y, dy, dy1, sum);
	return LAUNCHED();
}
