/* cuda_lib.h: the CUDA runtime, loaded on first use: libddp is built without
 * CUDA and runs without it. The declarations are ours; a test compares them
 * with CUDA's headers if those exist. Knows nothing of NCCL. */
#ifndef SDK_CUDA_LIB_H
#define SDK_CUDA_LIB_H

#include <stddef.h>

#include "base/error.h"

/* The cudaError_t values used here; CUDA never changes them. */
enum {
	DDP__CUDA_OLD_DRIVER = 35, /* or there is no driver: the version tells
				    * the two apart */
	DDP__CUDA_NO_DEVICE = 100,
	DDP__CUDA_NOT_READY = 600,
};

enum ddp__cuda_memory {
	DDP__CUDA_UNREGISTERED, /* plain host memory, unknown to CUDA */
	DDP__CUDA_HOST,
	DDP__CUDA_DEVICE,
	DDP__CUDA_MANAGED
};

/* cudaPointerAttributes of CUDA 11 and later */
struct ddp__cuda_pointer {
	int memory;
	int device;
	void *on_device, *on_host;
	long reserved[8];
};

enum { DDP__CUDA_NON_BLOCKING = 1, DDP__CUDA_NO_TIMING = 2 };
enum { DDP__CUDA_COPY_ANY = 4 }; /* cudaMemcpyDefault */
enum { DDP__CUDA_BUS_ID = 32 };	 /* "0000:1b:00.0" and its NUL fit */

/* field, symbol, arguments: all return a cudaError_t, streams and events are
 * void pointers. All are in CUDA 11.2 and later. */
#define DDP__CUDA_CALLS(X)                                                    \
	X(device_count, cudaGetDeviceCount, (int *n))                          \
	X(get_device, cudaGetDevice, (int *device))                            \
	X(set_device, cudaSetDevice, (int device))                             \
	X(driver_version, cudaDriverGetVersion, (int *version))                \
	X(runtime_version, cudaRuntimeGetVersion, (int *version))              \
	X(bus_id, cudaDeviceGetPCIBusId, (char *out, int size, int device))    \
	X(last_error, cudaGetLastError, (void))                                \
	X(peek_error, cudaPeekAtLastError, (void))                             \
	X(pointer, cudaPointerGetAttributes,                                   \
	  (struct ddp__cuda_pointer * out, const void *p))                     \
	X(stream_create, cudaStreamCreateWithPriority,                         \
	  (void **stream, unsigned flags, int priority))                       \
	X(stream_priorities, cudaDeviceGetStreamPriorityRange,                 \
	  (int *least, int *greatest))                                         \
	X(stream_destroy, cudaStreamDestroy, (void *stream))                   \
	X(stream_wait, cudaStreamWaitEvent,                                    \
	  (void *stream, void *event, unsigned flags))                         \
	X(event_create, cudaEventCreateWithFlags,                              \
	  (void **event, unsigned flags))                                      \
	X(event_destroy, cudaEventDestroy, (void *event))                      \
	X(event_record, cudaEventRecord, (void *event, void *stream))          \
	X(event_query, cudaEventQuery, (void *event))                          \
	X(copy, cudaMemcpyAsync,                                               \
	  (void *to, const void *from, size_t size, int kind, void *stream))   \
	X(alloc, cudaMalloc, (void **p, size_t size))                          \
	X(free, cudaFree, (void *p))                                           \
	X(stream_alloc, cudaMallocAsync,                                       \
	  (void **p, size_t size, void *stream))                               \
	X(stream_free, cudaFreeAsync, (void *p, void *stream))

struct ddp__cuda {
#define X(field, symbol, args) int (*field) args;
	DDP__CUDA_CALLS(X)
#undef X
	const char *(*error_text)(int rc);
	char from[256]; /* the file that was loaded */
};

/* Loads libcudart: $DDP_CUDART_LIB, else the copy that the process has loaded,
 * else by its sonames from the newest CUDA to the oldest, else from the
 * directory of CUDA's installer. Loads once per process and never unloads: the
 * driver keeps pointers into it. On failure ERR_SYSTEM: which library was
 * searched for, where, what to do. Any thread may call it. */
int ddp__cuda_load(const struct ddp__cuda **out, struct err *e);

/* The number of devices that this process may use, >= 1; else ERR_SYSTEM, with
 * different texts for no driver, a driver that is too old, and no device. */
int ddp__cuda_devices(const struct ddp__cuda *cu, struct err *e);

/* Sets ERR_SYSTEM: "cudaEventQuery: an illegal memory access was encountered
 * (700) on device 0". Returns 0 if rc is 0. */
int ddp__cuda_check(const struct ddp__cuda *cu, int rc, const char *what,
		    struct err *e);

/* libddp has handled rc: removes it from CUDA's last error, so that the program
 * does not find it there. An error of the program's own stays. */
void ddp__cuda_forget(const struct ddp__cuda *cu, int rc);

/* 1 if p is memory that a GPU's kernels can access, 0 if it is host memory. */
int ddp__cuda_on_device(const struct ddp__cuda *cu, const void *p);

/* A function of the driver (libcuda.so.1), which stays loaded; NULL: none. */
void *ddp__cuda_driver_function(const char *symbol);

/* The name of a device, such as "NVIDIA H100 80GB HBM3", cut to size; "" if the
 * driver does not say it. */
void ddp__cuda_name(int device, char *out, size_t size);

/* 1 if this thread has a CUDA context: the program has chosen a device. */
int ddp__cuda_in_use(void);

#endif
