/* batch_norm.c: gathers the moments of all ranks; each rank combines them in
 * rank order, so all get the same bits. */

#include <stdlib.h>
#include <string.h>

#include "worker-sdk/api/api_internal.h"
#include "worker-sdk/comm/call_guard.h"
#include "worker-sdk/core/last_error.h"

void ddp__moments_add(double *mean, double *var, uint64_t a, double b_mean,
		      double b_var, uint64_t b)
{
	double of_b, d;

	if (!b)
		return;
	of_b = (double)b / ((double)a + (double)b);
	d = a ? b_mean - *mean : 0;
	if (!a)
		*mean = *var = 0;
	*var = *var * (1 - of_b) + b_var * of_b + d * d * of_b * (1 - of_b);
	*mean = a ? *mean + d * of_b : b_mean;
}

/* One rank's contribution: its count, then means, then variances. */
struct part {
	uint64_t count;
	float moments[];
};

static const struct part *batch_norm_part(const char *all, size_t size,
					  int rank)
{
	return (const struct part *)(const void *)(all + (size_t)rank * size);
}

static void batch_norm_combine(const char *all, size_t size, int ranks,
			       float *mean, float *var, size_t channels)
{
	for (size_t i = 0; i < channels; i++) {
		double m = mean[i], v = var[i];
		uint64_t n = 0;

		for (int r = 0; r < ranks; r++) {
			const struct part *p = batch_norm_part(all, size, r);

			ddp__moments_add(&m, &v, n, (double)p->moments[i],
					 (double)p->moments[channels + i],
					 p->count);
			n += p->count;
		}
		mean[i] = (float)m;
		var[i] = (float)v;
	}
}

int ddp_sync_batch_norm(ddp_comm *c, float *mean, float *var, size_t channels,
			uint64_t *count)
{
	struct err *e = ddp__last_error();
	size_t size;
	struct part *mine;
	char *all;
	int rc;

	rc = ddp__check_comm(c, "ddp_sync_batch_norm", e);
	if (rc)
		return rc;
	if (!count || (channels && (!mean || !var)))
		return err_set(e, ERR_ARGUMENT, "ddp_sync_batch_norm: %s is "
			       "NULL", count ? "mean or var" : "count");
	if (channels > DDP__COUNT_MAX / 8 / (size_t)c->size - 1)
		return err_set(e, ERR_ARGUMENT, "ddp_sync_batch_norm: too many "
			       "channels: %zu", channels);
	size = sizeof(*mine) + 2 * channels * sizeof(float);
	mine = malloc(size);
	all = malloc(size * (size_t)c->size);
	rc = mine && all ? 0
			 : err_no_memory(e, "ddp_sync_batch_norm: %zu channels",
					 channels);
	if (!rc) {
		mine->count = *count;
		if (channels) {
			memcpy(mine->moments, mean, channels * sizeof(float));
			memcpy(mine->moments + channels, var,
			       channels * sizeof(float));
		}
		rc = ddp__host_gather(c, DDP__BATCH_NORM, mine, all, size);
	}
	if (!rc) {
		batch_norm_combine(all, size, c->size, mean, var, channels);
		*count = 0;
		for (int r = 0; r < c->size; r++)
			*count += batch_norm_part(all, size, r)->count;
	}
	free(mine);
	free(all);
	return rc;
}
