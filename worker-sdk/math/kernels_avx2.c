/* kernels_avx2.c: the kernels with the instructions of Haswell and Zen. */
#ifdef __x86_64__
#define ISA "avx2"
#define KERNELS ddp__kernels_avx2
#include "worker-sdk/math/kernels_isa.h"
#endif
