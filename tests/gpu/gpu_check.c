/* gpu_check.c: one rank of a check of libddp's nccl backend on real GPUs,
 * except the collectives (gpu_collectives.c). Prints "rank R of N: ok" or the
 * error.
 *
 *   gpu_check count             prints how many GPUs there are; 1: none
 *   gpu_check version           prints NCCL's version
 *   gpu_check messages [MOST]   send and recv, in all orders, MOST elements
 *   gpu_check async             requests; groups       gpu_check groups
 *   gpu_check stream            order in a stream of the program's
 *   gpu_check reducer           gradients averaged in buckets
 *   gpu_check memory            gradients in memory of libddp's
 *   gpu_check host              host memory, and refused calls
 *   gpu_check own               ncclComm_t and ids for one's own NCCL calls
 *   gpu_check again             ddp_abort, then ddp_init once more
 *   gpu_check kill RANK         that rank is killed during the run
 *   gpu_check stall RANK MS     that rank never comes; timeout of the others
 *   gpu_check busy              groups are made behind queued collectives
 */
#include <nccl.h>
#include <semaphore.h>
#include <signal.h>
#include <time.h>
#include <unistd.h>

#include "tests/gpu/rooms.h"

/* ---- messages */

static void ring(size_t n, int send_first)
{
	size_t bytes = n * sizeof(float);
	struct room a = room_new(bytes), b = room_new(bytes);
	struct room want = room_new(bytes);
	int next = (rank + 1) % size, before = (rank + size - 1) % size;
	ddp_request *r[2] = {NULL, NULL};

	fill(&a, 0, DDP_F32, DDP_SUM, rank, 0, n);
	fill(&want, 0, DDP_F32, DDP_SUM, before, 0, n);
	up(&a);
	up(&b);
	for (int i = 0; i < 2; i++)
		if ((i == 0) == send_first)
			must(ddp_send_async(world, a.device, n, DDP_F32, next,
					    &r[i]), "send_async");
		else
			must(ddp_recv_async(world, b.device, n, DDP_F32, before,
					    &r[i]), "recv_async");
	must(ddp_wait_all(r, 2), "wait_all");
	compare(&b, &want, "a ring of messages", DDP_F32, 0, n);
	room_free(&a);
	room_free(&b);
	room_free(&want);
}

/* A message that waits must not delay a collective of the same ranks. */
static void message_around_collective(void)
{
	enum { N = 1 << 20 };
	struct room a = room_new(N * sizeof(float));
	struct room want = room_new(N * sizeof(float));
	ddp_request *r = NULL;

	fill(&want, 0, DDP_F32, DDP_SUM, 0, 0, N);
	if (rank == 0)
		fill(&a, 0, DDP_F32, DDP_SUM, 0, 0, N);
	up(&a);
	if (rank == 0)
		must(ddp_send_async(world, a.device, N, DDP_F32, 1, &r),
		     "send_async");
	all_reduce(world, DDP_F32, DDP_SUM, 1000);
	if (rank == 1)
		must(ddp_recv(world, a.device, N, DDP_F32, 0), "recv");
	must(ddp_wait(&r), "wait");
	if (rank < 2)
		compare(&a, &want, "a message around a collective", DDP_F32, 0,
			N);
	must(ddp_barrier(world), "barrier");
	room_free(&a);
	room_free(&want);
}

/* Many messages at once, blocking ones included, arrive in order. */
static void many_messages(void)
{
	enum { N = 20 };
	struct room a = room_new(N * sizeof(int32_t));
	ddp_request *r[N] = {NULL};

	for (int32_t i = 0; i < N && rank == 0; i++)
		memcpy(a.host + (size_t)i * 4, &i, 4);
	up(&a);
	for (int i = 0; i < N && rank == 0; i++) {
		char *at = a.device + i * 4;

		if (i % 3)
			must(ddp_send_async(world, at, 1, DDP_I32, 1, &r[i]),
			     "send_async");
		else
			must(ddp_send(world, at, 1, DDP_I32, 1), "send");
	}
	for (int i = 0; i < N && rank == 1; i++)
		must(ddp_recv(world, a.device + i * 4, 1, DDP_I32, 0), "recv");
	must(ddp_wait_all(r, N), "wait_all");
	down(&a);
	for (int32_t i = 0; i < N && rank < 2; i++)
		if (memcmp(a.host + (size_t)i * 4, &i, 4))
			DIE("message %d is another one's", (int)i);
	room_free(&a);
}

static void message_to_self(void)
{
	struct room a = room_new(400), b = room_new(400);
	ddp_request *r = NULL;

	fill(&a, 0, DDP_F32, DDP_SUM, rank, 0, 100);
	up(&a);
	up(&b);
	must(ddp_recv_async(world, b.device, 100, DDP_F32, rank, &r),
	     "recv_async");
	must(ddp_send(world, a.device, 100, DDP_F32, rank), "send to myself");
	must(ddp_wait(&r), "wait");
	compare(&b, &a, "a message to myself", DDP_F32, 0, 100);
	room_free(&a);
	room_free(&b);
}

static size_t most = 4 << 20;

static void messages(void)
{
	const size_t counts[] = {0, 1, 1000, most};

	message_to_self();
	if (size < 2)
		return;
	for (size_t i = 0; i < 4; i++) {
		ring(counts[i], 1);
		ring(counts[i], 0);
	}
	message_around_collective();
	many_messages();
}

/* ---- requests, groups, streams */

/* More requests at once than libddp keeps events for. */
static void many_requests(void)
{
	enum { N = 100 };
	struct room a = room_new(N * sizeof(int32_t));
	ddp_request *r[N];

	memset(a.host, 0, a.bytes);
	up(&a);
	for (int i = 0; i < N; i++)
		must(ddp_all_reduce_async(world, a.device + i * 4,
					  a.device + i * 4, 1, DDP_I32,
					  DDP_MAX, &r[i]), "all_reduce_async");
	must(ddp_wait_all(r, N), "wait_all");
	room_free(&a);
}

static void async(void)
{
	enum { N = 8, COUNT = 50000 };
	struct room a[N], want = room_new(COUNT * sizeof(float));
	ddp_request *r[N + 1];
	int rc;

	for (size_t i = 0; i < COUNT; i++)
		put(want.host + i * 4, DDP_F32,
		    reduced(DDP_F32, DDP_SUM, size, i));
	for (int i = 0; i < N; i++) {
		a[i] = room_new(COUNT * sizeof(float));
		fill(&a[i], 0, DDP_F32, DDP_SUM, rank, 0, COUNT);
		up(&a[i]);
		must(ddp_all_reduce_async(world, a[i].device, a[i].device,
					  COUNT, DDP_F32, DDP_SUM, &r[i]),
		     "all_reduce_async");
	}
	must(ddp_barrier_async(world, &r[N]), "barrier_async");
	while ((rc = ddp_test(r[0])) == 0)
		;
	if (rc != 1)
		DIE("test: %d: %s", rc, ddp_last_error());
	/* after a timeout that is too short the request still runs */
	rc = ddp_wait_timeout(&r[N], 0);
	if (rc && (rc != DDP_ERR_TIMEOUT || !r[N]))
		DIE("wait_timeout: %d: %s", rc, ddp_last_error());
	must(ddp_wait_all(r, N + 1), "wait_all");
	for (int i = 0; i < N; i++) {
		compare(&a[i], &want, "all_reduce_async", DDP_F32, 0, COUNT);
		room_free(&a[i]);
	}
	room_free(&want);
	many_requests();
}

static void groups(void)
{
	ddp_comm *half, *alone, *none;

	must(ddp_comm_split(world, rank % 2, -rank, &half), "split");
	if (ddp_world_size(half) != (size + 1 - rank % 2) / 2)
		DIE("the group has %d ranks", ddp_world_size(half));
	if (strcmp(ddp_backend(half), "nccl"))
		DIE("the group's backend is %s", ddp_backend(half));
	all_reduce(half, DDP_F32, DDP_SUM, 1000);
	must(ddp_comm_split(half, ddp_rank(half), 0, &alone), "split alone");
	all_reduce(alone, DDP_F64, DDP_SUM, 10);
	must(ddp_comm_split(world, rank == 0 ? -1 : 0, 0, &none), "split none");
	if ((none == NULL) != (rank == 0))
		DIE("who is in no group got one, or the other way round");
	if (none)
		all_reduce(none, DDP_BF16, DDP_MAX, 333);
	all_reduce(world, DDP_F32, DDP_AVG, 1000);
	ddp_comm_free(none);
	ddp_comm_free(alone);
	ddp_comm_free(half);
	all_reduce(world, DDP_F32, DDP_SUM, 10);
}

/* A group may be made while collectives are queued in the program's stream. */
static void busy(void)
{
	enum { N = 4 << 20, CALLS = 3 };
	struct room a = room_new(N * sizeof(float));
	ddp_comm *group;
	cudaStream_t s;

	up(&a);
	cu(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "stream");
	must(ddp_set_stream(world, s), "set_stream");
	for (int i = 0; i < CALLS; i++)
		must(ddp_all_reduce(world, a.device, a.device, N, DDP_F32,
				    DDP_MAX), "all_reduce");
	must(ddp_comm_split(world, 0, 0, &group), "split");
	must(ddp_set_stream(world, NULL), "set_stream");
	all_reduce(group, DDP_F32, DDP_SUM, 1000);
	ddp_comm_free(group);
	cu(cudaStreamDestroy(s), "destroy");
	room_free(&a);
}

/* Blocks a stream until the program opens the gate, or for a limited time if
 * the program waits instead. */
static sem_t gate;
static _Atomic int held_up;

static void CUDART_CB hold(void *arg)
{
	struct timespec end;

	clock_gettime(CLOCK_REALTIME, &end);
	end.tv_sec += 30;
	held_up = sem_timedwait(&gate, &end) != 0;
}

/* Opens the gate when all ranks have queued their calls: by then a call that
 * did not wait for its stream could have run. */
static void open_gate(int way)
{
	gather_ranks(way ? "queued 1" : "queued 0");
	sem_post(&gate);
}

/* A call runs after earlier work in its stream and before later work, and the
 * host never waits: the stream is blocked until everything is queued. */
static void stream(void)
{
	enum { N = 100000 };
	struct room a = room_new(N * 4), b = room_new(N * 4);
	struct room want = room_new(N * 4), from = room_new(N * 4);
	ddp_request *r;
	cudaStream_t s;

	sem_init(&gate, 0, 0);
	cu(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "stream");
	fill(&from, 0, DDP_F32, DDP_SUM, rank, 0, N);
	up(&from);
	/* NCCL may wait for the GPU when it first sees a size */
	must(ddp_all_reduce(world, a.device, b.device, N, DDP_F32, DDP_SUM),
	     "all_reduce");
	for (size_t i = 0; i < N; i++)
		put(want.host + i * 4, DDP_F32,
		    reduced(DDP_F32, DDP_SUM, size, i));
	for (int way = 0; way < 2; way++) {
		cu(cudaMemset(a.device, 0, N * 4), "memset");
		cu(cudaMemset(b.device, 0x5a, N * 4 + FENCE), "memset");
		cu(cudaDeviceSynchronize(), "synchronize");
		must(ddp_set_stream(world, s), "set_stream");
		cu(cudaLaunchHostFunc(s, hold, NULL), "host function");
		cu(cudaMemcpyAsync(a.device, from.device, N * 4,
				   cudaMemcpyDeviceToDevice, s), "copy");
		if (way == 0) {
			must(ddp_all_reduce(world, a.device, a.device, N,
					    DDP_F32, DDP_SUM), "all_reduce");
		} else {
			must(ddp_all_reduce_async(world, a.device, a.device, N,
						  DDP_F32, DDP_SUM, &r),
			     "all_reduce_async");
			must(ddp_wait(&r), "wait");
		}
		cu(cudaMemcpyAsync(b.device, a.device, N * 4,
				   cudaMemcpyDeviceToDevice, s), "copy");
		open_gate(way);
		cu(cudaStreamSynchronize(s), "synchronize");
		if (held_up)
			DIE("a call waited for what is in its stream");
		compare(&b, &want, way ? "async in a stream" : "in a stream",
			DDP_F32, 0, N);
		must(ddp_set_stream(world, NULL), "set_stream");
	}
	cu(cudaStreamDestroy(s), "destroy");
	room_free(&a);
	room_free(&b);
	room_free(&want);
	room_free(&from);
	all_reduce(world, DDP_F32, DDP_SUM, 1000);
}

static void expect_argument(int rc, const char *part)
{
	if (rc != DDP_ERR_ARGUMENT || !strstr(ddp_last_error(), part))
		DIE("not refused with '%s': %d: %s", part, rc,
		    ddp_last_error());
}

/* A step over the n gradients in a, of `count` elements in all. */
static void reducer_step(ddp_reducer *r, struct room *a, int n, size_t count)
{
	fill(a, 0, DDP_F32, DDP_SUM, rank, 0, count);
	up(a);
	must(ddp_reducer_begin(r, 1), "reducer_begin");
	for (int i = n - 1; i >= 0; i--)
		must(ddp_reducer_ready(r, i), "reducer_ready");
	must(ddp_reducer_finish(r), "reducer_finish");
}

/* The buckets of a step, last one first, while the stream still computes. */
static void reducer(void)
{
	enum { A = 1000, B = 700000, C = 7, N = A + B + C };
	static const size_t counts[] = {A, B, C};
	const struct ddp_reducer_options small = {.first_bucket = 4096,
						  .bucket = 1 << 20};
	const struct ddp_reducer_options bf16 = {.bf16 = 1, .find_unused = 1};
	struct room a = room_new(N * 4), want = room_new(N * 4);
	ddp_reducer *r;

	for (size_t i = 0; i < N; i++)
		put(want.host + i * 4, DDP_F32,
		    reduced(DDP_F32, DDP_AVG, size, i));
	must(ddp_reducer_new(&r, world, a.device, DDP_F32, counts, 3, &small),
	     "reducer_new");
	for (int step = 0; step < 3; step++) {
		reducer_step(r, &a, 3, N);
		compare(&a, &want, "reducer", DDP_F32, DDP_AVG, N);
	}
	must(ddp_reducer_use_sums(r, 1), "use_sums");
	reducer_step(r, &a, 3, N);
	for (size_t i = 0; i < N; i++)
		put(want.host + i * 4, DDP_F32,
		    reduced(DDP_F32, DDP_SUM, size, i));
	compare(&a, &want, "reducer, sums", DDP_F32, DDP_SUM, N);
	ddp_reducer_free(r);
	expect_argument(ddp_reducer_new(&r, world, a.device, DDP_F32, counts, 3,
					&bf16), "find_unused");
	room_free(&a);
	room_free(&want);
}

/* Gradients in memory that NCCL can register. */
static void memory(void)
{
	enum { N = 400000 };
	static const size_t counts[] = {N / 4, N / 4 * 3};
	struct room a = room_new(N * 4), want = room_new(N * 4);
	char *own = a.device;
	ddp_reducer *r;
	void *p;

	expect_argument(ddp_nccl_alloc(world, 1, NULL), "p is NULL");
	must(ddp_nccl_alloc(world, 0, &p), "nccl_alloc");
	if (p)
		DIE("nothing has an address");
	must(ddp_nccl_alloc(world, N * 4 + FENCE, &p), "nccl_alloc");
	a.device = p;
	for (size_t i = 0; i < N; i++)
		put(want.host + i * 4, DDP_F32,
		    reduced(DDP_F32, DDP_AVG, size, i));
	must(ddp_reducer_new(&r, world, p, DDP_F32, counts, 2, NULL),
	     "reducer_new");
	reducer_step(r, &a, 2, N);
	compare(&a, &want, "gradients in NCCL's memory", DDP_F32, DDP_AVG, N);
	ddp_reducer_free(r);
	ddp_nccl_free(world, p);
	ddp_nccl_free(world, NULL);
	a.device = own;
	room_free(&a);
	room_free(&want);
}

/* ---- host memory, and the program's own NCCL calls */

/* Hashes of data in host memory; then the last rank's differs. */
static void replicas(void)
{
	int32_t v[3] = {1, 2, 3};
	const struct ddp_span s[] = {{v, 2, DDP_I32}, {v + 2, 1, DDP_I32}};
	int rc;

	must(ddp_check_replicas(world, s, 2), "equal replicas");
	v[2] += rank == size - 1;
	rc = ddp_check_replicas(world, s, 2);
	if (rc != (size > 1 ? DDP_ERR_DATA : 0) ||
	    (rc && !strstr(ddp_last_error(), "first in span 1 of 2")))
		DIE("replicas that differ: %d: %s", rc, ddp_last_error());
}

static void host(void)
{
	int32_t v[4] = {rank, 1, 2, 3}, sum[4];
	struct room a = room_new(16);
	ddp_request *r;

	up(&a);
	must(ddp_all_reduce(world, v, sum, 4, DDP_I32, DDP_SUM), "host memory");
	if (sum[0] != size * (size - 1) / 2 || sum[3] != 3 * size)
		DIE("host memory: wrong sum");
	must(ddp_all_reduce_async(world, v, sum, 4, DDP_I32, DDP_BOR, &r),
	     "host memory, async");
	must(ddp_wait(&r), "wait");
	if (sum[1] != 1 || sum[2] != 2)
		DIE("host memory: wrong bits");
	expect_argument(
		ddp_all_reduce(world, v, a.device, 4, DDP_I32, DDP_SUM),
		"send is in the memory of the host, but recv in that of a GPU");
	expect_argument(ddp_all_reduce(world, a.device, a.device, 4, DDP_I32,
				       DDP_BAND),
			"NCCL has no bitwise operations");
	replicas();
	/* none of these errors broke the communicator */
	all_reduce(world, DDP_F32, DDP_SUM, 10);
	room_free(&a);
}

static void own(void)
{
	ncclComm_t comm = ddp_nccl_comm(world);
	ncclUniqueId id;
	int n = 0, me = -1;

	if (!comm || ncclCommCount(comm, &n) || ncclCommUserRank(comm, &me) ||
	    n != size || me != rank)
		DIE("ddp_nccl_comm: %p: rank %d of %d", (void *)comm, me, n);
	must(ddp_nccl_unique_id(world, &id, sizeof(id)), "unique_id");
	if (ncclCommInitRank(&comm, size, id, rank))
		DIE("ncclCommInitRank: %s", ncclGetLastError(NULL));
	if (ncclCommDestroy(comm))
		DIE("ncclCommDestroy: %s", ncclGetLastError(NULL));
}

/* ---- failures */

static int fail_in_loop(int victim, void (*fate)(void))
{
	struct room a = room_new(4 << 20);
	int rc = 0;

	up(&a);
	for (int i = 0; i < 1000 && !rc; i++) {
		if (rank == victim && i == 5)
			fate();
		rc = ddp_all_reduce(world, a.device, a.device, 1 << 20, DDP_F32,
				    DDP_SUM);
	}
	printf("rank %d: %d: %s\n", rank, rc, rc ? ddp_last_error() : "");
	fflush(stdout);
	ddp_finalize(world);
	return rc ? 3 : 0;
}

static void die(void)
{
	raise(SIGKILL);
}

static void stay(void)
{
	for (;;)
		pause();
}

/* Rank 0 aborts while the others are in a collective; then all start again. */
static void again(void)
{
	struct room a = room_new(4000);
	int rc;

	up(&a);
	must(ddp_barrier(world), "barrier");
	/* a rank that aborts may still owe others part of the barrier */
	gather_ranks("barrier");
	if (rank == 0) {
		must(ddp_abort(world, "for a test"), "ddp_abort");
	} else {
		rc = ddp_all_reduce(world, a.device, a.device, 1000, DDP_F32,
				    DDP_SUM);
		if (rc != DDP_ERR_ABORTED ||
		    !strstr(ddp_last_error(), "for a test"))
			DIE("not aborted: %d: %s", rc, ddp_last_error());
	}
	ddp_finalize(world);
	start(0);
	all_reduce(world, DDP_F32, DDP_SUM, 1000);
	room_free(&a);
}

static int count(void)
{
	int n = 0;
	cudaError_t rc = cudaGetDeviceCount(&n);

	if (rc == cudaSuccess && n > 0)
		printf("%d\n", n);
	else
		printf("%s\n", rc ? cudaGetErrorString(rc) : "no device");
	return rc != cudaSuccess || n < 1;
}

static int version(void)
{
	int v = 0;

	if (ncclGetVersion(&v))
		return 1;
	printf("%d\n", v);
	return 0;
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(void);
	} tests[] = {{"messages", messages},
		     {"async", async},
		     {"groups", groups},
		     {"stream", stream},
		     {"reducer", reducer},
		     {"memory", memory},
		     {"host", host},
		     {"own", own},
		     {"busy", busy},
		     {"again", again}};
	const char *what = argc > 1 ? argv[1] : "";
	int victim = argc > 2 ? atoi(argv[2]) : -1;

	if (!strcmp(what, "count"))
		return count();
	if (!strcmp(what, "version"))
		return version();
	start(argc > 3 ? atoi(argv[3]) : 0);
	if (victim > 0)
		most = (size_t)victim;
	if (!strcmp(what, "kill"))
		return fail_in_loop(victim, die);
	if (!strcmp(what, "stall"))
		return fail_in_loop(victim, stay);
	for (size_t i = 0; i < sizeof(tests) / sizeof(*tests); i++)
		if (!strcmp(what, tests[i].name)) {
			tests[i].run();
			printf("rank %d of %d: ok\n", rank, size);
			ddp_finalize(world);
			return 0;
		}
	DIE("gpu_check: what is '%s'?", what);
}
