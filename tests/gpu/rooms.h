/* rooms.h: shared by the programs that check libddp on GPUs: a rank, numbers
 * whose sums are exact in any order, memory on host and device, all_reduce.
 * Compares every result with the CPU's, bit by bit. */
#ifndef TESTS_ROOMS_H
#define TESTS_ROOMS_H

#include <cuda_runtime_api.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/programs/sdk/ranks.h"
#include "worker-sdk/ddp.h"
#include "worker-sdk/math/half.h"

static ddp_comm *world;

static inline void cu(cudaError_t rc, const char *what)
{
	if (rc != cudaSuccess)
		DIE("%s: %s", what, cudaGetErrorString(rc));
}

/* ---- numbers: exact in every type, sums of 8 ranks too */

static inline double value(enum ddp_type type, enum ddp_op op, int r,
			   size_t i)
{
	int v = (int)((i * 7 + (size_t)r * 5) % 11);

	if (op == DDP_PROD)
		return v % 4 ? 1 : 2;
	return type == DDP_U8 ? v : v - 5;
}

static inline double reduced(enum ddp_type type, enum ddp_op op, int n,
			     size_t i)
{
	double all = value(type, op, 0, i);

	for (int r = 1; r < n; r++) {
		double v = value(type, op, r, i);

		if (op == DDP_PROD)
			all *= v;
		else if (op == DDP_MIN)
			all = v < all ? v : all;
		else if (op == DDP_MAX)
			all = v > all ? v : all;
		else
			all += v;
	}
	if (op != DDP_AVG)
		return all;
	if (type == DDP_I8 || type == DDP_U8 || type == DDP_I32 ||
	    type == DDP_I64)
		return (double)((int)all / n);
	return all / n;
}

static inline void put(char *at, enum ddp_type type, double v)
{
	float f = (float)v;
	int32_t i = (int32_t)v;
	int64_t l = (int64_t)v;
	int8_t b = (int8_t)v;
	uint8_t u = (uint8_t)v;
	uint16_t h = ddp__f32_to_f16(f), bf;
	uint32_t bits;

	memcpy(&bits, &f, sizeof(bits));
	bf = (uint16_t)(bits >> 16);
	const void *from[DDP_TYPES] = {
		[DDP_F32] = &f, [DDP_F64] = &v,	 [DDP_I32] = &i,
		[DDP_I64] = &l, [DDP_F16] = &h,	 [DDP_BF16] = &bf,
		[DDP_I8] = &b,	[DDP_U8] = &u};
	memcpy(at, from[type], ddp_type_size(type));
}

/* ---- memory: a copy on the host, one on the device, a fence after it */

enum { FENCE = 64, ROOMS_MAX = 64 };

/* The hosts' copies, so that LeakSanitizer finds those of a program that ends
 * after a failure. */
static char *room_hosts[ROOMS_MAX];

/* Changes one entry, from NULL or to NULL. */
static inline void room_keep(const char *from, char *to)
{
	int i = 0;

	while (i < ROOMS_MAX && room_hosts[i] != from)
		i++;
	if (i < ROOMS_MAX)
		room_hosts[i] = to;
}

struct room {
	char *host, *device;
	size_t bytes;
};

static inline struct room room_new(size_t bytes)
{
	struct room r = {malloc(bytes + FENCE), NULL, bytes};

	if (!r.host)
		DIE("no memory");
	room_keep(NULL, r.host);
	memset(r.host, 0x5a, bytes + FENCE);
	cu(cudaMalloc((void **)&r.device, bytes + FENCE), "cudaMalloc");
	return r;
}

static inline void up(struct room *r)
{
	cu(cudaMemcpy(r->device, r->host, r->bytes + FENCE,
		      cudaMemcpyHostToDevice), "cudaMemcpy");
}

static inline void down(struct room *r)
{
	cu(cudaMemcpy(r->host, r->device, r->bytes + FENCE,
		      cudaMemcpyDeviceToHost), "cudaMemcpy");
}

static inline void room_free(struct room *r)
{
	room_keep(r->host, NULL);
	free(r->host);
	cu(cudaFree(r->device), "cudaFree");
}

/* Fills n elements of the host's copy, from element `at` on, with rank r's
 * values from i on. */
static inline void fill(struct room *room, size_t at, enum ddp_type type,
			enum ddp_op op, int r, size_t i, size_t n)
{
	size_t elem = ddp_type_size(type);

	for (size_t k = 0; k < n; k++)
		put(room->host + (at + k) * elem, type,
		    value(type, op, r, i + k));
}

static inline void compare(struct room *got, const struct room *want,
			   const char *what, enum ddp_type type, int op,
			   size_t count)
{
	down(got);
	for (size_t i = 0; i < want->bytes; i++)
		if (got->host[i] != want->host[i])
			DIE("%s: type %d op %d count %zu: wrong from byte %zu "
			    "of %zu on", what, (int)type, op, count, i,
			    want->bytes);
	for (size_t i = want->bytes; i < want->bytes + FENCE; i++)
		if (got->host[i] != 0x5a)
			DIE("%s: type %d op %d count %zu: wrote past its end",
			    what, (int)type, op, count);
}

static inline void all_reduce(ddp_comm *c, enum ddp_type type, enum ddp_op op,
		       size_t n)
{
	size_t bytes = n * ddp_type_size(type);
	struct room a = room_new(bytes), b = room_new(bytes);
	struct room want = room_new(bytes);
	int members = ddp_world_size(c);

	fill(&a, 0, type, op, ddp_rank(c), 0, n);
	up(&a);
	up(&b);
	for (size_t i = 0; i < n; i++)
		put(want.host + i * ddp_type_size(type), type,
		    reduced(type, op, members, i));
	must(ddp_all_reduce(c, a.device, b.device, n, type, op), "all_reduce");
	compare(&b, &want, "all_reduce", type, op, n);
	must(ddp_all_reduce(c, a.device, a.device, n, type, op),
	     "all_reduce in place");
	compare(&a, &want, "all_reduce in place", type, op, n);
	room_free(&a);
	room_free(&b);
	room_free(&want);
}

/* Waits in the store until all ranks are here. */
static inline void gather_ranks(const char *what)
{
	char came[32], all[32];
	int64_t n;

	snprintf(came, sizeof(came), "came/%s", what);
	snprintf(all, sizeof(all), "all/%s", what);
	must(ddp_store_add(world, came, 1, &n), "store_add");
	if (n == size)
		must(ddp_store_set(world, all, "", 0), "store_set");
	if (ddp_store_get(world, all, NULL, 0, -1))
		DIE("store_get: %s", ddp_last_error());
}

static inline void start(int timeout_ms)
{
	struct ddp_options o = {.backend = "nccl", .timeout_ms = timeout_ms};

	must(ddp_init(&world, &o), "ddp_init");
	rank = ddp_rank(world);
	size = ddp_world_size(world);
	if (strcmp(ddp_backend(world), "nccl"))
		DIE("the backend is %s", ddp_backend(world));
}

#endif
