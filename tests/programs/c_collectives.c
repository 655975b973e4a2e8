/* c_collectives.c: every collective, for every type, operation, a list of
 * counts and several alignments, against values computed on the spot; and that
 * all ranks hold the same bits. Prints "rank R of N: ok" or what was wrong.
 *
 *   c_collectives [largest count]
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker-sdk/ddp.h"

static ddp_comm *world;
static int rank, size;
static size_t largest = 1 << 20;

#define DIE(...)                                                              \
	(fprintf(stderr, "rank %d of %d: ", rank, size),                      \
	 fprintf(stderr, __VA_ARGS__), fprintf(stderr, "\n"), exit(1))

static void must(int rc, const char *what)
{
	if (rc)
		DIE("%s: %d: %s", what, rc, ddp_last_error());
}

static int narrow(enum ddp_type type)
{
	return type != DDP_F32 && type != DDP_F64 && type != DDP_I32 &&
	       type != DDP_I64;
}

/* Rank r's i-th value: integers small enough for every sum to be exact, so that
 * any order of additions gives the same; of the narrow types for 10 ranks. */
static long value(enum ddp_type type, int r, size_t i)
{
	long v = (long)((i * 31 + (size_t)r * 17) % 2003);

	return type == DDP_U8 ? v % 13 : narrow(type) ? v % 7 - 3 : v - 1000;
}

/* The nearest f16 or bf16 to v, which is neither tiny nor huge: the fraction
 * keeps as many bits, and its last is even in a tie. */
static uint16_t half(enum ddp_type type, float v)
{
	uint32_t drop = type == DDP_F16 ? 13 : 16, bits;

	memcpy(&bits, &v, sizeof(bits));
	if (type == DDP_F16 && v != 0)
		bits -= (127 - 15) << 23;
	bits += ((1u << (drop - 1)) - 1) + (bits >> drop & 1);
	if (type == DDP_BF16)
		return (uint16_t)(bits >> 16);
	return (uint16_t)((bits >> 13 & 0x7fff) | (v < 0 ? 0x8000 : 0));
}

static void put(char *at, enum ddp_type type, double v)
{
	float f = (float)v;
	uint16_t h = half(type, f);
	int64_t l = (int64_t)v; /* little-endian: its low bytes are an i32 */

	memcpy(at,
	       type == DDP_F32	  ? (void *)&f
	       : type == DDP_F64  ? (void *)&v
	       : type == DDP_F16  ? (void *)&h
	       : type == DDP_BF16 ? (void *)&h
				  : (void *)&l,
	       ddp_type_size(type));
}

static int is_float(enum ddp_type type)
{
	return type == DDP_F32 || type == DDP_F64 || type == DDP_F16 ||
	       type == DDP_BF16;
}

static void put_reduced(char *at, enum ddp_type type, enum ddp_op op, size_t i)
{
	long all = value(type, 0, i);

	for (int r = 1; r < size; r++) {
		long v = value(type, r, i);

		all = op == DDP_MIN    ? (v < all ? v : all)
		      : op == DDP_MAX  ? (v > all ? v : all)
		      : op == DDP_BAND ? (all & v)
		      : op == DDP_BOR  ? (all | v)
				       : all + v;
	}
	if (op != DDP_AVG)
		put(at, type, (double)all);
	else if (!is_float(type))
		put(at, type, (double)(all / size));
	else if (type == DDP_F64)
		put(at, type, (double)all / size);
	else
		put(at, type, (float)all / (float)size);
}

/* Which of them are checked here. A product of so many numbers is exact in no
 * type; products() has its own. */
static int has(enum ddp_type type, enum ddp_op op)
{
	return op != DDP_PROD &&
	       ((op != DDP_BAND && op != DDP_BOR) || !is_float(type));
}

static void fill(char *at, enum ddp_type type, size_t n, size_t first)
{
	for (size_t i = 0; i < n; i++)
		put(at + i * ddp_type_size(type), type,
		    (double)value(type, rank, first + i));
}

static void expect(const char *got, const char *want, size_t bytes,
		   const char *what, enum ddp_type type, int op, size_t count)
{
	if (!bytes || !memcmp(got, want, bytes))
		return;
	for (size_t i = 0; i < bytes; i++)
		if (got[i] != want[i])
			DIE("%s: type %d op %d count %zu: wrong from byte %zu "
			    "of %zu on", what, type, op, count, i, bytes);
}

/* Buffers with room on both sides, which must stay as it is. */
struct room {
	char *raw, *data;
	size_t bytes;
};

enum { FENCE = 64 };

static struct room room_new(size_t bytes, int shift)
{
	struct room r = {malloc(bytes + 2 * FENCE + 8), NULL, bytes};

	if (!r.raw)
		DIE("no memory");
	memset(r.raw, 0x5a, bytes + 2 * FENCE + 8);
	r.data = r.raw + FENCE + shift;
	return r;
}

static void room_free(struct room *r, const char *what)
{
	for (char *p = r->raw; p < r->data; p++)
		if (*p != 0x5a)
			DIE("%s wrote before its buffer", what);
	for (char *p = r->data + r->bytes; p < r->data + r->bytes + FENCE; p++)
		if (*p != 0x5a)
			DIE("%s wrote past its buffer", what);
	free(r->raw);
}

static void all_reduce(enum ddp_type type, enum ddp_op op, size_t count,
		       int shift)
{
	size_t elem = ddp_type_size(type), bytes = count * elem;
	struct room send = room_new(bytes, shift);
	struct room recv = room_new(bytes, (shift * 3) % 8);
	struct room want = room_new(bytes, 0);

	fill(send.data, type, count, 0);
	for (size_t i = 0; i < count; i++)
		put_reduced(want.data + i * elem, type, op, i);
	must(ddp_all_reduce(world, send.data, recv.data, count, type, op),
	     "all_reduce");
	expect(recv.data, want.data, bytes, "all_reduce", type, op, count);
	must(ddp_all_reduce(world, send.data, send.data, count, type, op),
	     "all_reduce in place");
	expect(send.data, want.data, bytes, "all_reduce in place", type, op,
	       count);
	room_free(&send, "all_reduce");
	room_free(&recv, "all_reduce");
	room_free(&want, "all_reduce");
}

static void reduce_scatter(enum ddp_type type, enum ddp_op op, size_t count,
			   int shift)
{
	size_t elem = ddp_type_size(type), bytes = count * elem;
	struct room send = room_new(bytes * (size_t)size, shift);
	struct room recv = room_new(bytes, (shift * 3) % 8);
	struct room want = room_new(bytes, 0);
	size_t first = (size_t)rank * count;

	fill(send.data, type, count * (size_t)size, 0);
	for (size_t i = 0; i < count; i++)
		put_reduced(want.data + i * elem, type, op, first + i);
	must(ddp_reduce_scatter(world, send.data, recv.data, count, type, op),
	     "reduce_scatter");
	expect(recv.data, want.data, bytes, "reduce_scatter", type, op, count);
	must(ddp_reduce_scatter(world, send.data, send.data + first * elem,
				count, type, op), "reduce_scatter in place");
	expect(send.data + first * elem, want.data, bytes,
	       "reduce_scatter in place", type, op, count);
	room_free(&send, "reduce_scatter");
	room_free(&recv, "reduce_scatter");
	room_free(&want, "reduce_scatter");
}

static void all_gather(enum ddp_type type, size_t count, int shift)
{
	size_t elem = ddp_type_size(type), bytes = count * elem;
	struct room send = room_new(bytes, shift);
	struct room recv = room_new(bytes * (size_t)size, (shift * 3) % 8);
	struct room want = room_new(bytes * (size_t)size, 0);

	fill(send.data, type, count, 0);
	for (int r = 0; r < size; r++)
		for (size_t i = 0; i < count; i++)
			put(want.data + ((size_t)r * count + i) * elem, type,
			    (double)value(type, r, i));
	must(ddp_all_gather(world, send.data, recv.data, count, type),
	     "all_gather");
	expect(recv.data, want.data, want.bytes, "all_gather", type, 0, count);
	memset(recv.data, 0, recv.bytes);
	if (bytes)
		memcpy(recv.data + (size_t)rank * bytes, send.data, bytes);
	must(ddp_all_gather(world, recv.data + (size_t)rank * bytes, recv.data,
			    count, type), "all_gather in place");
	expect(recv.data, want.data, want.bytes, "all_gather in place", type, 0,
	       count);
	room_free(&send, "all_gather");
	room_free(&recv, "all_gather");
	room_free(&want, "all_gather");
}

static void broadcast(enum ddp_type type, size_t count, int root, int shift)
{
	size_t elem = ddp_type_size(type), bytes = count * elem;
	struct room buf = room_new(bytes, shift), want = room_new(bytes, 0);

	fill(buf.data, type, count, 0);
	for (size_t i = 0; i < count; i++)
		put(want.data + i * elem, type, (double)value(type, root, i));
	must(ddp_broadcast(world, buf.data, count, type, root), "broadcast");
	expect(buf.data, want.data, bytes, "broadcast", type, root, count);
	room_free(&buf, "broadcast");
	room_free(&want, "broadcast");
}

/* Sums that depend on their order: every rank must have taken the same. */
static void same_bits(size_t count)
{
	double *v = malloc(count * sizeof(*v) + 8);
	int64_t *hashes = malloc((size_t)size * sizeof(*hashes));
	uint64_t hash = 0xcbf29ce484222325u;

	for (size_t i = 0; i < count; i++)
		v[i] = 1.0 / (double)(value(DDP_F64, rank, i) * 3 + 10007 +
				      rank);
	must(ddp_all_reduce(world, v, v, count, DDP_F64, DDP_AVG),
	     "all_reduce");
	for (size_t i = 0; i < count; i++) {
		uint64_t bits;

		memcpy(&bits, &v[i], sizeof(bits));
		hash = (hash ^ bits) * 0x100000001b3u;
	}
	memcpy(&hashes[rank], &hash, sizeof(hash));
	must(ddp_all_gather(world, &hashes[rank], hashes, 1, DDP_I64),
	     "all_gather");
	for (int r = 0; r < size; r++)
		if (hashes[r] != hashes[0])
			DIE("rank %d's bits differ from rank 0's, count %zu", r,
			    count);
	free(v);
	free(hashes);
}

/* Powers of two, exact in every type as long as they fit; integers wrap, to 0
 * where there are many ranks. */
static void products(size_t count)
{
	for (int type = 0; type < DDP_TYPES; type++) {
		size_t elem = ddp_type_size(type);
		struct room v = room_new(count * elem, type);
		struct room want = room_new(count * elem, 0);
		double product = 1;

		for (int r = 0; r < size && r < 8; r++)
			product *= r % 2 ? 2 : -1;
		for (size_t i = 0; i < count; i++) {
			put(v.data + i * elem, type,
			    rank >= 8	? 1
			    : rank % 2 ? 2
				       : -1);
			put(want.data + i * elem, type, product);
		}
		must(ddp_all_reduce(world, v.data, v.data, count, type,
				    DDP_PROD), "all_reduce");
		expect(v.data, want.data, v.bytes, "product", type, DDP_PROD,
		       count);
		room_free(&v, "product");
		room_free(&want, "product");
	}
}

int main(int argc, char **argv)
{
	static const size_t counts[] = {0, 1, 3, 1000, 40000, 1 << 20};

	if (argc > 1)
		largest = strtoul(argv[1], NULL, 10);
	must(ddp_init(&world, NULL), "ddp_init");
	rank = ddp_rank(world);
	size = ddp_world_size(world);
	for (int c = 0; c < 6 && counts[c] <= largest; c++) {
		/* the large ones once, or it would take minutes */
		int few = counts[c] > 40000;

		for (int type = 0; type < DDP_TYPES; type += few ? 3 : 1) {
			int shift = (c * 5 + type * 3) % 8;

			for (int op = 0; op < DDP_OPS; op += few ? 3 : 1) {
				if (!has(type, op))
					continue;
				all_reduce(type, op, counts[c], shift);
				reduce_scatter(type, op,
					       few ? counts[c] / 8 : counts[c],
					       shift);
			}
			all_gather(type, few ? counts[c] / 4 : counts[c],
				   shift);
			for (int root = 0; root < size; root += few ? 2 : 1)
				broadcast(type, counts[c], root, shift);
		}
		products(counts[c] < 40000 ? counts[c] : 40000);
		same_bits(counts[c]);
		must(ddp_barrier(world), "barrier");
	}
	printf("rank %d of %d: ok\n", rank, size);
	ddp_finalize(world);
	return 0;
}
