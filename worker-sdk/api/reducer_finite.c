/* reducer_finite.c: finds gradients with NaN or infinity before the average
 * spreads them to all ranks. */
#include "worker-sdk/api/reducer.h"
#include "worker-sdk/core/last_error.h"

/* Values between two checks. A loop of a constant length is computed with
 * vectors. */
enum { LOOK = 256 };

/* An exponent of only ones means NaN or infinity. Adding its lowest bit carries
 * into the sign's place exactly then. */
#define F32_EXPONENT 0x7f800000u
#define F32_LOWEST 0x00800000u
#define F64_EXPONENT 0x7ff0000000000000u
#define F64_LOWEST 0x0010000000000000u

typedef uint32_t word32 __attribute__((aligned(1), may_alias));
typedef uint64_t word64 __attribute__((aligned(1), may_alias));

static int finite_f32(const word32 *x, size_t n)
{
	uint32_t carry = 0;

	for (; n >= LOOK && !(carry >> 31); n -= LOOK, x += LOOK)
		for (int i = 0; i < LOOK; i++)
			carry |= (x[i] & F32_EXPONENT) + F32_LOWEST;
	for (size_t i = 0; i < n && !(carry >> 31); i++)
		carry |= (x[i] & F32_EXPONENT) + F32_LOWEST;
	return !(carry >> 31);
}

static int finite_f64(const word64 *x, size_t n)
{
	uint64_t carry = 0;

	for (; n >= LOOK && !(carry >> 63); n -= LOOK, x += LOOK)
		for (int i = 0; i < LOOK; i++)
			carry |= (x[i] & F64_EXPONENT) + F64_LOWEST;
	for (size_t i = 0; i < n && !(carry >> 63); i++)
		carry |= (x[i] & F64_EXPONENT) + F64_LOWEST;
	return !(carry >> 63);
}

int ddp__reducer_is_finite(const struct ddp_reducer *r, int i)
{
	size_t count = r->b.at[i + 1] - r->b.at[i];

	return r->type == DDP_F32 ? finite_f32((const void *)r->data[i], count)
				  : finite_f64((const void *)r->data[i], count);
}

int ddp__reducer_check_check(const struct ddp_reducer *r, const char *what)
{
	struct err *e = ddp__last_error();

	if (!r)
		return err_set(e, ERR_ARGUMENT, "%s: the reducer is NULL",
			       what);
	if (r->state == REDUCER_SYNC)
		return err_set(e, ERR_ARGUMENT, "%s: a step is under way: call "
			       "it before ddp_reducer_begin", what);
	if (r->c && r->c->backend != &ddp__cpu)
		return err_set(e, ERR_ARGUMENT, "%s needs the backend cpu, "
			       "with gradients in the host's memory", what);
	return 0;
}

int ddp_reducer_check_finite(ddp_reducer *r, int on)
{
	int rc = ddp__reducer_check_check(r, "ddp_reducer_check_finite");

	if (!rc)
		r->checks_finite = on != 0;
	return rc;
}

/* The first parameter whose average is not finite, the same on all ranks; -1:
 * none. An unused one keeps this rank's own gradient. */
static int reducer_find_average(const struct ddp_reducer *r)
{
	for (int i = 0; i < r->b.n; i++)
		if ((!r->o.find_unused || r->used[i]) &&
		    !ddp__reducer_is_finite(r, i))
			return i;
	return -1;
}

static int reducer_report(struct ddp_reducer *r, int64_t first, int average)
{
	struct err *e = ddp__last_error();
	char name[DDP__NAME_MAX];

	if (!first && average >= 0)
		return err_set(e, ERR_DATA, "ddp_reducer_finish: the average "
			       "of parameter %d is not finite, although the "
			       "gradients of all ranks are: their sum is too "
			       "large for the type", average);
	if (!first)
		return 0;
	return err_set(e, ERR_DATA, "ddp_reducer_finish: the gradient of "
		       "parameter %d is not finite on %s, before the average: "
		       "its samples, its loss or its memory are wrong, or the "
		       "learning rate is too high",
		       (int)(first & INT32_MAX) - 1,
		       ddp__name_rank(r->c, r->c->size - (int)(first >> 32),
				      name));
}

int ddp__reducer_agree_finite(struct ddp_reducer *r)
{
	/* the lowest rank wins: it has the largest number */
	int64_t order = (int64_t)(r->c->size - r->c->rank) << 32;
	int64_t first = r->not_finite ? order | r->not_finite : 0;
	int average = reducer_find_average(r), rc = 0;

	r->not_finite = 0;
	/* All ranks have the same averages, which NaN and infinity spread to,
	 * so all know whether to ask. A hook may leave something else. */
	if (average < 0 && !r->o.hook)
		return 0;
	if (r->c->size > 1)
		rc = ddp_all_reduce(r->c, &first, &first, 1, DDP_I64, DDP_MAX);
	return rc ? rc : reducer_report(r, first, r->o.hook ? -1 : average);
}
