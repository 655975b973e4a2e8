/* kernels.c: chooses the kernels for this CPU. Uses plain function pointers,
 * not target_clones: those need ifunc resolvers, which run before the
 * sanitizers' runtime is ready. */
#include "worker-sdk/math/kernels.h"

#include <stdatomic.h>

static _Atomic(const struct ddp__kernels *) chosen;

/* Uses the dynamic linker's knowledge of the CPU. The compiler's builtins would
 * query the CPU again at each program's start; under a hypervisor every query
 * is an exit: 60 us of a rank's start. */
#if defined(__x86_64__) && !defined(DDP_OLD_GLIBC) && \
	__has_include(<sys/platform/x86.h>)
#include <sys/platform/x86.h>
#define HAS(name, NAME) kernels_cpu_has(x86_cpu_##NAME)

/* glibc's own CPU_FEATURE_ACTIVE shifts a 1 into the sign. */
static int kernels_cpu_has(unsigned feature)
{
	const unsigned bits = 32, regs = 4;
	const struct cpuid_feature *leaf =
		__x86_get_cpuid_feature_leaf(feature / (bits * regs));

	return leaf->active_array[feature / bits % regs] >> feature % bits & 1;
}
#else
#define HAS(name, NAME) __builtin_cpu_supports(name)
#endif

int ddp__kernels_usable(const struct ddp__kernels *out[3])
{
	int n = 0;
#ifdef __x86_64__
	/* Older compilers have no name for f16c, but every CPU with AVX2 has
	 * it. */
	int avx2 = HAS("avx2", AVX2);

	if (avx2 && HAS("avx512f", AVX512F) && HAS("avx512vl", AVX512VL) &&
	    HAS("avx512bw", AVX512BW) && HAS("avx512dq", AVX512DQ))
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
