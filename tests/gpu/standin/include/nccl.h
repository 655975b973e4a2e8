/* nccl.h: the part of NCCL's interface that libddp and the programs in
 * tests/gpu use, for builds on machines without NCCL. The names and numbers are
 * NCCL's. Where NCCL is installed, the stand-in is compiled with NCCL's own
 * header instead, so the compiler compares the two. */
#ifndef STANDIN_NCCL_H
#define STANDIN_NCCL_H

#include <limits.h>

#include <cuda_runtime_api.h>

typedef struct ncclComm *ncclComm_t;

typedef struct {
	char internal[128];
} ncclUniqueId;

typedef enum {
	ncclSuccess,
	ncclUnhandledCudaError,
	ncclSystemError,
	ncclInternalError,
	ncclInvalidArgument,
	ncclInvalidUsage,
	ncclRemoteError,
	ncclInProgress
} ncclResult_t;

typedef enum {
	ncclInt8,
	ncclUint8,
	ncclInt32,
	ncclUint32,
	ncclInt64,
	ncclUint64,
	ncclFloat16,
	ncclFloat32,
	ncclFloat64,
	ncclBfloat16,
	ncclNumTypes,
	ncclFloat = ncclFloat32
} ncclDataType_t;

typedef enum {
	ncclSum,
	ncclProd,
	ncclMax,
	ncclMin,
	ncclAvg,
	ncclNumOps
} ncclRedOp_t;

#define NCCL_SPLIT_NOCOLOR (-1)

/* ncclConfig_t of NCCL 2.18; later releases append fields */
typedef struct {
	size_t size;
	unsigned int magic, version;
	int blocking, cgaClusterSize, minCTAs, maxCTAs;
	const char *netName;
	int splitShare;
} ncclConfig_t;

ncclResult_t ncclGetVersion(int *version);
ncclResult_t ncclGetUniqueId(ncclUniqueId *id);
ncclResult_t ncclCommInitRank(ncclComm_t *comm, int n, ncclUniqueId id,
			      int rank);
ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int n, ncclUniqueId id,
				    int rank, ncclConfig_t *config);
ncclResult_t ncclCommInitRankScalable(ncclComm_t *comm, int n, int rank,
				      int ids, ncclUniqueId *id,
				      ncclConfig_t *config);
ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key,
			   ncclComm_t *child, ncclConfig_t *config);
ncclResult_t ncclCommFinalize(ncclComm_t comm);
ncclResult_t ncclCommDestroy(ncclComm_t comm);
ncclResult_t ncclCommAbort(ncclComm_t comm);
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state);
ncclResult_t ncclCommCount(const ncclComm_t comm, int *n);
ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank);
ncclResult_t ncclCommRegister(const ncclComm_t comm, void *buf, size_t size,
			      void **handle);
ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle);
ncclResult_t ncclMemAlloc(void **p, size_t size);
ncclResult_t ncclMemFree(void *p);
const char *ncclGetErrorString(ncclResult_t rc);
const char *ncclGetLastError(ncclComm_t comm);
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count,
			   ncclDataType_t type, ncclRedOp_t op,
			   ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclReduce(const void *send, void *recv, size_t count,
			ncclDataType_t type, ncclRedOp_t op, int root,
			ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count,
			   ncclDataType_t type, int root, ncclComm_t comm,
			   cudaStream_t stream);
ncclResult_t ncclAllGather(const void *send, void *recv, size_t count,
			   ncclDataType_t type, ncclComm_t comm,
			   cudaStream_t stream);
ncclResult_t ncclReduceScatter(const void *send, void *recv, size_t count,
			       ncclDataType_t type, ncclRedOp_t op,
			       ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclSend(const void *buf, size_t count, ncclDataType_t type,
		      int peer, ncclComm_t comm, cudaStream_t stream);
ncclResult_t ncclRecv(void *buf, size_t count, ncclDataType_t type, int peer,
		      ncclComm_t comm, cudaStream_t stream);

#endif
