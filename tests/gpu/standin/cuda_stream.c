/* cuda_stream.c: streams and events. A stream is a queue with a thread that
 * runs what is in it, in order; nothing is done when a call returns. */
#include "standin.h"

#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* What a stream runs. */
struct work {
	struct work *next;
	void (*run)(struct work *w);
	cudaHostFn_t function;
	void *to; /* also the argument of a function */
	const void *from;
	size_t size;
	int value;
	struct CUevent_st *event;
	struct CUstream_st *other;
	uint64_t number;
};

/* Never freed: a later wait may refer to a destroyed stream. */
struct CUstream_st {
	struct CUstream_st *next;
	pthread_mutex_t lock;
	pthread_cond_t more, idle;
	struct work *first, **last;
	uint64_t queued, done;
	int device;
	int blocking; /* ordered with the device's default stream */
	int ending;
};

struct CUevent_st {
	pthread_mutex_t lock;
	pthread_cond_t reached;
	uint64_t recorded, done;
	int users; /* its owner, and work that refers to it */
};

enum { STREAM_DEVICES = 64 };
static pthread_mutex_t stream_lock = PTHREAD_MUTEX_INITIALIZER;
static struct CUstream_st *stream_all;
static struct CUstream_st *stream_default[STREAM_DEVICES];

static void *stream_main(void *arg)
{
	struct CUstream_st *s = arg;
	struct work *w;

	pthread_mutex_lock(&s->lock);
	for (;;) {
		while (!s->first && !s->ending)
			pthread_cond_wait(&s->more, &s->lock);
		w = s->first;
		if (!w)
			break;
		s->first = w->next;
		if (!s->first)
			s->last = &s->first;
		pthread_mutex_unlock(&s->lock);
		w->run(w);
		free(w);
		pthread_mutex_lock(&s->lock);
		s->done++;
		pthread_cond_broadcast(&s->idle);
	}
	pthread_mutex_unlock(&s->lock);
	return NULL;
}

static struct CUstream_st *stream_new(int blocking)
{
	struct CUstream_st *s = calloc(1, sizeof(*s));
	pthread_t thread;

	if (!s)
		abort();
	pthread_mutex_init(&s->lock, NULL);
	pthread_cond_init(&s->more, NULL);
	pthread_cond_init(&s->idle, NULL);
	s->last = &s->first;
	s->device = standin_device();
	s->blocking = blocking;
	if (pthread_create(&thread, NULL, stream_main, s))
		abort();
	pthread_detach(thread);
	return s;
}

/* The stream that a program means: NULL is its device's default stream. */
static struct CUstream_st *stream_of(cudaStream_t s)
{
	int device = standin_device() % STREAM_DEVICES;

	if (s)
		return s;
	pthread_mutex_lock(&stream_lock);
	if (!stream_default[device])
		stream_default[device] = stream_new(0);
	s = stream_default[device];
	pthread_mutex_unlock(&stream_lock);
	return s;
}

static uint64_t stream_queued(struct CUstream_st *s)
{
	uint64_t n;

	pthread_mutex_lock(&s->lock);
	n = s->queued;
	pthread_mutex_unlock(&s->lock);
	return n;
}

/* Waits until the first n works of s are done. */
static void stream_await(struct CUstream_st *s, uint64_t n)
{
	pthread_mutex_lock(&s->lock);
	while (s->done < n)
		pthread_cond_wait(&s->idle, &s->lock);
	pthread_mutex_unlock(&s->lock);
}

static uint64_t stream_append(struct CUstream_st *s, struct work *w)
{
	uint64_t n;

	pthread_mutex_lock(&s->lock);
	w->next = NULL;
	*s->last = w;
	s->last = &w->next;
	n = ++s->queued;
	pthread_cond_signal(&s->more);
	pthread_mutex_unlock(&s->lock);
	return n;
}

static struct work *stream_work(void (*run)(struct work *w))
{
	struct work *w = calloc(1, sizeof(*w));

	if (!w)
		abort();
	w->run = run;
	return w;
}

static void stream_run_follow(struct work *w)
{
	stream_await(w->other, w->number);
}

static void stream_follow(struct CUstream_st *s, struct CUstream_st *other)
{
	struct work *w = stream_work(stream_run_follow);

	w->other = other;
	w->number = stream_queued(other);
	stream_append(s, w);
}

/* Queues w in s. The default stream and the blocking streams of a device wait
 * for each other. */
static uint64_t stream_push(cudaStream_t stream, struct work *w)
{
	struct CUstream_st *s = stream_of(stream);
	struct CUstream_st *legacy = stream_of(NULL);

	pthread_mutex_lock(&stream_lock);
	if (s->blocking)
		stream_follow(s, legacy);
	for (struct CUstream_st *b = stream_all; b && s == legacy; b = b->next)
		if (b->blocking && b->device == s->device)
			stream_follow(s, b);
	pthread_mutex_unlock(&stream_lock);
	return stream_append(s, w);
}

void standin_drain(int device)
{
	struct CUstream_st *s;

	pthread_mutex_lock(&stream_lock);
	s = stream_all;
	pthread_mutex_unlock(&stream_lock);
	for (; s; s = s->next)
		if (s->device == device)
			stream_await(s, stream_queued(s));
	s = stream_default[device % STREAM_DEVICES];
	if (s)
		stream_await(s, stream_queued(s));
}

PUBLIC cudaError_t cudaStreamCreateWithFlags(cudaStream_t *out, unsigned flags)
{
	struct CUstream_st *s = stream_new(!(flags & cudaStreamNonBlocking));

	pthread_mutex_lock(&stream_lock);
	s->next = stream_all;
	stream_all = s;
	pthread_mutex_unlock(&stream_lock);
	*out = s;
	return standin_error(cudaSuccess);
}

PUBLIC cudaError_t cudaStreamCreateWithPriority(cudaStream_t *s, unsigned flags,
						int priority)
{
	return standin_error(cudaStreamCreateWithFlags(s, flags));
}

PUBLIC cudaError_t cudaDeviceGetStreamPriorityRange(int *least, int *greatest)
{
	*least = 0;
	*greatest = -5;
	return standin_error(cudaSuccess);
}

/* What is in the stream still runs. */
PUBLIC cudaError_t cudaStreamDestroy(cudaStream_t s)
{
	pthread_mutex_lock(&s->lock);
	s->ending = 1;
	pthread_cond_signal(&s->more);
	pthread_mutex_unlock(&s->lock);
	return standin_error(cudaSuccess);
}

PUBLIC cudaError_t cudaStreamQuery(cudaStream_t stream)
{
	struct CUstream_st *s = stream_of(stream);
	int busy;

	pthread_mutex_lock(&s->lock);
	busy = s->done < s->queued;
	pthread_mutex_unlock(&s->lock);
	return standin_error(busy ? cudaErrorNotReady : cudaSuccess);
}

PUBLIC cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
	struct CUstream_st *s = stream_of(stream);

	stream_await(s, stream_queued(s));
	return standin_error(cudaSuccess);
}

PUBLIC cudaError_t cudaDeviceSynchronize(void)
{
	standin_drain(standin_device());
	return standin_error(cudaSuccess);
}

static void stream_run_function(struct work *w)
{
	w->function(w->to);
}

PUBLIC cudaError_t cudaLaunchHostFunc(cudaStream_t s, cudaHostFn_t run,
				      void *arg)
{
	struct work *w = stream_work(stream_run_function);

	w->function = run;
	w->to = arg;
	stream_push(s, w);
	return standin_error(cudaSuccess);
}

/* ---- copies */

static void stream_run_copy(struct work *w)
{
	void *to = standin_bytes(w->to, w->size);
	const void *from = standin_bytes(w->from, w->size);

	if (to && from)
		memmove(to, from, w->size);
}

PUBLIC cudaError_t cudaMemcpyAsync(void *to, const void *from, size_t size,
				   enum cudaMemcpyKind kind, cudaStream_t s)
{
	struct work *w = stream_work(stream_run_copy);

	w->to = to;
	w->from = from;
	w->size = size;
	stream_push(s, w);
	return standin_error(cudaSuccess);
}

/* Between host and device it returns when the copy is made, within a device
 * before that. */
PUBLIC cudaError_t cudaMemcpy(void *to, const void *from, size_t size,
			      enum cudaMemcpyKind kind)
{
	cudaError_t rc = cudaMemcpyAsync(to, from, size, kind, NULL);

	return rc != cudaSuccess || kind == cudaMemcpyDeviceToDevice
		       ? rc
		       : cudaStreamSynchronize(NULL);
}

static void stream_run_set(struct work *w)
{
	void *to = standin_bytes(w->to, w->size);

	if (to)
		memset(to, w->value, w->size);
}

PUBLIC cudaError_t cudaMemset(void *p, int value, size_t size)
{
	struct work *w = stream_work(stream_run_set);

	w->to = p;
	w->size = size;
	w->value = value;
	stream_push(NULL, w);
	return standin_error(cudaSuccess);
}

/* Ordered in the stream: the memory is there when the call returns, and is
 * freed when the stream reaches the call. */
PUBLIC cudaError_t cudaMallocAsync(void **p, size_t size, cudaStream_t s)
{
	return standin_error(cudaMalloc(p, size));
}

static void stream_run_free(struct work *w)
{
	standin_release(w->to);
}

PUBLIC cudaError_t cudaFreeAsync(void *p, cudaStream_t s)
{
	struct work *w = stream_work(stream_run_free);

	w->to = p;
	stream_push(s, w);
	return standin_error(cudaSuccess);
}

/* ---- events */

PUBLIC cudaError_t cudaEventCreateWithFlags(cudaEvent_t *out, unsigned flags)
{
	struct CUevent_st *e = calloc(1, sizeof(*e));

	if (!e)
		abort();
	pthread_mutex_init(&e->lock, NULL);
	pthread_cond_init(&e->reached, NULL);
	e->users = 1;
	*out = e;
	return standin_error(cudaSuccess);
}

static void stream_drop_event(struct CUevent_st *e)
{
	int users;

	pthread_mutex_lock(&e->lock);
	users = --e->users;
	pthread_mutex_unlock(&e->lock);
	if (!users)
		free(e);
}

PUBLIC cudaError_t cudaEventDestroy(cudaEvent_t e)
{
	stream_drop_event(e);
	return standin_error(cudaSuccess);
}

static void stream_run_record(struct work *w)
{
	struct CUevent_st *e = w->event;

	pthread_mutex_lock(&e->lock);
	if (e->done < w->number)
		e->done = w->number;
	pthread_cond_broadcast(&e->reached);
	pthread_mutex_unlock(&e->lock);
	stream_drop_event(e);
}

PUBLIC cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s)
{
	struct work *w = stream_work(stream_run_record);

	pthread_mutex_lock(&e->lock);
	w->event = e;
	w->number = ++e->recorded;
	e->users++;
	pthread_mutex_unlock(&e->lock);
	stream_push(s, w);
	return standin_error(cudaSuccess);
}

static void stream_run_wait(struct work *w)
{
	struct CUevent_st *e = w->event;

	pthread_mutex_lock(&e->lock);
	while (e->done < w->number)
		pthread_cond_wait(&e->reached, &e->lock);
	pthread_mutex_unlock(&e->lock);
	stream_drop_event(e);
}

/* Waits for the most recent record at the time of this call. */
PUBLIC cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e,
				       unsigned flags)
{
	struct work *w = stream_work(stream_run_wait);

	pthread_mutex_lock(&e->lock);
	w->event = e;
	w->number = e->recorded;
	e->users++;
	pthread_mutex_unlock(&e->lock);
	stream_push(s, w);
	return standin_error(cudaSuccess);
}

PUBLIC cudaError_t cudaEventQuery(cudaEvent_t e)
{
	int pending;

	pthread_mutex_lock(&e->lock);
	pending = e->done < e->recorded;
	pthread_mutex_unlock(&e->lock);
	return standin_error(pending ? cudaErrorNotReady : cudaSuccess);
}
