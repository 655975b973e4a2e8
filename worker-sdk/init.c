/* init.c: joining the job and leaving it, and what a rank may ask about its
 * world. How a backend's ranks meet is the backend's. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "worker-sdk/comm.h"
#include "worker-sdk/last_error.h"
#include "worker-sdk/local_store.h"

enum { FATE_MS = 2000, CONNECT_MS = 30000 };

static char *name_rank(void *owner, int rank, char *out)
{
	const struct ddp_comm *c = owner;

	if (c->hosts && c->hosts[rank])
		snprintf(out, DDP__NAME_MAX, "rank %d on %.70s", rank,
			 c->hosts[rank]);
	else
		snprintf(out, DDP__NAME_MAX, "rank %d", rank);
	return out;
}

static int ask_fate(void *owner, int rank, const char *seen, struct err *e)
{
	struct ddp_comm *c = owner;
	struct err why = ERR_INIT;
	struct slice text = {"", 0};
	int rc = client_fate(c->client, (uint32_t)rank, seen ? FATE_MS : 0,
			     &text, &why);

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

static int connect_server(struct ddp_comm *c, struct err *e)
{
	struct wire_hello hello = {.role = WIRE_WORKER,
				   .job = SLICE_STR(c->env.job),
				   .host = SLICE_STR(c->host),
				   .round = c->env.round,
				   .rank = (uint32_t)c->env.rank,
				   .proof = SLICE("", 0)};
	int ms = c->timeout_ms < 0 || c->timeout_ms > CONNECT_MS
			 ? CONNECT_MS
			 : c->timeout_ms;

	return client_connect(&c->client, &c->env.server, &hello, ms, e);
}

int ddp_init(ddp_comm **world, const struct ddp_options *options)
{
	static const struct ddp_options none;
	const struct ddp_options *o = options ? options : &none;
	struct err *e = ddp__last_error();
	struct ddp_comm *c;
	int rc;

	if (!world)
		return err_set(e, ERR_ARGUMENT, "ddp_init: world is NULL");
	*world = NULL;
	c = calloc(1, sizeof(*c));
	if (!c)
		return err_set(e, -ENOMEM, "ddp_init: no memory");
	c->pid = getpid();
	c->peers = (struct ddp__peers){c, name_rank, ask_fate};
	if (gethostname(c->host, sizeof(c->host) - 1))
		snprintf(c->host, sizeof(c->host), "?");
	rc = ddp__env_read(&c->env, e);
	if (!rc)
		rc = ddp__env_timeout(o->timeout_ms, &c->timeout_ms, e);
	if (!rc)
		rc = choose_backend(c, o->backend, e);
	if (!rc && c->env.alone) {
		c->store = ddp__local_store_new();
		if (!c->store)
			rc = err_set(e, -ENOMEM, "ddp_init: no memory");
	} else if (!rc) {
		rc = connect_server(c, e);
		if (!rc && c->env.world_size > 1)
			rc = c->backend->start(c, e);
	}
	if (rc) {
		ddp_finalize(c);
		return rc;
	}
	*world = c;
	return 0;
}

void ddp_finalize(ddp_comm *c)
{
	if (!c)
		return;
	/* what a forked child says on the shared memory and the sockets, its
	 * parent says: the world is still the parent's */
	if (c->state && c->pid == getpid())
		c->backend->stop(c);
	ddp__topology_release(&c->topology);
	for (int i = 0; c->hosts && i < c->env.world_size; i++)
		free(c->hosts[i]);
	free(c->hosts);
	client_free(c->client);
	ddp__local_store_free(c->store);
	free(c);
}

int ddp_rank(const ddp_comm *c)
{
	return c->env.rank;
}

int ddp_world_size(const ddp_comm *c)
{
	return c->env.world_size;
}

int ddp_local_rank(const ddp_comm *c)
{
	return c->env.local_rank;
}

int ddp_local_world_size(const ddp_comm *c)
{
	return c->env.local_world_size;
}

int ddp_node_rank(const ddp_comm *c)
{
	return c->env.node_rank;
}

int ddp_nodes(const ddp_comm *c)
{
	return c->env.nodes;
}

int ddp_attempt(const ddp_comm *c)
{
	return c->env.attempt;
}

const char *ddp_backend(const ddp_comm *c)
{
	return c->backend->name;
}

int ddp_host_leader(const ddp_comm *c)
{
	const struct ddp__topology *t = &c->topology;

	if (!c->state)
		return c->env.rank;
	return t->hosts[t->host_of[c->env.rank]].ranks[0];
}
