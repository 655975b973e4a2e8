/* gpu_collectives.c: every collective, type, operation and several counts on
 * GPUs, in place and not. With an argument it tries fewer operations and
 * counts, since ranks that share a GPU are slow. Prints "rank R of N: ok" or
 * the error.
 *
 *   gpu_collectives [few]
 *   gpu_collectives differ CALL   rank 1 has other counts in CALL (all_gather_v
 *                                 ...); prints "rank R: ERROR" */
#include "tests/gpu/rooms.h"

enum { MOST_RANKS = 64 };

static void reduce(enum ddp_type type, enum ddp_op op, size_t n)
{
	size_t bytes = n * ddp_type_size(type);
	struct room a = room_new(bytes), b = room_new(bytes);
	struct room want = room_new(bytes);
	int root = size - 1;

	fill(&a, 0, type, op, rank, 0, n);
	up(&a);
	up(&b);
	for (size_t i = 0; i < n && rank == root; i++)
		put(want.host + i * ddp_type_size(type), type,
		    reduced(type, op, size, i));
	must(ddp_reduce(world, a.device, rank == root ? b.device : NULL, n,
			type, op, root), "reduce");
	compare(&b, &want, "reduce", type, op, n);
	room_free(&a);
	room_free(&b);
	room_free(&want);
}

static void reduce_scatter(enum ddp_type type, enum ddp_op op, size_t n)
{
	size_t elem = ddp_type_size(type), all = n * (size_t)size;
	struct room a = room_new(all * elem), b = room_new(n * elem);
	struct room want = room_new(n * elem);
	size_t own = (size_t)rank * n;

	fill(&a, 0, type, op, rank, 0, all);
	up(&a);
	up(&b);
	for (size_t i = 0; i < n; i++)
		put(want.host + i * elem, type,
		    reduced(type, op, size, own + i));
	must(ddp_reduce_scatter(world, a.device, b.device, n, type, op),
	     "reduce_scatter");
	compare(&b, &want, "reduce_scatter", type, op, n);
	must(ddp_reduce_scatter(world, a.device, a.device + own * elem, n, type,
				op), "reduce_scatter in place");
	cu(cudaMemcpy(b.device, a.device + own * elem, n * elem,
		      cudaMemcpyDeviceToDevice), "cudaMemcpy");
	compare(&b, &want, "reduce_scatter in place", type, op, n);
	room_free(&a);
	room_free(&b);
	room_free(&want);
}

static void broadcast(enum ddp_type type, size_t n)
{
	size_t bytes = n * ddp_type_size(type);
	struct room a = room_new(bytes), want = room_new(bytes);
	int root = size / 2;

	fill(&a, 0, type, DDP_SUM, rank, 0, n);
	fill(&want, 0, type, DDP_SUM, root, 0, n);
	up(&a);
	must(ddp_broadcast(world, a.device, n, type, root), "broadcast");
	compare(&a, &want, "broadcast", type, 0, n);
	room_free(&a);
	room_free(&want);
}

static void gathers(enum ddp_type type, size_t n)
{
	size_t elem = ddp_type_size(type), all = n * (size_t)size;
	struct room a = room_new(n * elem), b = room_new(all * elem);
	struct room want = room_new(all * elem), empty = room_new(all * elem);
	size_t own = (size_t)rank * n * elem;
	int root = size - 1;

	fill(&a, 0, type, DDP_SUM, rank, 0, n);
	for (int r = 0; r < size; r++)
		fill(&want, (size_t)r * n, type, DDP_SUM, r, 0, n);
	up(&a);
	up(&b);
	must(ddp_all_gather(world, a.device, b.device, n, type), "all_gather");
	compare(&b, &want, "all_gather", type, 0, n);
	up(&empty);
	cu(cudaMemcpy(empty.device + own, a.device, n * elem,
		      cudaMemcpyDeviceToDevice), "cudaMemcpy");
	must(ddp_all_gather(world, empty.device + own, empty.device, n, type),
	     "all_gather in place");
	compare(&empty, &want, "all_gather in place", type, 0, n);
	memset(b.host, 0x5a, b.bytes);
	up(&b);
	must(ddp_gather(world, a.device, b.device, n, type, root), "gather");
	if (rank != root)
		memset(want.host, 0x5a, want.bytes);
	compare(&b, &want, "gather", type, 0, n);
	room_free(&a);
	room_free(&b);
	room_free(&want);
	room_free(&empty);
}

static void scatter(enum ddp_type type, size_t n)
{
	size_t elem = ddp_type_size(type), all = n * (size_t)size;
	struct room a = room_new(all * elem), b = room_new(n * elem);
	struct room want = room_new(n * elem);
	int root = size - 1;

	fill(&a, 0, type, DDP_SUM, root, 0, all);
	fill(&want, 0, type, DDP_SUM, root, (size_t)rank * n, n);
	up(&a);
	up(&b);
	must(ddp_scatter(world, rank == root ? a.device : NULL, b.device, n,
			 type, root), "scatter");
	compare(&b, &want, "scatter", type, 0, n);
	room_free(&a);
	room_free(&b);
	room_free(&want);
}

static void all_to_all(enum ddp_type type, size_t n)
{
	size_t elem = ddp_type_size(type), all = n * (size_t)size;
	struct room a = room_new(all * elem), b = room_new(all * elem);
	struct room want = room_new(all * elem);

	fill(&a, 0, type, DDP_SUM, rank, 0, all);
	for (int r = 0; r < size; r++)
		fill(&want, (size_t)r * n, type, DDP_SUM, r, (size_t)rank * n,
		     n);
	up(&a);
	up(&b);
	must(ddp_all_to_all(world, a.device, b.device, n, type), "all_to_all");
	compare(&b, &want, "all_to_all", type, 0, n);
	must(ddp_all_to_all(world, a.device, a.device, n, type),
	     "all_to_all in place");
	compare(&a, &want, "all_to_all in place", type, 0, n);
	room_free(&a);
	room_free(&b);
	room_free(&want);
}

/* Elements of rank `from` for rank `to`: every fourth pair has none. */
static size_t count_of(size_t n, int from, int to)
{
	return (from + to) % 4 == 1 ? 0 : n / (size_t)(to + 1) + (size_t)from;
}

static size_t sum(const size_t *counts, int n)
{
	size_t all = 0;

	for (int r = 0; r < n; r++)
		all += counts[r];
	return all;
}

static void all_gather_v(enum ddp_type type, size_t n)
{
	size_t counts[MOST_RANKS], elem = ddp_type_size(type), all, own;
	struct room a, b, want;

	for (int r = 0; r < size; r++)
		counts[r] = count_of(n, r, 0);
	all = sum(counts, size);
	own = sum(counts, rank) * elem;
	a = room_new(counts[rank] * elem);
	b = room_new(all * elem);
	want = room_new(all * elem);
	fill(&a, 0, type, DDP_SUM, rank, 0, counts[rank]);
	for (int r = 0; r < size; r++)
		fill(&want, sum(counts, r), type, DDP_SUM, r, 0, counts[r]);
	up(&a);
	up(&b);
	must(ddp_all_gather_v(world, a.device, b.device, counts, type),
	     "all_gather_v");
	compare(&b, &want, "all_gather_v", type, 0, n);
	memset(b.host, 0x5a, b.bytes);
	up(&b);
	cu(cudaMemcpy(b.device + own, a.device, counts[rank] * elem,
		      cudaMemcpyDeviceToDevice), "cudaMemcpy");
	must(ddp_all_gather_v(world, b.device + own, b.device, counts, type),
	     "all_gather_v in place");
	compare(&b, &want, "all_gather_v in place", type, 0, n);
	room_free(&a);
	room_free(&b);
	room_free(&want);
}

static void reduce_scatter_v(enum ddp_type type, enum ddp_op op, size_t n)
{
	size_t counts[MOST_RANKS], elem = ddp_type_size(type), all, own, mine;
	struct room a, b, want;

	for (int r = 0; r < size; r++)
		counts[r] = count_of(n, r, 0);
	all = sum(counts, size);
	own = sum(counts, rank);
	mine = counts[rank];
	a = room_new(all * elem);
	b = room_new(mine * elem);
	want = room_new(mine * elem);
	fill(&a, 0, type, op, rank, 0, all);
	up(&a);
	up(&b);
	for (size_t i = 0; i < mine; i++)
		put(want.host + i * elem, type,
		    reduced(type, op, size, own + i));
	must(ddp_reduce_scatter_v(world, a.device, b.device, counts, type, op),
	     "reduce_scatter_v");
	compare(&b, &want, "reduce_scatter_v", type, op, n);
	must(ddp_reduce_scatter_v(world, a.device, a.device + own * elem,
				  counts, type, op),
	     "reduce_scatter_v in place");
	cu(cudaMemcpy(b.device, a.device + own * elem, mine * elem,
		      cudaMemcpyDeviceToDevice), "cudaMemcpy");
	compare(&b, &want, "reduce_scatter_v in place", type, op, n);
	room_free(&a);
	room_free(&b);
	room_free(&want);
}

static void all_to_all_v(enum ddp_type type, size_t n)
{
	size_t sends[MOST_RANKS], recvs[MOST_RANKS];
	size_t elem = ddp_type_size(type);
	struct room a, b, want;
	ddp_request *r = NULL;

	for (int k = 0; k < size; k++) {
		sends[k] = count_of(n, rank, k);
		recvs[k] = count_of(n, k, rank);
	}
	a = room_new(sum(sends, size) * elem);
	b = room_new(sum(recvs, size) * elem);
	want = room_new(sum(recvs, size) * elem);
	for (int k = 0; k < size; k++) {
		fill(&a, sum(sends, k), type, DDP_SUM, rank, 0, sends[k]);
		fill(&want, sum(recvs, k), type, DDP_SUM, k, 0, recvs[k]);
	}
	up(&a);
	up(&b);
	must(ddp_all_to_all_v(world, a.device, sends, b.device, recvs, type),
	     "all_to_all_v");
	compare(&b, &want, "all_to_all_v", type, 0, n);
	memset(b.host, 0x5a, b.bytes);
	up(&b);
	must(ddp_all_to_all_v_async(world, a.device, sends, b.device, recvs,
				    type, &r), "all_to_all_v_async");
	must(ddp_wait(&r), "all_to_all_v_async");
	compare(&b, &want, "all_to_all_v_async", type, 0, n);
	room_free(&a);
	room_free(&b);
	room_free(&want);
}

/* A mistake, so it must be the last call: NCCL would hang. */
static void counts_differ(const char *call)
{
	/* never freed: after a failure some NCCL releases hang in cudaFree */
	static struct room a, b;
	size_t counts[MOST_RANKS];
	int rc;

	a = room_new(1 << 12);
	b = room_new(1 << 12);
	for (int r = 0; r < size; r++)
		counts[r] = 8;
	counts[0] += rank == 1;
	if (!strcmp(call, "all_gather_v"))
		rc = ddp_all_gather_v(world, a.device, b.device, counts,
				      DDP_F32);
	else if (!strcmp(call, "reduce_scatter_v"))
		rc = ddp_reduce_scatter_v(world, a.device, b.device, counts,
					  DDP_F32, DDP_SUM);
	else
		rc = ddp_all_to_all_v(world, a.device, counts, b.device, counts,
				      DDP_F32);
	if (!rc)
		rc = ddp_barrier(world);
	printf("rank %d: %d %s\n", rank, rc, ddp_last_error());
}

static void collectives(size_t ncounts, size_t nops)
{
	static const size_t counts[] = {0, 1, 1023, 7, 100003};
	static const enum ddp_op ops[] = {DDP_SUM, DDP_AVG, DDP_MIN, DDP_MAX,
					  DDP_PROD};

	for (int t = 0; t < DDP_TYPES; t++)
		for (size_t i = 0; i < ncounts; i++) {
			for (size_t k = 0; k < nops; k++) {
				all_reduce(world, t, ops[k], counts[i]);
				reduce(t, ops[k], counts[i]);
				reduce_scatter(t, ops[k], counts[i]);
				reduce_scatter_v(t, ops[k], counts[i]);
			}
			broadcast(t, counts[i]);
			gathers(t, counts[i]);
			scatter(t, counts[i]);
			all_to_all(t, counts[i]);
			all_gather_v(t, counts[i]);
			all_to_all_v(t, counts[i]);
			must(ddp_barrier(world), "barrier");
		}
}

int main(int argc, char **argv)
{
	start(0);
	if (size > MOST_RANKS)
		DIE("at most %d ranks", MOST_RANKS);
	if (argc > 2) {
		counts_differ(argv[2]);
		return 0;
	}
	collectives(argc > 1 ? 3 : 5, argc > 1 ? 2 : 5);
	printf("rank %d of %d: ok\n", rank, size);
	ddp_finalize(world);
	return 0;
}
