/* evaluate.c: evaluation of the test set, and the picture. */
#include "trainers/train/run.h"

#include <stdlib.h>

#include "trainers/report/preview.h"

enum { PREVIEW_IMAGES = 2 * PREVIEW_ROW };

/* Each rank's running statistics come from different samples, so all ranks use
 * rank 0's. */
static int evaluate_share_statistics(struct run *run, struct err *e)
{
	size_t n = net_buffer_count(&run->net);
	float *values;
	int r;

	if (!n || run->world_size == 1)
		return 0;
	values = malloc(n * sizeof(*values));
	if (!values)
		return err_no_memory(e, "running statistics");
	net_get_buffers(&run->net, values);
	r = ddp_broadcast(run->world, values, n, DDP_F32, 0);
	if (r == 0)
		net_put_buffers(&run->net, values);
	free(values);
	return run_from_ddp(r, e);
}

static int evaluate_batch(struct run *run, uint64_t first, uint64_t size,
			  struct err *e)
{
	struct loss_spec loss = {run->spec.loss, 0, 1};
	uint64_t left = first < size ? size - first : 0;
	int n = left < (uint64_t)run->eval_batch ? (int)left : run->eval_batch;
	struct plan *p;
	int r;

	if (n == 0)
		return 0; /* this rank has one sample fewer than others */
	r = net_plan(&run->net, n, NET_EVALUATE, &p, e);
	if (r < 0)
		return r;
	run->ops->set_step(run->device, &(struct step_args){.first = first});
	net_load_batch_from(p, run->test_loader);
	net_forward(p);
	net_loss(p, &loss);
	return 0;
}

int evaluate(struct run *run, struct result *out, struct err *e)
{
	uint64_t size = ddp_sampler_size(&run->test_sampler), most;
	uint64_t count = run->data.set.test.count;
	uint64_t batch = (uint64_t)run->eval_batch;
	struct tally tally;
	double sum[2];
	int r = evaluate_share_statistics(run, e), stop = 0;

	if (r < 0)
		return r;
	most = (count + (uint64_t)run->world_size - 1) /
	       (uint64_t)run->world_size;
	for (uint64_t i = 0; i < size; i++)
		run->order[i] = ddp_sampler_index(&run->test_sampler, i);
	r = run->ops->loader_order(run->test_loader, run->order, size, 0, e);
	run->ops->zero(run->device, run->net.tally, sizeof(tally));
	/* equally many rounds on all ranks, so that all can stop in the same
	 * one */
	for (uint64_t i = 0; r == 0 && !stop && i < most; i += batch) {
		r = evaluate_batch(run, i, size, e);
		if (r == 0 && run->options.checkpoint)
			stop = ddp_should_stop(run->world);
	}
	if (r == 0)
		r = run->ops->wait(run->device, e);
	if (r < 0 || stop < 0)
		return r < 0 ? r : run_from_ddp(stop, e);
	if (stop)
		return RUN_STOPPED;
	run->ops->get(run->device, &tally, run->net.tally, sizeof(tally));
	sum[0] = tally.loss;
	sum[1] = (double)tally.correct;
	r = ddp_all_reduce(run->world, sum, sum, 2, DDP_F64, DDP_SUM);
	out->loss = sum[0] / (double)count;
	out->accuracy = run->spec.loss == LOSS_CROSS_ENTROPY
				? 100 * sum[1] / (double)count : -1;
	return run_from_ddp(r, e);
}

int evaluate_preview(struct run *run, struct err *e)
{
	const struct dataset_part *part = &run->data.set.test;
	int n = part->count < PREVIEW_IMAGES ? (int)part->count
					     : PREVIEW_IMAGES;
	size_t size = part->samples.size;
	float *values = malloc((size_t)n * size * sizeof(*values));
	struct plan *p;
	int r;

	if (!values)
		return err_no_memory(e, "--save-images: %d images", n);
	if (n > run->eval_batch)
		n = run->eval_batch;
	for (int i = 0; i < n; i++)
		run->order[i] = (uint32_t)i;
	r = run->ops->loader_order(run->test_loader, run->order, (size_t)n, 0,
				   e);
	if (r == 0)
		r = net_plan(&run->net, n, NET_EVALUATE, &p, e);
	if (r == 0) {
		run->ops->set_step(run->device, &(struct step_args){0});
		net_load_batch_from(p, run->test_loader);
		net_forward(p);
		run->ops->tensor_get(run->device, p->out, values);
		r = preview_write(run->options.save_images,
				  &run->data.set.shape, n, part->samples.pixels,
				  values, e);
	}
	free(values);
	return r;
}
