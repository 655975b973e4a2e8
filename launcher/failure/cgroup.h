/* cgroup.h: the memory cgroup that this process is in, version 1 or 2, found
 * through /proc: what its limit is and how often the kernel killed in it. */
#ifndef LAUNCHER_CGROUP_H
#define LAUNCHER_CGROUP_H

#include <stddef.h>
#include <stdint.h>

enum { CGROUP_PATH_MAX = 1024 };

struct cgroup {
	int version;    /* 1 or 2; 0: none that accounts for memory */
	size_t mounted; /* dir's first bytes: where the hierarchy is mounted */
	char dir[CGROUP_PATH_MAX];  /* its files */
	char path[CGROUP_PATH_MAX]; /* as people and the kernel call it */
};

/* Pure: from the texts of /proc/self/cgroup and /proc/self/mountinfo. Where
 * both versions are mounted, the one that has the memory controller; version 2
 * is taken on trust. A container that sees only its own part of the hierarchy
 * gets the part's top. Sets version to 0 where there is none. */
void cgroup_parse(struct cgroup *c, const char *membership,
		  const char *mountinfo);

/* Pure: N of the line "name N"; -1 where there is no such line. */
int64_t cgroup_count(const char *text, const char *name);

/* Reads the two files and parses them. */
void cgroup_find(struct cgroup *c);

/* How many processes the kernel has killed in it for lack of memory, or -1.
 * *below gets those of them in cgroups below it (version 1 does not count
 * these, so there it is 0). */
int64_t cgroup_oom_kills(const struct cgroup *c, int64_t *below);

/* The lowest limit in bytes on the way up that allocations have run into; path
 * is the cgroup that has it. 0 where there is none. */
uint64_t cgroup_limit_hit(const struct cgroup *c, char *path, size_t size);

#endif
