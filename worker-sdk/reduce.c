/* reduce.c: the kernels, each compiled once per instruction set. */
#include "worker-sdk/reduce.h"

#include <stdatomic.h>
#include <string.h>

/* Callers' buffers may be unaligned and of any effective type. */
#define LOOSE __attribute__((aligned(1), may_alias))
typedef float f32 LOOSE;
typedef double f64 LOOSE;
typedef int32_t i32 LOOSE;
typedef int64_t i64 LOOSE;
typedef uint32_t u32 LOOSE;
typedef uint64_t u64 LOOSE;

/* Plain function pointers, not target_clones: those need ifunc resolvers, which
 * run before the sanitizers' runtime is ready. */
#define ISA_base __attribute__((optimize("O3")))
#define ISA_avx2 __attribute__((optimize("O3"), target("avx2")))
#define ISA_avx512                                                            \
	__attribute__((optimize("O3"), target("avx512f,avx512vl,avx512bw,"    \
						"avx512dq,"                   \
						"prefer-vector-width=512")))

/* ivdep: dst may be a or b, which no loop iteration but its own touches. */
#define COMBINE(isa, T, name, result)                                         \
	static ISA_##isa void isa##_##name##_##T(void *dst, const void *pa,   \
						 const void *pb, size_t n)    \
	{                                                                     \
		T *d = dst;                                                   \
		const T *a = pa, *b = pb;                                     \
		_Pragma("GCC ivdep") for (size_t i = 0; i < n; i++)           \
		{                                                             \
			T x = a[i], y = b[i];                                 \
			d[i] = result;                                        \
		}                                                             \
	}

#define DIVIDE(isa, T)                                                        \
	static ISA_##isa void isa##_divide_##T(void *buf, size_t n, int by)   \
	{                                                                     \
		T *d = buf;                                                   \
		for (size_t i = 0; i < n; i++)                                \
			d[i] = d[i] / (T)by;                                  \
	}

/* x != x keeps a NaN on the left; y's comes through as the comparison's loser.
 * Integers add as unsigned, which wraps and is defined. */
#define SET(isa)                                                              \
	COMBINE(isa, f32, sum, x + y)                                         \
	COMBINE(isa, f32, min, x < y || x != x ? x : y)                       \
	COMBINE(isa, f32, max, x > y || x != x ? x : y)                       \
	COMBINE(isa, f64, sum, x + y)                                         \
	COMBINE(isa, f64, min, x < y || x != x ? x : y)                       \
	COMBINE(isa, f64, max, x > y || x != x ? x : y)                       \
	COMBINE(isa, u32, sum, x + y)                                         \
	COMBINE(isa, i32, min, x < y ? x : y)                                 \
	COMBINE(isa, i32, max, x > y ? x : y)                                 \
	COMBINE(isa, u64, sum, x + y)                                         \
	COMBINE(isa, i64, min, x < y ? x : y)                                 \
	COMBINE(isa, i64, max, x > y ? x : y)                                 \
	DIVIDE(isa, f32)                                                      \
	DIVIDE(isa, f64)                                                      \
	DIVIDE(isa, i32)                                                      \
	DIVIDE(isa, i64)                                                      \
	static const struct ddp__kernels isa##_set = {                        \
		#isa,                                                         \
		{{isa##_sum_f32, isa##_sum_f32, isa##_min_f32, isa##_max_f32},\
		 {isa##_sum_f64, isa##_sum_f64, isa##_min_f64, isa##_max_f64},\
		 {isa##_sum_u32, isa##_sum_u32, isa##_min_i32, isa##_max_i32},\
		 {isa##_sum_u64, isa##_sum_u64, isa##_min_i64,                \
		  isa##_max_i64}},                                            \
		{isa##_divide_f32, isa##_divide_f64, isa##_divide_i32,        \
		 isa##_divide_i64}};

SET(base)
#ifdef __x86_64__
SET(avx2)
SET(avx512)
#endif

int ddp__kernels_usable(const struct ddp__kernels *out[3])
{
	int n = 0;
#ifdef __x86_64__
	__builtin_cpu_init();
	if (__builtin_cpu_supports("avx512f") &&
	    __builtin_cpu_supports("avx512vl") &&
	    __builtin_cpu_supports("avx512bw") &&
	    __builtin_cpu_supports("avx512dq"))
		out[n++] = &avx512_set;
	if (__builtin_cpu_supports("avx2"))
		out[n++] = &avx2_set;
#endif
	out[n++] = &base_set;
	return n;
}

const struct ddp__kernels *ddp__kernels(void)
{
	static _Atomic(const struct ddp__kernels *) best;
	const struct ddp__kernels *set[3], *k = atomic_load(&best);

	if (!k) {
		ddp__kernels_usable(set);
		k = set[0];
		atomic_store(&best, k);
	}
	return k;
}

size_t ddp_type_size(enum ddp_type type)
{
	switch (type) {
	case DDP_F32:
	case DDP_I32:
		return 4;
	case DDP_F64:
	case DDP_I64:
		return 8;
	case DDP_F16:
	case DDP_BF16:
		return 2;
	case DDP_I8:
	case DDP_U8:
		return 1;
	default:
		return 0;
	}
}

void ddp__reduce(void *dst, const void *const *src, int n, size_t count,
		 enum ddp_type type, enum ddp_op op, int divisor)
{
	const struct ddp__kernels *k = ddp__kernels();
	size_t size = ddp_type_size(type);
	/* With more sources dst is read again: in blocks that stay in L1. */
	size_t block = n == 2 && op != DDP_AVG ? count : 8192 / size;

	for (size_t at = 0; at < count; at += block) {
		size_t len = count - at < block ? count - at : block;
		char *d = (char *)dst + at * size;
		const char *first = (const char *)src[0] + at * size;

		if (n == 1 && d != first)
			memcpy(d, first, len * size);
		for (int i = 1; i < n; i++)
			k->combine[type][op](
				d, i == 1 ? first : d,
				(const char *)src[i] + at * size, len);
		if (op == DDP_AVG && divisor > 1)
			k->divide[type](d, len, divisor);
	}
}
