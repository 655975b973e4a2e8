/* reducer_finite.c: finds gradients with NaN or infinity before the average
 * spreads them to all ranks. */
#include <string.h>

#include "worker-sdk/api/reducer.h"
#include "worker-sdk/core/last_error.h"

/* Values between two looks: enough to compute with vectors, few enough to end
 * early. */
enum { LOOK = 1024 };

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

	for (size_t i = 0; i < n; i++)
		carry |= (x[i] & F32_EXPONENT) + F32_LOWEST;
	return !(carry >> 31);
}

static int finite_f64(const word64 *x, size_t n)
{
	uint64_t carry = 0;

	for (size_t i = 0; i < n; i++)
		carry |= (x[i] & F64_EXPONENT) + F64_LOWEST;
	return !(carry >> 63);
}

int ddp__reducer_is_finite(const struct ddp_reducer *r, int i)
{
	size_t count = r->b.at[i + 1] - r->b.at[i];
	int finite = 1;

	for (size_t at = 0; finite && at < count; at += LOOK) {
		size_t n = count - at < LOOK ? count - at : LOOK;
		const char *x = r->data[i] + at * r->element;

		finite = r->type == DDP_F32 ? finite_f32((const void *)x, n)
					    : finite_f64((const void *)x, n);
	}
	return finite;
}

int ddp_reducer_check_finite(ddp_reducer *r, int on)
{
	struct err *e = ddp__last_error();

	if (!r)
		return err_set(e, ERR_ARGUMENT, "ddp_reducer_check_finite: the "
			       "reducer is NULL");
	if (r->state == REDUCER_SYNC)
		return err_set(e, ERR_ARGUMENT, "ddp_reducer_check_finite: a "
			       "step is under way: call it before "
			       "ddp_reducer_begin");
	if (r->c && r->c->backend != &ddp__cpu)
		return err_set(e, ERR_ARGUMENT, "ddp_reducer_check_finite "
			       "needs the backend cpu, with gradients in the "
			       "host's memory");
	r->checks_finite = on != 0;
	return 0;
}

int ddp__reducer_agree_finite(struct ddp_reducer *r)
{
	/* the lowest rank wins: it has the largest number */
	int64_t order = (int64_t)(r->c->size - r->c->rank) << 32;
	int64_t first = r->not_finite ? order | r->not_finite : 0;
	char name[DDP__NAME_MAX];
	int rc = 0;

	r->not_finite = 0;
	if (r->c->size > 1)
		rc = ddp_all_reduce(r->c, &first, &first, 1, DDP_I64, DDP_MAX);
	if (rc || !first)
		return rc;
	return err_set(ddp__last_error(), ERR_DATA, "ddp_reducer_finish: the "
		       "gradient of parameter %d is not finite on %s, before "
		       "the average: its samples, its loss or its memory are "
		       "wrong, or the learning rate is too high",
		       (int)(first & INT32_MAX) - 1,
		       ddp__name_rank(r->c, r->c->size - (int)(first >> 32),
				      name));
}
