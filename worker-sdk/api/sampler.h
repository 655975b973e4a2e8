/* sampler.h: the order that a sampler draws. Pure. */
#ifndef SDK_SAMPLER_H
#define SDK_SAMPLER_H

#include <stdint.h>

/* From here on torch.randperm draws 64 bits an index, and shuffles in another
 * way: aten/src/ATen/native/TensorFactories.cpp, randperm_cpu. */
enum { DDP__RANDPERM_LARGE = UINT32_MAX / 20 };

/* torch.randperm on the CPU: the n indices in p. large: where the second way
 * begins; DDP__RANDPERM_LARGE but in tests, which have not the memory. */
void ddp__randperm(uint32_t *p, uint64_t n, uint64_t seed, uint64_t large);

#endif
