/* gpu_report.h: the GPUs of the nodes, by their agents' GPUS, for metrics and
 * tools; and GPU_NEWS, which all agents of a round get. In no journal: the
 * agents report again soon. */
#ifndef RENDEZVOUS_GPU_REPORT_H
#define RENDEZVOUS_GPU_REPORT_H

#include "rendezvous/server/hosted_job.h"

/* GPUS: replaces what the agent sent before. */
int gpu_report_take(struct peer *agent, const struct wire_frame *f,
		    struct err *e);
/* GPU_NEWS: passed on. */
int gpu_report_pass(struct peer *agent, const struct wire_frame *f,
		    struct err *e);
/* A GPUS for each node of the job that has reported. */
void gpu_report_put(struct buf *out, struct hosted_job *h);
/* Appends name="value", a label of a metric. */
void gpu_report_put_label(struct buf *out, const char *name,
			  struct slice value);
/* Gauges in Prometheus' text format; none without GPUs. */
void gpu_report_put_metrics(struct buf *out, const struct server *s);

#endif
