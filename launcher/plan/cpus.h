/* cpus.h: a set of this host's CPUs, by the kernel's numbers and as large as
 * any kernel's; and its text, "0-3,8". Pure but for the last two. */
#ifndef LAUNCHER_CPUS_H
#define LAUNCHER_CPUS_H

#include <sched.h>
#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

/* x86's largest NR_CPUS; no other architecture's exceeds it */
enum { CPUS_MAX = 8192 };

/* All zero is the empty set. */
struct cpus {
	cpu_set_t sets[CPUS_MAX / CPU_SETSIZE];
};

void cpus_add(struct cpus *c, uint32_t cpu); /* below CPUS_MAX */
int cpus_has(const struct cpus *c, uint32_t cpu);
uint32_t cpus_count(const struct cpus *c);

/* Appends the set, as in "0-3,8". */
void cpus_put(struct buf *b, const struct cpus *c);

/* The CPUs that this process may use. Containers and schedulers restrict them.
 * 0 or -errno. */
int cpus_allowed(struct cpus *c, struct err *e);
/* 1 if n processes are more than these; 0 also if the kernel does not tell. */
int cpus_are_too_few(uint32_t n);

#endif
