/* c_collectives.c: every collective, for every type, operation, a list of
 * counts, all roots and several alignments, in place and not, blocking and in
 * each of the asynchronous forms in turn, against values computed on the spot;
 * and that all ranks hold the same bits. Prints "rank R of N: ok" or what was
 * wrong.
 *
 *   c_collectives [LARGEST COUNT] [thread] [groups] [cpu]
 *   thread   with a progress thread
 *   groups   in groups of the world, and groups of these, not in the world
 *   cpu      asks for that backend
 */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/programs/sdk/ranks.h"
#include "worker-sdk/ddp.h"

static ddp_comm *comm;
static size_t largest = 1 << 20;

/* ---- values: small integers, so that any order of additions gives the same
 * in every type */

static int is_integer(enum ddp_type type)
{
	return type != DDP_F32 && type != DDP_F64 && type != DDP_F16 &&
	       type != DDP_BF16;
}

static int is_legal(enum ddp_type type, enum ddp_op op)
{
	return is_integer(type) || (op != DDP_BAND && op != DDP_BOR);
}

/* Rank r's i-th value. */
static long value(int r, size_t i, enum ddp_type type, enum ddp_op op)
{
	static const long factors[] = {1, -1, 2, -2};
	size_t at = i * 31 + (size_t)r * 17;

	if (op == DDP_PROD)
		return factors[at % 4];
	if (op == DDP_BAND || op == DDP_BOR)
		return (long)(at % 127);
	return (long)(at % 15) - (type == DDP_U8 ? 0 : 7);
}

/* The nearest value with `bits` bits of mantissa, ties to even. */
static float nearest(float f, int bits)
{
	int e;
	float m = frexpf(f, &e);

	return ldexpf(rintf(ldexpf(m, bits)), e - bits);
}

static uint16_t to_f16(float f)
{
	int e;
	float m = frexpf(nearest(fabsf(f), 11), &e);
	uint16_t sign = signbit(f) ? 0x8000 : 0;

	if (m == 0)
		return sign;
	return (uint16_t)(sign | (e + 14) << 10 |
			  ((int)ldexpf(m, 11) - 1024));
}

static uint16_t to_bf16(float f)
{
	uint32_t bits;

	f = nearest(f, 8);
	memcpy(&bits, &f, sizeof(bits));
	return (uint16_t)(bits >> 16);
}

/* Stores v / by as an element of this type. */
static void put(char *at, enum ddp_type type, long v, int by)
{
	float f = (float)v / (float)by;
	double d = (double)v / by;
	int64_t l = by == 1 ? v : v / by;
	int32_t i = (int32_t)l;
	uint16_t h;

	switch (type) {
	case DDP_F32: memcpy(at, &f, sizeof(f)); break;
	case DDP_F64: memcpy(at, &d, sizeof(d)); break;
	case DDP_I32: memcpy(at, &i, sizeof(i)); break;
	case DDP_I64: memcpy(at, &l, sizeof(l)); break;
	case DDP_F16:
	case DDP_BF16:
		h = type == DDP_F16 ? to_f16(f) : to_bf16(f);
		memcpy(at, &h, sizeof(h));
		break;
	default: *(uint8_t *)at = (uint8_t)l; /* I8 and U8 */
	}
}

static void put_reduced(char *at, enum ddp_type type, enum ddp_op op, size_t i)
{
	long v = value(0, i, type, op);

	for (int r = 1; r < size; r++) {
		long x = value(r, i, type, op);

		switch (op) {
		case DDP_MIN: v = x < v ? x : v; break;
		case DDP_MAX: v = x > v ? x : v; break;
		case DDP_PROD: v *= x; break;
		case DDP_BAND: v &= x; break;
		case DDP_BOR: v |= x; break;
		default: v += x;
		}
	}
	put(at, type, v, op == DDP_AVG ? size : 1);
}

static void fill(char *at, int r, enum ddp_type type, enum ddp_op op, size_t n,
		 size_t first)
{
	size_t elem = ddp_type_size(type);

	for (size_t i = 0; i < n; i++)
		put(at + i * elem, type, value(r, first + i, type, op), 1);
}

static void expect(const char *got, const char *want, size_t bytes,
		   const char *what, enum ddp_type type, int op, size_t count)
{
	if (!bytes || !memcmp(got, want, bytes))
		return;
	for (size_t i = 0; i < bytes; i++)
		if (got[i] != want[i])
			DIE("%s: type %d op or root %d count %zu: wrong from "
			    "byte %zu of %zu on", what, type, op, count, i,
			    bytes);
}

/* ---- buffers with room on both sides, which must stay as it is */

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

/* ---- one call in all its forms */

struct call {
	const char *name;
	enum { ALL_REDUCE, REDUCE, BROADCAST, ALL_GATHER, GATHER, SCATTER,
	       REDUCE_SCATTER, ALL_TO_ALL } kind;
	enum ddp_type type;
	enum ddp_op op;
	size_t count;
	int root;
};

static int do_blocking(const struct call *c, const void *send, void *recv)
{
	switch (c->kind) {
	case ALL_REDUCE:
		return ddp_all_reduce(comm, send, recv, c->count, c->type,
				      c->op);
	case REDUCE:
		return ddp_reduce(comm, send, recv, c->count, c->type, c->op,
				  c->root);
	case BROADCAST:
		return ddp_broadcast(comm, recv, c->count, c->type, c->root);
	case ALL_GATHER:
		return ddp_all_gather(comm, send, recv, c->count, c->type);
	case GATHER:
		return ddp_gather(comm, send, recv, c->count, c->type, c->root);
	case SCATTER:
		return ddp_scatter(comm, send, recv, c->count, c->type,
				   c->root);
	case REDUCE_SCATTER:
		return ddp_reduce_scatter(comm, send, recv, c->count, c->type,
					  c->op);
	case ALL_TO_ALL:
		return ddp_all_to_all(comm, send, recv, c->count, c->type);
	}
	return -1;
}

static int do_async(const struct call *c, const void *send, void *recv,
		    ddp_request **r)
{
	switch (c->kind) {
	case ALL_REDUCE:
		return ddp_all_reduce_async(comm, send, recv, c->count, c->type,
					    c->op, r);
	case REDUCE:
		return ddp_reduce_async(comm, send, recv, c->count, c->type,
					c->op, c->root, r);
	case BROADCAST:
		return ddp_broadcast_async(comm, recv, c->count, c->type,
					   c->root, r);
	case ALL_GATHER:
		return ddp_all_gather_async(comm, send, recv, c->count, c->type,
					    r);
	case GATHER:
		return ddp_gather_async(comm, send, recv, c->count, c->type,
					c->root, r);
	case SCATTER:
		return ddp_scatter_async(comm, send, recv, c->count, c->type,
					 c->root, r);
	case REDUCE_SCATTER:
		return ddp_reduce_scatter_async(comm, send, recv, c->count,
						c->type, c->op, r);
	case ALL_TO_ALL:
		return ddp_all_to_all_async(comm, send, recv, c->count, c->type,
					    r);
	}
	return -1;
}

static unsigned calls; /* on this communicator */

/* Ranks take different forms of the same call; half of these are followed by a
 * barrier, half by the next. */
static void run(const struct call *c, const void *send, void *recv)
{
	int barriers = calls / 4 % 2;
	unsigned form = (calls++ * 5 + (unsigned)rank) % 4;
	ddp_request *r = NULL, *barrier = NULL;
	int rc;

	if (form == 0) {
		must(do_blocking(c, send, recv), c->name);
		if (barriers)
			must(ddp_barrier(comm), "barrier");
		return;
	}
	must(do_async(c, send, recv, &r), c->name);
	if (barriers)
		must(ddp_barrier_async(comm, &barrier), "barrier_async");
	if (form == 1) {
		while ((rc = ddp_test(r)) == 0)
			;
		if (rc != 1)
			must(rc, "test");
		must(ddp_wait(&r), "wait after test");
		must(ddp_wait(&barrier), "wait");
	} else if (form == 2) {
		while (r) {
			rc = ddp_wait_timeout(&r, 1);
			if (rc && (!r || rc != DDP_ERR_TIMEOUT))
				must(rc, "wait_timeout");
		}
		must(ddp_wait(&barrier), "wait");
	} else {
		ddp_request *both[] = {barrier, r};

		must(ddp_wait_all(both, 2), "wait_all");
		barrier = both[0];
		r = both[1];
	}
	if (r || barrier)
		DIE("%s: a request was left", c->name);
}

/* Runs c with send_parts and recv_parts times count elements, where this rank
 * uses them, expects want, and does it again in place. */
static void try_both(const struct call *c, int sends, int receives,
		     size_t send_parts, size_t recv_parts,
		     const struct room *want, int shift)
{
	size_t bytes = c->count * ddp_type_size(c->type);
	struct room send = room_new(sends ? bytes * send_parts : 0, shift);
	struct room recv = room_new(receives ? bytes * recv_parts : 0,
				    shift * 3 % 8);
	size_t own = (size_t)rank * bytes;
	struct room *both = send_parts < recv_parts ? &recv : &send;
	char *in = both->data + (send_parts < recv_parts ? own : 0);
	char *out = both->data + (send_parts > recv_parts ? own : 0);

	if (sends)
		fill(send.data, rank, c->type, c->op, c->count * send_parts, 0);
	run(c, sends ? send.data : NULL, receives ? recv.data : NULL);
	if (receives)
		expect(recv.data, want->data, want->bytes, c->name, c->type,
		       c->root + (int)c->op, c->count);
	if (sends && receives) {
		if (both == &recv)
			memcpy(in, send.data, send.bytes);
		run(c, in, out);
		expect(out, want->data, want->bytes, c->name, c->type,
		       c->root + (int)c->op, c->count);
	} else {
		run(c, sends ? send.data : NULL, receives ? recv.data : NULL);
	}
	room_free(&send, c->name);
	room_free(&recv, c->name);
}

static void reductions(enum ddp_type type, enum ddp_op op, size_t count,
		       int root, int shift)
{
	struct call c = {"all_reduce", ALL_REDUCE, type, op, count, 0};
	size_t elem = ddp_type_size(type), n = (size_t)size;
	struct room want = room_new(count * elem, 0);

	for (size_t i = 0; i < count; i++)
		put_reduced(want.data + i * elem, type, op, i);
	try_both(&c, 1, 1, 1, 1, &want, shift);
	c.name = "reduce";
	c.kind = REDUCE;
	c.root = root;
	try_both(&c, 1, rank == root, 1, 1, &want, shift);
	for (size_t i = 0; i < count; i++)
		put_reduced(want.data + i * elem, type, op,
			    (size_t)rank * count + i);
	c.name = "reduce_scatter";
	c.kind = REDUCE_SCATTER;
	try_both(&c, 1, 1, n, 1, &want, shift);
	room_free(&want, "the test");
}

static void copies(enum ddp_type type, size_t count, int root, int shift)
{
	struct call c = {"all_gather", ALL_GATHER, type, DDP_SUM, count, root};
	size_t bytes = count * ddp_type_size(type), n = (size_t)size;
	struct room want = room_new(bytes * n, 0), one = room_new(bytes, 0);

	for (int r = 0; r < size; r++)
		fill(want.data + (size_t)r * bytes, r, type, DDP_SUM, count, 0);
	try_both(&c, 1, 1, 1, n, &want, shift);
	c.name = "gather";
	c.kind = GATHER;
	try_both(&c, 1, rank == root, 1, n, &want, shift);
	for (int r = 0; r < size; r++)
		fill(want.data + (size_t)r * bytes, r, type, DDP_SUM, count,
		     (size_t)rank * count);
	c.name = "all_to_all";
	c.kind = ALL_TO_ALL;
	try_both(&c, 1, 1, n, n, &want, shift);
	fill(one.data, root, type, DDP_SUM, count, (size_t)rank * count);
	c.name = "scatter";
	c.kind = SCATTER;
	try_both(&c, rank == root, 1, n, 1, &one, shift);
	room_free(&want, "the test");
	room_free(&one, "the test");
}

static void broadcast(enum ddp_type type, size_t count, int root, int shift)
{
	struct call c = {"broadcast", BROADCAST, type, DDP_SUM, count, root};
	size_t bytes = count * ddp_type_size(type);
	struct room buf = room_new(bytes, shift), want = room_new(bytes, 0);

	fill(buf.data, rank, type, DDP_SUM, count, 0);
	fill(want.data, root, type, DDP_SUM, count, 0);
	run(&c, NULL, buf.data);
	expect(buf.data, want.data, bytes, "broadcast", type, root, count);
	room_free(&buf, "broadcast");
	room_free(&want, "broadcast");
}

/* Sums that depend on the order of additions: every rank must have used the
 * same order. */
static void same_bits(size_t count)
{
	double *v = malloc(count * sizeof(*v) + 8);
	int64_t *hashes = malloc((size_t)size * sizeof(*hashes));
	uint64_t hash = 0xcbf29ce484222325u;

	for (size_t i = 0; i < count; i++)
		v[i] = 1.0 / (double)(i % 2003 * 3 + 10007 + (size_t)rank * 7);
	must(ddp_all_reduce(comm, v, v, count, DDP_F64, DDP_AVG), "all_reduce");
	for (size_t i = 0; i < count; i++) {
		uint64_t bits;

		memcpy(&bits, &v[i], sizeof(bits));
		hash = (hash ^ bits) * 0x100000001b3u;
	}
	memcpy(&hashes[rank], &hash, sizeof(hash));
	must(ddp_all_gather(comm, &hashes[rank], hashes, 1, DDP_I64),
	     "all_gather");
	for (int r = 0; r < size; r++)
		if (hashes[r] != hashes[0])
			DIE("rank %d's bits differ from rank 0's, count %zu", r,
			    count);
	free(v);
	free(hashes);
}

/* The first and the next operation to try: with 1 and with 3 elements every
 * second one, so that each type has each operation in one of the two; few for
 * no elements. */
static int first_op(int k, int type)
{
	return k == 1 || k == 2 ? (type + k) % 2 : 0;
}

static int step_of(size_t count, int ops)
{
	return count > 40000 ? 5 : count > 1000 || count == 0 ? 3 :
	       count <= 3 && ops ? 2 : 1;
}

/* All operations with 1000 elements, else some: on busy CPUs each call takes a
 * whole turn of the scheduler, tens of ms. Larger counts get fewer
 * combinations, which would otherwise take minutes. */
static void all_of(ddp_comm *c)
{
	static const size_t counts[] = {0, 1, 3, 1000, 40000, 1 << 20};

	comm = c;
	calls = 0;
	rank = ddp_rank(c);
	size = ddp_world_size(c);
	for (int k = 0; k < 6 && counts[k] <= largest; k++) {
		size_t count = counts[k];

		for (int type = 0; type < DDP_TYPES;
		     type += step_of(count, 0)) {
			int shift = (k * 5 + type * 3) % 8;
			int root = (k + type) % size;

			for (int op = first_op(k, type); op < DDP_OPS;
			     op += step_of(count, 1))
				if (is_legal(type, op))
					reductions(type, op, count,
						   (root + op) % size, shift);
			copies(type, count > 40000 ? count / 8 : count, root,
			       shift);
			broadcast(type, count, root, shift);
		}
		for (int root = 0; root < size && count <= 1000; root++) {
			reductions(DDP_F32, DDP_SUM, count, root, 0);
			copies(DDP_U8, count, root, 1);
			broadcast(DDP_F64, count, root, 2);
		}
		same_bits(count);
	}
	/* shared memory takes smaller pieces from 8 MiB on */
	if (size == 2 && largest >= 1 << 20)
		reductions(DDP_F32, DDP_SUM, 9 << 18, 0, 3);
}

/* Two groups, the ranks of one backwards; then groups of one of these groups,
 * while the others still exist. */
static void all_of_groups(ddp_comm *world)
{
	int me = ddp_rank(world), odd = me % 2;
	ddp_comm *group, *inner, *none;

	must(ddp_comm_split(world, odd, odd ? -me : me, &group), "split");
	all_of(group);
	if (rank != (odd ? (ddp_world_size(world) - 1 - me) / 2 : me / 2))
		DIE("the order of keys: rank %d of the world is %d of %d", me,
		    rank, size);
	if (ddp_world_rank(group, rank) != me)
		DIE("rank %d of the world is %d of the group, which says %d",
		    me, rank, ddp_world_rank(group, rank));
	must(ddp_comm_split(group, rank == 0 ? -1 : 7, 0, &inner), "split");
	if ((rank == 0) != (inner == NULL))
		DIE("a color below 0 gave a group");
	must(ddp_comm_split(world, me, 0, &none), "split");
	if (ddp_world_size(none) != 1)
		DIE("a group of one has %d", ddp_world_size(none));
	largest = 1000;
	if (inner)
		all_of(inner);
	all_of(none);
	all_of(world);
	ddp_comm_free(inner);
	ddp_comm_free(group);
	all_of(world);
	ddp_comm_free(none);
}

int main(int argc, char **argv)
{
	int threads = 0, groups = 0;
	char backend[8] = "";
	struct ddp_options options = {backend, 0};
	ddp_comm *world;

	for (int i = 1; i < argc; i++) {
		if (!strcmp(argv[i], "cpu"))
			strcpy(backend, argv[i]);
		threads |= !strcmp(argv[i], "thread");
		groups |= !strcmp(argv[i], "groups");
		if (argv[i][0] >= '0' && argv[i][0] <= '9')
			largest = strtoul(argv[i], NULL, 10);
	}
	must(ddp_init(&world, &options), "ddp_init");
	rank = ddp_rank(world);
	backend[0] = (char)('A' + rank); /* libddp does not keep the pointer */
	if (threads)
		must(ddp_progress_start(world, -1), "progress_start");
	if (groups)
		all_of_groups(world);
	else
		all_of(world);
	must(ddp_barrier(world), "barrier");
	printf("rank %d of %d: ok\n", ddp_rank(world), ddp_world_size(world));
	ddp_finalize(world);
	return 0;
}
