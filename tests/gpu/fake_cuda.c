/* fake_cuda.c: a CUDA runtime without a GPU, built as a shared library by
 * nccl.bats. It replies as a host with a driver does to the calls that libddp
 * makes before it calls NCCL.
 *
 *   FAKE_CUDA_COUNT  what cudaGetDeviceCount returns (0 and 1 device)
 *   FAKE_CUDA_DRIVER the driver's version
 *   FAKE_CUDA_GPU    the bus address of the device */
#include <stdio.h>
#include <stdlib.h>

#define PUBLIC __attribute__((visibility("default")))

static int number(const char *name)
{
	const char *text = getenv(name);

	return text ? atoi(text) : 0;
}

PUBLIC int cudaGetDeviceCount(int *n);
PUBLIC int cudaDriverGetVersion(int *version);
PUBLIC int cudaRuntimeGetVersion(int *version);
PUBLIC int cudaDeviceGetPCIBusId(char *out, int size, int device);
PUBLIC const char *cudaGetErrorString(int rc);

int cudaGetDeviceCount(int *n)
{
	*n = 1;
	return number("FAKE_CUDA_COUNT");
}

int cudaDriverGetVersion(int *version)
{
	*version = number("FAKE_CUDA_DRIVER");
	return 0;
}

int cudaRuntimeGetVersion(int *version)
{
	*version = 13000;
	return 0;
}

int cudaDeviceGetPCIBusId(char *out, int size, int device)
{
	const char *gpu = getenv("FAKE_CUDA_GPU");

	snprintf(out, (size_t)size, "%s", gpu ? gpu : "0000:01:00.0");
	return 0;
}

const char *cudaGetErrorString(int rc)
{
	return "an error of the fake";
}

#define NOTHING(name)                                                         \
	PUBLIC int name(void);                                                \
	int name(void)                                                        \
	{                                                                     \
		return 0;                                                     \
	}
NOTHING(cudaGetDevice)
NOTHING(cudaSetDevice)
NOTHING(cudaGetLastError)
NOTHING(cudaPeekAtLastError)
NOTHING(cudaPointerGetAttributes)
NOTHING(cudaStreamCreateWithPriority)
NOTHING(cudaDeviceGetStreamPriorityRange)
NOTHING(cudaStreamDestroy)
NOTHING(cudaStreamWaitEvent)
NOTHING(cudaEventCreateWithFlags)
NOTHING(cudaEventDestroy)
NOTHING(cudaEventRecord)
NOTHING(cudaEventQuery)
NOTHING(cudaMemcpyAsync)
NOTHING(cudaMalloc)
NOTHING(cudaFree)
NOTHING(cudaMallocAsync)
NOTHING(cudaFreeAsync)
