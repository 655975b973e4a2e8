/* gpu_findings.h: compares what NVML reports with what it reported before, and
 * turns it into sentences, each once in a round; knows what the numbers of Xid
 * errors mean. Pure. */
#ifndef LAUNCHER_GPU_FINDINGS_H
#define LAUNCHER_GPU_FINDINGS_H

#include <stdint.h>

#include "launcher/gpu/gpu_record.h"

enum { GPU_TEXT_MAX = 200, GPU_XIDS_TRACKED = 256 };

enum gpu_severity {
	GPU_NOTE,    /* to know; nothing has ended */
	GPU_PROGRAM, /* an error of the program, on this GPU */
	GPU_SLOW,    /* it runs below its speed */
	GPU_BROKEN,  /* the GPU, a link or the driver has failed */
	GPU_SEVERITIES
};

struct gpu_finding {
	enum gpu_severity severity;
	uint32_t index, xid; /* 0: it is not an Xid */
	/* it has happened while the job ran, so that it may explain a death */
	int is_new;
	char uuid[GPU_UUID_MAX];
	char text[GPU_TEXT_MAX]; /* "GPU 3: Xid 79, fell off the bus" */
	const char *action;      /* what to do; static */
};

/* "note", "program", "slow", "broken" */
const char *gpu_severity_name(enum gpu_severity s);

struct gpu_seen {
	struct gpu_record first, last; /* this round's first; the latest */
	int is_known;                  /* last has been read */
	unsigned reported;             /* bits of what was reported */
	uint32_t xids[GPU_XIDS_TRACKED / 32];
};

struct gpu_findings {
	struct gpu_seen gpus[GPU_WATCHED_MAX];
	void *owner;
	void (*on_finding)(void *owner, const struct gpu_finding *f);
};

/* The caller sets owner and on_finding; the rest is zero. */

/* A round begins: what happens in it is reported again; states that last, such
 * as a GPU that is too hot, are not. */
void gpu_findings_begin(struct gpu_findings *all);
/* A GPU was read. */
void gpu_findings_add(struct gpu_findings *all, const struct gpu_record *r);
/* All GPUs have been read: compares them with each other. */
void gpu_findings_compare(struct gpu_findings *all);
void gpu_findings_xid(struct gpu_findings *all, uint32_t index, uint32_t xid,
		      uint32_t instance);

/* ---- the numbers of Xid errors ----
 *
 * What the numbers of NVIDIA's Xid errors mean, and what to do (NVIDIA, "Xid
 * Errors", https://docs.nvidia.com/deploy/xid-errors/). Pure.
 * docs/gpu-health.md has the same table. */

enum gpu_xid_kind {
	GPU_XID_PROGRAM,  /* an error of the program: the GPU is fine */
	GPU_XID_RECORDED, /* the GPU handled it, nothing ends */
	GPU_XID_BROKEN,   /* the GPU, its links or its driver */
};

struct gpu_xid {
	uint32_t number;
	enum gpu_xid_kind kind;
	const char *meaning; /* follows "GPU 3: Xid 79, " */
	const char *action;
};

/* Never NULL: an unknown number has a row that says so. */
const struct gpu_xid *gpu_xid_find(uint32_t number);

#endif
