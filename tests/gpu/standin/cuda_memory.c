/* cuda_memory.c: devices, their memory, and errors. A pointer to device memory
 * that a program gets is in a mapping without access, so a program that
 * dereferences it ends, as with a GPU; kernels use a second mapping of the same
 * memory. */
#include "standin.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define MEMORY_SIZE ((size_t)4 << 30)
enum { MEMORY_ALIGN = 512, MEMORY_POISON = 65536 };

/* an allocation, in a list in order of address */
struct block {
	struct block *next;
	size_t at, size;
	int device;
};

static pthread_once_t memory_once = PTHREAD_ONCE_INIT;
static pthread_mutex_t memory_lock = PTHREAD_MUTEX_INITIALIZER;
static char *memory_shown; /* the addresses that programs get */
static char *memory_real;  /* the same bytes, accessible */
static struct block *memory_blocks;
static _Atomic int memory_broken; /* a cudaError_t */
static __thread int memory_device, memory_last_error;

/* ---- errors */

void standin_break(cudaError_t rc)
{
	memory_broken = (int)rc;
}

int standin_fails(const char *function)
{
	static _Atomic int calls;
	const char *want = getenv("STANDIN_FAIL");
	size_t len = strlen(function);

	return want && strncmp(want, function, len) == 0 && want[len] == ':' &&
	       ++calls >= atoi(want + len + 1);
}

cudaError_t standin_result(const char *function, cudaError_t rc)
{
	if (memory_broken)
		rc = (cudaError_t)memory_broken;
	else if (standin_fails(function))
		rc = cudaErrorInvalidValue;
	if (rc != cudaSuccess)
		memory_last_error = (int)rc;
	return rc;
}

PUBLIC cudaError_t cudaGetLastError(void)
{
	int rc = memory_last_error;

	memory_last_error = memory_broken;
	return (cudaError_t)rc;
}

PUBLIC cudaError_t cudaPeekAtLastError(void)
{
	return (cudaError_t)memory_last_error;
}

PUBLIC const char *cudaGetErrorString(cudaError_t rc)
{
	switch ((int)rc) {
	case cudaSuccess:
		return "no error";
	case cudaErrorInvalidValue:
		return "invalid argument";
	case cudaErrorMemoryAllocation:
		return "out of memory";
	case cudaErrorNoDevice:
		return "no CUDA-capable device is detected";
	case cudaErrorInvalidDevice:
		return "invalid device ordinal";
	case cudaErrorNotReady:
		return "device not ready";
	case cudaErrorIllegalAddress:
		return "an illegal memory access was encountered";
	default:
		return "unrecognized error code";
	}
}

/* ---- devices */

static int memory_devices(void)
{
	const char *text = getenv("STANDIN_GPUS");

	return text ? atoi(text) : 8;
}

int standin_device(void)
{
	return memory_device;
}

PUBLIC cudaError_t cudaGetDeviceCount(int *n)
{
	*n = memory_devices();
	return standin_error(*n ? cudaSuccess : cudaErrorNoDevice);
}

PUBLIC cudaError_t cudaGetDevice(int *device)
{
	*device = memory_device;
	return standin_error(cudaSuccess);
}

PUBLIC cudaError_t cudaSetDevice(int device)
{
	if (device < 0 || device >= memory_devices())
		return standin_error(cudaErrorInvalidDevice);
	memory_device = device;
	return standin_error(cudaSuccess);
}

PUBLIC cudaError_t cudaDriverGetVersion(int *version)
{
	*version = 13000;
	return cudaSuccess;
}

PUBLIC cudaError_t cudaRuntimeGetVersion(int *version)
{
	*version = 13000;
	return cudaSuccess;
}

PUBLIC cudaError_t cudaDeviceGetPCIBusId(char *out, int size, int device)
{
	snprintf(out, (size_t)size, "0000:%02x:00.0", device + 1);
	return standin_error(cudaSuccess);
}

/* ---- memory */

static void memory_map(void)
{
	int fd = memfd_create("standin", MFD_CLOEXEC);

	if (fd < 0 || ftruncate(fd, (off_t)MEMORY_SIZE) < 0)
		abort();
	memory_shown = mmap(NULL, MEMORY_SIZE, PROT_NONE, MAP_SHARED, fd, 0);
	memory_real = mmap(NULL, MEMORY_SIZE, PROT_READ | PROT_WRITE,
			   MAP_SHARED | MAP_NORESERVE, fd, 0);
	if (memory_shown == MAP_FAILED || memory_real == MAP_FAILED)
		abort();
	close(fd);
}

static int memory_is_shown(const void *p)
{
	return memory_shown && (const char *)p >= memory_shown &&
	       (const char *)p < memory_shown + MEMORY_SIZE;
}

/* The block that contains p. */
static struct block *memory_find(const void *p)
{
	size_t at = (size_t)((const char *)p - memory_shown);
	struct block *b = memory_blocks;

	while (b && at >= b->at + b->size)
		b = b->next;
	return b && at >= b->at ? b : NULL;
}

PUBLIC void *standin_bytes(const void *p, size_t size)
{
	size_t at = (size_t)((const char *)p - memory_shown);
	struct block *b;
	int ok;

	if (!memory_is_shown(p))
		return (void *)p;
	pthread_mutex_lock(&memory_lock);
	b = memory_find(p);
	ok = b && at + size <= b->at + b->size;
	pthread_mutex_unlock(&memory_lock);
	if (ok)
		return memory_real + at;
	fprintf(stderr, "stand-in: a kernel touches %zu bytes at %p, which are "
		"not in one allocation\n", size, p);
	standin_break(cudaErrorIllegalAddress);
	return NULL;
}

PUBLIC cudaError_t cudaMalloc(void **p, size_t size)
{
	size_t need = (size + MEMORY_ALIGN - 1) / MEMORY_ALIGN * MEMORY_ALIGN;
	struct block **at = &memory_blocks, *b = calloc(1, sizeof(*b));
	size_t end = 0;

	*p = NULL;
	pthread_once(&memory_once, memory_map);
	if (!b || !size) {
		free(b);
		return standin_error(size ? cudaErrorMemoryAllocation
					  : cudaSuccess);
	}
	pthread_mutex_lock(&memory_lock);
	for (; *at && (*at)->at < end + need; at = &(*at)->next)
		end = ((*at)->at + (*at)->size + MEMORY_ALIGN - 1) /
		      MEMORY_ALIGN * MEMORY_ALIGN;
	*b = (struct block){*at, end, size, memory_device};
	if (end + need <= MEMORY_SIZE)
		*at = b;
	pthread_mutex_unlock(&memory_lock);
	if (end + need > MEMORY_SIZE) {
		free(b);
		return standin_error(cudaErrorMemoryAllocation);
	}
	memset(memory_real + end, 0xa5,
	       size < MEMORY_POISON ? size : MEMORY_POISON);
	*p = memory_shown + end;
	return standin_error(cudaSuccess);
}

/* Gives the whole pages of a block back to the system. */
static void memory_give_back(const struct block *b)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	size_t from = (b->at + page - 1) / page * page;
	size_t to = (b->at + b->size) / page * page;

	if (from < to)
		madvise(memory_real + from, to - from, MADV_REMOVE);
}

cudaError_t standin_release(void *p)
{
	struct block **at = &memory_blocks, *b = NULL;

	pthread_mutex_lock(&memory_lock);
	while (*at && memory_shown + (*at)->at != (char *)p)
		at = &(*at)->next;
	if (*at) {
		b = *at;
		*at = b->next;
	}
	pthread_mutex_unlock(&memory_lock);
	if (!b)
		return standin_error(cudaErrorInvalidValue);
	memory_give_back(b);
	free(b);
	return standin_error(cudaSuccess);
}

/* Waits for the whole device, so for kernels of other communicators too. */
PUBLIC cudaError_t cudaFree(void *p)
{
	if (!p)
		return standin_error(cudaSuccess);
	standin_drain(memory_device);
	return standin_release(p);
}

/* From CUDA 11 on, host memory is no error, but "unregistered". */
PUBLIC cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *out,
					    const void *p)
{
	struct block *b;

	memset(out, 0, sizeof(*out));
	out->hostPointer = (void *)p;
	out->device = -1;
	if (!memory_is_shown(p))
		return standin_error(cudaSuccess);
	pthread_mutex_lock(&memory_lock);
	b = memory_find(p);
	if (b) {
		out->type = cudaMemoryTypeDevice;
		out->device = b->device;
		out->devicePointer = (void *)p;
		out->hostPointer = NULL;
	}
	pthread_mutex_unlock(&memory_lock);
	return standin_error(cudaSuccess);
}
