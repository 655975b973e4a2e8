/* c_halves.c: sums and averages of f16 and bf16 of all magnitudes are as near
 * to those of doubles as ddp.h says, and the same on all ranks. Prints "rank R
 * of N: ok" or what was wrong. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/programs/sdk/ranks.h"
#include "worker-sdk/ddp.h"

static ddp_comm *comm;

static uint16_t some_half(int r, size_t i, enum ddp_type type, int small)
{
	uint32_t x = (uint32_t)(i * 2654435761u + (size_t)r * 40503u);

	x ^= x >> 15;
	x *= 2246822519u;
	x ^= x >> 13;
	if (type == DDP_BF16) /* 2^-40 to 2^40 */
		return (uint16_t)((x & 0x807f) | (87 + x / 65536 % 81) << 7);
	/* from 0 and the smallest on; small: up to 2^9 */
	return (uint16_t)((x & 0x83ff) | x / 65536 % (small ? 24 : 31) << 10);
}

static double of_half(uint16_t h, enum ddp_type type)
{
	uint32_t bits = (uint32_t)h << 16;
	int exponent = h >> 10 & 31, fraction = h & 1023;
	double d;
	float f;

	memcpy(&f, &bits, sizeof(f));
	if (type == DDP_BF16)
		return (double)f;
	d = exponent ? ldexp(1024 + fraction, exponent - 25)
		     : ldexp(fraction, -24);
	return h & 0x8000 ? -d : d;
}

/* ddp.h gives the largest error for a number of hosts, which is at most the
 * number of ranks. */
static void expect_near(const uint16_t *got, size_t n, size_t first,
			enum ddp_type type, enum ddp_op op, const char *what)
{
	double u = type == DDP_F16 ? 0x1p-11 : 0x1p-8;
	double by = op == DDP_AVG ? size : 1;

	for (size_t i = 0; i < n; i++) {
		double sum = 0, all = 0, off;

		for (int r = 0; r < size; r++) {
			double x = of_half(some_half(r, first + i, type,
						     op == DDP_SUM), type);

			sum += x / by;
			all += fabs(x) / by;
		}
		off = fabs(of_half(got[i], type) - sum);
		if (!(off <= (size + 1) * u * all +
				     (type == DDP_F16 ? size * 0x1p-24 : 0)))
			DIE("%s of type %d op %d: element %zu is %g, not %g",
			    what, type, op, first + i, of_half(got[i], type),
			    sum);
	}
}

/* All ranks have the same bits. */
static void expect_same(const uint16_t *out, size_t n)
{
	uint64_t hash = 0xcbf29ce484222325u, most[2];

	for (size_t i = 0; i < n; i++)
		hash = (hash ^ out[i]) * 0x100000001b3u >> 1;
	most[0] = hash;
	most[1] = INT64_MAX - hash;
	must(ddp_all_reduce(comm, most, most, 2, DDP_I64, DDP_MAX), "max");
	if (most[0] != hash || most[1] != INT64_MAX - hash)
		DIE("not the bits of another rank");
}

static void check_halves(enum ddp_type type, enum ddp_op op, size_t count)
{
	size_t all = count * (size_t)size;
	uint16_t *mine = calloc(all, 2), *out = calloc(all, 2);

	if (!mine || !out)
		DIE("no memory");
	for (size_t i = 0; i < all; i++)
		mine[i] = some_half(rank, i, type, op == DDP_SUM);
	must(ddp_all_reduce(comm, mine, out, all, type, op), "all_reduce");
	expect_near(out, all, 0, type, op, "all_reduce");
	expect_same(out, all);
	must(ddp_reduce(comm, mine, out, all, type, op, size - 1), "reduce");
	if (rank == size - 1)
		expect_near(out, all, 0, type, op, "reduce");
	must(ddp_reduce_scatter(comm, mine, out, count, type, op), "scatter");
	expect_near(out, count, (size_t)rank * count, type, op,
		    "reduce_scatter");
	free(mine);
	free(out);
}

/* Averages of the greatest f16, 65504, and of 20,000 fit, although no sum of
 * them does. */
static void check_large_averages(void)
{
	static const uint16_t large[] = {0x7bff, 0xfbff, 0x74e2};
	uint16_t got[3];

	must(ddp_all_reduce(comm, large, got, 3, DDP_F16, DDP_AVG), "average");
	for (int i = 0; i < 3; i++) {
		double want = of_half(large[i], DDP_F16);

		if (fabs(of_half(got[i], DDP_F16) - want) >
		    (size + 1) * 0x1p-11 * fabs(want) ||
		    (got[i] & 0x7c00) == 0x7c00)
			DIE("the average of %g is %04x", want, got[i]);
	}
}

static void check_all_halves(void)
{
	static const enum ddp_type types[] = {DDP_F16, DDP_BF16};

	check_large_averages();
	for (int t = 0; t < 2; t++)
		for (int op = DDP_SUM; op <= DDP_AVG; op++) {
			check_halves(types[t], (enum ddp_op)op, 5);
			/* enough for a ring */
			check_halves(types[t], (enum ddp_op)op, 9000);
		}
}

int main(void)
{
	must(ddp_init(&comm, NULL), "ddp_init");
	rank = ddp_rank(comm);
	size = ddp_world_size(comm);
	check_all_halves();
	printf("rank %d of %d: ok\n", rank, size);
	ddp_finalize(comm);
	return 0;
}
