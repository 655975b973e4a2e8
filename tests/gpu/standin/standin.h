/* standin.h: stand-ins for libcudart and libnccl on machines without a GPU, for
 * the tests of libddp's nccl backend. They are doubles of NVIDIA's libraries,
 * not of ours: libddp loads them as it loads the real ones. A device is memory
 * of this process that only kernels can touch, a stream is a queue with a
 * thread, a rank is a process, and collectives compute. They also have the
 * behaviour of NCCL that is hard on its callers; each such comment cites the
 * file and the release of NCCL in which it was read.
 *
 *   STANDIN_GPUS=8        devices of this host
 *   STANDIN_KIND=NAME     their name
 *   STANDIN_NCCL=22809    NCCL's version, 21801 to 23007, as ncclGetVersion
 *                         returns it; some behaviour differs
 *   STANDIN_TRANSPORT=net how ranks exchange data. net: the death of a peer is
 *                         an error at once. p2p: it is never noticed, as with
 *                         memory that GPUs share
 *   STANDIN_DELAY_MS=20   how much longer set-up takes: init, split, finalize
 *   STANDIN_CALL_US=100   the same, for other non-blocking calls
 *   STANDIN_FAIL=NAME:N   the Nth call of that function fails, and each later
 *                         one
 *   STANDIN_LOG=FILE      appends a line per call of NCCL: pid, name
 *   NCCL_HOSTID, NCCL_RUNTIME_CONNECT, NCCL_CUMEM_ENABLE,
 *   NCCL_MULTI_RANK_GPU_ENABLE   as NCCL reads them */
#ifndef STANDIN_H
#define STANDIN_H

#include <stddef.h>

#include <cuda_runtime_api.h>

#define PUBLIC __attribute__((visibility("default")))

/* ---- cuda_memory.c */

/* The bytes of [p, p + size) for a kernel to read and write: p itself for host
 * memory. NULL if part of it is on no device: as on a GPU, this and each later
 * call then fail with cudaErrorIllegalAddress. */
PUBLIC void *standin_bytes(const void *p, size_t size);
/* Fails all later calls with rc. */
void standin_break(cudaError_t rc);
/* The result of a call of CUDA's: rc, or the error of standin_break or of
 * STANDIN_FAIL. An error becomes this thread's last one. */
#define standin_error(rc) standin_result(__func__, rc)
cudaError_t standin_result(const char *function, cudaError_t rc);
/* 1 if STANDIN_FAIL wants this call of the function to fail. */
PUBLIC int standin_fails(const char *function);
/* This thread's device. */
int standin_device(void);
/* Frees p without waiting for the device. */
cudaError_t standin_release(void *p);

/* ---- cuda_stream.c */

/* Waits until all streams of a device are empty. */
void standin_drain(int device);

#endif
