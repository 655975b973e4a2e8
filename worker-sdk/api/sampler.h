/* sampler.h: the order in which a sampler draws. Pure. */
#ifndef SDK_SAMPLER_H
#define SDK_SAMPLER_H

#include <stdint.h>

/* From this n on torch.randperm draws 64 bits per index and shuffles
 * differently: aten/src/ATen/native/TensorFactories.cpp, randperm_cpu. */
enum { DDP__RANDPERM_LARGE = UINT32_MAX / 20 };

/* Sets p[n] to torch.randperm on the CPU. large: where the second algorithm
 * starts; always DDP__RANDPERM_LARGE except in tests, which lack the memory for
 * that. */
void ddp__randperm(uint32_t *p, uint64_t n, uint64_t seed, uint64_t large);

#endif
