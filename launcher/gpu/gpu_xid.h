/* gpu_xid.h: what the numbers of NVIDIA's Xid errors mean, and what to do
 * (NVIDIA, "Xid Errors", https://docs.nvidia.com/deploy/xid-errors/). Pure.
 * docs/gpu-health.md has the same table. */
#ifndef LAUNCHER_GPU_XID_H
#define LAUNCHER_GPU_XID_H

#include <stdint.h>

enum gpu_xid_kind {
	GPU_XID_PROGRAM,  /* an error of the program: the GPU is fine */
	GPU_XID_RECORDED, /* the GPU handled it, nothing ends */
	GPU_XID_BROKEN,   /* the GPU, its links or its driver */
};

struct gpu_xid {
	uint32_t number;
	enum gpu_xid_kind kind;
	const char *meaning; /* follows "GPU 3: Xid 79, " */
	const char *action;
};

/* Never NULL: an unknown number has a row that says so. */
const struct gpu_xid *gpu_xid_find(uint32_t number);

#endif
