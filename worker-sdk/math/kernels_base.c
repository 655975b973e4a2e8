/* kernels_base.c: the kernels with the instructions of every CPU. */
#define ISA "base"
#define KERNELS ddp__kernels_base
#include "worker-sdk/math/kernels_isa.h"
