/* agree.c: ddp_once runs a function on one rank for all; ddp_should_stop lets
 * all ranks stop at the same step. Both use small gathers. */
#include <stdio.h>
#include <stdlib.h>

#include "base/flight_recorder.h"
#include "worker-sdk/api/api_internal.h"
#include "worker-sdk/comm/call_guard.h"
#include "worker-sdk/comm/collective.h"
#include "worker-sdk/comm/comm.h"
#include "worker-sdk/core/last_error.h"

int ddp__host_gather(struct ddp_comm *c, enum ddp__kind kind, const void *mine,
	      void *all, size_t size)
{
	struct ddp__call call = {kind, DDP_U8, DDP_SUM, 0, size, 0, NULL, 0};
	struct ddp__use u = {call, mine, all, 1, (size_t)c->size};
	struct err *e = ddp__last_error();
	int rc;

	if (!c->state || c->backend == &ddp__cpu)
		return ddp__collective(c, &u, &ddp__blocking);
	/* this backend's collectives need GPU memory: gather through the host
	 * instead */
	rc = ddp__acquire(c, &call, e);
	if (rc)
		return rc;
	call.number = c->calls + 1;
	rc = ddp__enter(c, &call, e);
	if (!rc) {
		rc = c->backend->gather(c, &call, mine, all, size, e);
		rc = ddp__leave_blocking(c, &call, rc, e);
	}
	ddp__release(c);
	return rc;
}

char *ddp__name_rank(struct ddp_comm *c, int rank, char *out)
{
	return c->peers.name(c->peers.owner, rank, out);
}

/* ---- ddp_once ---- */

enum { WHY_MAX = 512 };

struct outcome {
	int32_t ran, rc;
};

static int once_is_mine(struct ddp_comm *c, enum ddp_scope scope)
{
	return scope == DDP_JOB ? c->rank == 0 : ddp_host_leader(c) == c->rank;
}

static struct outcome once_run(int (*fn)(void *arg), void *arg, struct err *why)
{
	struct err *e = ddp__last_error();
	struct outcome o = {1, 0};

	*e = (struct err)ERR_INIT;
	o.rc = fn(arg);
	if (o.rc >= 0)
		return o;
	/* if a call of libddp failed, its own error text; libddp has no names
	 * for other codes */
	if (e->code == o.rc && e->text[0])
		*why = *e;
	else
		err_set(why, o.rc, "ddp_once: the function returned %d", o.rc);
	return o;
}

/* Collective. Sets the error of the lowest rank whose function failed on all
 * ranks. */
static int once_fail(struct ddp_comm *c, int who, int code,
		     const struct err *why)
{
	struct err *e = ddp__last_error();
	char mine[WHY_MAX] = "", name[DDP__NAME_MAX];
	char *all = malloc((size_t)c->size * WHY_MAX);
	int rc;

	if (!all)
		return err_no_memory(e, "ddp_once");
	if (why->code)
		snprintf(mine, sizeof(mine), "%.*s", WHY_MAX - 1, why->text);
	rc = ddp__host_gather(c, DDP__ONCE, mine, all, WHY_MAX);
	if (!rc && who == c->rank) {
		*e = *why;
		rc = why->code;
	} else if (!rc) {
		all[(size_t)(who + 1) * WHY_MAX - 1] = '\0';
		rc = err_set(e, code, "%s: %s", ddp__name_rank(c, who, name),
			     all + (size_t)who * WHY_MAX);
	}
	free(all);
	return rc;
}

/* Sets the result of the rank that ran fn for this rank, or of the lowest rank
 * with an error; *who is that rank. */
static int once_outcome(struct ddp_comm *c, enum ddp_scope scope,
			const struct outcome *all, int *who)
{
	*who = scope == DDP_JOB ? 0 : ddp_host_leader(c);
	for (int i = 0; i < c->size; i++)
		if (all[i].ran && all[i].rc < 0) {
			*who = i;
			break;
		}
	return all[*who].rc;
}

static void once_set_timeouts(struct ddp__world *w, int timeout_ms)
{
	for (struct ddp_comm *c = w->comms; c; c = c->next)
		if (c->state && c->backend->set_timeout)
			c->backend->set_timeout(c, timeout_ms);
}

/* Hosts wait for each other as well: one could go on alone, but only to the
 * next collective, which has a timeout; and all fail if one does. */
int ddp_once(ddp_comm *c, enum ddp_scope scope, int (*fn)(void *arg), void *arg)
{
	struct err *e = ddp__last_error(), why = ERR_INIT;
	struct outcome mine = {0, 0}, *all;
	int rc, who;

	rc = ddp__check_comm(c, "ddp_once", e);
	if (rc)
		return rc;
	if (!fn || (scope != DDP_HOST && scope != DDP_JOB))
		return err_set(e, ERR_ARGUMENT, "ddp_once: %s",
			       fn ? "the scope must be DDP_HOST or DDP_JOB"
				  : "fn is NULL");
	all = calloc((size_t)c->size, sizeof(*all));
	if (!all)
		return err_no_memory(e, "ddp_once");
	if (once_is_mine(c, scope))
		mine = once_run(fn, arg, &why);
	/* fn may take longer than the timeout, even than that of operations
	 * under way on other communicators; a dead rank is still noticed */
	once_set_timeouts(c->world, -1);
	rc = ddp__host_gather(c, DDP__ONCE, &mine, all, sizeof(mine));
	once_set_timeouts(c->world, c->world->timeout_ms);
	if (!rc) {
		rc = once_outcome(c, scope, all, &who);
		if (rc < 0)
			rc = once_fail(c, who, rc, &why);
	}
	free(all);
	return rc;
}

/* ---- Stopping ---- */

void ddp_request_stop(ddp_comm *c)
{
	if (c && c->magic == DDP__ALIVE)
		atomic_store(&c->world->stop, 1);
}

int ddp_should_stop(ddp_comm *c)
{
	struct ddp__use u = {{DDP__SHOULD_STOP, DDP_I32, DDP_MAX, 0, 1, 0,
			      NULL, 0}, NULL, NULL, 1, 1};
	int rc = ddp__check_comm(c, "ddp_should_stop", ddp__last_error());
	int32_t stop;

	if (rc)
		return rc;
	/* mark the call before reading the flags: the agent also sends a signal
	 * to a worker that is not marked */
	flight_poll_stop(c->world->flight, 0);
	stop = atomic_load(&c->world->stop) || flight_stop(c->world->flight);
	u.send = u.recv = &stop;
	rc = ddp__collective(c, &u, &ddp__blocking);
	if (rc == 0 && stop) /* tell the agent that this rank knows of the
			      * stop */
		flight_poll_stop(c->world->flight, 1);
	return rc < 0 ? rc : stop;
}

int ddp_step(ddp_comm *c, int64_t step)
{
	struct err *e = ddp__last_error();
	int rc = ddp__check_comm(c, "ddp_step", e);

	if (rc)
		return rc;
	if (step < 0)
		return err_set(e, ERR_ARGUMENT,
			       "ddp_step: the step is %lld, "
			       "less than 0",
			       (long long)step);
	flight_step(c->world->flight, (uint64_t)step);
	return 0;
}
