/* state.cu: the numbers of a step, and the search for values that are not
 * finite. */
#include "trainers/cuda/device.cuh"

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

/* All threads that find such a value write the same number. */
template <typename T>
static __global__ void state_find_not_finite(struct kernel_state *k,
					     size_t count, const T *x)
{
	for (size_t i = thread_at(); i < count; i += thread_count()) {
		uint32_t u = sizeof(T) == 2 ? (uint32_t)x[i] << 16
					    : (uint32_t)x[i];

		if ((u & 0x7f800000u) == 0x7f800000u)
			k->not_finite = 1;
	}
}

int kernel_finite(kernel_stream s, struct kernel_state *k, int bf16,
		  size_t count, const void *x)
{
	LAUNCH(state_clear_finite, 1, 1, s, k);
	if (bf16)
		LAUNCH(state_find_not_finite<uint16_t>, blocks_for(count),
		       BLOCK, s, k, count, (const uint16_t *)x);
	else
		LAUNCH(state_find_not_finite<uint32_t>, blocks_for(count),
		       BLOCK, s, k, count, (const uint32_t *)x);
	return LAUNCHED();
}
