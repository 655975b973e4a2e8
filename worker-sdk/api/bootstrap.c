/* bootstrap.c: the ways to get a store. PyTorch's store exists already, or one
 * rank starts a server: rank 0, at MASTER_ADDR or at an address that it
 * publishes through the launcher (PMIx, PMI); in a Slurm step, the first rank
 * on the first node. */
#include "worker-sdk/api/api_internal.h"

#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/local_addrs.h"
#include "base/option.h"
#include "base/random.h"
#include "pmi/bootstrap_record.h"
#include "pmi/pmi.h"
#include "pmi/pmix.h"
#include "rendezvous/auth/auth.h"
#include "slurm/step.h"
#include "worker-sdk/core/topology.h"
#include "worker-sdk/kv/kv.h"

enum {
	TRY_MS = 3000,	      /* per address; then the next one is tried */
	RETRY_MIN_MS = 10, RETRY_MAX_MS = 500,
	PREDECESSOR_MS = 10000, /* for the previous attempt's server to give up
				 * the port */
	TOKEN_BYTES = 16,
};

struct guest {
	struct ddp__env *env;
	const char *host;
	uint64_t deadline;
	struct bootstrap_record place;
	struct auth auth; /* how ranks authenticate to the server */
	int listeners[SOCK_LISTEN_MAX], n; /* sockets of the store, if this rank
					    * keeps it */
	int pipe; /* to the server that this rank started; -1: it started
		   * none */
	char keeper[HOSTLIST_NAME_MAX + 32]; /* the rank that starts the server,
					      * for messages */
	struct ddp__kv *kv;
	struct err *e;
};

static int bootstrap_left_ms(const struct guest *g)
{
	uint64_t now = clock_ms();

	if (g->deadline == UINT64_MAX)
		return -1;
	return now < g->deadline ? (int)(g->deadline - now) : 0;
}

/* ---- the server that a rank starts ---- */

/* Listens at these addresses, all with one port. n 0: none of the addresses
 * that the other ranks use belongs to this host (there is a NAT, say), so
 * listens at any address. */
static int bootstrap_listen_at(struct guest *g, struct sock_addr *at, int n,
			       uint16_t port)
{
	int rc;

	if (!n)
		n = sock_addr_number("0.0.0.0", port, &at[0]);
	rc = sock_listen_all(at, n, g->listeners, g->e);
	if (rc < 0)
		return rc;
	g->n = n;
	return sock_addr_port(&at[0]);
}

/* Listens at the addresses that other ranks use to reach `host`, which is this
 * host. */
static int bootstrap_listen_on(struct guest *g, const char *host, uint16_t port)
{
	struct sock_addr at[SOCK_LISTEN_MAX];
	struct endpoint ep = {.port = port};
	int n;

	snprintf(ep.host, sizeof(ep.host), "%s", host);
	n = local_addrs_of(&ep, at, SOCK_LISTEN_MAX, g->e);
	return n < 0 ? n : bootstrap_listen_at(g, at, n, port);
}

/* The same, waiting for the previous attempt's server to end. */
static int bootstrap_listen_at_given(struct guest *g, const char *host,
				     uint16_t port)
{
	uint64_t until = clock_ms() + PREDECESSOR_MS;
	int rc;

	while ((rc = bootstrap_listen_on(g, host, port)) == -EADDRINUSE &&
	       clock_ms() < until)
		poll(NULL, 0, RETRY_MIN_MS);
	return rc < 0 ? rc : 0;
}

static int bootstrap_start_server(struct guest *g)
{
	struct auth theirs;
	int rc = auth_for_server(&theirs, &g->auth, g->e);

	if (rc >= 0)
		rc = ddp__private_server_start(&g->pipe, g->listeners, g->n,
					   g->place.job, g->env->world_size,
					   &theirs, g->e);
	auth_wipe(&theirs);
	return rc;
}

/* ---- the address is given ---- */

static int bootstrap_at_given(struct guest *g)
{
	const struct ddp__env *v = g->env;
	int rc;

	snprintf(g->place.job, sizeof(g->place.job), "%.150s/%d",
		 v->job ? v->job : "env", v->attempt);
	g->place.n = 1;
	g->place.at[0] = v->server;
	rc = auth_choose(&g->auth, NULL, NULL, g->e);
	if (rc < 0 || v->rank)
		return rc;
	rc = bootstrap_listen_at_given(g, v->server.host, v->server.port);
	return rc ? rc : bootstrap_start_server(g);
}

/* ---- a Slurm step: the first node, a port of the step's own ---- */

static int bootstrap_step_number(const char *name, uint64_t *out, struct err *e)
{
	long n = 0;
	int rc = parse_long(getenv(name), 0, UINT32_MAX, name, &n, e);

	*out = (uint64_t)n;
	return rc;
}

static const char *bootstrap_getenv(const char *name)
{
	return getenv(name);
}

/* The address of the store's node. If Slurm's name for the node does not
 * resolve: on the node itself NULL, any address; elsewhere the address that
 * srun runs at, which is the same node in a batch script. */
static const char *bootstrap_step_host(const char *node, int keeps)
{
	const char *srun = getenv("SLURM_LAUNCH_NODE_IPADDR");
	struct endpoint at = {.port = 0};
	struct sock_addr a;

	snprintf(at.host, sizeof(at.host), "%s", node);
	if (sock_resolve(&at, &a, 1, NULL) >= 1)
		return node;
	return keeps ? NULL : srun && *srun ? srun : node;
}

static int bootstrap_listen_in_step(struct guest *g, const char *host)
{
	struct sock_addr any[SOCK_LISTEN_MAX];
	int rc = -EADDRINUSE;

	for (int i = 0; i < STEP_PORTS && rc == -EADDRINUSE; i++) {
		uint16_t port = g->place.at[i].port;

		rc = host ? bootstrap_listen_on(g, host, port)
			  : bootstrap_listen_at(g, any, 0, port);
	}
	return rc < 0 ? rc : bootstrap_start_server(g);
}

static int bootstrap_at_step(struct guest *g)
{
	uint64_t job, step;
	char node[HOSTLIST_NAME_MAX + 1] = "";
	const char *host = "127.0.0.1";
	int keeps = 0, rc = bootstrap_step_number("SLURM_JOB_ID", &job, g->e);

	if (!rc)
		rc = bootstrap_step_number("SLURM_STEP_ID", &step, g->e);
	if (!rc)
		rc = step_meeting_node(bootstrap_getenv, node, g->e);
	if (!rc)
		rc = auth_choose(&g->auth, NULL, NULL, g->e);
	if (rc)
		return rc;
	keeps = step_is_keeper(bootstrap_getenv, node);
	if (g->env->nodes > 1) {
		host = bootstrap_step_host(node, keeps);
		snprintf(g->keeper, sizeof(g->keeper), "the first task on %s",
			 node);
	}
	snprintf(g->place.job, sizeof(g->place.job), "slurm %llu.%llu",
		 (unsigned long long)job, (unsigned long long)step);
	for (int i = 0; i < STEP_PORTS; i++) {
		struct endpoint *at = &g->place.at[g->place.n++];

		snprintf(at->host, sizeof(at->host), "%s",
			 host ? host : "127.0.0.1");
		at->port = step_port(job, step, i);
	}
	return keeps ? bootstrap_listen_in_step(g, host) : 0;
}

/* ---- through the launcher ---- */

static void bootstrap_use_key(struct guest *g)
{
	struct proof key;

	memcpy(key.bytes, g->place.key, sizeof(key.bytes));
	auth_of_secret(&g->auth, &key, "rank 0, through the launcher");
	proof_wipe(&key, sizeof(key));
}

static int bootstrap_make_key(struct guest *g)
{
	int rc = random_bytes(g->place.key, sizeof(g->place.key), g->e);

	if (rc >= 0)
		bootstrap_use_key(g);
	return rc;
}

/* Listens at the addresses that the other ranks get, at one free port. */
static int bootstrap_publish_addrs(struct guest *g,
				   char (*addrs)[SOCK_TEXT_MAX], int n)
{
	struct sock_addr own[SOCK_LISTEN_MAX], at[SOCK_LISTEN_MAX];
	struct endpoint ep = {.port = 0};
	int port, found, nown = 0;

	/* a rank on this host may not be able to use another address */
	if (g->env->nodes == 1)
		nown = sock_addr_number("127.0.0.1", 0, &own[0]);
	for (int i = 0; i < n; i++) {
		snprintf(ep.host, sizeof(ep.host), "%.255s", addrs[i]);
		found = local_addrs_of(&ep, at, SOCK_LISTEN_MAX, NULL);
		for (int k = 0; k < found; k++)
			nown = sock_addr_add(own, nown, SOCK_LISTEN_MAX,
					     &at[k]);
	}
	port = bootstrap_listen_at(g, own, nown, 0);
	for (int i = 0; i < n; i++) {
		struct endpoint *to = &g->place.at[g->place.n++];

		snprintf(to->host, sizeof(to->host), "%.255s", addrs[i]);
		to->port = (uint16_t)port;
	}
	return port;
}

/* Rank 0: prepares the record for the other ranks. A failure is published as
 * well, so that no rank waits for a server that never starts. */
static void bootstrap_prepare(struct guest *g)
{
	char addrs[BOOTSTRAP_PLACES_MAX][SOCK_TEXT_MAX];
	char token[2 * TOKEN_BYTES + 1];
	int one_host = g->env->nodes == 1, n = 0, rc;

	rc = bootstrap_make_key(g);
	if (rc >= 0)
		rc = random_hex(token, TOKEN_BYTES, g->e);
	snprintf(g->place.job, sizeof(g->place.job), "guests %s", token);
	if (g->env->node_addr)
		snprintf(addrs[n++], sizeof(addrs[0]), "%s",
			 g->env->node_addr);
	if (!one_host && !n)
		n = local_addrs(addrs, BOOTSTRAP_PLACES_MAX - 1);
	if (!n)
		snprintf(addrs[n++], sizeof(addrs[0]), "127.0.0.1");
	if (rc >= 0)
		rc = bootstrap_publish_addrs(g, addrs, n);
	if (rc >= 0)
		rc = bootstrap_start_server(g);
	if (rc < 0)
		g->place.why = *g->e;
}

/* All ranks: uses the record of rank 0 in text. */
static int bootstrap_use_place(struct guest *g, const char *text)
{
	struct err why;
	int rc;

	if (g->env->rank == 0)
		why = g->place.why;
	else if ((rc = bootstrap_record_get(&g->place, text, g->e)))
		return rc;
	else
		why = g->place.why;
	if (!why.code) {
		bootstrap_use_key(g);
		return 0;
	}
	if (g->env->rank == 0)
		return err_set(g->e, why.code, "%s", why.text);
	return err_set(g->e, ERR_REMOTE, "rank 0 could not start: %.900s",
		       why.text);
}

static int bootstrap_over_pmi(struct guest *g)
{
	char text[BOOTSTRAP_TEXT_MAX] = "";
	struct pmi pmi;
	long fd = -1;
	int rc = parse_long(getenv("PMI_FD"), 0, 1 << 20, "PMI_FD", &fd, g->e);

	if (rc)
		return rc;
	if (g->env->rank == 0) {
		bootstrap_prepare(g);
		bootstrap_record_put(&g->place, text);
	}
	rc = pmi_open(&pmi, (int)fd, bootstrap_left_ms(g), g->e);
	if (!rc)
		rc = pmi_share(&pmi, "ddp-place", g->env->rank == 0, text,
			       sizeof(text));
	if (!rc)
		rc = pmi_close(&pmi);
	return rc ? rc : bootstrap_use_place(g, text);
}

/* Completes env from PMIx, and compares the values that both sources give. */
static int bootstrap_check_pmix(struct guest *g, const struct pmix_self *s)
{
	struct ddp__env *v = g->env;

	if (v->starter == DDP__PMIX) {
		v->rank = s->rank;
		v->world_size = s->world_size;
		v->local_rank = s->local_rank;
		v->local_world_size = s->local_world_size;
	}
	if (v->rank != s->rank || v->world_size < 1 ||
	    (s->world_size > 0 && v->world_size != s->world_size))
		return err_set(g->e, ERR_USAGE,
			       "%s reports rank %d of %d, but its environment "
			       "variables say rank %d of %d: do they come from "
			       "another launcher?",
			       ddp__env_starter(v), s->rank, s->world_size,
			       v->rank, v->world_size);
	v->alone = v->world_size == 1;
	if (v->local_world_size == v->world_size) {
		v->node_rank = 0;
		v->nodes = 1;
	}
	return 0;
}

static int bootstrap_over_pmix(struct guest *g)
{
	char text[BOOTSTRAP_TEXT_MAX] = "";
	struct pmix_self self;
	struct pmix *p = NULL;
	int rc = pmix_open(&p, &self, g->e);

	if (!rc)
		rc = bootstrap_check_pmix(g, &self);
	if (!rc && !g->env->alone) {
		if (g->env->rank == 0) {
			bootstrap_prepare(g);
			bootstrap_record_put(&g->place, text);
		}
		rc = pmix_share(p, "ddp-place", 0, text, sizeof(text),
				bootstrap_left_ms(g), g->e);
		if (!rc)
			rc = bootstrap_use_place(g, text);
	}
	pmix_close(p);
	return rc;
}

/* ---- connecting ---- */

/* 1 if neither another address nor a retry can help. A server that refuses us
 * may belong to the previous world, so that is not final. */
static int bootstrap_is_final(int rc)
{
	return rc == ERR_USAGE || rc == ERR_ARGUMENT || rc == -ENOMEM;
}

static int bootstrap_connect_once(struct guest *g)
{
	struct wire_hello hello = {.role = WIRE_WORKER,
				   .job = SLICE_STR(g->place.job),
				   .host = SLICE_STR(g->host),
				   .rank = (uint32_t)g->env->rank};
	struct err e, first = ERR_INIT;
	struct ddp__kv *kv;
	int rc = ERR_INTERNAL;

	for (int i = 0; i < g->place.n; i++) {
		int ms = bootstrap_left_ms(g);

		rc = ddp__kv_server(&kv, &g->place.at[i], &hello, &g->auth,
				    ms < 0 || ms > TRY_MS ? TRY_MS : ms, &e);
		if (!rc) {
			g->kv = kv;
			g->env->server = g->place.at[i];
			ddp__kv_server_guest(g->kv, g->pipe);
			g->pipe = -1;
			return 0;
		}
		if (!first.code || bootstrap_is_final(rc))
			first = e;
		if (bootstrap_is_final(rc))
			break;
	}
	*g->e = first;
	return first.code ? first.code : rc;
}

/* The rank that keeps the store may not have started it yet. */
static int bootstrap_connect(struct guest *g)
{
	int pause = RETRY_MIN_MS, rc;
	struct err why;

	while ((rc = bootstrap_connect_once(g)) && !bootstrap_is_final(rc) &&
	       bootstrap_left_ms(g)) {
		poll(NULL, 0, pause);
		if (pause < RETRY_MAX_MS)
			pause *= 2;
	}
	if (!rc || bootstrap_is_final(rc))
		return rc;
	why = *g->e;
	return err_set(g->e, rc, "the store that %s keeps (started by %s) "
		       "was not reached: %.800s", g->keeper,
		       ddp__env_starter(g->env), why.text);
}

/* ---- values that the launcher did not give ---- */

/* Collective: finds the ranks that share a host. */
static int bootstrap_find_nodes(struct guest *g)
{
	struct ddp__env *v = g->env;
	size_t n = (size_t)v->world_size;
	struct slice *ids = calloc(n, sizeof(*ids));
	struct ddp__topology t;
	char id[400];
	struct stat ns = {0};
	int rc, node;

	if (!ids)
		return err_no_memory(g->e, "ddp_init");
	stat("/proc/self/ns/net", &ns);
	snprintf(id, sizeof(id), "%s %lu", g->host, (unsigned long)ns.st_ino);
	rc = g->kv->ops->gather(g->kv, SLICE_STR("ddp/places"), v->rank,
				v->world_size, bootstrap_left_ms(g),
				SLICE_STR(id), ids, g->e);
	if (!rc && ddp__topology_init(&t, ids, v->world_size))
		rc = err_no_memory(g->e, "ddp_init");
	free(ids);
	if (rc)
		return rc;
	node = t.host_of[v->rank];
	if (v->local_rank < 0)
		v->local_rank = t.index_of[v->rank];
	if (v->local_world_size < 0)
		v->local_world_size = t.hosts[node].n;
	if (v->nodes < 0 || v->node_rank < 0) {
		v->node_rank = node;
		v->nodes = t.nhosts;
	}
	ddp__topology_release(&t);
	return 0;
}

/* This node's address: where it reaches the store from, unless the store is
 * local and its address is loopback. */
static void bootstrap_find_addr(struct guest *g)
{
	struct ddp__env *v = g->env;
	struct endpoint loop = {"127.0.0.1", 0};
	char addrs[1][SOCK_TEXT_MAX];
	struct sock_addr a;

	if (v->node_addr)
		return;
	if (local_addr_towards(&v->server, v->own_addr, NULL))
		memcpy(v->own_addr, "127.0.0.1", sizeof("127.0.0.1"));
	snprintf(loop.host, sizeof(loop.host), "%.255s", v->own_addr);
	if (v->nodes > 1 && sock_resolve(&loop, &a, 1, NULL) == 1 &&
	    sock_addr_is_loopback(&a) && local_addrs(addrs, 1))
		memcpy(v->own_addr, addrs[0], sizeof(v->own_addr));
	v->node_addr = v->own_addr;
}

/* 1 if nodes and local ranks are unknown; the same on all ranks. torchrun
 * itself sets everything. */
static int bootstrap_needs_nodes(const struct ddp__env *v)
{
	if (v->starter == DDP__TORCHRUN)
		return !v->job;
	return v->local_rank < 0 || v->local_world_size < 0 || v->nodes < 0;
}

static int bootstrap_open_torch(struct guest *g)
{
	char prefix[300];

	snprintf(prefix, sizeof(prefix), "ddp/%.200s/%d/",
		 g->env->job ? g->env->job : "env", g->env->attempt);
	return ddp__kv_tcpstore(&g->kv, &g->env->server, prefix,
				g->env->world_size, bootstrap_left_ms(g), g->e);
}

static int bootstrap_run(struct guest *g)
{
	int rc;

	switch (g->env->starter) {
	case DDP__TORCHRUN:
		rc = g->env->agent_store ? bootstrap_open_torch(g)
					 : bootstrap_at_given(g);
		break;
	case DDP__OPENMPI:
	case DDP__PMIX:
		rc = bootstrap_over_pmix(g);
		break;
	case DDP__PMI:
		rc = bootstrap_over_pmi(g);
		break;
	default:
		rc = bootstrap_at_step(g);
	}
	if (rc || g->env->alone)
		return rc;
	if (!g->kv)
		rc = bootstrap_connect(g);
	if (!rc && bootstrap_needs_nodes(g->env))
		rc = bootstrap_find_nodes(g);
	if (!rc)
		bootstrap_find_addr(g);
	return rc;
}

int ddp__bootstrap_open(struct ddp__kv **kv, struct ddp__env *env,
		    const char *host, int timeout_ms, struct err *e)
{
	struct guest g = {.env = env, .host = host, .pipe = -1, .e = e,
			  .keeper = "rank 0"};
	int rc;

	g.deadline = timeout_ms < 0 ? UINT64_MAX
				    : clock_ms() + (uint64_t)timeout_ms;
	rc = bootstrap_run(&g);
	while (g.n > 0)
		close(g.listeners[--g.n]);
	if (g.pipe >= 0)
		close(g.pipe);
	auth_wipe(&g.auth);
	if (rc && g.kv)
		g.kv->ops->free(g.kv);
	else if (!rc && g.kv)
		*kv = g.kv;
	return rc;
}
