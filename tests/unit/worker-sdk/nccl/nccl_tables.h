/* nccl_tables.h: tables of CUDA's and NCCL's functions that do nothing, for
 * failures that the stand-ins in tests/gpu/standin cannot be brought to; a
 * world of one process; memory that runs out. Include it in one file. The
 * Makefile wraps the functions that a test file replaces. */
#ifndef TESTS_UNIT_NCCL_TABLES_H
#define TESTS_UNIT_NCCL_TABLES_H

#include <check.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "worker-sdk/nccl/nccl_backend.h"

/* ---- the next failure ---- */

/* How many calls of the tables succeed before one fails; < 0: none fails. */
static int table_calls_left = -1;
static int allocations_left = -1; /* the same for malloc and calloc */

static int fails_now(int *left)
{
	return *left >= 0 && (*left)-- == 0;
}

static int table_call(void)
{
	/* CUDA's "invalid value", and NCCL's "unhandled CUDA error" */
	return fails_now(&table_calls_left) ? DDP__NCCL_CUDA : 0;
}

void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);
void *__real_calloc(size_t n, size_t each);
void *__wrap_calloc(size_t n, size_t each);

void *__wrap_malloc(size_t n)
{
	return fails_now(&allocations_left) ? NULL : __real_malloc(n);
}

void *__wrap_calloc(size_t n, size_t each)
{
	return fails_now(&allocations_left) ? NULL : __real_calloc(n, each);
}

/* ---- CUDA ---- */

static int table_device(int *device)
{
	*device = 0;
	return 0;
}

static int table_set_device(int device)
{
	return 0;
}

static int table_no_error(void)
{
	return 0;
}

static int table_pointer(struct ddp__cuda_pointer *out, const void *p)
{
	out->memory = DDP__CUDA_DEVICE;
	return table_call();
}

static int table_stream(void **stream, unsigned flags, int priority)
{
	*stream = stream;
	return table_call();
}

static int table_stream_wait(void *stream, void *event, unsigned flags)
{
	return table_call();
}

static int table_event(void **event, unsigned flags)
{
	*event = event;
	return table_call();
}

static int table_record(void *event, void *stream)
{
	return table_call();
}

static int table_end(void *p)
{
	return 0;
}

static int table_query(void *event)
{
	return DDP__CUDA_NOT_READY;
}

static const char *table_text(int rc)
{
	return "a failure of the test";
}

static const struct ddp__cuda table_cuda = {
	.get_device = table_device,
	.set_device = table_set_device,
	.peek_error = table_no_error,
	.last_error = table_no_error,
	.pointer = table_pointer,
	.stream_create = table_stream,
	.stream_destroy = table_end,
	.stream_wait = table_stream_wait,
	.event_create = table_event,
	.event_destroy = table_end,
	.event_record = table_record,
	.event_query = table_query,
	.free = table_end,
	.error_text = table_text,
};

/* ---- NCCL ---- */

static int aborted, scalable, async_state;

static int table_id(struct ddp__nccl_id *id)
{
	memset(id, 7, sizeof(*id));
	return table_call();
}

static int table_init(void **comm, int ranks, struct ddp__nccl_id id, int rank,
		      struct ddp__nccl_config *config)
{
	*comm = comm;
	return table_call();
}

static int table_init_scalable(void **comm, int ranks, int rank, int n,
			       struct ddp__nccl_id *ids,
			       struct ddp__nccl_config *config)
{
	*comm = comm;
	scalable = n;
	return table_call();
}

static int table_abort(void *comm)
{
	aborted++;
	return 0;
}

static int table_async_error(void *comm, int *state)
{
	*state = async_state;
	return table_call();
}

static int table_send(const void *buf, size_t count, int type, int peer,
		      void *comm, void *stream)
{
	return table_call();
}

static int table_recv(void *buf, size_t count, int type, int peer, void *comm,
		      void *stream)
{
	return table_call();
}

static struct ddp__nccl_lib table_nccl = {
	.get_unique_id = table_id,
	.init = table_init,
	.init_scalable = table_init_scalable,
	.finalize = table_end,
	.destroy = table_end,
	.abort = table_abort,
	.async_error = table_async_error,
	.group_start = table_no_error,
	.group_end = table_no_error,
	.send = table_send,
	.recv = table_recv,
	.error_text = table_text,
	.version = 22809,
};

/* ---- a world ---- */

static struct ddp__world test_world = {.timeout_ms = -1};

/* Its first communicator: this is rank `rank` of `size`. */
static inline struct ddp_comm *test_world_open(int rank, int size)
{
	struct err e = ERR_INIT;
	struct ddp_comm *c = ddp__comm_new(&test_world);

	ck_assert_ptr_nonnull(c);
	ck_assert_int_eq(ddp__kv_local(&test_world.kv, &e), 0);
	c->rank = rank;
	c->size = size;
	c->backend = &ddp__cpu;
	return c;
}

static inline void test_world_close(void)
{
	while (test_world.comms)
		ddp__comm_free(test_world.comms);
	test_world.kv->ops->free(test_world.kv);
	test_world.kv = NULL;
}

/* A communicator of the tables. */
static inline struct ddp__nccl *test_nccl(int rank, int size)
{
	struct ddp__nccl *n = calloc(1, sizeof(*n));

	n->c = test_world_open(rank, size);
	n->cuda = &table_cuda;
	n->lib = &table_nccl;
	return n;
}

static inline void test_nccl_close(struct ddp__nccl *n)
{
	ddp__nccl_pairs_free(n, 0);
	free(n);
	test_world_close();
}

#endif
