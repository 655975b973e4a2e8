/* evaluate.c: the test set, and the picture. */
#include "trainers/train/evaluate.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "trainers/report/preview.h"

enum { PREVIEW_IMAGES = 2 * PREVIEW_ROW };

/* Each rank's batch normalisation has seen other samples. */
static int share_statistics(struct run *x, struct err *e)
{
	size_t n = net_buffer_count(&x->net);
	float *values;
	int r;

	if (!n || x->world_size == 1)
		return 0;
	values = malloc(n * sizeof *values);
	if (!values)
		return err_set(e, -ENOMEM, "no memory for running statistics");
	net_get_buffers(&x->net, values);
	r = ddp_broadcast(x->world, values, n, DDP_F32, 0);
	if (r == 0)
		net_put_buffers(&x->net, values);
	free(values);
	return run_from_ddp(r, e);
}

static int batch_of(struct run *x, uint64_t first, uint64_t size,
		    struct err *e)
{
	struct loss_spec loss = {x->spec.loss, 0, 1};
	uint64_t left = first < size ? size - first : 0;
	int n = left < (uint64_t)x->eval_batch ? (int)left : x->eval_batch;
	struct plan *p;
	int r;

	if (n == 0)
		return 0; /* this rank has one sample less than others */
	r = net_plan(&x->net, n, NET_EVALUATE, &p, e);
	if (r < 0)
		return r;
	x->ops->numbers(x->device, &(struct step_numbers){.first = first});
	net_take_from(p, x->test_feed);
	net_forward(p);
	net_loss(p, &loss);
	return 0;
}

int evaluate(struct run *x, struct result *out, struct err *e)
{
	uint64_t size = ddp_sampler_size(&x->test_sampler), most;
	uint64_t count = x->data.set.test.count;
	uint64_t batch = (uint64_t)x->eval_batch;
	struct tally tally;
	double sum[2];
	int r = share_statistics(x, e), stop = 0;

	if (r < 0)
		return r;
	most = (count + (uint64_t)x->world_size - 1) / (uint64_t)x->world_size;
	for (uint64_t i = 0; i < size; i++)
		x->order[i] = ddp_sampler_index(&x->test_sampler, i);
	r = x->ops->feed_order(x->test_feed, x->order, size, 0, e);
	x->ops->zero(x->device, x->net.tally, sizeof tally);
	/* as many rounds on all ranks, so that they can be stopped together */
	for (uint64_t i = 0; r == 0 && !stop && i < most; i += batch) {
		r = batch_of(x, i, size, e);
		if (r == 0 && x->o.checkpoint)
			stop = ddp_should_stop(x->world);
	}
	if (r == 0)
		r = x->ops->wait(x->device, e);
	if (r < 0 || stop < 0)
		return r < 0 ? r : run_from_ddp(stop, e);
	if (stop)
		return RUN_STOPPED;
	x->ops->get(x->device, &tally, x->net.tally, sizeof tally);
	sum[0] = tally.loss;
	sum[1] = (double)tally.correct;
	r = ddp_all_reduce(x->world, sum, sum, 2, DDP_F64, DDP_SUM);
	out->loss = sum[0] / (double)count;
	out->accuracy = x->spec.loss == LOSS_CROSS_ENTROPY
				? 100 * sum[1] / (double)count : -1;
	return run_from_ddp(r, e);
}

int evaluate_preview(struct run *x, struct err *e)
{
	const struct dataset_part *part = &x->data.set.test;
	int n = part->count < PREVIEW_IMAGES ? (int)part->count
					     : PREVIEW_IMAGES;
	size_t size = part->samples.size;
	float *values = malloc((size_t)n * size * sizeof *values);
	struct plan *p;
	int r;

	if (!values)
		return err_set(e, -ENOMEM, "--save-images: no memory for %d "
			       "images", n);
	if (n > x->eval_batch)
		n = x->eval_batch;
	for (int i = 0; i < n; i++)
		x->order[i] = (uint32_t)i;
	r = x->ops->feed_order(x->test_feed, x->order, (size_t)n, 0, e);
	if (r == 0)
		r = net_plan(&x->net, n, NET_EVALUATE, &p, e);
	if (r == 0) {
		x->ops->numbers(x->device, &(struct step_numbers){0});
		net_take_from(p, x->test_feed);
		net_forward(p);
		x->ops->tensor_get(x->device, p->out, values);
		r = preview_write(x->o.save_images, &x->data.set.shape, n,
				  part->samples.pixels, values, e);
	}
	free(values);
	return r;
}
