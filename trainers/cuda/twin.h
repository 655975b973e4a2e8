/* twin.h: the entry point of the CUDA library; see ops.h. */
#ifndef TRAINERS_CUDA_TWIN_H
#define TRAINERS_CUDA_TWIN_H

#include "trainers/ops/ops.h"

/* The only exported symbol. */
__attribute__((visibility("default")))
const struct ops *ddp_cuda_ops(int version);

#endif
