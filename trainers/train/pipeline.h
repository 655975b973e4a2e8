/* pipeline.h: a model in two stages, head and tail, each on its own device with
 * its own thread. A batch passes through in micro-batches, so that both work at
 * once (GPipe: Huang et al., 2019). Averages the gradients of both stages over
 * the ranks. Knows neither data sets nor options. */
#ifndef TRAINERS_PIPELINE_H
#define TRAINERS_PIPELINE_H

#include <pthread.h>

#include "trainers/models/net.h"
#include "worker-sdk/ddp.h"

enum { PIPELINE_HEAD, PIPELINE_TAIL, PIPELINE_STAGES };
enum pipeline_task { PIPELINE_OPEN, PIPELINE_ORDER, PIPELINE_STEP,
		     PIPELINE_READ, PIPELINE_UPDATE, PIPELINE_CLOSE };

struct pipeline_spec {
	const struct ops *ops;
	struct model_spec model[PIPELINE_STAGES]; /* the tail's input is the
						   * head's output */
	struct device_options device[PIPELINE_STAGES];
	struct dataset_part part; /* the training set */
	struct image_shape shape;
	int micros, n;            /* micro-batches per step, samples in each */
	uint64_t seed;
	struct optimizer optimizer;
	/* Communicators of all heads and of all tails; the caller's. */
	ddp_comm *comm[PIPELINE_STAGES];
};

/* One stage. Its own thread uses its device; only the caller's thread calls
 * libddp. */
struct stage {
	struct pipeline *pipeline;
	int which;
	pthread_t thread;
	int started;
	struct device *device;
	struct loader *loader;
	struct net net;
	struct plan **plan; /* [micros] */
	float *moment;
	/* [arena + NET_LOSS_VALUES] in host memory, if libddp cannot reach the
	 * gradients on the device; else NULL, and there is a reducer. */
	float *staged;
	ddp_reducer *reducer;
	int *reducer_index; /* [layer_count + 1]: a layer's parameter in the
			     * reducer */
	/* Reducer parameters whose gradients are complete, in that order; their
	 * number, and how many the reducer has been given. */
	int *ready, ready_count, given;
	uint64_t done; /* the last task that it has finished */
	int r;         /* result of that task */
	struct err e;
};

struct pipeline {
	struct pipeline_spec spec;
	struct stage stage[PIPELINE_STAGES];
	pthread_mutex_t lock; /* protects everything below, and the stages'
			       * ready and done */
	pthread_cond_t changed;
	enum pipeline_task task;
	uint64_t turn;        /* number of tasks started */
	int forwarded;        /* micro-batches forwarded by the head */
	int returned;         /* micro-batches whose gradient the tail has
			       * returned */
	int head_at_work;
	uint64_t both;        /* micro-batches that the tail started while the
			       * head was busy with another */
	struct step_args args;
	float loss;
	struct {
		const uint32_t *sample;
		size_t count;
		uint64_t epoch;
	} order;
};

/* Starts both threads, which open their devices and models. The caller frees
 * with pipeline_release, also after an error. */
int pipeline_init(struct pipeline *p, const struct pipeline_spec *spec,
		  struct err *e);
void pipeline_release(struct pipeline *p);

/* Collective, after pipeline_init succeeded on every rank: makes the
 * reducers. */
int pipeline_join(struct pipeline *p, struct err *e);

/* Sets this rank's samples of an epoch, in order. Call it between steps. */
int pipeline_order(struct pipeline *p, const uint32_t *order, size_t count,
		   uint64_t epoch, struct err *e);

/* Collective. Runs one step over the micros * n samples from args->first on and
 * sets p->loss to the mean over all ranks. ERR_DATA: the loss is not finite,
 * and no parameters were updated. */
int pipeline_step(struct pipeline *p, const struct step_args *args,
		  struct err *e);

#endif
