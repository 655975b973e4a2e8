/* nccl_kernel.c: collectives and messages: the calls, and what then runs in a
 * stream. Every rank sends its data to those that need it, and reduces in the
 * order of ranks, rounding after each step, as a ring does. */
#include "nccl_standin.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "worker-sdk/math/half.h"

static size_t kernel_type_size(ncclDataType_t type)
{
	static const unsigned char sizes[] = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2};

	return sizes[type];
}

/* ---- arithmetic */

static float kernel_from_bf16(uint16_t v)
{
	uint32_t bits = (uint32_t)v << 16;
	float f;

	memcpy(&f, &bits, sizeof(f));
	return f;
}

static uint16_t kernel_to_bf16(float f)
{
	uint32_t bits;

	memcpy(&bits, &f, sizeof(bits));
	if (f != f)
		return 0x7fff;
	return (uint16_t)((bits + 0x7fff + (bits >> 16 & 1)) >> 16);
}

#define REDUCE(a, b, op)                                                       \
	((op) == ncclProd  ? (a) * (b)                                         \
	 : (op) == ncclMax ? ((b) > (a) ? (b) : (a))                           \
	 : (op) == ncclMin ? ((b) < (a) ? (b) : (a))                           \
			   : (a) + (b))

/* reduces v into at; the average of integers divides at the end, that of floats
 * multiplies each value before (src/device/reduce_kernel.h, FuncSumPostDiv and
 * FuncPreMulSum) */
#define LOOP(T, to, from)                                                      \
	for (size_t i = 0; i < n; i++) {                                       \
		T x = from(((const T *)v)[i]), y = from(((T *)at)[i]);         \
		((T *)at)[i] = (T)to((T)REDUCE(y, x, op));                     \
	}                                                                      \
	break
#define SAME(x) (x)

static void kernel_reduce_half(uint16_t *at, const uint16_t *v, size_t n,
			       ncclDataType_t type, ncclRedOp_t op)
{
	for (size_t i = 0; i < n; i++) {
		float x, y;

		if (type == ncclBfloat16) {
			x = kernel_from_bf16(v[i]);
			y = kernel_from_bf16(at[i]);
			at[i] = kernel_to_bf16(REDUCE(y, x, op));
			continue;
		}
		x = ddp__f16_to_f32(v[i]);
		y = ddp__f16_to_f32(at[i]);
		at[i] = ddp__f32_to_f16(REDUCE(y, x, op));
	}
}

static void kernel_reduce(void *at, const void *v, size_t n,
			  ncclDataType_t type, ncclRedOp_t op)
{
	switch (type) {
	case ncclInt8:
		LOOP(int8_t, SAME, SAME);
	case ncclUint8:
		LOOP(uint8_t, SAME, SAME);
	case ncclInt32:
		LOOP(int32_t, SAME, SAME);
	case ncclUint32:
		LOOP(uint32_t, SAME, SAME);
	case ncclInt64:
		LOOP(int64_t, SAME, SAME);
	case ncclUint64:
		LOOP(uint64_t, SAME, SAME);
	case ncclFloat32:
		LOOP(float, SAME, SAME);
	case ncclFloat64:
		LOOP(double, SAME, SAME);
	default:
		kernel_reduce_half(at, v, n, type, op);
	}
}

#define SCALE(T)                                                               \
	for (size_t i = 0; i < n; i++)                                         \
		((T *)at)[i] = (T)(((T *)at)[i] / (T)size);                    \
	break

static void kernel_scale_half(uint16_t *at, size_t n, ncclDataType_t type,
			      int size)
{
	for (size_t i = 0; i < n; i++) {
		if (type == ncclBfloat16) {
			at[i] = kernel_to_bf16(kernel_from_bf16(at[i]) /
					       (float)size);
			continue;
		}
		at[i] = ddp__f32_to_f16(ddp__f16_to_f32(at[i]) / (float)size);
	}
}

/* at /= size */
static void kernel_scale(void *at, size_t n, ncclDataType_t type, int size)
{
	switch (type) {
	case ncclInt8:
		SCALE(int8_t);
	case ncclUint8:
		SCALE(uint8_t);
	case ncclInt32:
		SCALE(int32_t);
	case ncclUint32:
		SCALE(uint32_t);
	case ncclInt64:
		SCALE(int64_t);
	case ncclUint64:
		SCALE(uint64_t);
	case ncclFloat32:
		SCALE(float);
	case ncclFloat64:
		SCALE(double);
	default:
		kernel_scale_half(at, n, type, size);
	}
}

/* ---- what runs in a stream */

/* Reduces the ranks' values into to. tmp has those of the others, by rank. */
static void kernel_combine(struct kernel *k, char *to, const char *own,
			   char *tmp, size_t bytes)
{
	struct ncclComm *c = k->comm;
	int is_float = k->type >= ncclFloat16;
	int before = k->op == ncclAvg && is_float;

	memcpy(tmp + (size_t)c->rank * bytes, own, bytes);
	for (int r = 0; r < c->size; r++) {
		char *v = tmp + (size_t)r * bytes;

		if (before)
			kernel_scale(v, k->count, k->type, c->size);
		if (r)
			kernel_reduce(tmp, v, k->count, k->type, k->op);
	}
	if (k->op == ncclAvg && !before)
		kernel_scale(tmp, k->count, k->type, c->size);
	memcpy(to, tmp, bytes);
}

/* all_reduce, reduce, reduce_scatter: `own` begins at the part of this rank. */
static void kernel_run_reduction(struct kernel *k)
{
	struct ncclComm *c = k->comm;
	size_t bytes = k->count * kernel_type_size(k->type);
	size_t n = (size_t)c->size;
	int parts = k->kind == KERNEL_REDUCE_SCATTER;
	int gets = k->kind != KERNEL_REDUCE || k->root == c->rank;
	char *send = standin_bytes(k->send, parts ? bytes * n : bytes);
	char *recv = gets ? standin_bytes(k->recv, bytes) : NULL;
	struct mesh_part *out = calloc(2 * n, sizeof(*out)), *in = out + n;
	char *tmp = gets ? malloc(bytes * n) : NULL;
	int nout = 0, nin = 0;

	for (int r = 0; r < c->size; r++) {
		if (r == c->rank)
			continue;
		if (k->kind != KERNEL_REDUCE || k->root == r)
			out[nout++] = (struct mesh_part){
				r, send + (parts ? (size_t)r * bytes : 0),
				bytes};
		if (gets)
			in[nin++] = (struct mesh_part){
				r, tmp + (size_t)r * bytes, bytes};
	}
	if (send && (recv || !gets) &&
	    mesh_exchange(&c->mesh, out, nout, in, nin, &c->stop, &c->lost) ==
		    MESH_OK && gets)
		kernel_combine(k, recv,
			       send + (parts ? (size_t)c->rank * bytes : 0),
			       tmp, bytes);
	free(out);
	free(tmp);
}

/* broadcast, all_gather */
static void kernel_run_copies(struct kernel *k)
{
	struct ncclComm *c = k->comm;
	size_t bytes = k->count * kernel_type_size(k->type);
	size_t n = (size_t)c->size;
	int all = k->kind == KERNEL_ALL_GATHER;
	int gives = all || k->root == c->rank;
	char *send = gives ? standin_bytes(k->send, bytes) : NULL;
	char *recv = standin_bytes(k->recv, all ? bytes * n : bytes);
	struct mesh_part *out = calloc(2 * n, sizeof(*out)), *in = out + n;
	int nout = 0, nin = 0;

	if (gives && send && recv)
		memmove(recv + (all ? (size_t)c->rank * bytes : 0), send,
			bytes);
	for (int r = 0; r < c->size; r++) {
		if (r == c->rank)
			continue;
		if (gives)
			out[nout++] = (struct mesh_part){r, send, bytes};
		if (all || k->root == r)
			in[nin++] = (struct mesh_part){
				r, recv + (all ? (size_t)r * bytes : 0), bytes};
	}
	if (recv && (send || !gives))
		mesh_exchange(&c->mesh, out, nout, in, nin, &c->stop,
			      &c->lost);
	free(out);
}

/* The messages of a group; those to this rank itself are copies. */
static void kernel_run_messages(struct kernel *first)
{
	struct ncclComm *c = first->comm;
	struct kernel *self = NULL;
	struct mesh_part *out, *in;
	int n = 0, nout = 0, nin = 0;

	for (struct kernel *k = first; k; k = k->next)
		n++;
	out = calloc(2 * (size_t)n, sizeof(*out));
	in = out + n;
	for (struct kernel *k = first; k; k = k->next) {
		size_t bytes = k->count * kernel_type_size(k->type);
		struct mesh_part p = {k->root, NULL, bytes};

		p.at = standin_bytes(k->kind == KERNEL_SEND ? k->send : k->recv,
				     bytes);
		if (!p.at)
			continue;
		if (k->root == c->rank && self)
			memmove(k->kind == KERNEL_SEND
					? standin_bytes(self->recv, bytes)
					: p.at,
				k->kind == KERNEL_SEND
					? p.at
					: standin_bytes(self->send, bytes),
				bytes);
		if (k->root == c->rank)
			self = self ? NULL : k;
		else if (k->kind == KERNEL_SEND)
			out[nout++] = p;
		else
			in[nin++] = p;
	}
	mesh_exchange(&c->mesh, out, nout, in, nin, &c->stop, &c->lost);
	free(out);
}

/* Kernels of a communicator run in the order of their calls, whatever their
 * streams. */
static void CUDART_CB kernel_run(void *arg)
{
	struct kernel *k = arg, *next;
	struct ncclComm *c = k->comm;

	while (c->finished < k->number && !c->stop)
		nanosleep(&(struct timespec){0, 20000}, NULL);
	if (c->stop)
		;
	else if (k->kind >= KERNEL_SEND)
		kernel_run_messages(k);
	else if (k->kind >= KERNEL_BROADCAST)
		kernel_run_copies(k);
	else
		kernel_run_reduction(k);
	c->finished++;
	for (; k; k = next) {
		next = k->next;
		free(k);
	}
}

ncclResult_t kernel_launch(struct kernel *k)
{
	k->number = k->comm->launched++;
	return cudaLaunchHostFunc(k->stream, kernel_run, k) == cudaSuccess
		       ? ncclSuccess
		       : ncclUnhandledCudaError;
}

/* ---- the calls */

/* src/misc/argcheck.cc, ArgsCheck */
static ncclResult_t kernel_check(const struct kernel *k, const char *call)
{
	if (k->root < 0 || k->root >= k->comm->size) {
		standin_warn("%s : invalid root %d (root should be in the "
			     "0..%d range)", call, k->root, k->comm->size);
		return ncclInvalidArgument;
	}
	if ((int)k->type < 0 || k->type >= ncclNumTypes) {
		standin_warn("%s : invalid type %d", call, (int)k->type);
		return ncclInvalidArgument;
	}
	if ((int)k->op < 0 || k->op >= ncclNumOps) {
		standin_warn("%s : invalid reduction operation %d", call,
			     (int)k->op);
		return ncclInvalidArgument;
	}
	return ncclSuccess;
}

/* src/enqueue.cc, ncclEnqueueCheck. An error becomes the state of a
 * non-blocking communicator. */
static ncclResult_t kernel_enqueue(const struct kernel *call, const char *name)
{
	ncclResult_t rc = comm_check(call->comm, name);
	struct task *t;

	standin_log(name);
	if (rc)
		return group_note(rc);
	rc = group_enter();
	if (rc)
		return rc;
	rc = group_ready(call->comm);
	if (!rc)
		rc = kernel_check(call, name);
	if (!rc && (call->count || call->kind >= KERNEL_SEND)) {
		t = group_task(call->comm);
		t->kernel = malloc(sizeof(*t->kernel));
		if (!t->kernel)
			abort();
		*t->kernel = *call;
		rc = group_add(t);
	}
	group_note(rc);
	if (rc && !call->comm->blocking)
		call->comm->state = (int)rc;
	if (rc)
		group_leave();
	else
		rc = group_leave();
	return comm_result(call->comm, rc);
}

PUBLIC ncclResult_t ncclAllReduce(const void *send, void *recv, size_t count,
				  ncclDataType_t type, ncclRedOp_t op,
				  ncclComm_t comm, cudaStream_t stream)
{
	return kernel_enqueue(&(struct kernel){.kind = KERNEL_ALL_REDUCE,
					       .comm = comm,
					       .send = send,
					       .recv = recv,
					       .count = count,
					       .type = type,
					       .op = op,
					       .stream = stream},
			      "AllReduce");
}

PUBLIC ncclResult_t ncclReduce(const void *send, void *recv, size_t count,
			       ncclDataType_t type, ncclRedOp_t op, int root,
			       ncclComm_t comm, cudaStream_t stream)
{
	return kernel_enqueue(&(struct kernel){.kind = KERNEL_REDUCE,
					       .comm = comm,
					       .send = send,
					       .recv = recv,
					       .count = count,
					       .type = type,
					       .op = op,
					       .root = root,
					       .stream = stream},
			      "Reduce");
}

PUBLIC ncclResult_t ncclReduceScatter(const void *send, void *recv,
				      size_t count, ncclDataType_t type,
				      ncclRedOp_t op, ncclComm_t comm,
				      cudaStream_t stream)
{
	return kernel_enqueue(&(struct kernel){.kind = KERNEL_REDUCE_SCATTER,
					       .comm = comm,
					       .send = send,
					       .recv = recv,
					       .count = count,
					       .type = type,
					       .op = op,
					       .stream = stream},
			      "ReduceScatter");
}

PUBLIC ncclResult_t ncclBroadcast(const void *send, void *recv, size_t count,
				  ncclDataType_t type, int root,
				  ncclComm_t comm, cudaStream_t stream)
{
	return kernel_enqueue(&(struct kernel){.kind = KERNEL_BROADCAST,
					       .comm = comm,
					       .send = send,
					       .recv = recv,
					       .count = count,
					       .type = type,
					       .root = root,
					       .stream = stream},
			      "Broadcast");
}

PUBLIC ncclResult_t ncclAllGather(const void *send, void *recv, size_t count,
				  ncclDataType_t type, ncclComm_t comm,
				  cudaStream_t stream)
{
	return kernel_enqueue(&(struct kernel){.kind = KERNEL_ALL_GATHER,
					       .comm = comm,
					       .send = send,
					       .recv = recv,
					       .count = count,
					       .type = type,
					       .stream = stream},
			      "AllGather");
}

PUBLIC ncclResult_t ncclSend(const void *buf, size_t count, ncclDataType_t type,
			     int peer, ncclComm_t comm, cudaStream_t stream)
{
	return kernel_enqueue(&(struct kernel){.kind = KERNEL_SEND,
					       .comm = comm,
					       .send = buf,
					       .count = count,
					       .type = type,
					       .root = peer,
					       .stream = stream},
			      "Send");
}

PUBLIC ncclResult_t ncclRecv(void *buf, size_t count, ncclDataType_t type,
			     int peer, ncclComm_t comm, cudaStream_t stream)
{
	return kernel_enqueue(&(struct kernel){.kind = KERNEL_RECV,
					       .comm = comm,
					       .recv = buf,
					       .count = count,
					       .type = type,
					       .root = peer,
					       .stream = stream},
			      "Recv");
}
