/* kernels_base.c: the kernels with what every CPU has. */
#define ISA "base"
#define KERNELS ddp__kernels_base
#include "worker-sdk/math/kernels_isa.h"
