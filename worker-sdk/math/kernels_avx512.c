/* kernels_avx512.c: the kernels with the instructions of Skylake-X and Zen
 * 4. */
#ifdef __x86_64__
#define ISA "avx512"
#define KERNELS ddp__kernels_avx512
#include "worker-sdk/math/kernels_isa.h"
#endif
