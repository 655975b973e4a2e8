/* upload.c: two slots take turns. The host waits until a slot's last copy has
 * been made before it writes to its pinned memory; the copying stream waits
 * until the slot's last batch has been read before it writes to the device's.
 * So the host is at most two batches ahead. */
#include "trainers/cuda/cuda.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

enum { SLOTS = 2 };

struct slot {
	void *host, *device;
	cudaEvent_t copied, read;
	int used;
};

struct upload {
	struct cuda_device *d;
	const struct samples *samples;
	uint32_t *order;
	size_t count;
	cudaStream_t stream;
	struct slot slot[SLOTS];
	int turn;
};

static int upload_open_slot(struct upload *u, struct slot *s, size_t bytes,
			    struct err *e)
{
	int r = cuda_alloc(&u->d->base, bytes, &s->device, e);

	if (r == 0)
		r = cuda_status(cudaMallocHost(&s->host, bytes),
				"pinned host memory for a batch", e);
	if (r == 0)
		r = cuda_status(cudaEventCreateWithFlags(
					&s->copied, cudaEventDisableTiming),
				"an event", e);
	if (r == 0)
		r = cuda_status(cudaEventCreateWithFlags(
					&s->read, cudaEventDisableTiming),
				"an event", e);
	return r;
}

int upload_new(struct cuda_device *d, const struct samples *s, int batch,
	       struct upload **out, struct err *e)
{
	struct upload *u = calloc(1, sizeof(*u));
	int r;

	if (!u)
		return err_no_memory(e, "batches");
	u->d = d;
	u->samples = s;
	r = cuda_status(cudaStreamCreateWithPriority(
				&u->stream, cudaStreamNonBlocking, 0),
			"a stream for copies", e);
	for (int i = 0; r == 0 && i < SLOTS; i++)
		r = upload_open_slot(u, &u->slot[i], s->size * (size_t)batch,
				     e);
	if (r < 0)
		upload_free(u);
	else
		*out = u;
	return r;
}

void upload_free(struct upload *u)
{
	if (!u)
		return;
	if (u->stream)
		cudaStreamSynchronize(u->stream);
	for (int i = 0; i < SLOTS; i++) {
		struct slot *s = &u->slot[i];

		cuda_free(&u->d->base, s->device);
		if (s->host)
			cudaFreeHost(s->host);
		if (s->copied)
			cudaEventDestroy(s->copied);
		if (s->read)
			cudaEventDestroy(s->read);
	}
	if (u->stream)
		cudaStreamDestroy(u->stream);
	free(u->order);
	free(u);
}

int upload_order(struct upload *u, const uint32_t *order, size_t count,
		 struct err *e)
{
	uint32_t *p = realloc(u->order, (count + 1) * sizeof(*p));

	if (!p)
		return err_no_memory(e, "the order of %zu samples", count);
	memcpy(p, order, count * sizeof(*p));
	u->order = p;
	u->count = count;
	return 0;
}

/* The kernel starts to read these samples, if they are in a file. */
static void upload_read_ahead(const struct upload *u, uint64_t first, int n)
{
	const struct samples *s = u->samples;
	uintptr_t page = (uintptr_t)sysconf(_SC_PAGESIZE);

	for (uint64_t i = first; s->is_file && i < first + (uint64_t)n &&
				 i < u->count; i++) {
		uintptr_t at = (uintptr_t)(s->pixels + u->order[i] * s->size);
		uintptr_t begin = at & ~(page - 1);

		/* it is a hint: an error changes nothing */
		(void)madvise((void *)begin, at + s->size - begin,
			      MADV_WILLNEED);
	}
}

static void upload_gather(const struct upload *u, uint64_t first, int n,
			  char *to)
{
	const struct samples *s = u->samples;

	for (int i = 0; i < n; i++, to += s->size)
		memcpy(to, s->pixels + u->order[first + (uint64_t)i] * s->size,
		       s->size);
}

void upload_begin(struct upload *u, uint64_t first, int n, const uint8_t **out)
{
	struct slot *s = &u->slot[u->turn];
	cudaError_t rc = cudaSuccess;

	*out = s->device;
	if (s->used)
		cuda_await_event(u->d, s->copied, "a batch's copy");
	if (u->d->base.error)
		return;
	upload_gather(u, first, n, s->host);
	upload_read_ahead(u, first + (uint64_t)n, n);
	if (s->used)
		rc = cudaStreamWaitEvent(u->stream, s->read, 0);
	if (rc == cudaSuccess)
		rc = cudaMemcpyAsync(s->device, s->host,
				     u->samples->size * (size_t)n,
				     cudaMemcpyHostToDevice, u->stream);
	if (rc == cudaSuccess)
		rc = cudaEventRecord(s->copied, u->stream);
	if (rc == cudaSuccess)
		rc = cudaStreamWaitEvent(u->d->stream, s->copied, 0);
	cuda_note(u->d, rc, "a batch's copy");
}

void upload_end(struct upload *u)
{
	struct slot *s = &u->slot[u->turn];

	cuda_note(u->d, cudaEventRecord(s->read, u->d->stream),
		  "a batch's copy");
	s->used = 1;
	u->turn = !u->turn;
}
