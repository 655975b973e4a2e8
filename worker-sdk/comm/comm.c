/* comm.c: makes and frees communicators. */
#include "worker-sdk/comm/comm.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "worker-sdk/comm/call_guard.h"
#include "worker-sdk/comm/detector.h"
#include "worker-sdk/comm/request.h"
#include "worker-sdk/core/recorder.h"

enum { GRAVES = 16 };

/* The communicator freed last stays allocated, empty, so that using it is
 * reported. */
static struct ddp_comm *graves[GRAVES];
static unsigned buried;
static pthread_mutex_t graves_lock = PTHREAD_MUTEX_INITIALIZER;

static char *comm_name_rank(void *owner, int rank, char *out)
{
	const struct ddp_comm *c = owner;
	int r = ddp_world_rank(c, rank);

	if (c->world->hosts && c->world->hosts[r])
		snprintf(out, DDP__NAME_MAX, "rank %d on %.70s", r,
			 c->world->hosts[r]);
	else
		snprintf(out, DDP__NAME_MAX, "rank %d", r);
	return out;
}

/* A rank that left is often an interpreter that unwinds after an exception,
 * which takes a while: its own error explains the loss, and must arrive before
 * ours. A dead process or host is reported at once, or when its lease ends. If
 * a rank cannot be reached the reason may be the network, which the server does
 * not know. */
enum { BORROW_MS = 2000, FATE_MS = 10000, UNREACHED_MS = 2000 };

/* Asks the store why the rank left. The caller copies the answer before it
 * returns the store. */
static int comm_ask(struct ddp__kv *kv, int rank, int timeout_ms,
		    const char *seen, struct err *e)
{
	struct err why = ERR_INIT;
	struct slice text = {"", 0};
	int rc = ERR_TIMEOUT;

	if (kv && kv->ops->fate)
		rc = kv->ops->fate(kv, rank, timeout_ms, &text, &why);
	if (rc < 0 && !seen)
		return rc == ERR_ABORTED
			       ? err_set(e, ERR_REMOTE, "%s", why.text)
			       : 0;
	if (!seen)
		return err_set(e, ERR_REMOTE, "%.*s", SLICE_FMT(text));
	if (rc == ERR_ABORTED) /* the round is over, for this reason */
		return err_set(e, ERR_REMOTE, "%s: %.700s", seen, why.text);
	if (rc < 0)
		return err_set(e, ERR_REMOTE, "%s; its end was not reported",
			       seen);
	return err_set(e, ERR_REMOTE, "%s: %.*s", seen, SLICE_FMT(text));
}

static int comm_fate(void *owner, int rank, const char *seen, struct err *e)
{
	struct ddp_comm *c = owner;
	struct ddp__kv *kv = ddp__store_lock_within(c->world, BORROW_MS);
	int rc = comm_ask(kv, ddp_world_rank(c, rank), seen ? FATE_MS : 0, seen,
			  e);

	if (kv)
		ddp__store_unlock(c->world);
	return rc;
}

static int comm_unreached(void *owner, int rank, const char *seen,
			  struct err *e)
{
	struct ddp_comm *c = owner;
	struct ddp__kv *kv = ddp__store_lock_within(c->world, BORROW_MS);
	struct err why = ERR_INIT;
	struct slice text = {"", 0};
	int rc = ERR_TIMEOUT;

	if (kv && kv->ops->fate)
		rc = kv->ops->fate(kv, ddp_world_rank(c, rank), UNREACHED_MS,
				   &text, &why);
	if (rc == ERR_ABORTED)
		rc = err_set(e, ERR_REMOTE, "%s: %.700s", seen, why.text);
	else if (rc < 0)
		rc = err_set(e, ERR_SYSTEM, "%s", seen);
	else
		rc = err_set(e, ERR_REMOTE, "%s: %.*s", seen, SLICE_FMT(text));
	if (kv)
		ddp__store_unlock(c->world);
	return rc;
}

static char *comm_last_seen(void *owner, int rank, char *out)
{
	return ddp__recorder_seen((uint32_t)ddp_world_rank(owner, rank), out);
}

struct ddp_comm *ddp__comm_new(struct ddp__world *w)
{
	struct ddp_comm *c = calloc(1, sizeof(*c));

	if (!c)
		return NULL;
	c->magic = DDP__ALIVE;
	c->world = w;
	c->peers = (struct ddp__peers){c,
				       comm_name_rank,
				       comm_fate,
				       comm_unreached,
				       comm_last_seen,
				       ddp__detector_check,
				       ddp__detector_end,
				       ddp__detector_receive};
	c->next = w->comms;
	w->comms = c;
	return c;
}

static void comm_bury(struct ddp_comm *c)
{
	struct ddp_comm *old;

	*c = (struct ddp_comm){.rank = -1};
	pthread_mutex_lock(&graves_lock);
	old = graves[buried % GRAVES];
	graves[buried++ % GRAVES] = c;
	pthread_mutex_unlock(&graves_lock);
	free(old);
}

void ddp__comm_free(struct ddp_comm *c)
{
	struct ddp_comm **at = &c->world->comms;

	/* A forked child must not touch shared memory and sockets: they still
	 * belong to its parent. */
	if (c->world->forks != ddp__forks) {
		c->state = NULL;
		ddp__recorder_close(c->world->flight, c->world->flight_fd);
		c->world->flight = NULL;
		c->world->flight_fd = -1;
	}
	flight_comm_remove(c->world->flight, c->id);
	if (c->kept_at)
		*c->kept_at = NULL;
	while (c->requests)
		ddp__request_orphan(c->requests);
	if (c->state)
		c->backend->stop(c);
	while (*at != c)
		at = &(*at)->next;
	*at = c->next;
	ddp__self_release(c);
	ddp__topology_release(&c->topology);
	free(c->ranks);
	free(c->messages);
	comm_bury(c);
}
