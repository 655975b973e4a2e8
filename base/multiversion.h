/* multiversion.h: a loop compiled for each level of x86-64; the loader picks
 * one. gcc before 12 knows no levels, but the vectors of each. */
#ifndef BASE_MULTIVERSION_H
#define BASE_MULTIVERSION_H

#if !defined(__x86_64__) || !defined(__GNUC__) || defined(__clang__)
#define MULTIVERSION
#elif __GNUC__ < 12
#define MULTIVERSION                                                           \
	__attribute__((target_clones("avx512f", "avx2", "default")))
#else
#define MULTIVERSION                                                           \
	__attribute__((target_clones("arch=x86-64-v4", "arch=x86-64-v3",       \
				     "default")))
#endif

#endif
