/* nvml.h: NVML, the library that comes with NVIDIA's driver, loaded at run
 * time: the GPUs of this node that the job may use, their state, and their Xid
 * errors. For the helper process only: each call may hang in the driver, and
 * may crash. */
#ifndef LAUNCHER_NVML_H
#define LAUNCHER_NVML_H

#include "base/error.h"
#include "launcher/gpu/gpu_record.h"

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
