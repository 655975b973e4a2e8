/* twin.h: the CUDA twin's one entrance, as ops.h describes it. */
#ifndef TRAINERS_CUDA_TWIN_H
#define TRAINERS_CUDA_TWIN_H

#include "trainers/ops/ops.h"

/* All else in the library is hidden. */
__attribute__((visibility("default")))
const struct ops *ddp_cuda_ops(int version);

#endif
