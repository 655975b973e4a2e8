/* fit_line.c: a whole data-parallel program: fits y = 2x + 1 by gradient
 * descent, each rank on its share of the samples.
 *
 *   ddprun --standalone --nproc-per-node 2 ./fit_line */
#include <ddp.h>
#include <stdio.h>
#include <stdlib.h>

enum { SAMPLES = 1000, EPOCHS = 200 };

static int must(int rc)
{
	if (rc >= 0)
		return rc;
	fprintf(stderr, "%s\n", ddp_last_error());
	ddp_record_error(ddp_last_error()); /* for the launcher's report */
	_Exit(1);
}

int main(void)
{
	struct ddp_sampler sampler;
	float w[2] = {0, 0}; /* slope, offset */
	ddp_comm *world;

	must(ddp_init(&world, NULL));
	must(ddp_sampler_init(&sampler, SAMPLES, ddp_rank(world),
			      ddp_world_size(world), 7, 1, DDP_PAD));
	must(ddp_broadcast(world, w, 2, DDP_F32, 0));
	for (uint64_t epoch = 0; epoch < EPOCHS; epoch++) {
		uint64_t n = ddp_sampler_size(&sampler);
		float grad[2] = {0, 0};

		ddp_sampler_set_epoch(&sampler, epoch);
		for (uint64_t i = 0; i < n; i++) {
			float x = (float)ddp_sampler_index(&sampler, i) /
				  (float)SAMPLES;
			float error = w[0] * x + w[1] - (2 * x + 1);

			grad[0] += error * x / (float)n;
			grad[1] += error / (float)n;
		}
		must(ddp_all_reduce(world, grad, grad, 2, DDP_F32, DDP_AVG));
		w[0] -= grad[0];
		w[1] -= grad[1];
	}
	if (ddp_rank(world) == 0)
		printf("y = %.2fx + %.2f\n", w[0], w[1]);
	ddp_sampler_release(&sampler);
	ddp_finalize(world);
	return 0;
}
