/* nccl_memory.c: ncclMemAlloc and the registration of buffers, since 2.19. */
#include "nccl_standin.h"

#include <stdio.h>
#include <stdlib.h>

/* What ncclMemAlloc returned; a range of size 0 is free. */
enum { COMM_RANGES = 64 };
static struct comm_range {
	char *at;
	size_t size;
} comm_ranges[COMM_RANGES];
static pthread_mutex_t comm_ranges_lock = PTHREAD_MUTEX_INITIALIZER;

/* The range that contains all of [p, p + size), or a free one for p NULL; NULL:
 * there is none. The caller has the lock. */
static struct comm_range *comm_range_of(const char *p, size_t size)
{
	for (int i = 0; i < COMM_RANGES; i++) {
		struct comm_range *r = &comm_ranges[i];

		if (p ? r->size && p >= r->at && p + size <= r->at + r->size
		      : !r->size)
			return r;
	}
	return NULL;
}

/* src/transport/p2p.cc, ipcRegisterBuffer, 2.28.9: of memory that is not
 * ncclMemAlloc's (legacy IPC) nothing is registered within a host, and that is
 * no error. */
static void comm_log_nvlink(const char *buf, size_t size)
{
	pthread_mutex_lock(&comm_ranges_lock);
	if (comm_range_of(buf, size))
		standin_log("registered for NVLink");
	pthread_mutex_unlock(&comm_ranges_lock);
}

/* What is registered; a buffer without a communicator is free. A handle is its
 * address. */
enum { COMM_BUFFERS = 64 };
static struct comm_buffer {
	const struct ncclComm *comm;
	const char *at;
	size_t size;
} comm_buffers[COMM_BUFFERS];

static void comm_die(const char *what)
{
	fprintf(stderr, "stand-in: %s\n", what);
	abort();
}

static void comm_add_buffer(const struct ncclComm *comm, const char *at,
			    size_t size, void **handle)
{
	int i = 0;

	pthread_mutex_lock(&comm_ranges_lock);
	while (i < COMM_BUFFERS && comm_buffers[i].comm)
		i++;
	if (i == COMM_BUFFERS)
		comm_die("too many registered buffers");
	comm_buffers[i] = (struct comm_buffer){comm, at, size};
	*handle = &comm_buffers[i];
	pthread_mutex_unlock(&comm_ranges_lock);
}

/* src/init.cc, commFree, 2.28.9: the end of a communicator ends its
 * registrations (ncclRegCleanup). */
void standin_forget_buffers(const struct ncclComm *comm)
{
	pthread_mutex_lock(&comm_ranges_lock);
	for (int i = 0; i < COMM_BUFFERS; i++)
		if (comm_buffers[i].comm == comm)
			comm_buffers[i].comm = NULL;
	pthread_mutex_unlock(&comm_ranges_lock);
}

PUBLIC ncclResult_t ncclCommRegister(const ncclComm_t comm, void *buf,
				     size_t size, void **handle)
{
	ncclResult_t rc = comm_check(comm, "ncclCommRegister");

	standin_log("ncclCommRegister");
	if (rc)
		return rc;
	if (!standin_bytes(buf, size))
		return ncclInvalidArgument;
	comm_log_nvlink(buf, size);
	comm_add_buffer(comm, buf, size, handle);
	return ncclSuccess;
}

/* src/register/register.cc, 2.28.9: an unknown handle is not noticed: what it
 * points to is freed. */
PUBLIC ncclResult_t ncclCommDeregister(const ncclComm_t comm, void *handle)
{
	struct comm_buffer *b = handle;
	ncclResult_t rc = comm_check(comm, "ncclCommDeregister");

	standin_log("ncclCommDeregister");
	if (rc)
		return rc;
	pthread_mutex_lock(&comm_ranges_lock);
	if (b < comm_buffers || b >= comm_buffers + COMM_BUFFERS ||
	    b->comm != comm)
		comm_die("ncclCommDeregister of what is not registered");
	b->comm = NULL;
	pthread_mutex_unlock(&comm_ranges_lock);
	return ncclSuccess;
}

PUBLIC ncclResult_t ncclMemAlloc(void **p, size_t size)
{
	struct comm_range *r;

	standin_log("ncclMemAlloc");
	if (standin_fails("ncclMemAlloc") || cudaMalloc(p, size) != cudaSuccess)
		return ncclUnhandledCudaError;
	pthread_mutex_lock(&comm_ranges_lock);
	r = comm_range_of(NULL, 0);
	if (!r)
		abort();
	*r = (struct comm_range){*p, size};
	pthread_mutex_unlock(&comm_ranges_lock);
	return ncclSuccess;
}

PUBLIC ncclResult_t ncclMemFree(void *p)
{
	struct comm_range *r;

	standin_log("ncclMemFree");
	pthread_mutex_lock(&comm_ranges_lock);
	r = comm_range_of(p, 1);
	if (!r || r->at != (char *)p)
		comm_die("ncclMemFree of what is not ncclMemAlloc's");
	for (int i = 0; i < COMM_BUFFERS; i++)
		if (comm_buffers[i].comm && comm_buffers[i].at >= r->at &&
		    comm_buffers[i].at < r->at + r->size)
			comm_die("ncclMemFree of registered memory");
	r->size = 0;
	pthread_mutex_unlock(&comm_ranges_lock);
	return cudaFree(p) == cudaSuccess ? ncclSuccess
					  : ncclUnhandledCudaError;
}
