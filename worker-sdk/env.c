/* env.c: reading the environment, with an error for each thing amiss. */
#include "worker-sdk/env.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/option.h"

enum { DEFAULT_TIMEOUT_MS = 1800000, RANKS_MAX = 1 << 24 };

static const char *const needed[] = {
	"RANK",		  "WORLD_SIZE",	       "LOCAL_RANK",
	"LOCAL_WORLD_SIZE", "GROUP_RANK",      "GROUP_WORLD_SIZE",
	"DDP_RDZV_ENDPOINT", "DDP_JOB_ID",     "DDP_ROUND"};
enum { NEEDED = sizeof(needed) / sizeof(*needed) };

/* An empty variable is as good as none. */
static const char *get(const char *name)
{
	const char *value = getenv(name);

	return value && value[0] ? value : NULL;
}

static int get_int(const char *name, long min, long max, int *out,
		   struct err *e)
{
	const char *text = get(name);
	long value = *out;
	int rc = text ? parse_long(text, min, max, name, &value, e) : 0;

	if (rc)
		return rc;
	*out = (int)value;
	return 0;
}

/* Which of the variables that only come together is there, and which is not. */
static int check_needed(struct ddp__env *env, struct err *e)
{
	const char *there = NULL, *missing = NULL;

	for (int i = 0; i < NEEDED; i++) {
		if (get(needed[i])) {
			if (!there)
				there = needed[i];
		} else if (!missing) {
			missing = needed[i];
		}
	}
	env->alone = !there;
	if (!there || !missing)
		return 0;
	return err_set(e, ERR_USAGE,
		       "%s is set but %s is not: start this program with "
		       "ddprun, or unset %s to run alone",
		       there, missing, there);
}

static int check_below(const char *a, int x, const char *b, int y,
		       struct err *e)
{
	if (x < y)
		return 0;
	return err_set(e, ERR_USAGE,
		       "%s is %d but %s is %d: it must be less; start this "
		       "program with ddprun, which sets both",
		       a, x, b, y);
}

int ddp__env_read(struct ddp__env *env, struct err *e)
{
	int rc, round = 0;

	memset(env, 0, sizeof(*env));
	env->world_size = env->local_world_size = env->nodes = 1;
	rc = check_needed(env, e);
	if (rc || env->alone)
		return rc;
	if ((rc = get_int("RANK", 0, RANKS_MAX, &env->rank, e)) ||
	    (rc = get_int("WORLD_SIZE", 1, RANKS_MAX, &env->world_size, e)) ||
	    (rc = get_int("LOCAL_RANK", 0, RANKS_MAX, &env->local_rank, e)) ||
	    (rc = get_int("LOCAL_WORLD_SIZE", 1, RANKS_MAX,
			  &env->local_world_size, e)) ||
	    (rc = get_int("GROUP_RANK", 0, RANKS_MAX, &env->node_rank, e)) ||
	    (rc = get_int("GROUP_WORLD_SIZE", 1, RANKS_MAX, &env->nodes, e)) ||
	    (rc = get_int("TORCHELASTIC_RESTART_COUNT", 0, INT_MAX,
			  &env->attempt, e)) ||
	    (rc = get_int("DDP_ROUND", 0, INT_MAX, &round, e)) ||
	    (rc = check_below("RANK", env->rank, "WORLD_SIZE", env->world_size,
			      e)) ||
	    (rc = check_below("LOCAL_RANK", env->local_rank,
			      "LOCAL_WORLD_SIZE", env->local_world_size, e)) ||
	    (rc = check_below("GROUP_RANK", env->node_rank, "GROUP_WORLD_SIZE",
			      env->nodes, e)))
		return rc;
	if (env->local_world_size > env->world_size)
		return err_set(e, ERR_USAGE,
			       "LOCAL_WORLD_SIZE is %d but WORLD_SIZE is %d: "
			       "it must not be more; start this program with "
			       "ddprun, which sets both",
			       env->local_world_size, env->world_size);
	env->round = (uint32_t)round;
	env->job = get("DDP_JOB_ID");
	env->node_addr = get("DDP_NODE_ADDR");
	rc = endpoint_parse(&env->server, get("DDP_RDZV_ENDPOINT"), 29400, e);
	if (rc) {
		struct err why = *e;

		return err_set(e, rc, "DDP_RDZV_ENDPOINT: %.900s", why.text);
	}
	return 0;
}

int ddp__env_timeout(int given, int *timeout_ms, struct err *e)
{
	int seconds = DEFAULT_TIMEOUT_MS / 1000, rc;

	*timeout_ms = given;
	if (given)
		return 0;
	rc = get_int("DDP_TIMEOUT", -1, INT_MAX / 1000, &seconds, e);
	*timeout_ms = seconds < 0 ? -1 : seconds * 1000;
	if (!rc && seconds == 0)
		rc = err_set(e, ERR_USAGE,
			     "DDP_TIMEOUT is 0: give seconds, or -1 to wait "
			     "for ever");
	return rc;
}
