/* role.c: groups by role, for jobs of several programs. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "worker-sdk/api/api_internal.h"

/* The place of name in "learner=0-3 actor=4-11", or -1. */
static int role_number(const char *roles, const char *name)
{
	size_t n = strlen(name);

	for (int i = 0; *roles; i++) {
		if (strncmp(roles, name, n) == 0 && roles[n] == '=')
			return i;
		roles += strcspn(roles, " ");
		roles += strspn(roles, " ");
	}
	return -1;
}

/* Without a list, as when each node has its own --role: a hash of the name
 * (FNV-1a), the same on all ranks. */
static int role_hash(const char *name)
{
	uint32_t hash = 2166136261u;

	for (; *name; name++)
		hash = (hash ^ (unsigned char)*name) * 16777619u;
	return (int)(hash & INT32_MAX);
}

const char *ddp_role(const ddp_comm *c)
{
	const char *name = getenv("ROLE_NAME");

	(void)c;
	return name && *name ? name : "default";
}

int ddp_comm_split_by_role(ddp_comm *c, ddp_comm **group)
{
	const char *roles = getenv("DDP_ROLES"), *name = ddp_role(c);
	int number = roles ? role_number(roles, name) : -1;

	return ddp_comm_split(c, number < 0 ? role_hash(name) : number, 0,
			      group);
}
