/* c_wrong_numbers.c: ddp_check_replicas names the ranks whose data differs, and
 * ddp_reducer_check_finite the rank with a gradient that is not finite, and
 * ddp_reducer_check_norms the one with a bit flip or far larger gradients. Each
 * rank is the culprit in turn. Prints "rank R of N: ok" or what was wrong. With
 * an argument, rank 1 ends before the norms are compared. */
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "tests/programs/sdk/ranks.h"
#include "worker-sdk/ddp.h"

enum { SPANS = 600, PARAMS = 5 };

static ddp_comm *world;
static char data[SPANS * 40];

static void expect(int rc, int code, const char *text)
{
	if (rc != code || (code && !strstr(ddp_last_error(), text)))
		DIE("not %d with '%s': %d: %s", code, text, rc,
		    code || rc ? ddp_last_error() : "");
}

/* Spans of 0 to 39 bytes. */
static void make_spans(struct ddp_span *s)
{
	size_t at = 0;

	for (int i = 0; i < SPANS; i++) {
		size_t n = (size_t)i % 40;

		s[i] = (struct ddp_span){data + at, n, DDP_U8};
		at += n;
	}
	for (size_t i = 0; i < at; i++)
		data[i] = (char)(i * 7);
}

/* The culprit's data differs in one bit. */
static void one_bit(struct ddp_span *s, int culprit, int span, int byte,
		    int bit)
{
	char text[128], *where = (char *)s[span].data + byte;
	/* two ranks: rank 1 is compared with rank 0 */
	int named = size == 2 ? 1 : culprit;

	if (rank == culprit)
		*where ^= (char)(1 << bit);
	snprintf(text, sizeof(text), "the data of rank %d on ", named);
	expect(ddp_check_replicas(world, s, SPANS), DDP_ERR_DATA, text);
	snprintf(text, sizeof(text), " differs from that of the other %d "
		 "ranks, first in span ", size - 1);
	if (size == 2)
		strcpy(text, " differs from that of rank 0 on ");
	expect(DDP_ERR_DATA, DDP_ERR_DATA, text);
	snprintf(text, sizeof(text), "first in span %d of %d:", span, SPANS);
	expect(DDP_ERR_DATA, DDP_ERR_DATA, text);
	if (rank == culprit)
		*where ^= (char)(1 << bit);
	expect(ddp_check_replicas(world, s, SPANS), 0, "");
}

/* No two ranks have the same data: the error names the first four after rank
 * 0. */
static void all_differ(struct ddp_span *s)
{
	char *c = (char *)s[9].data + 3, text[96];

	*c = (char)(*c + rank);
	expect(ddp_check_replicas(world, s, SPANS), DDP_ERR_DATA,
	       ": the data of rank 1 on ");
	if (size > 5)
		snprintf(text, sizeof(text), " and %d more rank%s differs "
			 "from that of rank 0 on ", size - 5,
			 size == 6 ? "" : "s");
	else
		snprintf(text, sizeof(text), " and rank %d on ", size - 1);
	expect(DDP_ERR_DATA, DDP_ERR_DATA, text);
	snprintf(text, sizeof(text), ", and no %d ranks agree, first in span "
		 "9 of %d:", size / 2 + 1, SPANS);
	expect(DDP_ERR_DATA, DDP_ERR_DATA, text);
	*c = (char)(*c - rank);
}

static void check_replicas(void)
{
	struct ddp_span s[SPANS];
	int n = SPANS;

	make_spans(s);
	expect(ddp_check_replicas(world, s, n), 0, "");
	expect(ddp_check_replicas(world, NULL, 0), 0, "");
	expect(ddp_check_replicas(world, NULL, 1), DDP_ERR_ARGUMENT,
	       "ddp_check_replicas: spans is NULL");
	if (size == 1)
		return;
	for (int r = 0; r < size; r++) {
		one_bit(s, r, 1, 0, r % 8);
		one_bit(s, r, 39, 38, 7);
		one_bit(s, r, 255 + r, 0, 0);
		one_bit(s, r, SPANS - 1, 32, 3);
		/* in each word of a block of the hash */
		for (int word = 0; word < 4; word++)
			one_bit(s, r, 39, word * 8 + r % 8, r % 8);
	}
	/* the last two differ, each in its own way */
	if (size > 4) {
		char *c = s[9].data;

		c[3] = (char)(c[3] + (rank >= size - 2 ? rank : 0));
		expect(ddp_check_replicas(world, s, n), DDP_ERR_DATA, " and "
		       "rank ");
		c[3] = (char)(c[3] - (rank >= size - 2 ? rank : 0));
	}
	if (size > 2)
		all_differ(s);
	s[4].count -= (size_t)(rank == size - 1);
	expect(ddp_check_replicas(world, s, n), DDP_ERR_ARGUMENT,
	       "and rank 0 differ in the number of spans, a count or a type");
}

/* ---- Gradients ---- */

static void step(ddp_reducer *r, int code, const char *text)
{
	must(ddp_reducer_begin(r, 1), "begin");
	for (int i = PARAMS - 1; i >= 0; i--)
		must(ddp_reducer_ready(r, i), "ready");
	expect(ddp_reducer_finish(r), code, text);
}

static void fill(float *f, double *d, size_t total)
{
	static const double values[] = {0, -0.0, 1, -FLT_MAX / 64,
					FLT_MAX / 64, FLT_MIN / 4, -1};

	for (size_t i = 0; i < total; i++) {
		d[i] = values[i % 7];
		f[i] = (float)d[i];
	}
}

static void check_finite(enum ddp_type type)
{
	static const size_t counts[PARAMS] = {3, 0, 5000, 1, 1024};
	static const size_t spots[] = {0, 2, 3, 5002, 5003, 5004, 6027};
	static const int params[] = {0, 0, 2, 2, 3, 4, 4};
	static const double bad[] = {NAN, INFINITY, -INFINITY};
	static float f[6028];
	static double d[6028];
	ddp_reducer *r;
	char text[96];

	must(ddp_reducer_new(&r, world, type == DDP_F32 ? (void *)f : d, type,
			     counts, PARAMS, NULL), "new");
	fill(f, d, 6028);
	step(r, 0, "");
	must(ddp_reducer_check_finite(r, 1), "check");
	for (int k = 0; k < 7 * 3 * size; k++) {
		int culprit = k % size, spot = k / size % 7;

		fill(f, d, 6028);
		step(r, 0, "");
		fill(f, d, 6028);
		/* and all ranks after it: the lowest is named */
		if (rank >= culprit) {
			d[spots[spot]] = bad[k / size / 7];
			f[spots[spot]] = (float)d[spots[spot]];
		}
		snprintf(text, sizeof(text), "the gradient of parameter %d is "
			 "not finite on rank %d", params[spot], culprit);
		step(r, DDP_ERR_DATA, text);
	}
	/* finite on every rank, but their sum is not */
	fill(f, d, 6028);
	d[3] = DBL_MAX;
	f[3] = FLT_MAX;
	step(r, size > 1 ? DDP_ERR_DATA : 0, "the average of parameter 2 is "
	     "not finite, although");
	must(ddp_reducer_begin(r, 1), "begin");
	expect(ddp_reducer_check_finite(r, 0), DDP_ERR_ARGUMENT,
	       "a step is under way");
	for (int i = 0; i < PARAMS; i++)
		must(ddp_reducer_ready(r, i), "ready");
	ddp_reducer_finish(r);
	must(ddp_reducer_check_finite(r, 0), "off");
	d[0] = NAN;
	f[0] = NAN;
	step(r, 0, "");
	ddp_reducer_free(r);
}

/* ---- Norms ---- */

enum { VALUES = 6028, FACTOR = 100 };
static const size_t norm_counts[PARAMS] = {3, 0, 5000, 1, 1024};

/* The ranks' gradients in a step: each with its own sign and size, but of one
 * scale in each parameter. */
static void draw(float *f, double *d, unsigned number, double scale)
{
	static const double scales[PARAMS] = {1e-3, 0, 1e-9, 0.3, 1e-5};
	size_t at = 0;

	for (int p = 0; p < PARAMS; p++)
		for (size_t i = 0; i < norm_counts[p]; i++, at++) {
			unsigned h = (unsigned)at * 2654435761u +
				     number * 40503u + (unsigned)rank * 97u;

			h ^= h >> 15;
			h *= 2246822519u;
			d[at] = scale * scales[p] *
				(0.1 + 0.8 * ((h >> 8) % 1000) / 1000) *
				(h & 1 ? 1 : -1);
			f[at] = (float)d[at];
		}
}

static void flip(float *f, double *d, int bit)
{
	uint32_t f_bits;
	uint64_t d_bits;

	memcpy(&f_bits, f, sizeof(f_bits));
	memcpy(&d_bits, d, sizeof(d_bits));
	f_bits ^= 1u << bit;
	d_bits ^= UINT64_C(1) << (bit + 32);
	memcpy(f, &f_bits, sizeof(f_bits));
	memcpy(d, &d_bits, sizeof(d_bits));
}

/* A reducer whose first step is the one in which the bit flips, or a later one.
 */
static void flip_in_step(enum ddp_type type, unsigned steps, int culprit,
			 size_t spot, int parameter)
{
	static float f[VALUES];
	static double d[VALUES];
	ddp_reducer *r;
	char text[96];

	must(ddp_reducer_new(&r, world, type == DDP_F32 ? (void *)f : d, type,
			     norm_counts, PARAMS, NULL), "new");
	must(ddp_reducer_check_norms(r, FACTOR), "check");
	for (unsigned i = 0; i < steps; i++) {
		draw(f, d, i, 1);
		step(r, 0, "");
	}
	draw(f, d, steps, 1);
	if (rank == culprit)
		flip(&f[spot], &d[spot], 30);
	snprintf(text, sizeof(text), "the gradient of parameter %d has values "
		 "up to ", parameter);
	step(r, size > 2 ? DDP_ERR_DATA : 0, text);
	snprintf(text, sizeof(text), " on rank %d on ", culprit);
	expect(size > 2 ? DDP_ERR_DATA : 0, size > 2 ? DDP_ERR_DATA : 0, text);
	/* the step after it is as before */
	draw(f, d, steps + 1, 1);
	step(r, 0, "");
	if (rank == culprit)
		flip(&f[spot], &d[spot], 3);
	step(r, 0, "");
	ddp_reducer_free(r);
}

static void norms_of_all(enum ddp_type type)
{
	static float f[VALUES];
	static double d[VALUES];
	double scale = 1;
	ddp_reducer *r;

	must(ddp_reducer_new(&r, world, type == DDP_F32 ? (void *)f : d, type,
			     norm_counts, PARAMS, NULL), "new");
	must(ddp_reducer_check_norms(r, FACTOR), "check");
	for (unsigned i = 0; i < 60; i++) {
		/* all ranks jump; one is much larger, but not FACTOR times */
		scale *= i % 20 == 19 ? 1000 : 1;
		draw(f, d, i, i % 7 == 6 && rank == 0 ? 9 * scale : scale);
		step(r, 0, "");
	}
	draw(f, d, 61, rank == size - 1 ? 2000 * scale : scale);
	step(r, size > 2 ? DDP_ERR_DATA : 0, "its samples or its loss");
	/* what was usual long ago has faded: 0.98^400 < 1/1000 */
	for (unsigned i = 62; i < 462; i++) {
		draw(f, d, i, scale / 1000);
		step(r, 0, "");
	}
	draw(f, d, 462, rank == size - 1 ? 2 * scale : scale / 1000);
	step(r, size > 2 ? DDP_ERR_DATA : 0, "its samples or its loss");
	expect(ddp_reducer_check_norms(r, 1), DDP_ERR_ARGUMENT, "more than 1");
	expect(ddp_reducer_check_norms(r, NAN), DDP_ERR_ARGUMENT, "more than");
	must(ddp_reducer_check_norms(r, 0), "off");
	draw(f, d, 463, rank == size - 1 ? 2000 * scale : scale);
	step(r, 0, "");
	ddp_reducer_free(r);
}

/* A rank without a gradient has the norm 0, whatever it had before. */
static void norms_of_some(enum ddp_type type)
{
	struct ddp_reducer_options o = {.find_unused = 1};
	static float f[VALUES];
	static double d[VALUES];
	ddp_reducer *r;

	must(ddp_reducer_new(&r, world, type == DDP_F32 ? (void *)f : d, type,
			     norm_counts, PARAMS, &o), "new");
	must(ddp_reducer_check_norms(r, FACTOR), "check");
	for (unsigned i = 0; i < 8; i++) {
		/* each step jumps, so that the norms are compared; the last
		 * one in parameter 3 alone */
		draw(f, d, i, i < 7 ? pow(10, i) : 1e-3);
		d[5003] *= i < 7 ? 1 : 1e10;
		f[5003] = (float)d[5003];
		must(ddp_reducer_begin(r, 1), "begin");
		for (int p = 0; p < PARAMS; p++)
			if (p != 4 || rank || i % 2 == 0)
				must(ddp_reducer_ready(r, p), "ready");
		expect(ddp_reducer_finish(r), 0, "");
	}
	ddp_reducer_free(r);
}

/* A bucket's hook, in which rank 1 ends. */
static int leave(void *arg, ddp_comm *c, void *bucket, size_t count,
		 enum ddp_type type, ddp_request **request)
{
	if (rank == 1)
		_exit(0);
	return 0;
}

/* It is missed by the comparison of the norms. */
static void check_leaving(void)
{
	struct ddp_reducer_options o = {.hook = leave};
	static float f[VALUES];
	ddp_reducer *r;

	must(ddp_reducer_new(&r, world, f, DDP_F32, norm_counts, PARAMS, &o),
	     "new");
	must(ddp_reducer_check_norms(r, FACTOR), "check");
	must(ddp_reducer_begin(r, 1), "begin");
	for (int i = 0; i < PARAMS; i++)
		must(ddp_reducer_ready(r, i), "ready");
	if (ddp_reducer_finish(r) == 0)
		DIE("the norms are compared without rank 1");
	exit(0);
}

static void check_norms(enum ddp_type type)
{
	static const size_t spots[] = {0, 2, 3, 5002, 5003, 5004, 6027};
	static const int params[] = {0, 0, 2, 2, 3, 4, 4};

	norms_of_all(type);
	norms_of_some(type);
	for (int k = 0; k < 7 * size; k++)
		flip_in_step(type, (unsigned)k % 3, k % size, spots[k / size],
			     params[k / size]);
}

int main(int argc, char **argv)
{
	int32_t one = 1;

	must(ddp_init(&world, NULL), "init");
	rank = ddp_rank(world);
	size = ddp_world_size(world);
	if (argc > 1)
		check_leaving();
	check_replicas();
	check_finite(DDP_F32);
	check_finite(DDP_F64);
	expect(ddp_reducer_check_finite(NULL, 1), DDP_ERR_ARGUMENT, "NULL");
	check_norms(DDP_F32);
	check_norms(DDP_F64);
	expect(ddp_reducer_check_norms(NULL, 2), DDP_ERR_ARGUMENT, "NULL");
	must(ddp_all_reduce(world, &one, &one, 1, DDP_I32, DDP_SUM), "after");
	if (one != size)
		DIE("the sum after the checks is %d", one);
	printf("rank %d of %d: ok\n", rank, size);
	ddp_finalize(world);
	return 0;
}
