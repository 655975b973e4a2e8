/* reducer_norms.c: finds a rank whose gradient is far larger than that of the
 * others, as after a bit flip in its memory. The norm is the largest absolute
 * value: one wrong element changes it most. The averages are the same on all
 * ranks, so all know when one jumps; only then do they compare their norms. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "worker-sdk/api/reducer.h"
#include "worker-sdk/core/last_error.h"

/* Values between two checks: a loop of a constant length is computed with
 * vectors. */
enum { LOOK = 256, RANKS_MIN = 3 };

/* An average jumps when it is more than JUMP times what was usual: the largest
 * of the last steps, which fades. */
#define JUMP 4
#define FADING 0.98

#define F32_SIGN 0x80000000u

typedef int32_t word32 __attribute__((aligned(1), may_alias));
typedef double value64 __attribute__((aligned(1), may_alias));

/* Without its sign a float is ordered as an integer; NaN is above infinity. */
static double norm_f32(const word32 *x, size_t n)
{
	int32_t most = 0;
	float norm;

	for (; n >= LOOK; n -= LOOK, x += LOOK)
		for (int i = 0; i < LOOK; i++) {
			int32_t v = x[i] & (int32_t)~F32_SIGN;

			most = v > most ? v : most;
		}
	for (size_t i = 0; i < n; i++) {
		int32_t v = x[i] & (int32_t)~F32_SIGN;

		most = v > most ? v : most;
	}
	memcpy(&norm, &most, sizeof(norm));
	return isnan(norm) ? INFINITY : (double)norm;
}

static double norm_f64(const value64 *x, size_t n)
{
	double most = 0;

	for (size_t i = 0; i < n; i++) {
		double v = fabs(x[i]);

		most = v <= most ? most : isnan(v) ? INFINITY : v;
	}
	return most;
}

static double reducer_norm(const struct ddp_reducer *r, int i)
{
	size_t count = r->b.at[i + 1] - r->b.at[i];

	return r->type == DDP_F32 ? norm_f32((const void *)r->data[i], count)
				  : norm_f64((const void *)r->data[i], count);
}

void ddp__reducer_note_norm(struct ddp_reducer *r, int i)
{
	if (r->norms)
		r->norms->mine[i] = reducer_norm(r, i);
}

void ddp__reducer_reset_norms(struct ddp_reducer *r)
{
	for (int i = 0; r->norms && i < r->b.n; i++)
		r->norms->mine[i] = 0;
}

void ddp__reducer_norms_free(struct ddp_reducer *r)
{
	if (r->norms) {
		free(r->norms->mine);
		free(r->norms->usual);
		free(r->norms->now);
	}
	free(r->norms);
	r->norms = NULL;
}

static int reducer_norms_new(struct ddp_reducer *r, double factor)
{
	size_t n = (size_t)r->b.n + 1;
	struct ddp__reducer_norms *x = calloc(1, sizeof(*x));

	r->norms = x;
	if (x) {
		x->factor = factor;
		x->mine = calloc(n, sizeof(*x->mine));
		x->usual = calloc(n, sizeof(*x->usual));
		x->now = calloc(n, sizeof(*x->now));
	}
	if (x && x->mine && x->usual && x->now)
		return 0;
	ddp__reducer_norms_free(r);
	return err_no_memory(ddp__last_error(),
			     "ddp_reducer_check_norms: %d parameters", r->b.n);
}

int ddp_reducer_check_norms(ddp_reducer *r, double factor)
{
	int rc = ddp__reducer_check_check(r, "ddp_reducer_check_norms");

	if (rc)
		return rc;
	if (factor != 0 && !(factor > 1 && factor <= 1e30))
		return err_set(ddp__last_error(), ERR_ARGUMENT,
			       "ddp_reducer_check_norms: the factor is %g: "
			       "give 0 (off), or more than 1", factor);
	ddp__reducer_norms_free(r);
	/* nobody can say which of two is wrong */
	if (factor == 0 || !r->c || r->c->size < RANKS_MIN)
		return 0;
	return reducer_norms_new(r, factor);
}

/* ---- After the average ---- */

static int reducer_is_used(const struct ddp_reducer *r, int i)
{
	return !r->o.find_unused || r->used[i];
}

/* Looks at the averages. 1: one has jumped, or this is the first step. */
static int reducer_norms_jump(struct ddp_reducer *r)
{
	struct ddp__reducer_norms *x = r->norms;
	int jumps = 0;

	for (int i = 0; i < r->b.n; i++) {
		x->now[i] = reducer_is_used(r, i) ? reducer_norm(r, i) : 0;
		jumps |= x->now[i] > JUMP * x->usual[i];
	}
	return jumps;
}

static void reducer_norms_learn(struct ddp_reducer *r)
{
	struct ddp__reducer_norms *x = r->norms;

	for (int i = 0; i < r->b.n; i++) {
		x->usual[i] *= FADING;
		if (x->now[i] > x->usual[i] && isfinite(x->now[i]))
			x->usual[i] = x->now[i];
	}
	x->is_usual = 1;
}

static int norm_compare(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;

	return x < y ? -1 : x > y;
}

/* all[size][n]. Half of the ranks have at least this norm, and more than half
 * at most this one; room: [size]. */
static double reducer_median(const struct ddp_reducer *r, const double *all,
			     int i, double *room)
{
	int size = r->c->size;

	for (int k = 0; k < size; k++)
		room[k] = all[(size_t)k * (size_t)r->b.n + (size_t)i];
	qsort(room, (size_t)size, sizeof(*room), norm_compare);
	return room[size / 2];
}

/* The rank and parameter with the largest norm in comparison, more than factor
 * times the median of the ranks. In the first step, where nothing is usual yet,
 * the median of all parameters counts, as one value may be near 0 by chance. */
struct outlier {
	int rank, parameter;
	double ratio, median;
};

static struct outlier reducer_find_outlier(const struct ddp_reducer *r,
					   const double *all, double *room)
{
	const struct ddp__reducer_norms *x = r->norms;
	struct outlier found = {-1, -1, x->factor, 0};
	double base = 0;

	for (int i = 0; i < r->b.n; i++) {
		double median = reducer_median(r, all, i, room);

		base = median > base ? median : base;
	}
	for (int i = 0; i < r->b.n; i++) {
		double median = reducer_median(r, all, i, room);
		double to = x->is_usual ? median : base;

		for (int k = 0; k < r->c->size && to > 0 && isfinite(to); k++) {
			double norm = all[(size_t)k * (size_t)r->b.n +
					  (size_t)i];

			if (norm / to > found.ratio)
				found = (struct outlier){k, i, norm / to,
							 median};
		}
	}
	return found;
}

static int reducer_compare_norms(struct ddp_reducer *r, double *all,
				 double *room)
{
	char name[DDP__NAME_MAX];
	struct outlier o;
	int rc = ddp_all_gather(r->c, r->norms->mine, all, (size_t)r->b.n,
				DDP_F64);

	if (rc)
		return rc;
	o = reducer_find_outlier(r, all, room);
	if (o.rank < 0)
		return 0;
	return err_set(ddp__last_error(), ERR_DATA,
		       "ddp_reducer_finish: the gradient of parameter %d has "
		       "values up to %.3g on %s, before the average, and up to "
		       "%.3g on most ranks: a bit of its memory may have "
		       "flipped, or its samples or its loss are wrong",
		       o.parameter,
		       all[(size_t)o.rank * (size_t)r->b.n +
			   (size_t)o.parameter],
		       ddp__name_rank(r->c, o.rank, name), o.median);
}

int ddp__reducer_agree_norms(struct ddp_reducer *r)
{
	size_t size = (size_t)r->c->size;
	double *all;
	int rc;

	/* a hook may leave different results on the ranks */
	if (!reducer_norms_jump(r) && !r->o.hook) {
		reducer_norms_learn(r);
		return 0;
	}
	all = malloc((size * (size_t)r->b.n + size) * sizeof(*all));
	if (!all)
		return err_no_memory(ddp__last_error(),
				     "ddp_reducer_finish: the norms of %d "
				     "parameters on %zu ranks", r->b.n, size);
	rc = reducer_compare_norms(r, all, all + size * (size_t)r->b.n);
	free(all);
	if (!rc) /* what was wrong does not become usual */
		reducer_norms_learn(r);
	return rc;
}
