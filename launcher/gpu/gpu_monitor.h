/* gpu_monitor.h: the agent's side of the helper that asks NVML (gpu_helper.h):
 * the state of this node's GPUs, and their faults. A helper that hangs or
 * crashes is logged once, and the job continues without it. Nothing is started
 * on a node without NVIDIA's driver. */
#ifndef LAUNCHER_GPU_MONITOR_H
#define LAUNCHER_GPU_MONITOR_H

#include "base/loop.h"
#include "launcher/gpu/gpu_findings.h"

struct gpu_monitor {
	/* set by the caller */
	void *owner;
	void (*on_finding)(void *owner, const struct gpu_finding *f);
	/* All GPUs have been read once more. */
	void (*on_read)(void *owner);

	uv_loop_t *loop;
	uv_poll_t poll;
	uv_timer_t limit;
	pid_t pid; /* 0: none, or it was reaped */
	int fd;	   /* -1: its end was reached */
	int has_begun, is_open, has_answered, has_failed, is_closing;
	struct buf in;
	struct gpu_findings *findings; /* NULL: none */
	struct gpu_finding cause;      /* the worst of this round that is new */
	int has_cause;
};

/* The caller has set owner and the callbacks. */
void gpu_monitor_init(struct gpu_monitor *m, uv_loop_t *loop);
/* A round begins. Before the first one the helper is started if there may be
 * GPUs: NVIDIA's device files, or DDP_NVML_LIB; never with DDP_GPU_HEALTH=0. */
void gpu_monitor_begin(struct gpu_monitor *m);
/* Takes now what the helper has sent. */
void gpu_monitor_poll(struct gpu_monitor *m);
/* The worst fault of a GPU in this round, if it is at least that severe and may
 * explain the death of a worker; or NULL. */
const struct gpu_finding *gpu_monitor_cause(const struct gpu_monitor *m,
					    enum gpu_severity least);
/* The GPUs as they were read last: the first, the one after; NULL: no more. */
const struct gpu_record *gpu_monitor_next(const struct gpu_monitor *m,
					  const struct gpu_record *after);
/* A child ended: 1 if it was the helper. */
int gpu_monitor_reaped(struct gpu_monitor *m, pid_t pid, int status);
/* Kills the helper and does not wait for it, as it may hang in the driver. The
 * loop must run once more, then gpu_monitor_release. */
void gpu_monitor_close(struct gpu_monitor *m);
void gpu_monitor_release(struct gpu_monitor *m);

#endif
