/* nccl_comm.c: communicators: they are made, split, watched and ended. Files
 * and releases of NCCL are cited where a caller must know what they do. */
#include "nccl_standin.h"

#include <limits.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>

enum { COMM_MEMORY = 4096 };

/* What a rank sends the others when they connect. */
struct comm_place {
	char host[64], bus[32];
	int version;
};

/* Set when a communicator was aborted by a release that crashes then. */
static _Atomic int comm_is_poisoned;

static long comm_setup_us(void)
{
	return standin_number("STANDIN_DELAY_MS", 20) * 1000;
}

/* ---- questions */

PUBLIC ncclResult_t ncclGetVersion(int *version)
{
	*version = standin_version();
	return ncclSuccess;
}

PUBLIC const char *ncclGetErrorString(ncclResult_t rc)
{
	static const char *const texts[] = {
		"no error",
		"unhandled cuda error (run with NCCL_DEBUG=INFO for details)",
		"unhandled system error (run with NCCL_DEBUG=INFO for details)",
		("internal error - please report this issue to the NCCL "
		 "developers"),
		"invalid argument (run with NCCL_DEBUG=WARN for details)",
		"invalid usage (run with NCCL_DEBUG=WARN for details)",
		"remote process exited or there was a network error",
		"NCCL operation in progress"};

	return (unsigned)rc < 8 ? texts[rc] : "unknown result code";
}

ncclResult_t comm_check(const struct ncclComm *comm, const char *call)
{
	if (standin_fails(call)) {
		standin_warn("%s : fails for a test", call);
		return ncclSystemError;
	}
	if (!comm) {
		standin_warn("%s : comm argument is NULL", call);
		return ncclInvalidArgument;
	}
	if (comm->magic == COMM_ALIVE)
		return ncclSuccess;
	fprintf(stderr, "stand-in: %s on a communicator that was aborted or "
		"destroyed: NCCL has freed it\n", call);
	abort();
}

/* src/init.cc, ncclCommGetAsyncError: the last call's result, else, since 2.19,
 * what the network thread saw. Success also joins the call's thread. */
PUBLIC ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state)
{
	ncclResult_t rc = comm_check(comm, "ncclGetAsyncError");
	const char *transport = getenv("STANDIN_TRANSPORT");

	if (rc)
		return rc;
	*state = (ncclResult_t)comm->state;
	if (*state == ncclSuccess && comm->group)
		group_join(comm);
	if (*state == ncclSuccess && comm->lost &&
	    standin_version() >= 21900 &&
	    !(transport && !strcmp(transport, "p2p"))) {
		standin_warn("socketProgress: Connection closed by remote "
			     "peer");
		*state = ncclRemoteError;
	}
	return ncclSuccess;
}

ncclResult_t comm_result(struct ncclComm *comm, ncclResult_t rc)
{
	if (comm && comm->magic == COMM_ALIVE && !comm->blocking)
		ncclCommGetAsyncError(comm, &rc);
	return rc;
}

PUBLIC ncclResult_t ncclCommCount(const ncclComm_t comm, int *n)
{
	ncclResult_t rc = comm_check(comm, "CommCount");

	if (!rc)
		*n = comm->size;
	return rc;
}

PUBLIC ncclResult_t ncclCommUserRank(const ncclComm_t comm, int *rank)
{
	ncclResult_t rc = comm_check(comm, "CommUserRank");

	if (!rc)
		*rank = comm->rank;
	return rc;
}

/* ---- making */

PUBLIC ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
	memset(id, 0, sizeof(*id));
	if (standin_fails("ncclGetUniqueId") ||
	    getrandom(id, sizeof(struct mesh_id), 0) != sizeof(struct mesh_id))
		return ncclSystemError;
	return ncclSuccess;
}

/* NCCL_HOSTID distinguishes hosts, else their names (src/misc/utils.cc,
 * getHostHash). */
static struct comm_place comm_own_place(const struct ncclComm *c)
{
	struct comm_place p = {.version = standin_version()};
	const char *host = getenv("NCCL_HOSTID");

	if (host)
		snprintf(p.host, sizeof(p.host), "%s", host);
	else
		gethostname(p.host, sizeof(p.host) - 1);
	cudaDeviceGetPCIBusId(p.bus, sizeof(p.bus), c->device);
	return p;
}

/* src/init.cc, initTransportsRank; from 2.30.3 on a variable allows it. */
static ncclResult_t comm_compare(const struct ncclComm *c,
				 const struct comm_place *all)
{
	const struct comm_place *me = &all[c->rank];
	int may_share = standin_version() >= 23003 &&
			standin_number("NCCL_MULTI_RANK_GPU_ENABLE", 0);

	for (int r = 0; r < c->size; r++) {
		if (all[r].version != me->version) {
			standin_warn("Mismatched NCCL version detected : rank "
				     "%d version %d rank %d version %d", r,
				     all[r].version, c->rank, me->version);
			return ncclInvalidUsage;
		}
		if (r == c->rank || may_share ||
		    strcmp(all[r].host, me->host) ||
		    strcmp(all[r].bus, me->bus))
			continue;
		standin_warn("Duplicate GPU detected : rank %d and rank %d "
			     "both on CUDA device %s", c->rank, r, me->bus);
		return ncclInvalidUsage;
	}
	return ncclSuccess;
}

/* Connects to the other ranks, however long that takes. */
static ncclResult_t comm_meet(struct ncclComm *c)
{
	struct comm_place mine = comm_own_place(c);
	struct comm_place *all = calloc((size_t)c->size, sizeof(*all));
	enum mesh_result rc;
	ncclResult_t result;

	if (!all)
		abort();
	rc = mesh_open(&c->mesh, c->id, c->rank, c->size, &c->stop);
	if (!rc)
		rc = mesh_gather(&c->mesh, &mine, all, sizeof(mine), &c->stop);
	result = rc == MESH_LOST      ? ncclRemoteError
		 : rc == MESH_STOPPED ? ncclInternalError
				      : comm_compare(c, all);
	free(all);
	standin_delay(c, comm_setup_us());
	return result ? result
	       : cudaMalloc(&c->memory, COMM_MEMORY) == cudaSuccess
		       ? ncclSuccess
		       : ncclUnhandledCudaError;
}

/* The structs stay for ever, so that a later use is found. */
static struct ncclComm *_Atomic comm_newest;

static struct ncclComm *comm_new(int device, int rank, int size, int blocking)
{
	struct ncclComm *c = calloc(1, sizeof(*c));

	if (!c)
		abort();
	*c = (struct ncclComm){.magic = COMM_ALIVE,
			       .rank = rank,
			       .size = size,
			       .device = device,
			       .blocking = blocking};
	c->sends = calloc((size_t)size, 1);
	c->receives = calloc((size_t)size, 1);
	if (!c->sends || !c->receives)
		abort();
	c->older = comm_newest;
	while (!atomic_compare_exchange_weak(&comm_newest, &c->older, c))
		;
	return c;
}

static ncclResult_t comm_run_init(struct task *t)
{
	return comm_meet(t->comm);
}

/* Reported for 2.28.3 to 2.28.8: a communicator that is made after an abort
 * ends the process. */
static void comm_check_poison(void)
{
	if (comm_is_poisoned && standin_version() >= 22803 &&
	    standin_version() <= 22808)
		raise(SIGSEGV);
}

/* A config's fields after `blocking` do not matter here. */
static int comm_blocking(const ncclConfig_t *config, int otherwise)
{
	return config && config->blocking != INT_MIN ? config->blocking
						     : otherwise;
}

static ncclResult_t comm_init(ncclComm_t *comm, int size,
			      const ncclUniqueId *id, int rank,
			      const ncclConfig_t *config, const char *call)
{
	ncclResult_t rc = group_enter();
	struct task *t;
	int device = 0;

	standin_log(call);
	if (rc)
		return rc;
	comm_check_poison();
	*comm = NULL;
	if (standin_fails(call)) {
		rc = ncclSystemError;
	} else if (size < 1 || rank < 0 || rank >= size ||
	    (config && config->magic != 0xcafebeef)) {
		standin_warn("Invalid rank requested : %d/%d", rank, size);
		rc = ncclInvalidArgument;
	} else {
		cudaGetDevice(&device);
		*comm = comm_new(device, rank, size, comm_blocking(config, 1));
		memcpy(&(*comm)->id, id, sizeof((*comm)->id));
		t = group_task(*comm);
		t->job = comm_run_init;
		rc = group_add(t);
	}
	group_note(rc);
	if (rc)
		group_leave();
	else
		rc = group_leave();
	return comm_result(*comm, rc);
}

PUBLIC ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int size,
					   ncclUniqueId id, int rank,
					   ncclConfig_t *config)
{
	return comm_init(comm, size, &id, rank, config,
			 "ncclCommInitRankConfig");
}

PUBLIC ncclResult_t ncclCommInitRank(ncclComm_t *comm, int size,
				     ncclUniqueId id, int rank)
{
	return comm_init(comm, size, &id, rank, NULL, "ncclCommInitRank");
}

/* Since 2.23. */
PUBLIC ncclResult_t ncclCommInitRankScalable(ncclComm_t *comm, int size,
					     int rank, int ids,
					     ncclUniqueId *id,
					     ncclConfig_t *config)
{
	if (ids <= 0 || ids > size) {
		standin_warn("improper usage of ncclCommInitRank: nId = %d, "
			     "nranks=%d", ids, size);
		return ncclInvalidArgument;
	}
	return comm_init(comm, size, id, rank, config,
			 "ncclCommInitRankScalable");
}

/* ---- splitting */

struct comm_choice {
	int color, key, rank;
};

static int comm_by_key(const void *a, const void *b)
{
	const struct comm_choice *p = a, *q = b;

	return p->key != q->key ? (p->key < q->key ? -1 : 1)
				: p->rank - q->rank;
}

/* Connects to the ranks of the same color. */
static ncclResult_t comm_meet_color(struct task *t, struct comm_choice *all)
{
	struct ncclComm *p = t->comm, *c = t->made;
	int n = 0;

	for (int r = 0; r < p->size; r++)
		if (all[r].color == t->color)
			all[n++] = all[r];
	qsort(all, (size_t)n, sizeof(*all), comm_by_key);
	c->size = n;
	for (int i = 0; i < n; i++)
		if (all[i].rank == p->rank)
			c->rank = i;
	c->id.a = p->id.a * 31 + (uint64_t)p->splits;
	c->id.b = p->id.b * 31 + (uint64_t)t->color;
	return comm_meet(c);
}

static ncclResult_t comm_run_split(struct task *t)
{
	struct ncclComm *p = t->comm;
	struct comm_choice mine = {t->color, t->key, p->rank};
	struct comm_choice *all = calloc((size_t)p->size, sizeof(*all));
	enum mesh_result rc;
	ncclResult_t result;

	if (!all)
		abort();
	/* the manual (ncclCommSplit): with operations outstanding on the parent
	 * it might deadlock */
	while (t->was_busy && !p->stop)
		standin_delay(p, 1000);
	rc = mesh_gather(&p->mesh, &mine, all, sizeof(mine), &p->stop);
	result = rc == MESH_LOST      ? ncclRemoteError
		 : rc == MESH_STOPPED ? ncclInternalError
				      : ncclSuccess;
	if (!result && t->made)
		result = comm_meet_color(t, all);
	else
		standin_delay(p, comm_setup_us());
	p->child = NULL;
	free(all);
	/* from this thread, also after a failure (src/init.cc,
	 * ncclCommInitRankFunc) */
	if (t->made)
		*t->out = t->made;
	return result;
}

/* src/init.cc, ncclCommSplit and ncclCommInitChildComm, 2.18.1 to 2.30.7: it
 * returns ncclSuccess while a non-blocking split runs. *child is NULL until
 * another thread sets it, before it sets the parent's state to ncclSuccess. */
PUBLIC ncclResult_t ncclCommSplit(ncclComm_t comm, int color, int key,
				  ncclComm_t *child, ncclConfig_t *config)
{
	ncclResult_t rc = group_enter(), end;
	struct task *t;

	standin_log("ncclCommSplit");
	if (rc)
		return rc;
	rc = comm_check(comm, "ncclCommSplit");
	if (!rc)
		rc = group_ready(comm);
	if (!rc) {
		*child = NULL;
		t = group_task(comm);
		t->job = comm_run_split;
		t->out = child;
		t->was_busy = comm->finished < comm->launched;
		t->color = color;
		t->key = key;
		comm->splits++;
		if (color != NCCL_SPLIT_NOCOLOR)
			comm->child = t->made = comm_new(
				comm->device, comm->rank, comm->size,
				comm_blocking(config, comm->blocking));
		rc = group_add(t);
	}
	group_note(rc);
	end = group_leave();
	return !rc && end != ncclInProgress ? end : rc;
}

/* ---- ending */

/* The end of all its kernels. */
static void comm_await_kernels(const struct ncclComm *c)
{
	while (c->finished < c->launched)
		nanosleep(&(struct timespec){0, 200000}, NULL);
}

static ncclResult_t comm_run_finalize(struct task *t)
{
	comm_await_kernels(t->comm);
	standin_delay(t->comm, comm_setup_us());
	return ncclSuccess;
}

PUBLIC ncclResult_t ncclCommFinalize(ncclComm_t comm)
{
	ncclResult_t rc = group_enter();
	struct task *t;

	standin_log("ncclCommFinalize");
	if (rc)
		return rc;
	rc = comm_check(comm, "ncclCommFinalize");
	if (!rc)
		rc = group_ready(comm);
	if (!rc && comm->is_finalized)
		rc = ncclInvalidArgument;
	if (!rc) {
		comm->is_finalized = 1;
		t = group_task(comm);
		t->job = comm_run_finalize;
		rc = group_add(t);
	}
	group_note(rc);
	if (rc)
		group_leave();
	else
		rc = group_leave();
	return comm_result(comm, rc);
}

/* src/init.cc, commReclaim and commFree: frees memory of the device, which
 * waits for everything that runs there, kernels of other communicators
 * included. They spin until they are aborted, so several communicators have to
 * be aborted in one group; that is possible since 2.22 (before, ncclCommAbort
 * does not wait for ncclGroupEnd). */
static ncclResult_t comm_run_reclaim(struct task *t)
{
	struct ncclComm *c = t->comm;

	comm_await_kernels(c);
	if (c->memory)
		cudaFree(c->memory);
	mesh_close(&c->mesh);
	free(c->sends);
	free(c->receives);
	c->magic = 0;
	return ncclSuccess;
}

static ncclResult_t comm_end(ncclComm_t comm, int in_group)
{
	struct task *t = group_task(comm);
	ncclResult_t rc;

	standin_forget_buffers(comm);
	t->job = comm_run_reclaim;
	t->is_end = 1;
	if (!in_group) {
		rc = comm_run_reclaim(t);
		free(t);
		return rc;
	}
	rc = group_enter();
	if (rc) {
		free(t);
		return rc;
	}
	rc = group_note(group_add(t));
	return rc ? rc : group_leave();
}

PUBLIC ncclResult_t ncclCommDestroy(ncclComm_t comm)
{
	ncclResult_t rc;

	standin_log("ncclCommDestroy");
	if (!comm)
		return ncclSuccess;
	rc = comm_check(comm, "ncclCommDestroy");
	if (!rc)
		rc = group_ready(comm);
	return rc ? rc : comm_end(comm, 1);
}

PUBLIC ncclResult_t ncclCommAbort(ncclComm_t comm)
{
	standin_log("ncclCommAbort");
	if (!comm)
		return ncclSuccess;
	comm_check(comm, "ncclCommAbort");
	comm_is_poisoned = 1;
	if (comm->child)
		comm->child->stop = 1;
	comm->stop = 1;
	(void)group_ready(comm); /* joins its thread */
	return comm_end(comm, standin_version() >= 22200);
}
