/* gpu_helper.h: `ddprun --gpu-helper`, a child of an agent: asks NVML for the
 * state of the GPUs and for Xids, and writes lines (gpu_record.h) to its
 * stdout, a pipe to the agent. A process, because a thread that hangs in the
 * driver would keep the agent from exiting, and a crash would end it. It dies
 * with the agent. */
#ifndef LAUNCHER_GPU_HELPER_H
#define LAUNCHER_GPU_HELPER_H

#include <stdint.h>

#include "base/error.h"
#include "launcher/gpu/gpu_record.h"

/* Not an option for users. */
#define GPU_HELPER_COMMAND "--gpu-helper"

int gpu_helper_main(int argc, char **argv);

/* ---- NVML ----
 *
 * Reads this node's GPUs and waits for their Xids. */

struct nvml;

/* path NULL: libnvidia-ml.so.1, as the loader finds it. visible: the value of
 * CUDA_VISIBLE_DEVICES; only the GPUs that it names, or whose instances it
 * names, are watched. NULL: all are. Returns NULL after an error. */
struct nvml *nvml_open(const char *path, const char *visible, struct err *e);
/* Frees v, and leaves the library as it is. */
void nvml_free(struct nvml *v);
/* The GPUs that are watched. */
uint32_t nvml_count(const struct nvml *v);
/* Why Xids are not watched; "": they are. */
const char *nvml_no_events(const struct nvml *v);
/* Reads GPU i of nvml_count. A field that NVML refuses stays -1. */
void nvml_read(struct nvml *v, uint32_t i, struct gpu_record *r);
/* Waits at most ms for an Xid: 1, and what it was; 0: none came; negative:
 * NVML's error, which comes at once. */
int nvml_wait_xid(struct nvml *v, uint32_t ms, uint32_t *index, uint32_t *xid,
		  uint32_t *instance);

#endif
