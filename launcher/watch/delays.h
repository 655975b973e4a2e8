/* delays.h: what the kernel counts of the time that a process loses: to the CPU
 * limit of its cgroup, to other processes, to disks, to TCP. Counters that
 * cannot be read stay 0. */
#ifndef LAUNCHER_DELAYS_H
#define LAUNCHER_DELAYS_H

#include <stdint.h>
#include <sys/types.h>

enum { DELAYS_WORDS_MAX = 120 };

/* Counters only grow. */
struct delays {
	/* Its cgroup, and those above it that limit CPU time: summed over CPUs,
	 * as is the CPU time they used (0: not known). */
	uint64_t throttled_us, limited_us;
	uint64_t queued_us;    /* waiting for a CPU: its main thread */
	uint64_t cpu_us;       /* running: its main thread */
	uint64_t disk_us;      /* for blocks; 0 without delayacct */
	uint64_t major_faults;
	uint64_t switches;	   /* involuntary */
	uint64_t segments, resent; /* TCP's, in its network namespace */
};

/* Reads /proc and /sys/fs/cgroup. */
void delays_read(pid_t pid, struct delays *d);

/* Pure: which of them explains why it was slow in those us, as a clause: "its
 * cgroup was throttled for 21 s of the last 60 s". Into out[DELAYS_WORDS_MAX];
 * returns out. */
char *delays_words(const struct delays *from, const struct delays *to,
		   uint64_t us, char *out);

/* Pure: N of the line "name N" of such a file; 0 without it. */
uint64_t delays_count(const char *text, const char *name);
/* Pure: the path of the cgroup that limits CPU time, in the text of
 * /proc/PID/cgroup, into out[size]; "": none. Returns its version, or 0. */
int delays_cgroup(const char *text, char *out, size_t size);

#endif
