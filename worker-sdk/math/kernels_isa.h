/* kernels_isa.h: the kernels of one instruction set. A file that includes it
 * defines ISA (the set's name) and KERNELS (the table's name), and is compiled
 * with the flags for the set (Makefile): it may export nothing but the
 * table. */
#include "worker-sdk/math/half.h"
#include "worker-sdk/math/kernels.h"

#if defined(__F16C__)
#include <immintrin.h>
#endif

/* dst may be a source: iterations are independent of each other. */
#ifdef __clang__
#define LANES_APART _Pragma("clang loop vectorize(assume_safety)")
#else
#define LANES_APART _Pragma("GCC ivdep")
#endif
#define ALWAYS __attribute__((always_inline))

/* Callers' buffers may be unaligned and of any effective type. */
#define LOOSE __attribute__((aligned(1), may_alias))
typedef float f32 LOOSE;
typedef double f64 LOOSE;
typedef int8_t i8 LOOSE;
typedef uint8_t u8 LOOSE;
typedef uint16_t u16 LOOSE;
typedef int32_t i32 LOOSE;
typedef int64_t i64 LOOSE;

#define LANE f32
#define WRAP float
#define QUOTIENT float
#define IS_NAN(x) ((x) != (x))
#define IS_REAL
#define LANE_(verb) verb##_f32
#include "worker-sdk/math/kernels_lane.h"

#define LANE f64
#define WRAP double
#define QUOTIENT double
#define IS_NAN(x) ((x) != (x))
#define IS_REAL
#define LANE_(verb) verb##_f64
#include "worker-sdk/math/kernels_lane.h"

/* A double's rounding error is smaller than the distance of a quotient of two
 * 31-bit integers from the next integer; a float's is smaller for 8 bits by
 * 31. */
#define LANE i32
#define WRAP uint32_t
#define QUOTIENT double
#define IS_NAN(x) 0
#define LANE_(verb) verb##_i32
#include "worker-sdk/math/kernels_lane.h"

#define LANE i64
#define WRAP uint64_t
#define QUOTIENT int64_t
#define IS_NAN(x) 0
#define LANE_(verb) verb##_i64
#include "worker-sdk/math/kernels_lane.h"

#define LANE i8
#define WRAP uint8_t
#define QUOTIENT float
#define IS_NAN(x) 0
#define LANE_(verb) verb##_i8
#include "worker-sdk/math/kernels_lane.h"

#define LANE u8
#define WRAP uint8_t
#define QUOTIENT float
#define IS_NAN(x) 0
#define LANE_(verb) verb##_u8
#include "worker-sdk/math/kernels_lane.h"

/* Passing a source twice does not change the result, so one loop serves 2 to 4
 * sources. */
static inline ALWAYS void bits(u8 *d, const void *const *src, int n,
			       size_t count, enum ddp_op op)
{
	const u8 *a = src[0], *b = src[1];
	const u8 *c = n > 2 ? src[2] : b, *e = n > 3 ? src[3] : b;

	LANES_APART
	for (size_t i = 0; i < count; i++)
		d[i] = op == DDP_BAND ? a[i] & b[i] & c[i] & e[i]
				      : a[i] | b[i] | c[i] | e[i];
}

static void reduce_bytes(void *dst, const void *const *src, int n,
			 size_t count, enum ddp_op op)
{
	if (op == DDP_BAND)
		bits(dst, src, n, count, DDP_BAND);
	else if (op == DDP_BOR)
		bits(dst, src, n, count, DDP_BOR);
	else
		reduce_u8(dst, src, n, count, op);
}

static void mix(float *dst, const float *a, float x, const float *b, float y,
		size_t count)
{
	LANES_APART
	for (size_t i = 0; i < count; i++)
		dst[i] = a[i] * x + b[i] * y;
}

static void from_f16(float *to, const void *from, size_t count)
{
	const u16 *half = from;
	size_t i = 0;

#if defined(__AVX512F__)
	for (; i + 16 <= count; i += 16)
		_mm512_storeu_ps(to + i, _mm512_cvtph_ps(_mm256_loadu_si256(
						 (const void *)(half + i))));
#elif defined(__F16C__)
	for (; i + 8 <= count; i += 8)
		_mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128(
						 (const void *)(half + i))));
#endif
	for (; i < count; i++)
		to[i] = ddp__f16_to_f32(half[i]);
}

static void to_f16(void *to, const float *from, size_t count)
{
	u16 *half = to;
	size_t i = 0;

#if defined(__AVX512F__)
	for (; i + 16 <= count; i += 16)
		_mm256_storeu_si256((void *)(half + i),
				    _mm512_cvtps_ph(_mm512_loadu_ps(from + i),
						    _MM_FROUND_TO_NEAREST_INT));
#elif defined(__F16C__)
	for (; i + 8 <= count; i += 8)
		_mm_storeu_si128((void *)(half + i),
				 _mm256_cvtps_ph(_mm256_loadu_ps(from + i),
						 _MM_FROUND_TO_NEAREST_INT));
#endif
	for (; i < count; i++)
		half[i] = ddp__f32_to_f16(from[i]);
}

static void from_bf16(float *to, const void *from, size_t count)
{
	const u16 *half = from;
	f32 *wide = to;

	LANES_APART
	for (size_t i = 0; i < count; i++)
		wide[i] = ddp__bf16_to_f32(half[i]);
}

static void to_bf16(void *to, const float *from, size_t count)
{
	const f32 *wide = from;
	u16 *half = to;

	LANES_APART
	for (size_t i = 0; i < count; i++)
		half[i] = ddp__f32_to_bf16(wide[i]);
}

const struct ddp__kernels KERNELS = {
	.isa = ISA,
	.reduce = {[DDP__LANE_F32] = reduce_f32,
		   [DDP__LANE_F64] = reduce_f64,
		   [DDP__LANE_I32] = reduce_i32,
		   [DDP__LANE_I64] = reduce_i64,
		   [DDP__LANE_I8] = reduce_i8,
		   [DDP__LANE_U8] = reduce_bytes},
	.average = {[DDP__LANE_F32] = average_f32,
		    [DDP__LANE_F64] = average_f64},
	.divide = {[DDP__LANE_F32] = divide_f32,
		   [DDP__LANE_F64] = divide_f64,
		   [DDP__LANE_I32] = divide_i32,
		   [DDP__LANE_I64] = divide_i64,
		   [DDP__LANE_I8] = divide_i8,
		   [DDP__LANE_U8] = divide_u8},
	.mix = mix,
	.from_f16 = from_f16,
	.to_f16 = to_f16,
	.from_bf16 = from_bf16,
	.to_bf16 = to_bf16,
};
