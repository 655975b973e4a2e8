/* pipeline.h: a model in two parts, each on a device of its own with a thread
 * of its own; a batch goes through them in micro-batches, so that both work at
 * once (GPipe: Huang et al., 2019). And, over the ranks, the averages of both
 * parts' gradients. Knows neither data sets nor options. */
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
						     head's output */
	struct device_options device[PIPELINE_STAGES];
	struct dataset_part part; /* what it learns from, and its shape */
	struct image_shape shape;
	int micros, n;            /* micro-batches, and samples in each */
	uint64_t seed;
	struct optimizer optimizer;
	/* The ranks' heads and the ranks' tails: the caller's. */
	ddp_comm *comm[PIPELINE_STAGES];
};

/* A part. What its device computes is its thread's affair; libddp is called by
 * one thread only, the caller's. */
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
	/* The gradients in the host's memory, where libddp cannot reach them
	 * on the device; else NULL and a reducer. */
	float *staged;
	ddp_reducer *reducer;
	int *reducer_index; /* [layer_count + 1]: a layer's place in the reducer
			     */
	/* Slots whose gradients are there, in that order; how many, and how
	 * many of them the reducer was told. */
	int *ready, ready_count, told;
	uint64_t done; /* the turn that it has finished */
	int r;         /* how that went */
	struct err e;
};

struct pipeline {
	struct pipeline_spec spec;
	struct stage stage[PIPELINE_STAGES];
	pthread_mutex_t lock; /* of all that follows, and of the stages' ready
				 and done */
	pthread_cond_t changed;
	enum pipeline_task task;
	uint64_t turn;        /* how often a task was given */
	int forwarded;        /* micro-batches that have left the head */
	int returned;         /* whose gradient has left the tail */
	int head_at_work;
	uint64_t both;        /* micro-batches that the tail began while the
				 head was at work on another */
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

/* The reducers. Collective, after every rank's pipeline_init went well. */
int pipeline_join(struct pipeline *p, struct err *e);

/* This rank's samples of an epoch, in their order; between steps. */
int pipeline_order(struct pipeline *p, const uint32_t *order, size_t count,
		   uint64_t epoch, struct err *e);

/* One step with the micros * n samples from args->first on: p->loss is the
 * mean of all ranks. Collective. A loss that is not finite is ERR_DATA, and
 * nothing was updated. */
int pipeline_step(struct pipeline *p, const struct step_args *args,
		  struct err *e);

#endif
