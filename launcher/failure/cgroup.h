/* cgroup.h: the memory cgroup of this process, version 1 or 2: its limit, and
 * how many processes the kernel killed in it for lack of memory. */
#ifndef LAUNCHER_CGROUP_H
#define LAUNCHER_CGROUP_H

#include <stddef.h>
#include <stdint.h>

enum { CGROUP_PATH_MAX = 1024 };

struct cgroup {
	int version;    /* 1 or 2; 0: no memory cgroup */
	size_t mounted; /* length of the mount point, with which dir begins */
	char dir[CGROUP_PATH_MAX];  /* where its files are */
	char path[CGROUP_PATH_MAX]; /* its name in the hierarchy */
};

/* Pure: parses the texts of /proc/self/cgroup and /proc/self/mountinfo. Prefers
 * version 1 if it has the memory controller; does not check that version 2 has
 * it. In a container that sees only part of the hierarchy, dir is the top of
 * that part. version is 0 if there is no such cgroup. */
void cgroup_parse(struct cgroup *c, const char *membership,
		  const char *mountinfo);

/* Pure: N of the line "name N"; -1 without such a line. */
int64_t cgroup_count(const char *text, const char *name);

/* Reads the two files and parses them. */
void cgroup_find(struct cgroup *c);

/* How many processes the kernel has killed in it for lack of memory, or -1.
 * *below is the number of those in cgroups below it; version 1 does not count
 * them, and it is 0. */
int64_t cgroup_oom_kills(const struct cgroup *c, int64_t *below);

/* The lowest limit in bytes, in this cgroup or one above it, that allocations
 * have run into, and its cgroup's path. 0: none. */
uint64_t cgroup_limit_hit(const struct cgroup *c, char *path, size_t size);

#endif
