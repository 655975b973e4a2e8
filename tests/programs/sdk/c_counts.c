/* c_counts.c: the collectives with a count for each rank, for several types and
 * patterns of counts, in place and not, blocking and asynchronous, in the world
 * and in groups, against values computed on the spot. Prints "rank R of N: ok"
 * or what was wrong.
 *
 *   c_counts [thread]
 *   c_counts differ CALL [BY]  rank 1's counts of CALL do not match; with BY,
 *                              two of them differ, and the sum is the same.
 *                              Prints "rank R: ERROR" instead
 *   c_counts arguments         wrong arguments, on each rank alone
 *   c_counts die CALL          rank 1 exits instead of CALL
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/programs/sdk/ranks.h"
#include "worker-sdk/ddp.h"

static ddp_comm *comm;

enum { RANKS_MAX = 16, PATTERNS = 8 };

/* How much rank `from` sends to rank `to`. The larger counts do not fit in the
 * memory that the ranks of a host share. */
static size_t count_of(int pattern, int from, int to)
{
	size_t f = (size_t)from, t = (size_t)to;

	switch (pattern) {
	case 0: return 0;
	case 1: return 1;
	case 2: return 5;
	case 3: return (f + t) % 3;
	case 4: return t == 1 ? 1000 : 0;
	case 5: return f == 0 ? 3001 * (t + 1) : 1;
	case 6: return f * 40009 + t * 20011;
	default: return f == t ? 7 : (f + 2 * t) % 4 == 1 ? 600011 : 64;
	}
}

/* Element i of the data of `from` for `to`: a small integer, so that any order
 * of additions gives the same in every type. */
static int value(int from, int to, size_t i)
{
	return (int)((i * 31 + (size_t)from * 17 + (size_t)to * 5) % 15);
}

static void put(char *at, enum ddp_type type, int v)
{
	float f = (float)v;
	double d = v;
	int64_t l = v;

	switch (type) {
	case DDP_F32: memcpy(at, &f, sizeof(f)); break;
	case DDP_F64: memcpy(at, &d, sizeof(d)); break;
	case DDP_I64: memcpy(at, &l, sizeof(l)); break;
	default: *(uint8_t *)at = (uint8_t)v; /* u8 */
	}
}

static size_t sum(const size_t *counts)
{
	size_t all = 0;

	for (int r = 0; r < size; r++)
		all += counts[r];
	return all;
}

/* ---- buffers with room on both sides, which must stay as it is */

enum { FENCE = 64 };

static char *room_new(size_t bytes, int shift)
{
	char *raw = malloc(bytes + 2 * FENCE + 8);

	if (!raw)
		DIE("no memory");
	memset(raw, 0x5a, bytes + 2 * FENCE + 8);
	return raw + FENCE + shift;
}

static void room_free(char *data, size_t bytes, int shift, const char *what)
{
	for (int i = 1; i <= FENCE; i++)
		if (data[-i] != 0x5a || data[bytes + (size_t)i - 1] != 0x5a)
			DIE("%s wrote outside its buffer", what);
	free(data - FENCE - shift);
}

static void expect(const char *got, const char *want, size_t bytes,
		   const char *what, int pattern, enum ddp_type type)
{
	for (size_t i = 0; i < bytes; i++)
		if (got[i] != want[i])
			DIE("%s, counts %d, type %d: wrong from byte %zu of "
			    "%zu on", what, pattern, type, i, bytes);
}

/* ---- the calls, each in one of three forms */

static unsigned calls;

static void finish(int rc, ddp_request *r, const char *what)
{
	must(rc, what);
	if (r && calls % 3 == 1)
		while ((rc = ddp_test(r)) == 0)
			;
	must(ddp_wait(&r), what);
	calls++;
}

/* Ranks take different forms of the same call. The count array changes as soon
 * as the call has returned. */
#define IN_SOME_FORM(name, ...)                                               \
	do {                                                                  \
		ddp_request *r = NULL;                                        \
		int form = (int)(calls + (unsigned)rank) % 3;                 \
		int rc = form ? name##_async(__VA_ARGS__, &r)                 \
			      : name(__VA_ARGS__);                            \
		memset(counts, 0xff, sizeof(counts));                         \
		finish(rc, r, #name);                                         \
	} while (0)

static void all_gather_v(int pattern, enum ddp_type type, int in_place)
{
	size_t counts[RANKS_MAX], elem = ddp_type_size(type), all, own, at = 0;
	char *send, *recv, *want, *p;

	for (int r = 0; r < size; r++)
		counts[r] = count_of(pattern, r, 0);
	for (int r = 0; r < rank; r++)
		at += counts[r] * elem;
	own = counts[rank] * elem;
	all = sum(counts) * elem;
	send = room_new(own, 3);
	recv = room_new(all, 1);
	p = want = room_new(all, 0);
	for (int r = 0; r < size; r++)
		for (size_t i = 0; i < counts[r]; i++, p += elem)
			put(p, type, value(r, 0, i));
	memcpy(send, want + at, own);
	if (in_place)
		memcpy(recv + at, send, own);
	IN_SOME_FORM(ddp_all_gather_v, comm,
		     in_place ? recv + at : own ? send : NULL,
		     all ? recv : NULL, counts, type);
	expect(recv, want, all, "all_gather_v", pattern, type);
	expect(send, want + at, own, "all_gather_v's send", pattern, type);
	room_free(send, own, 3, "all_gather_v");
	room_free(recv, all, 1, "all_gather_v");
	room_free(want, all, 0, "the test");
}

static void reduce_scatter_v(int pattern, enum ddp_type type, int in_place)
{
	size_t counts[RANKS_MAX], elem = ddp_type_size(type), all, own, at = 0;
	char *send, *recv, *want, *p;

	for (int r = 0; r < size; r++)
		counts[r] = count_of(pattern, r, 0);
	for (int r = 0; r < rank; r++)
		at += counts[r] * elem;
	own = counts[rank] * elem;
	all = sum(counts) * elem;
	p = send = room_new(all, 5);
	recv = room_new(own, 2);
	want = room_new(own, 0);
	for (int r = 0; r < size; r++)
		for (size_t i = 0; i < counts[r]; i++, p += elem)
			put(p, type, value(rank, r, i));
	for (size_t i = 0; i < counts[rank]; i++) {
		int v = 0;

		for (int r = 0; r < size; r++)
			v += value(r, rank, i);
		put(want + i * elem, type, v);
	}
	IN_SOME_FORM(ddp_reduce_scatter_v, comm, send,
		     in_place ? send + at : own ? recv : NULL, counts, type,
		     DDP_SUM);
	expect(in_place ? send + at : recv, want, own, "reduce_scatter_v",
	       pattern, type);
	room_free(send, all, 5, "reduce_scatter_v");
	room_free(recv, own, 2, "reduce_scatter_v");
	room_free(want, own, 0, "the test");
}

static void all_to_all_v(int pattern, enum ddp_type type)
{
	size_t sends[RANKS_MAX], counts[RANKS_MAX], elem = ddp_type_size(type);
	size_t out, in;
	char *send, *recv, *want, *p;

	for (int r = 0; r < size; r++) {
		sends[r] = count_of(pattern, rank, r);
		counts[r] = count_of(pattern, r, rank);
	}
	out = sum(sends) * elem;
	in = sum(counts) * elem;
	p = send = room_new(out, 1);
	for (int r = 0; r < size; r++)
		for (size_t i = 0; i < sends[r]; i++, p += elem)
			put(p, type, value(rank, r, i));
	recv = room_new(in, 6);
	p = want = room_new(in, 0);
	for (int r = 0; r < size; r++)
		for (size_t i = 0; i < counts[r]; i++, p += elem)
			put(p, type, value(r, rank, i));
	IN_SOME_FORM(ddp_all_to_all_v, comm, out ? send : NULL, sends,
		     in ? recv : NULL, counts, type);
	expect(recv, want, in, "all_to_all_v", pattern, type);
	room_free(send, out, 1, "all_to_all_v");
	room_free(recv, in, 6, "all_to_all_v");
	room_free(want, in, 0, "the test");
}

/* ---- the same bits as the call with one count, and in each run */

static void same_bits(void)
{
	enum { EACH = 4099 };
	size_t counts[RANKS_MAX], all, n = (size_t)size;
	double *send = malloc(n * EACH * sizeof(*send));
	double one[EACH], again[3][2 * EACH];

	for (size_t i = 0; i < n * EACH; i++)
		send[i] = 1.0 / (double)(i % 2003 * 3 + 10007 +
					 (size_t)rank * 7);
	for (int r = 0; r < size; r++)
		counts[r] = EACH;
	must(ddp_reduce_scatter(comm, send, one, EACH, DDP_F64, DDP_AVG),
	     "reduce_scatter");
	must(ddp_reduce_scatter_v(comm, send, again[0], counts, DDP_F64,
				  DDP_AVG), "reduce_scatter_v");
	if (memcmp(one, again[0], sizeof(one)))
		DIE("reduce_scatter_v has other bits than reduce_scatter");
	for (int r = 0; r < size; r++)
		counts[r] = (size_t)(r % 3) * EACH / 2;
	all = counts[rank] * sizeof(double);
	for (int i = 0; i < 3; i++) {
		ddp_request *r;

		if (i == 1) /* another rank is the last one each time */
			must(ddp_barrier(comm), "barrier");
		must(ddp_reduce_scatter_v_async(comm, send, again[i], counts,
						DDP_F64, DDP_SUM, &r),
		     "reduce_scatter_v");
		must(ddp_wait(&r), "reduce_scatter_v");
		if (memcmp(again[0], again[i], all))
			DIE("reduce_scatter_v has other bits in call %d", i);
	}
	free(send);
}

static void all_of(ddp_comm *c)
{
	static const enum ddp_type types[] = {DDP_F32, DDP_U8, DDP_F64,
					      DDP_I64};

	comm = c;
	calls = 0;
	rank = ddp_rank(c);
	size = ddp_world_size(c);
	for (int pattern = 0; pattern < PATTERNS; pattern++)
		for (int t = 0; t < (pattern < 5 ? 4 : 2); t++)
			for (int in_place = 0; in_place < 2; in_place++) {
				all_gather_v(pattern, types[t], in_place);
				reduce_scatter_v(pattern, types[t], in_place);
				all_to_all_v(pattern, types[t]);
			}
	same_bits();
}

static void all_of_groups(ddp_comm *world)
{
	int me = ddp_rank(world);
	ddp_comm *group, *one;

	must(ddp_comm_split(world, me % 2, -me, &group), "split");
	must(ddp_comm_split(world, me, 0, &one), "split");
	all_of(group);
	all_of(one);
	ddp_comm_free(group);
	ddp_comm_free(one);
}

/* ---- mistakes */

static int call_named(const char *name, const size_t *counts,
		      const size_t *recv_counts)
{
	static float a[1000], b[1000];

	if (!strcmp(name, "all_gather_v"))
		return ddp_all_gather_v(comm, a, b, counts, DDP_F32);
	if (!strcmp(name, "reduce_scatter_v"))
		return ddp_reduce_scatter_v(comm, a, b, counts, DDP_F32,
					    DDP_SUM);
	return ddp_all_to_all_v(comm, a, counts, b, recv_counts, DDP_F32);
}

static void differ(const char *name, int by)
{
	size_t counts[RANKS_MAX], recv_counts[RANKS_MAX];
	int rc;

	for (int r = 0; r < size; r++)
		counts[r] = recv_counts[r] = (size_t)r + 4;
	for (int r = 0; r < size && strcmp(name, "all_to_all_v") == 0; r++) {
		counts[r] = (size_t)(rank + r) + 4;
		recv_counts[r] = (size_t)(rank + r) + 4;
	}
	if (rank == 1) {
		counts[size - 1] += by ? (size_t)by : 1;
		counts[0] -= (size_t)by;
	}
	rc = call_named(name, counts, recv_counts);
	if (!rc) /* another pair's counts did not match: it has failed by now */
		rc = ddp_barrier(comm);
	printf("rank %d: %d %s\n", rank, rc, ddp_last_error());
}

static void refused(int rc, const char *reason)
{
	if (rc != DDP_ERR_ARGUMENT || !strstr(ddp_last_error(), reason))
		DIE("expected \"%s\", not %d: %s", reason, rc,
		    ddp_last_error());
}

static void arguments(void)
{
	size_t counts[RANKS_MAX] = {0}, other[RANKS_MAX] = {0};
	size_t n = (size_t)size, at = (size_t)rank * 2;
	float a[64] = {0}, b[64];
	ddp_request *r;

	for (int i = 0; i < size; i++)
		counts[i] = other[i] = 2;
	refused(ddp_all_gather_v(comm, a, b, NULL, DDP_F32), "counts is NULL");
	refused(ddp_reduce_scatter_v(comm, a, b, NULL, DDP_F32, DDP_SUM),
		"counts is NULL");
	refused(ddp_all_to_all_v(comm, a, NULL, b, counts, DDP_F32),
		"send_counts is NULL");
	refused(ddp_all_to_all_v(comm, a, counts, b, NULL, DDP_F32),
		"recv_counts is NULL");
	refused(ddp_all_gather_v(comm, NULL, b, counts, DDP_F32),
		"a buffer is NULL");
	refused(ddp_all_gather_v(comm, a, b, counts, (enum ddp_type)99),
		"unknown type 99");
	refused(ddp_reduce_scatter_v(comm, a, b, counts, DDP_F32, DDP_BAND),
		"need integers");
	refused(ddp_all_gather_v_async(comm, a, b, counts, DDP_F32, NULL),
		"request is NULL");
	refused(ddp_all_to_all_v(comm, a, counts, a + n, counts, DDP_F32),
		"send and recv overlap");
	refused(ddp_all_to_all_v(comm, a, counts, a, counts, DDP_F32),
		"send and recv overlap");
	refused(ddp_all_gather_v(comm, b + at + 1, b, counts, DDP_F32),
		"in a way that ddp.h does not allow");
	refused(ddp_reduce_scatter_v(comm, a, a + at + 1, counts, DDP_F32,
				     DDP_SUM),
		"in a way that ddp.h does not allow");
	refused(ddp_all_gather_v_async(NULL, a, b, counts, DDP_F32, &r),
		"NULL");
	other[rank] = 3;
	refused(ddp_all_to_all_v(comm, a, counts, b, other, DDP_F32),
		"itself");
	counts[0] = (size_t)-1;
	refused(ddp_all_gather_v(comm, a, b, counts, DDP_F32),
		"counts: too many elements: at most 68719476735 in all");
	counts[0] = (size_t)1 << 35;
	counts[size - 1] = (size_t)1 << 35;
	if (size > 1)
		refused(ddp_all_to_all_v(comm, a, counts, b, counts, DDP_F32),
			"send_counts: too many elements");
}

static void die(const char *name)
{
	size_t counts[RANKS_MAX];

	for (int r = 0; r < size; r++)
		counts[r] = 2;
	must(call_named(name, counts, counts), name);
	if (rank == 1)
		raise(9);
	printf("rank %d: %d ", rank, call_named(name, counts, counts));
	printf("%s\n", ddp_last_error());
}

int main(int argc, char **argv)
{
	const char *what = argc > 1 ? argv[1] : "";
	ddp_comm *world;

	must(ddp_init(&world, NULL), "ddp_init");
	comm = world;
	rank = ddp_rank(world);
	size = ddp_world_size(world);
	if (size > RANKS_MAX)
		DIE("at most %d ranks", RANKS_MAX);
	if (!strcmp(what, "differ") && argc > 2) {
		differ(argv[2], argc > 3 ? atoi(argv[3]) : 0);
		return 0;
	}
	if (!strcmp(what, "die") && argc > 2) {
		die(argv[2]);
		return 0;
	}
	if (!strcmp(what, "arguments"))
		arguments();
	if (!strcmp(what, "thread"))
		must(ddp_progress_start(world, -1), "progress_start");
	all_of(world);
	all_of_groups(world);
	rank = ddp_rank(world);
	must(ddp_barrier(world), "barrier");
	printf("rank %d of %d: ok\n", rank, ddp_world_size(world));
	ddp_finalize(world);
	return 0;
}
