/* init.c: joins, leaves and aborts the job, and answers questions about the
 * world. Each backend connects its own ranks. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "rendezvous/auth/auth.h"
#include "worker-sdk/api/api_internal.h"
#include "worker-sdk/comm/call_guard.h"
#include "worker-sdk/comm/comm.h"
#include "worker-sdk/core/last_error.h"
#include "worker-sdk/core/recorder.h"
#include "worker-sdk/nccl/nccl_backend.h"

enum {
	CONNECT_MS = 30000,
	LOOK_MS = 2000, /* until a server of this host has been restarted */
	NAP_MS = 50,
	/* From this many ranks on, the ranks relay gathered values to each
	 * other: with 512 ranks of 256 bytes each the server would send 64 MiB,
	 * and four times that for twice as many ranks. */
	SHARE_RANKS = 512,
};

static unsigned joined; /* worlds joined so far */

/* The world starts on the cpu backend; NCCL is added on top of it. */
static int init_choose_backend(struct ddp_comm *c, const char *name,
			       struct err *e)
{
	static const char *const names[] = {"auto", "cpu", "nccl"};

	if (!name || !name[0])
		name = getenv("DDP_BACKEND");
	if (!name || !name[0])
		name = "auto";
	c->backend = &ddp__cpu;
	c->world->wish = "";
	/* groups compare it later, when the caller's string may be gone */
	for (size_t i = 0; i < sizeof(names) / sizeof(*names); i++)
		if (!strcmp(name, names[i]))
			c->world->wish = names[i];
	if (*c->world->wish)
		return 0;
	return err_set(e, ERR_USAGE,
		       "backend '%s' is unknown: use cpu, nccl or auto", name);
}

static int init_server_is_local(const struct ddp__world *w)
{
	struct sock_addr a;

	return sock_resolve(&w->env.server, &a, 1, NULL) == 1 &&
	       sock_addr_is_loopback(&a);
}

/* On this host ddprun listens on loopback: a process that cannot reach it there
 * is in another network namespace. */
static int init_explain(const struct ddp__world *w, int rc, struct err *e)
{
	struct err why;

	if ((rc != -ECONNREFUSED && rc != -ENETUNREACH) ||
	    !init_server_is_local(w))
		return rc;
	why = *e;
	return err_set(e, rc,
		       "%.800s; has ddprun ended, or is this a container with "
		       "its own network (--network host)?",
		       why.text);
}

static int init_may_return(int rc)
{
	return rc == -ECONNREFUSED || rc == -ECONNRESET || rc == -EPIPE ||
	       rc == -EHOSTUNREACH;
}

/* The agent is alive, so its server was there a moment ago. If the server has
 * died, we search for it as long as later calls do, and as the agent does. On
 * this host it is restarted at once: if it cannot be reached for longer, the
 * user learns earlier that we may be in another network namespace. */
static int init_reach_server(struct ddp__world *w,
			     const struct wire_hello *hello,
			     const struct auth *auth, int ms, struct err *e)
{
	int look_ms = w->env.again_ms;
	uint64_t end;
	int rc;

	if (look_ms > LOOK_MS && init_server_is_local(w))
		look_ms = LOOK_MS;
	end = clock_ms() + (uint64_t)look_ms;

	do {
		rc = ddp__kv_server(&w->kv, &w->env.server, hello, auth, ms,
				    e);
		if (!init_may_return(rc) || clock_ms() >= end)
			return rc;
		poll(NULL, 0, NAP_MS);
	} while (1);
}

/* Every rank decides the same. The first rank of each node relays. */
static void init_share_if_large(struct ddp__world *w)
{
	const struct ddp__env *env = &w->env;

	if ((env->nodes > 1 && env->world_size >= SHARE_RANKS) ||
	    getenv("DDP_TEST_SHARE"))
		ddp__kv_server_share(w->kv, env->local_rank ? NULL
							   : env->node_addr);
}

static int init_open_store(struct ddp__world *w, struct err *e)
{
	struct wire_hello hello = {.role = WIRE_WORKER,
				   .host = SLICE_STR(w->host),
				   .round = w->env.round,
				   .rank = (uint32_t)w->env.rank,
				   .proof = SLICE("", 0)};
	int ms = w->timeout_ms < 0 || w->timeout_ms > CONNECT_MS
			 ? CONNECT_MS
			 : w->timeout_ms;
	struct auth auth;
	int rc;

	if (!w->env.alone && w->env.starter != DDP__DDPRUN) {
		rc = ddp__bootstrap_open(&w->kv, &w->env, w->host,
					 w->timeout_ms, e);

		if (rc || !w->env.alone)
			return rc;
	}
	if (w->env.alone)
		return ddp__kv_local(&w->kv, e);
	hello.job = SLICE_STR(w->env.job);
	rc = auth_of_key(&auth, w->env.job_key, e);
	if (rc)
		return rc;
	rc = init_reach_server(w, &hello, &auth, ms, e);
	auth_wipe(&auth);
	if (!rc) {
		ddp__kv_server_again(w->kv, w->env.again_ms);
		init_share_if_large(w);
	}
	return init_explain(w, rc, e);
}

/* The exchange among the world's ranks, through the store. */
static int init_gather(void *owner, const char *what, struct slice mine,
		       struct slice *values, struct err *e)
{
	struct ddp_comm *c = owner;
	struct ddp__kv *kv = c->world->kv;
	char key[80];

	/* the store may still hold keys of a world that this process left */
	snprintf(key, sizeof(key), "ddp/%u/%s", c->world->joined, what);
	return kv->ops->gather(kv, SLICE_STR(key), c->rank, c->size,
			       c->world->timeout_ms, mine, values, e);
}

/* Connects the ranks. The flight recorder shows a late rank, as in any call. */
static int init_meet(struct ddp_comm *c, const struct ddp__exchange *x,
		     struct err *e)
{
	struct ddp__world *w = c->world;
	const struct ddp__call call = {.kind = DDP__INIT};
	uint64_t ticket;
	int rc;

	w->flight = ddp__recorder_open(&w->env, w->host, &w->flight_fd);
	c->waited_ns = w->flight ? &w->flight->waited_ns : NULL;
	if (c->size == 1 && !c->backend->serves_one)
		return 0;
	ticket = flight_begin(w->flight, c->id, 0, ddp__call_pack(&call));
	rc = c->backend->start(c, x, e);
	flight_end(w->flight, ticket, rc);
	return rc;
}

static int init_join(struct ddp_comm **world, const struct ddp_options *o,
		     struct err *e)
{
	struct ddp_comm *c = *world;
	struct ddp__world *w = c->world;
	struct ddp__exchange x = {c, init_gather};
	int rc = ddp__env_read(&w->env, e);

	if (!rc)
		rc = ddp__env_timeout(o->timeout_ms, &w->timeout_ms, e);
	if (!rc)
		rc = init_choose_backend(c, o->backend, e);
	if (!rc)
		rc = init_open_store(w, e);
	c->rank = w->env.rank;
	c->size = w->env.world_size;
	if (!rc && !w->env.alone)
		joined++; /* from here on, all ranks of this store have joined
			   * equally often */
	if (!rc)
		rc = init_meet(c, &x, e);
	if (!rc && strcmp(w->wish, "cpu"))
		rc = ddp__nccl_init(c, &x, w->wish, world, e);
	return rc < 0 ? rc : 0;
}

int ddp_init(ddp_comm **world, const struct ddp_options *options)
{
	static const struct ddp_options none;
	struct err *e = ddp__last_error();
	struct ddp__world *w;
	struct ddp_comm *c;
	int rc;

	if (!world)
		return err_set(e, ERR_ARGUMENT, "ddp_init: world is NULL");
	*world = NULL;
	rc = ddp__watch_forks(e);
	if (rc)
		return rc;
	w = calloc(1, sizeof(*w));
	c = w ? ddp__comm_new(w) : NULL;
	if (!c) {
		free(w);
		return err_no_memory(e, "ddp_init");
	}
	pthread_mutex_init(&w->kv_lock, NULL);
	w->pid = getpid();
	w->flight_fd = -1;
	w->forks = ddp__forks;
	w->joined = joined;
	if (gethostname(w->host, sizeof(w->host) - 1))
		snprintf(w->host, sizeof(w->host), "?");
	*world = c;
	rc = init_join(world, options ? options : &none, e);
	if (rc) {
		struct err why = *e;

		*world = NULL;
		ddp_finalize(c);
		*e = why;
		return rc;
	}
	return 0;
}

void ddp_finalize(ddp_comm *c)
{
	struct ddp__world *w;

	/* groups are freed by ddp_comm_free */
	if (!c || c->magic != DDP__ALIVE || c->name[0])
		return;
	w = c->world;
	w->is_ending = 1;
	while (w->comms != c)
		ddp__comm_free(w->comms);
	ddp__comm_free(c);
	for (int i = 0; w->hosts && i < w->env.world_size; i++)
		free(w->hosts[i]);
	free(w->hosts);
	if (w->kv)
		w->kv->ops->free(w->kv);
	free(w->detector);
	ddp__recorder_close(w->flight, w->flight_fd);
	/* in a forked child the lock may be held by a thread that does not
	 * exist there */
	if (w->forks == ddp__forks)
		pthread_mutex_destroy(&w->kv_lock);
	free(w);
}

int ddp_abort(ddp_comm *c, const char *why)
{
	struct err *e = ddp__last_error(), aborted = ERR_INIT;
	char name[DDP__NAME_MAX];
	int rc = ddp__check_comm(c, "ddp_abort", e);

	if (rc)
		return rc;
	for (struct ddp_comm *at = c->world->comms; at; at = at->next) {
		/* a rank's name in a world is its world rank */
		at->peers.name(at, at->rank, name);
		err_set(&aborted, ERR_ABORTED, "%s called ddp_abort%s%.800s",
			name, why && why[0] ? ": " : "", why ? why : "");
		if (at->state)
			at->backend->abort(at, &aborted);
		if (!at->broken.code)
			at->broken = aborted;
	}
	return 0;
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

/* A freed communicator has no properties. */
static int comm_is_alive(const ddp_comm *c)
{
	return c->magic == DDP__ALIVE;
}

int ddp_local_rank(const ddp_comm *c)
{
	return comm_is_alive(c) ? c->world->env.local_rank : -1;
}

int ddp_local_world_size(const ddp_comm *c)
{
	return comm_is_alive(c) ? c->world->env.local_world_size : -1;
}

int ddp_node_rank(const ddp_comm *c)
{
	return comm_is_alive(c) ? c->world->env.node_rank : -1;
}

int ddp_nodes(const ddp_comm *c)
{
	return comm_is_alive(c) ? c->world->env.nodes : -1;
}

int ddp_attempt(const ddp_comm *c)
{
	return comm_is_alive(c) ? c->world->env.attempt : -1;
}

const char *ddp_backend(const ddp_comm *c)
{
	return comm_is_alive(c) ? c->backend->name : "";
}

const char *ddp_warning(const ddp_comm *c)
{
	return comm_is_alive(c) ? c->world->warning : "";
}

int ddp_host_leader(const ddp_comm *c)
{
	const struct ddp__topology *t = &ddp__nccl_host_comm(c)->topology;

	if (!c->state || !t->nhosts)
		return c->rank;
	return t->hosts[t->host_of[c->rank]].ranks[0];
}
