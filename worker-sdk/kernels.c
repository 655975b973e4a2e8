/* kernels.c: which set of kernels this CPU gets. Plain function pointers, not
 * target_clones: those need ifunc resolvers, which run before the sanitizers'
 * runtime is ready. */
#include "worker-sdk/kernels.h"

#include <stdatomic.h>

static _Atomic(const struct ddp__kernels *) chosen;

int ddp__kernels_usable(const struct ddp__kernels *out[3])
{
	int n = 0;
#ifdef __x86_64__
	__builtin_cpu_init();
	/* f16c has no name in older compilers' lists, but is as old as AVX;
	 * whoever has AVX2 has it. */
	int avx2 = __builtin_cpu_supports("avx2");

	if (avx2 && __builtin_cpu_supports("avx512f") &&
	    __builtin_cpu_supports("avx512vl") &&
	    __builtin_cpu_supports("avx512bw") &&
	    __builtin_cpu_supports("avx512dq"))
		out[n++] = &ddp__kernels_avx512;
	if (avx2)
		out[n++] = &ddp__kernels_avx2;
#endif
	out[n++] = &ddp__kernels_base;
	return n;
}

const struct ddp__kernels *ddp__kernels(void)
{
	const struct ddp__kernels *set[3];
	const struct ddp__kernels *k = atomic_load_explicit(
		&chosen, memory_order_acquire);

	if (!k) {
		ddp__kernels_usable(set);
		k = set[0];
		atomic_store(&chosen, k);
	}
	return k;
}

void ddp__kernels_choose(const struct ddp__kernels *k)
{
	atomic_store(&chosen, k);
}
