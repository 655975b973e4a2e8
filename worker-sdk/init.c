/* init.c: joining the job and leaving it, and what a rank may ask about its
 * world. How a backend's ranks meet is the backend's. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "rendezvous/wire.h"
#include "worker-sdk/comm.h"
#include "worker-sdk/guest.h"
#include "worker-sdk/last_error.h"

enum { FATE_MS = 2000, CONNECT_MS = 30000 };

static char *name_rank(void *owner, int rank, char *out)
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

static int ask_fate(void *owner, int rank, const char *seen, struct err *e)
{
	struct ddp_comm *c = owner;
	struct ddp__kv *kv = c->world->kv;
	struct err why = ERR_INIT;
	struct slice text = {"", 0};
	int rc = ERR_TIMEOUT;

	if (kv->ops->fate)
		rc = kv->ops->fate(kv, ddp_world_rank(c, rank),
				   seen ? FATE_MS : 0, &text, &why);
	if (rc < 0 && !seen)
		return rc == ERR_ABORTED
			       ? err_set(e, ERR_REMOTE, "%s", why.text)
			       : 0;
	if (!seen)
		return err_set(e, ERR_REMOTE, "%.*s", SLICE_FMT(text));
	if (rc == ERR_ABORTED) /* the round is over, and this is why */
		return err_set(e, ERR_REMOTE, "%s: %.700s", seen, why.text);
	if (rc < 0)
		return err_set(e, ERR_REMOTE, "%s; its end was not reported",
			       seen);
	return err_set(e, ERR_REMOTE, "%s: %.*s", seen, SLICE_FMT(text));
}

static int choose_backend(struct ddp_comm *c, const char *name, struct err *e)
{
	if (!name || !name[0])
		name = getenv("DDP_BACKEND");
	if (!name || !name[0])
		name = "auto";
	c->backend = &ddp__cpu;
	if (!strcmp(name, "auto") || !strcmp(name, "cpu"))
		return 0;
	if (!strcmp(name, "nccl"))
		return err_set(e, ERR_USAGE,
			       "backend nccl: libddp %s has no NCCL backend; "
			       "use cpu or auto", ddp_version());
	return err_set(e, ERR_USAGE,
		       "backend '%s' is unknown: use cpu, nccl or auto", name);
}

static int open_store(struct ddp__world *w, struct err *e)
{
	struct wire_hello hello = {.role = WIRE_WORKER,
				   .host = SLICE_STR(w->host),
				   .round = w->env.round,
				   .rank = (uint32_t)w->env.rank,
				   .proof = SLICE("", 0)};
	int ms = w->timeout_ms < 0 || w->timeout_ms > CONNECT_MS
			 ? CONNECT_MS
			 : w->timeout_ms;

	if (!w->env.alone && w->env.starter != DDP__DDPRUN) {
		int rc = ddp__guest_open(&w->kv, &w->env, w->host,
					 w->timeout_ms, e);

		if (rc || !w->env.alone)
			return rc;
	}
	if (w->env.alone)
		return ddp__kv_local(&w->kv, e);
	hello.job = SLICE_STR(w->env.job);
	return ddp__kv_server(&w->kv, &w->env.server, &hello, ms, e);
}

/* The world's ranks meet in the store. */
static int gather_in_store(void *owner, const char *what, struct slice mine,
			   struct slice *values, struct err *e)
{
	struct ddp_comm *c = owner;
	struct ddp__kv *kv = c->world->kv;
	char key[80];

	snprintf(key, sizeof(key), "ddp/%s", what);
	return kv->ops->gather(kv, SLICE_STR(key), c->rank, c->size,
			       c->world->timeout_ms, mine, values, e);
}

static int join(struct ddp_comm *c, const struct ddp_options *o, struct err *e)
{
	struct ddp__world *w = c->world;
	struct ddp__exchange x = {c, gather_in_store};
	int rc = ddp__env_read(&w->env, e);

	if (!rc)
		rc = ddp__env_timeout(o->timeout_ms, &w->timeout_ms, e);
	if (!rc)
		rc = choose_backend(c, o->backend, e);
	if (!rc)
		rc = open_store(w, e);
	c->rank = w->env.rank;
	c->size = w->env.world_size;
	if (!rc && c->size > 1)
		rc = c->backend->start(c, &x, e);
	return rc;
}

int ddp_init(ddp_comm **world, const struct ddp_options *options)
{
	static const struct ddp_options none;
	struct err *e = ddp__last_error();
	struct ddp_comm *c;
	int rc;

	if (!world)
		return err_set(e, ERR_ARGUMENT, "ddp_init: world is NULL");
	*world = NULL;
	c = calloc(1, sizeof(*c));
	if (c)
		c->world = calloc(1, sizeof(*c->world));
	if (!c || !c->world) {
		free(c);
		return err_set(e, -ENOMEM, "ddp_init: no memory");
	}
	c->world->pid = getpid();
	c->world->comms = 1;
	c->peers = (struct ddp__peers){c, name_rank, ask_fate};
	if (gethostname(c->world->host, sizeof(c->world->host) - 1))
		snprintf(c->world->host, sizeof(c->world->host), "?");
	rc = join(c, options ? options : &none, e);
	if (rc) {
		ddp_finalize(c);
		return rc;
	}
	*world = c;
	return 0;
}

void ddp_finalize(ddp_comm *c)
{
	struct ddp__world *w;

	if (!c)
		return;
	w = c->world;
	/* what a forked child says on the shared memory and the sockets, its
	 * parent says: the world is still the parent's */
	if (c->state && w->pid == getpid())
		c->backend->stop(c);
	ddp__topology_release(&c->topology);
	for (int i = 0; w->hosts && i < w->env.world_size; i++)
		free(w->hosts[i]);
	free(w->hosts);
	if (w->kv)
		w->kv->ops->free(w->kv);
	free(w);
	free(c);
}

int ddp_rank(const ddp_comm *c)
{
	return c->rank;
}

int ddp_world_size(const ddp_comm *c)
{
	return c->size;
}

int ddp_world_rank(const ddp_comm *c, int rank)
{
	if (rank < 0 || rank >= c->size)
		return -1;
	return c->ranks ? c->ranks[rank] : rank;
}

int ddp_local_rank(const ddp_comm *c)
{
	return c->world->env.local_rank;
}

int ddp_local_world_size(const ddp_comm *c)
{
	return c->world->env.local_world_size;
}

int ddp_node_rank(const ddp_comm *c)
{
	return c->world->env.node_rank;
}

int ddp_nodes(const ddp_comm *c)
{
	return c->world->env.nodes;
}

int ddp_attempt(const ddp_comm *c)
{
	return c->world->env.attempt;
}

const char *ddp_backend(const ddp_comm *c)
{
	return c->backend->name;
}

int ddp_host_leader(const ddp_comm *c)
{
	const struct ddp__topology *t = &c->topology;

	if (!c->state)
		return c->rank;
	return t->hosts[t->host_of[c->rank]].ranks[0];
}
