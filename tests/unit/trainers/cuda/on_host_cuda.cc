/* on_host_cuda.cc: the calls of CUDA that trainers/cuda makes, on the host:
 * with its kernels (on_host.cc), cuDNN's calls (on_host_dnn.cc,
 * on_host_graph.cc) and cuBLASLt's (on_host_blas.cc) the whole twin runs without
 * a GPU. Calls that may not be captured are refused while a stream is captured;
 * captured calls run when their graph does. What is put into a stream with a
 * priority runs only when something waits for it. ON_HOST_GPUS is the number of GPUs
 * (1), ON_HOST_MIB the memory of each. It cannot show whether the real libraries
 * accept the same shapes, or how fast they are. */
#include <cuda_runtime_api.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <functional>
#include <vector>

#include "tests/unit/trainers/cuda/on_host_dnn.h"

typedef std::vector<std::function<void()>> work_list;

extern bool (*on_host_keep)(const std::function<void()> &work);
static work_list *recording;
double on_host_clock;

bool on_host_is_recording(void)
{
	return recording != NULL;
}

static bool keep(const std::function<void()> &work)
{
	if (recording)
		recording->push_back(work);
	return recording != NULL;
}

void on_host_enqueue(const std::function<void()> &work)
{
	if (!keep(work))
		work();
}

int on_host_setting(const char *name, int otherwise)
{
	const char *text = getenv(name);

	return text && *text ? atoi(text) : otherwise;
}

/* A stream that is late has work to do. */
struct stream {
	bool is_late;
	work_list work;
};

struct event {
	double clock;
	struct stream *stream; /* late; NULL: what it waits for is done */
	size_t upto;           /* its work that comes before */
};

static stream *stream_of(cudaStream_t s)
{
	return (stream *)(void *)s;
}

static void run_late(stream *s, size_t upto)
{
	for (size_t i = 0; i < upto && i < s->work.size(); i++)
		if (s->work[i]) {
			s->work[i]();
			s->work[i] = nullptr;
		}
}

static void wait_for(struct event *e)
{
	if (e->stream)
		run_late(e->stream, e->upto);
}

extern "C" {

const char *cudaGetErrorString(cudaError_t e)
{
	return e == cudaErrorStreamCaptureUnsupported
		       ? "not allowed while a stream is recorded"
		       : "an error of the test's";
}

cudaError_t cudaGetLastError(void)
{
	return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *n)
{
	*n = on_host_setting("ON_HOST_GPUS", 1);
	return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp *p, int device)
{
	memset(p, 0, sizeof *p);
	snprintf(p->name, sizeof p->name, "CUDA on the host");
	p->major = 9;
	p->multiProcessorCount = 1;
	return cudaSuccess;
}

static int current;

cudaError_t cudaSetDevice(int device)
{
	int n;

	cudaGetDeviceCount(&n);
	if (device < 0 || device >= n)
		return cudaErrorInvalidDevice;
	current = device;
	return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
	*device = current;
	return cudaSuccess;
}

static cudaError_t unless_recorded(void)
{
	return recording ? cudaErrorStreamCaptureUnsupported : cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *s, unsigned flags)
{
	on_host_keep = keep;
	*s = (cudaStream_t)(void *)new stream{false, {}};
	return cudaSuccess;
}

cudaError_t cudaStreamCreateWithPriority(cudaStream_t *s, unsigned flags,
					 int priority)
{
	*s = (cudaStream_t)(void *)new stream{true, {}};
	return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t s)
{
	delete stream_of(s);
	return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t s)
{
	run_late(stream_of(s), stream_of(s)->work.size());
	return unless_recorded();
}

cudaError_t cudaMallocHost(void **p, size_t bytes)
{
	*p = malloc(bytes);
	return *p ? unless_recorded() : cudaErrorMemoryAllocation;
}

cudaError_t cudaFreeHost(void *p)
{
	free(p);
	return unless_recorded();
}

static size_t all_memory(void)
{
	return (size_t)on_host_setting("ON_HOST_MIB", 1024) << 20;
}

static size_t taken;

cudaError_t cudaMalloc(void **p, size_t bytes)
{
	*p = NULL;
	if (bytes > all_memory() - taken)
		return cudaErrorMemoryAllocation;
	taken += bytes; /* frees are not counted: no test needs them */
	*p = aligned_alloc(256, (bytes + 255) & ~(size_t)255);
	if (*p) /* uninitialised memory is NaN */
		memset(*p, 0xff, bytes);
	return unless_recorded();
}

cudaError_t cudaFree(void *p)
{
	free(p);
	return unless_recorded();
}

cudaError_t cudaMemGetInfo(size_t *unused, size_t *all)
{
	*all = all_memory();
	*unused = *all - taken;
	return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void *p, int v, size_t n, cudaStream_t s)
{
	on_host_enqueue([=]() { memset(p, v, n); });
	return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t n,
			    cudaMemcpyKind kind, cudaStream_t s)
{
	if (s && stream_of(s)->is_late)
		stream_of(s)->work.push_back([=]() { memcpy(to, from, n); });
	else
		on_host_enqueue([=]() { memcpy(to, from, n); });
	return cudaSuccess;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *e, unsigned flags)
{
	*e = (cudaEvent_t)(void *)new event{0, NULL, 0};
	return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
	stream *late = s && stream_of(s)->is_late ? stream_of(s) : NULL;

	*(struct event *)(void *)e = {on_host_clock, late,
				      late ? late->work.size() : 0};
	return unless_recorded();
}

/* Milliseconds of the stand-in's own clock. */
cudaError_t cudaEventElapsedTime(float *ms, cudaEvent_t from, cudaEvent_t to)
{
	*ms = (float)((((struct event *)(void *)to)->clock -
		       ((struct event *)(void *)from)->clock) / 1000);
	return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t e)
{
	delete (struct event *)(void *)e;
	return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags)
{
	if (!s || !stream_of(s)->is_late)
		wait_for((struct event *)(void *)e);
	return unless_recorded();
}

cudaError_t cudaEventSynchronize(cudaEvent_t e)
{
	wait_for((struct event *)(void *)e);
	return unless_recorded();
}

cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode mode)
{
	recording = new work_list;
	return cudaSuccess;
}

cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *g)
{
	*g = (cudaGraph_t)recording;
	recording = NULL;
	return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t g,
				 unsigned long long flags)
{
	*exec = (cudaGraphExec_t) new work_list(*(work_list *)g);
	return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t g)
{
	delete (work_list *)g;
	return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec)
{
	delete (work_list *)exec;
	return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t s)
{
	for (const std::function<void()> &work : *(work_list *)exec)
		work();
	return unless_recorded();
}

} /* extern "C" */
