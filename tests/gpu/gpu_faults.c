/* gpu_faults.c: one rank of a check of how libddp's nccl backend takes faults,
 * in CUDA or NCCL, or of the program. Prints "rank R of N: ok" or the error.
 *
 *   gpu_faults all              a little of everything, for calls that fail
 *   gpu_faults late             messages that come late, or are empty
 *   gpu_faults myself           wrong messages of a rank to itself
 *   gpu_faults leave            ddp_finalize with work that never ends
 *   gpu_faults spin RANK MS     that rank never comes; timeout of the others,
 *                               which have work on several communicators
 *   gpu_faults stray RANK MS    that rank makes another call than the others
 *   gpu_faults queued RANK MS   that rank never comes, and the others wait for
 *                               an event in a stream of their own
 *   gpu_faults numbers RANK MS  that rank never comes to a split, after calls
 *                               through host memory
 *   gpu_faults idle             joins and leaves
 *   gpu_faults ended            calls after ddp_abort
 *   gpu_faults crowd RANK MS    only that rank comes
 *   gpu_faults compressed       a reducer's gradients are sent as bf16
 *   gpu_faults registered       the program's memory is registered with NCCL,
 *                               also after an abort and another ddp_init
 */
#include <unistd.h>

#include "tests/gpu/rooms.h"

static int count_call(void *arg)
{
	++*(int *)arg;
	return 0;
}

/* Every call of CUDA's and NCCL's that libddp makes, at least once. */
static int all(int victim)
{
	static const size_t counts[] = {1 << 18};
	struct room a = room_new(1 << 20), b = room_new(1 << 20);
	struct room sum = room_new(1 << 20);
	int next = (rank + 1) % size, before = (rank + size - 1) % size;
	int devices = 0, own = 0, now = 0, once = 0;
	size_t n = 1000, each[8] = {9, 9, 9, 9, 9, 9, 9, 9};
	ddp_request *r[3];
	ddp_reducer *reducer;
	ddp_comm *group;
	void *memory;

	up(&a);
	up(&sum);
	if (ddp_warning(world)[0])
		printf("rank %d: warning: %s\n", rank, ddp_warning(world));
	cu(cudaGetDeviceCount(&devices), "device_count");
	cu(cudaGetDevice(&own), "get_device");
	/* the program's device may be another one during a call */
	cu(cudaSetDevice((own + 1) % devices), "set_device");
	must(ddp_broadcast(world, a.device, n, DDP_U8, 0), "broadcast");
	cu(cudaGetDevice(&now), "get_device");
	if (now != (own + 1) % devices)
		DIE("the program's device is %d after a call", now);
	cu(cudaSetDevice(own), "set_device");
	must(ddp_all_gather(world, a.device, b.device, n, DDP_U8),
	     "all_gather");
	must(ddp_reduce(world, a.device, b.device, n, DDP_U8, DDP_SUM, 0),
	     "reduce");
	must(ddp_reduce_scatter(world, a.device, b.device, n, DDP_U8, DDP_SUM),
	     "reduce_scatter");
	must(ddp_all_to_all(world, a.device, a.device, n, DDP_U8),
	     "all_to_all");
	must(ddp_gather(world, a.device, b.device, n, DDP_U8, 0), "gather");
	must(ddp_scatter(world, a.device, b.device, n, DDP_U8, 0), "scatter");
	must(ddp_reduce_scatter_v(world, a.device, b.device, each, DDP_U8,
				  DDP_SUM), "reduce_scatter_v");
	must(ddp_once(world, DDP_JOB, count_call, &once), "once");
	if (once != (rank == 0) || ddp_host_leader(world) != 0)
		DIE("%d calls, leader %d", once, ddp_host_leader(world));
	must(ddp_nccl_alloc(world, n, &memory), "nccl_alloc");
	must(ddp_nccl_register(world, memory, n), "nccl_register");
	ddp_nccl_free(world, memory);
	must(ddp_comm_split(world, 0, 0, &group), "split");
	must(ddp_send_async(group, a.device, n, DDP_U8, next, &r[0]),
	     "send_async");
	must(ddp_recv_async(group, b.device, n, DDP_U8, before, &r[1]),
	     "recv_async");
	/* a and b belong to the messages until they have ended */
	must(ddp_all_reduce_async(group, sum.device, sum.device, n, DDP_U8,
				  DDP_SUM, &r[2]), "all_reduce_async");
	must(ddp_wait_all(r, 3), "wait_all");
	must(ddp_reducer_new(&reducer, group, a.device, DDP_F32, counts, 1,
			     NULL), "reducer_new");
	must(ddp_reducer_begin(reducer, 1), "reducer_begin");
	must(ddp_reducer_ready(reducer, 0), "reducer_ready");
	must(ddp_reducer_finish(reducer), "reducer_finish");
	ddp_reducer_free(reducer);
	ddp_comm_free(group);
	must(ddp_barrier(world), "barrier");
	room_free(&a);
	room_free(&b);
	room_free(&sum);
	printf("rank %d of %d: ok\n", rank, size);
	ddp_finalize(world);
	return 0;
}

/* A wait that is too short, and a test that is too early, change nothing. */
static int late(int victim)
{
	struct room a = room_new(4000);
	ddp_request *r, *empty;
	int rc = 0;

	up(&a);
	must(ddp_recv_async(world, a.device, 0, DDP_F32, 1 - rank, &empty),
	     "recv_async");
	if (ddp_test(empty) != 1)
		DIE("an empty message is not done");
	must(ddp_wait(&empty), "wait");
	must(rank ? ddp_send(world, a.device, 0, DDP_F32, 0)
		  : ddp_recv(world, a.device, 0, DDP_F32, 1),
	     "an empty message");
	if (rank == 0) {
		must(ddp_recv_async(world, a.device, 1000, DDP_F32, 1, &r),
		     "recv_async");
		rc = ddp_wait_timeout(&r, 10);
		if (rc != DDP_ERR_TIMEOUT || ddp_test(r))
			DIE("done before the sender came: %d", rc);
	}
	gather_ranks("begun");
	if (rank == 1)
		must(ddp_send(world, a.device, 1000, DDP_F32, 0), "send");
	else
		must(ddp_wait(&r), "wait");
	printf("rank %d of %d: ok\n", rank, size);
	ddp_finalize(world);
	return 0;
}

static void expect_refusal(int rc, const char *part)
{
	if (rc != DDP_ERR_ARGUMENT || !strstr(ddp_last_error(), part))
		DIE("not refused with '%s': %d: %s", part, rc,
		    ddp_last_error());
}

static int myself(int victim)
{
	struct room a = room_new(4000);
	ddp_request *r;

	up(&a);
	expect_refusal(ddp_send(world, a.device, 10, DDP_F32, rank),
		       "which would wait for ever");
	ddp_finalize(world);
	start(0);
	must(ddp_recv_async(world, a.device, 10, DDP_F32, rank, &r),
	     "recv_async");
	expect_refusal(ddp_send(world, a.device, 5, DDP_F32, rank),
		       "both must have the same count and type");
	/* the communicator has ended, and so has its request */
	if (ddp_test(r) >= 0)
		DIE("a request outlived its communicator");
	printf("rank %d of %d: ok\n", rank, size);
	ddp_finalize(world);
	room_free(&a);
	return 0;
}

/* What rank 0 has begun no other rank ever joins. */
static int leave(int victim)
{
	struct room a = room_new(4000);
	ddp_request *r[3];
	ddp_comm *group;

	up(&a);
	must(ddp_comm_split(world, 0, 0, &group), "split");
	all_reduce(group, DDP_F32, DDP_SUM, 1000);
	all_reduce(world, DDP_F32, DDP_SUM, 1000);
	if (rank == 0) {
		must(ddp_all_reduce_async(world, a.device, a.device, 1000,
					  DDP_F32, DDP_SUM, &r[0]),
		     "all_reduce_async");
		must(ddp_recv_async(world, a.device, 1000, DDP_F32, 1, &r[1]),
		     "recv_async");
		/* the sender makes the id, and then waits in NCCL */
		must(ddp_send_async(world, a.device, 1000, DDP_F32, 1, &r[2]),
		     "send_async");
	}
	gather_ranks("begun");
	printf("rank %d of %d: ok\n", rank, size);
	ddp_finalize(world);
	return 0;
}

/* All ranks but the victim begin work on several communicators, and wait. */
static int spin(int victim)
{
	struct room a = room_new(4000);
	ddp_request *r[3] = {NULL};
	ddp_comm *group;
	int rc;

	up(&a);
	must(ddp_comm_split(world, 0, 0, &group), "split");
	/* the first collective of a communicator waits for all ranks */
	all_reduce(group, DDP_F32, DDP_SUM, 1000);
	all_reduce(world, DDP_F32, DDP_SUM, 1000);
	while (rank == victim)
		pause();
	must(ddp_recv_async(world, a.device, 1000, DDP_F32, victim, &r[0]),
	     "recv_async");
	must(ddp_all_reduce_async(group, a.device, a.device, 1000, DDP_F32,
				  DDP_SUM, &r[1]), "all_reduce_async");
	must(ddp_all_reduce_async(world, a.device, a.device, 1000, DDP_F32,
				  DDP_SUM, &r[2]), "all_reduce_async");
	rc = ddp_wait(&r[2]);
	printf("rank %d: %d: %s\n", rank, rc, rc ? ddp_last_error() : "");
	rc = ddp_wait(&r[1]);
	printf("rank %d: group: %d: %s\n", rank, rc,
	       rc ? ddp_last_error() : "");
	fflush(stdout);
	ddp_finalize(world);
	printf("rank %d: left\n", rank);
	return rc ? 3 : 0;
}

/* Each rank then names the call that the other one is in. */
static int stray(int victim)
{
	struct room a = room_new(8000);
	int rc;

	up(&a);
	all_reduce(world, DDP_F32, DDP_SUM, 1000);
	rc = rank == victim ? ddp_broadcast(world, a.device, 2000, DDP_F32, 0)
			    : ddp_all_reduce(world, a.device, a.device, 1000,
					     DDP_F32, DDP_SUM);
	printf("rank %d: %d: %s\n", rank, rc, rc ? ddp_last_error() : "");
	fflush(stdout);
	ddp_finalize(world);
	return rc ? 3 : 0;
}

/* The stream is first waited for with all ranks, then without the victim; then
 * with a communicator that has ended. */
static int queued(int victim)
{
	struct room a = room_new(4000);
	cudaStream_t s;
	cudaEvent_t event;
	int rc = 0;

	up(&a);
	cu(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking), "stream");
	cu(cudaEventCreateWithFlags(&event, cudaEventDisableTiming), "event");
	must(ddp_set_stream(world, s), "set_stream");
	for (int i = 0; i < 2 && !rc; i++) {
		while (i && rank == victim)
			pause();
		must(ddp_all_reduce(world, a.device, a.device, 1000, DDP_F32,
				    DDP_MAX), "all_reduce");
		cu(cudaEventRecord(event, s), "record");
		rc = ddp_wait_event(world, event);
		if (!rc)
			cu(cudaEventQuery(event), "an event that is complete");
	}
	printf("rank %d: %d: %s\n", rank, rc, rc ? ddp_last_error() : "");
	rc = ddp_wait_event(world, event);
	printf("rank %d: again: %d: %s\n", rank, rc, ddp_last_error());
	fflush(stdout);
	ddp_finalize(world);
	return rc ? 3 : 0;
}

/* Calls through host memory have numbers of their own. A rank that made the
 * last of them is late for a split, not ahead in another call. */
static int numbers(int victim)
{
	int32_t mine = 1, sum, once = 0;
	ddp_comm *group;
	int rc;

	for (int i = 0; i < 20; i++)
		must(ddp_all_reduce(world, &mine, &sum, 1, DDP_I32, DDP_SUM),
		     "all_reduce");
	must(ddp_once(world, DDP_JOB, count_call, &once), "once");
	must(ddp_comm_split(world, 0, 0, &group), "split");
	must(ddp_all_reduce(group, &mine, &sum, 1, DDP_I32, DDP_SUM),
	     "all_reduce");
	must(ddp_all_reduce(world, &mine, &sum, 1, DDP_I32, DDP_SUM),
	     "all_reduce");
	while (rank == victim)
		pause();
	rc = ddp_comm_split(world, 0, 0, &group);
	printf("rank %d: %d: %s\n", rank, rc, rc ? ddp_last_error() : "");
	fflush(stdout);
	ddp_finalize(world);
	return rc ? 3 : 0;
}

static int idle(int victim)
{
	printf("rank %d of %d: ok\n", rank, size);
	ddp_finalize(world);
	return 0;
}

static int ended(int victim)
{
	char id[128];
	int rc;

	gather_ranks("begun");
	must(ddp_abort(world, "for a test"), "ddp_abort");
	must(ddp_abort(world, "once more"), "ddp_abort");
	rc = ddp_nccl_unique_id(world, id, sizeof(id));
	if (rc != DDP_ERR_ABORTED || !strstr(ddp_last_error(), "for a test"))
		DIE("not aborted: %d: %s", rc, ddp_last_error());
	return idle(victim);
}

static int crowd(int victim)
{
	struct room a = room_new(4000);
	int rc;

	up(&a);
	all_reduce(world, DDP_F32, DDP_SUM, 1000);
	while (rank != victim)
		pause();
	rc = ddp_all_reduce(world, a.device, a.device, 1000, DDP_F32, DDP_SUM);
	printf("rank %d: %d: %s\n", rank, rc, rc ? ddp_last_error() : "");
	fflush(stdout);
	ddp_finalize(world);
	return rc ? 3 : 0;
}

static void refused(int rc, const char *words)
{
	if (rc != DDP_ERR_ARGUMENT || !strstr(ddp_last_error(), words))
		DIE("not refused with '%s': %d: %s", words, rc,
		    ddp_last_error());
}

/* An all-reduce of n floats at p, which is registered or not. */
static void sum_at(ddp_comm *c, void *p, size_t n)
{
	struct room a = room_new(n * 4), want = room_new(n * 4);
	char *own = a.device;

	a.device = p;
	fill(&a, 0, DDP_F32, DDP_SUM, rank, 0, n);
	up(&a);
	for (size_t i = 0; i < n; i++)
		put(want.host + i * 4, DDP_F32,
		    reduced(DDP_F32, DDP_SUM, size, i));
	must(ddp_all_reduce(c, p, p, n, DDP_F32, DDP_SUM), "all_reduce");
	compare(&a, &want, "registered memory", DDP_F32, DDP_SUM, n);
	a.device = own;
	room_free(&a);
	room_free(&want);
}

static int registered(int victim)
{
	enum { N = 1000, BYTES = N * 4 + FENCE };
	struct room plain = room_new(N * 4);
	ddp_comm *group;
	void *p, *q;

	must(ddp_nccl_alloc(world, BYTES, &p), "nccl_alloc");
	must(ddp_comm_split(world, 0, rank, &group), "split");
	refused(ddp_nccl_register(world, NULL, 1), "buf is NULL");
	refused(ddp_nccl_register(world, plain.host, N), "the host's memory");
	must(ddp_nccl_register(world, p, BYTES), "nccl_register");
	refused(ddp_nccl_register(world, p, 1), "registered already");
	must(ddp_nccl_register(group, p, BYTES), "nccl_register");
	must(ddp_nccl_register(world, plain.device, N * 4), "nccl_register");
	must(ddp_nccl_register(world, (char *)p + 16, 0), "nccl_register");
	sum_at(world, p, N);
	sum_at(group, p, N);
	sum_at(world, plain.device, N);
	ddp_nccl_deregister(world, plain.device);
	ddp_nccl_deregister(world, plain.device);
	ddp_nccl_deregister(group, plain.device);
	sum_at(world, plain.device, N);
	must(ddp_nccl_register(world, plain.device, N * 4), "nccl_register");
	/* p's registrations end with it, on both communicators */
	ddp_nccl_free(world, p);
	must(ddp_nccl_alloc(world, BYTES, &p), "nccl_alloc");
	must(ddp_nccl_register(group, p, BYTES), "nccl_register");
	ddp_comm_free(group);
	must(ddp_nccl_alloc(world, BYTES, &q), "nccl_alloc");
	must(ddp_nccl_register(world, q, BYTES), "nccl_register");
	gather_ranks("registered");
	must(ddp_abort(world, "for a test"), "ddp_abort");
	if (ddp_nccl_register(world, p, BYTES) != DDP_ERR_ABORTED)
		DIE("registered after an abort");
	ddp_nccl_deregister(world, plain.device);
	ddp_nccl_deregister(world, q);
	ddp_nccl_free(world, q);
	ddp_finalize(world);
	start(0);
	ddp_nccl_deregister(world, p);
	must(ddp_nccl_register(world, p, BYTES), "nccl_register");
	sum_at(world, p, N);
	ddp_nccl_free(world, p);
	must(ddp_nccl_register(world, plain.device, N * 4), "nccl_register");
	printf("rank %d of %d: ok\n", rank, size);
	ddp_finalize(world);
	room_free(&plain);
	return 0;
}

/* ---- bf16 */

/* As the CPU's: to nearest even. */
static uint32_t bf16_bits(uint32_t bits)
{
	uint32_t up = bits >> 16 & 1;

	if ((bits & 0x7fffffff) > 0x7f800000)
		return (bits | 0x400000) & 0xffff0000u;
	return (bits + 0x7fff + up) & 0xffff0000u;
}

static int hooks;
static cudaStream_t stream; /* the program's, or NULL */
static cudaStream_t reader; /* which does not wait for the default stream */

/* Leaves the bucket as it is: each rank's own gradients, converted. */
static int leave_bucket(void *arg, ddp_comm *c, void *bucket, size_t count,
			enum ddp_type type, ddp_request **request)
{
	hooks++;
	return type == DDP_BF16 ? 0 : DDP_ERR_ARGUMENT;
}

static void step(ddp_reducer *r, int n)
{
	must(ddp_reducer_begin(r, 1), "reducer_begin");
	for (int i = n - 1; i >= 0; i--)
		must(ddp_reducer_ready(r, i), "reducer_ready");
	must(ddp_reducer_finish(r), "reducer_finish");
	/* without a stream the result is there now */
	if (stream)
		cu(cudaStreamSynchronize(stream), "stream");
}

enum { COMPRESSED = 30001 };

/* All kinds of values: patterns spread over all floats, and around ties. */
static uint32_t pattern(uint32_t i)
{
	uint32_t bits = i * 2654435761u;

	return i % 3 ? bits : (bits & 0xffff0000u) + 0x7fff + i % 7;
}

static void check_conversion(ddp_reducer *r, struct room *a)
{
	uint32_t *v = (uint32_t *)(void *)a->host;

	for (uint32_t i = 0; i < COMPRESSED; i++)
		v[i] = pattern(i);
	up(a);
	step(r, 4);
	cu(cudaMemcpyAsync(a->host, a->device, COMPRESSED * 4,
			   cudaMemcpyDeviceToHost, reader), "cudaMemcpyAsync");
	cu(cudaStreamSynchronize(reader), "reader");
	for (uint32_t i = 0; i < COMPRESSED; i++)
		if (v[i] != bf16_bits(pattern(i)))
			DIE("%#x becomes %#x, not %#x", pattern(i), v[i],
			    bf16_bits(pattern(i)));
	if (hooks != 3)
		DIE("%d hooks", hooks);
}

/* Small integers, whose sums are exact. */
static void check_sums(ddp_reducer *r, struct room *a, float by)
{
	float *v = (float *)(void *)a->host;

	for (int i = 0; i < COMPRESSED; i++)
		v[i] = (float)(i % 17 + rank);
	up(a);
	step(r, 4);
	cu(cudaMemcpyAsync(a->host, a->device, COMPRESSED * 4,
			   cudaMemcpyDeviceToHost, reader), "cudaMemcpyAsync");
	cu(cudaStreamSynchronize(reader), "reader");
	for (int i = 0; i < COMPRESSED; i++) {
		float sum = (float)(i % 17 * size + size * (size - 1) / 2);

		if (v[i] != sum * by)
			DIE("element %d is %g, not %g", i, (double)v[i],
			    (double)(sum * by));
	}
}

static int compressed(int victim)
{
	static const size_t counts[] = {1, 20000, 0, COMPRESSED - 20001};
	struct ddp_reducer_options o = {.first_bucket = 4096, .bucket = 65536,
					.bf16 = 1};
	struct room a = room_new(COMPRESSED * 4);
	ddp_reducer *r;

	cu(cudaStreamCreateWithFlags(&reader, cudaStreamNonBlocking), "reader");
	must(ddp_reducer_new(&r, world, a.device, DDP_F32, counts, 4, &o),
	     "reducer_new");
	check_sums(r, &a, 1 / (float)size);
	must(ddp_reducer_use_sums(r, 1), "use_sums");
	check_sums(r, &a, 1);
	cu(cudaStreamCreateWithFlags(&stream, cudaStreamNonBlocking), "stream");
	must(ddp_set_stream(world, stream), "set_stream");
	check_sums(r, &a, 1);
	ddp_reducer_free(r);
	o.hook = leave_bucket;
	must(ddp_reducer_new(&r, world, a.device, DDP_F32, counts, 4, &o),
	     "reducer_new");
	check_conversion(r, &a);
	ddp_reducer_free(r);
	room_free(&a);
	return idle(victim);
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		int (*run)(int victim);
	} tests[] = {{"all", all},
		     {"late", late},
		     {"myself", myself},
		     {"leave", leave},
		     {"spin", spin},
		     {"stray", stray},
		     {"queued", queued},
		     {"numbers", numbers},
		     {"idle", idle},
		     {"ended", ended},
		     {"crowd", crowd},
		     {"compressed", compressed},
		     {"registered", registered}};
	const char *what = argc > 1 ? argv[1] : "";

	start(argc > 3 ? atoi(argv[3]) : 0);
	for (size_t i = 0; i < sizeof(tests) / sizeof(*tests); i++)
		if (!strcmp(what, tests[i].name))
			return tests[i].run(argc > 2 ? atoi(argv[2]) : -1);
	DIE("gpu_faults: what is '%s'?", what);
}
