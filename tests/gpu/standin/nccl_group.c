/* nccl_group.c: groups of calls, which is how NCCL runs every call, and the
 * thread that a group of non-blocking communicators gets. */
#include "nccl_standin.h"

#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

/* A group that its own thread runs. */
struct group {
	struct task *tasks;
	pthread_t thread;
	int users; /* communicators that refer to it, and the thread's caller */
	int is_joined;
	ncclResult_t rc;
};

/* NCCL keeps these per thread as well (src/group.cc). */
static __thread int group_depth;
static __thread ncclResult_t group_error;
static __thread struct task *group_first, **group_last;
static __thread int group_blocking = -1;
/* the last non-blocking group of this thread, for releases before 2.27 */
static __thread struct group *group_before;

static pthread_mutex_t group_lock = PTHREAD_MUTEX_INITIALIZER;
static char group_text[1024]; /* one per process in NCCL (src/debug.cc) */

/* ---- settings, texts */

long standin_number(const char *variable, long otherwise)
{
	const char *text = getenv(variable);

	return text && text[0] ? atol(text) : otherwise;
}

int standin_version(void)
{
	return (int)standin_number("STANDIN_NCCL", 22809);
}

void standin_log(const char *call)
{
	const char *file = getenv("STANDIN_LOG");
	char line[128];
	int n, fd = file ? open(file, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC,
				0600) : -1;

	if (fd < 0)
		return;
	n = snprintf(line, sizeof(line), "%d %s\n", (int)getpid(), call);
	if (write(fd, line, (size_t)n) != n)
		abort();
	close(fd);
}

void standin_warn(const char *format, ...)
{
	va_list args;

	pthread_mutex_lock(&group_lock);
	va_start(args, format);
	vsnprintf(group_text, sizeof(group_text), format, args);
	va_end(args);
	pthread_mutex_unlock(&group_lock);
}

PUBLIC const char *ncclGetLastError(ncclComm_t comm)
{
	return group_text;
}

void standin_delay(const struct ncclComm *comm, long us)
{
	for (; us > 0 && !comm->stop; us -= 1000)
		nanosleep(&(struct timespec){0, (us < 1000 ? us : 1000) * 1000},
			  NULL);
}

/* ---- collecting */

struct task *group_task(struct ncclComm *comm)
{
	struct task *t = calloc(1, sizeof(*t));

	if (!t)
		abort();
	t->comm = comm;
	return t;
}

/* Before 2.27.3 a thread has one struct for its non-blocking group
 * (ncclGroupJobMain, src/group.cc). While that group runs, 2.18.5 and 2.18.6
 * refuse each other call of the thread (ncclGroupStartInternal,
 * src/include/group.h); 2.19 to 2.26 overwrite the struct (group_check_one). */
ncclResult_t group_enter(void)
{
	if (standin_version() < 21900 && group_before &&
	    !group_before->is_joined) {
		standin_warn("a call before the thread's last one is done");
		return ncclInvalidUsage;
	}
	if (!group_depth++)
		group_last = &group_first;
	return ncclSuccess;
}

/* So do blocking calls: ncclGroupEndInternal fills the struct first. */
static void group_check_one(void)
{
	if (standin_version() >= 22703 || !group_before ||
	    group_before->is_joined)
		return;
	fprintf(stderr, "stand-in: a call while a non-blocking one of this "
		"thread runs: NCCL before 2.27.3 keeps only one and "
		"overwrites it (src/group.cc, ncclGroupJobMain)\n");
	abort();
}

ncclResult_t group_note(ncclResult_t rc)
{
	/* ncclGroupErrCheck, src/include/group.h */
	if (group_depth > 0 && rc != ncclSuccess && rc != ncclInProgress)
		group_error = rc;
	return rc;
}

/* src/group.cc, ncclAsyncLaunch: a destroyed communicator makes the group
 * blocking. */
ncclResult_t group_add(struct task *t)
{
	if (t->is_end) {
		group_blocking = 1;
	} else if (group_blocking < 0) {
		group_blocking = t->comm->blocking;
	} else if (group_blocking != t->comm->blocking) {
		standin_warn("Blocking and nonblocking communicators are not "
			     "allowed in the same group.");
		free(t);
		return ncclInvalidArgument;
	}
	*group_last = t;
	group_last = &t->next;
	return ncclSuccess;
}

/* ---- running */

static void *group_run_job(void *arg)
{
	struct task *t = arg;

	cudaSetDevice(t->comm->device);
	t->rc = t->job(t);
	return NULL;
}

/* src/group.cc, asyncJobLaunch: one job runs here, several have threads. */
static ncclResult_t group_run_jobs(struct task *first)
{
	ncclResult_t rc = ncclSuccess;
	int n = 0;

	for (struct task *t = first; t; t = t->next)
		n += t->job != NULL;
	for (struct task *t = first; t; t = t->next)
		if (t->job && n == 1)
			group_run_job(t);
		else if (t->job &&
			 pthread_create(&t->thread, NULL, group_run_job, t))
			abort();
	for (struct task *t = first; t; t = t->next) {
		if (t->job && n > 1)
			pthread_join(t->thread, NULL);
		if (t->job && t->rc != ncclSuccess)
			rc = t->rc;
	}
	return rc;
}

static int group_is_message(const struct task *t)
{
	return t->kernel && t->kernel->kind >= KERNEL_SEND;
}

/* The place where a message's peer is marked as set up. */
static char *group_connection(const struct task *t)
{
	struct kernel *k = t->kernel;

	return k->kind == KERNEL_SEND ? &t->comm->sends[k->root]
				      : &t->comm->receives[k->root];
}

static ncclResult_t group_of(struct ncclComm *comm, enum mesh_result rc)
{
	if (rc == MESH_LOST)
		standin_warn("socketProgress: Connection closed by remote "
			     "peer");
	return rc == MESH_LOST	    ? ncclRemoteError
	       : rc == MESH_STOPPED ? ncclInternalError
				    : ncclSuccess;
}

/* A first message between two ranks waits until both have it: ncclTransportP2p-
 * Setup (src/transport.cc), from ncclP2PPreconnectFunc (src/group.cc). */
static ncclResult_t group_connect_messages(struct task *first)
{
	ncclResult_t rc = ncclSuccess;

	for (struct task *t = first; t; t = t->next)
		if (group_is_message(t) && *group_connection(t) == 0 &&
		    t->kernel->root != t->comm->rank) {
			mesh_offer(&t->comm->mesh, t->kernel->root,
				   t->kernel->kind == KERNEL_SEND);
			*group_connection(t) = 1;
		}
	for (struct task *t = first; t && !rc; t = t->next)
		if (group_is_message(t) && *group_connection(t) == 1) {
			rc = group_of(t->comm,
				      mesh_accept(&t->comm->mesh,
						  t->kernel->root,
						  t->kernel->kind ==
							  KERNEL_SEND,
						  &t->comm->stop));
			*group_connection(t) = 2;
		}
	return rc;
}

/* From 2.22 on, and with cuMem, collectives are set up by the first of them,
 * which waits for all ranks (src/init.cc, runtimeConn; src/group.cc,
 * ncclCollPreconnectFunc). */
static ncclResult_t group_connect_collectives(struct task *first)
{
	int late = standin_version() >= 22200 &&
		   standin_number("NCCL_RUNTIME_CONNECT", 1) &&
		   standin_number("NCCL_CUMEM_ENABLE", 1);
	ncclResult_t rc = ncclSuccess;

	for (struct task *t = first; t && !rc; t = t->next) {
		struct ncclComm *c = t->comm;
		char *all;

		if (!t->kernel || group_is_message(t) || c->collectives)
			continue;
		c->collectives = 1;
		all = late ? calloc((size_t)c->size, 1) : NULL;
		if (all)
			rc = group_of(c, mesh_gather(&c->mesh, "", all, 1,
						     &c->stop));
		free(all);
	}
	return rc;
}

/* The messages of a communicator are one kernel, each collective is one. */
static ncclResult_t group_launch(struct task *first)
{
	ncclResult_t rc = ncclSuccess;

	for (struct task *t = first; t && !rc; t = t->next) {
		struct kernel *k = t->kernel, **end;

		if (!k)
			continue;
		end = &k->next;
		for (struct task *u = t->next; group_is_message(t) && u;
		     u = u->next)
			if (group_is_message(u) && u->comm == t->comm) {
				*end = u->kernel;
				end = &u->kernel->next;
				u->kernel = NULL;
			}
		t->kernel = NULL;
		rc = kernel_launch(k);
	}
	return rc;
}

static void group_set_state(struct task *first, ncclResult_t state)
{
	for (struct task *t = first; t; t = t->next)
		if (!t->is_end && !t->comm->blocking)
			t->comm->state = (int)state;
}

static ncclResult_t group_run(struct task *first)
{
	ncclResult_t rc = group_run_jobs(first);

	if (!rc)
		rc = group_connect_messages(first);
	if (!rc)
		rc = group_connect_collectives(first);
	if (!rc)
		rc = group_launch(first);
	group_set_state(first, rc);
	return rc;
}

static void group_free_tasks(struct task *first)
{
	while (first) {
		struct task *t = first;

		first = t->next;
		free(t->kernel);
		free(t);
	}
}

static void *group_main(void *arg)
{
	struct group *g = arg;

	cudaSetDevice(g->tasks->comm->device);
	standin_delay(g->tasks->comm, standin_number("STANDIN_CALL_US", 100));
	g->rc = group_run(g->tasks);
	return NULL;
}

static void group_drop(struct group *g)
{
	if (--g->users)
		return;
	group_free_tasks(g->tasks);
	free(g);
}

void group_join(struct ncclComm *comm)
{
	struct group *g = comm->group;

	if (!g)
		return;
	if (!g->is_joined)
		pthread_join(g->thread, NULL);
	g->is_joined = 1;
	comm->group = NULL;
	group_drop(g);
}

/* A thread for each group (src/group.cc, ncclGroupEndInternal); before 2.23
 * only if something has to be set up. */
static int group_needs_thread(struct task *first)
{
	int needs = standin_version() >= 22300;

	for (struct task *t = first; t; t = t->next)
		needs |= t->job != NULL ||
			 (group_is_message(t) && !*group_connection(t));
	return needs;
}

static ncclResult_t group_begin(struct task *first)
{
	struct group *g = calloc(1, sizeof(*g));

	if (!g)
		abort();
	if (group_before)
		group_drop(group_before);
	group_before = g;
	g->tasks = first;
	g->users = 1;
	group_set_state(first, ncclInProgress);
	for (struct task *t = first; t; t = t->next)
		if (!t->comm->group) {
			t->comm->group = g;
			g->users++;
		}
	standin_log("thread");
	if (pthread_create(&g->thread, NULL, group_main, g))
		abort();
	return ncclInProgress;
}

ncclResult_t group_leave(void)
{
	struct task *first = group_first;
	ncclResult_t rc = group_error;
	int blocking = group_blocking, before = 0;

	if (!group_depth) {
		standin_warn("ncclGroupEnd: not in a group call.");
		return ncclInvalidUsage;
	}
	if (--group_depth)
		return ncclSuccess;
	group_first = NULL;
	group_error = ncclSuccess;
	group_blocking = -1;
	if (rc) {
		group_set_state(first, rc);
		group_free_tasks(first);
		return rc;
	}
	if (first)
		group_check_one();
	if (first && !blocking && group_needs_thread(first)) {
		return group_begin(first);
	} else if (first) {
		cudaGetDevice(&before);
		rc = group_run(first);
		cudaSetDevice(before);
	}
	group_free_tasks(first);
	return rc;
}

ncclResult_t group_ready(struct ncclComm *comm)
{
	ncclResult_t state;

	if (comm->stop) {
		group_join(comm);
		return ncclSuccess;
	}
	ncclCommGetAsyncError(comm, &state);
	if (state != ncclInProgress)
		return state;
	standin_warn("Attempt to use communicator before the previous "
		     "operation returned ncclSuccess");
	return ncclInvalidArgument;
}

/* NCCL's header has these without (void) */
PUBLIC ncclResult_t ncclGroupStart(void);
PUBLIC ncclResult_t ncclGroupEnd(void);

PUBLIC ncclResult_t ncclGroupStart(void)
{
	standin_log("ncclGroupStart");
	return standin_fails("ncclGroupStart") ? ncclSystemError
					       : group_enter();
}

PUBLIC ncclResult_t ncclGroupEnd(void)
{
	standin_log("ncclGroupEnd");
	return group_leave();
}
