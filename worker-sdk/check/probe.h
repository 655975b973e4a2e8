/* probe.h: the probes of one node. Each runs in a process of its own, which is
 * killed when its time is over: a file system or a driver that does not answer
 * becomes a finding, and the check continues. A probe reports failures only as
 * findings. */
#ifndef SDK_CHECK_PROBE_H
#define SDK_CHECK_PROBE_H

#include "worker-sdk/check/finding.h"

enum {
	/* A probe takes milliseconds: only a hanging one reaches this. */
	PROBE_QUICK_MS = 8000,
	PROBE_FULL_MS = 20000,
	PROBE_FOLDERS_MAX = 16,
};

struct probe_options {
	int full; /* also measures how fast disks and memory are */
	int nodes; /* in the job */
	/* the workers' folders: "/ckpt,/logs"; NULL: none */
	const char *folders;
	const char *command; /* the site's own check, for sh -c; NULL: none */
	const char *addr; /* this node's, for other nodes; or NULL */
	int time_ms; /* for each probe; 0: PROBE_QUICK_MS, or PROBE_FULL_MS */
};

/* Runs all probes: first those that do not measure, at the same time, then the
 * others, one by one. Blocks for at most a few times a probe's time. */
void probes_run(struct findings *out, const struct probe_options *o);

/* The probes: probe_host.c, probe_cpu.c, probe_folder.c, probe_gpu.c. */
struct probe_call {
	const struct probe_options *o;
	const char *folder; /* probe_folder's */
};
void probe_limits(struct findings *out, const struct probe_call *c);
void probe_memory(struct findings *out, const struct probe_call *c);
void probe_shared_memory(struct findings *out, const struct probe_call *c);
void probe_name(struct findings *out, const struct probe_call *c);
void probe_versions(struct findings *out, const struct probe_call *c);
void probe_cpu(struct findings *out, const struct probe_call *c);
void probe_cpu_speed(struct findings *out, const struct probe_call *c);
void probe_memory_speed(struct findings *out, const struct probe_call *c);
void probe_folder(struct findings *out, const struct probe_call *c);
void probe_folder_speed(struct findings *out, const struct probe_call *c);
void probe_gpus(struct findings *out, const struct probe_call *c);
void probe_command(struct findings *out, const struct probe_call *c);

/* The CPU time of this thread in ns, which does not depend on how many
 * processes share the CPU. */
uint64_t probe_cpu_ns(void);

/* The folder of this process's cgroup, version 2. 1, or 0 if there is none. */
int probe_cgroup(char *out, size_t size);
/* The number in that file, after `field` unless that is NULL; -1: none ("max").
 * Both are in probe_cpu.c. */
int64_t probe_read_number(const char *folder, const char *name,
			  const char *field);

enum { PROBE_BYTES_MAX = 24 };
/* "7.8 GiB" into out[PROBE_BYTES_MAX]; returns out. */
char *probe_bytes_text(uint64_t bytes, char *out);

#endif
