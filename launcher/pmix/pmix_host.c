/* pmix_host.c: the callbacks of libpmix's server, and the replies to them. */
#include "launcher/pmix/pmix_host.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "base/file.h"
#include "base/log.h"

enum { SAID_BYTES = 64 << 10 };

/* A call of the library that is not answered yet. */
struct pmix_host_call {
	struct pmix_host_call *next;
	uint32_t id;
	/* one of these */
	pmix_abi_modex *done;
	pmix_abi_done *heard;
	void *arg;
};

static struct pmix_host host = {.fd = -1};

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
static struct pmix_host_call *calls;
static uint32_t last_id;

/* The agent, or a rank, would wait for ever for what was not sent: this process
 * ends, as at the end of its input. */
static void pmix_host_lose(int rc)
{
	host.is_lost = 1;
	if (rc != -EPIPE) /* the agent has ended */
		log_error("PMIx: a message to ddprun's agent is lost: %s",
			  strerror(-rc));
	shutdown(host.fd, SHUT_RDWR);
}

void pmix_host_send(uint8_t type, uint32_t id, int32_t code, struct slice data)
{
	const struct pmix_frame f = {type, id, code, data};
	uint8_t head[PMIX_FRAME_HEAD];
	int rc;

	pmix_frame_head(&f, head);
	pthread_mutex_lock(&lock);
	rc = file_write_all(host.fd, head, sizeof(head));
	if (rc == 0)
		rc = file_write_all(host.fd, data.data, data.len);
	if (rc < 0 && !host.is_lost)
		pmix_host_lose(rc);
	pthread_mutex_unlock(&lock);
}

static void pmix_host_send_text(uint8_t type, uint32_t id, int32_t code,
				const char *text)
{
	pmix_host_send(type, id, code, SLICE_STR(text ? text : ""));
}

/* ---- calls that the agent answers ---- */

/* Their id, or 0: out of memory. */
static uint32_t pmix_host_add_call(struct pmix_host_call call)
{
	struct pmix_host_call *c = malloc(sizeof(*c));
	uint32_t id;

	if (!c)
		return 0;
	pthread_mutex_lock(&lock);
	id = call.id = ++last_id;
	call.next = calls;
	*c = call;
	calls = c;
	pthread_mutex_unlock(&lock);
	return id;
}

static struct pmix_host_call *pmix_host_take_call(uint32_t id)
{
	struct pmix_host_call **at = &calls, *found;

	pthread_mutex_lock(&lock);
	while (*at && (*at)->id != id)
		at = &(*at)->next;
	found = *at;
	if (found)
		*at = found->next;
	pthread_mutex_unlock(&lock);
	return found;
}

/* The library keeps the data until it calls free. */
static void pmix_host_answer(const struct pmix_frame *f)
{
	struct pmix_host_call *c = pmix_host_take_call(f->id);
	char *copy = NULL;
	int status = f->code;

	if (!c)
		return;
	if (!c->done) {
		if (c->heard)
			c->heard(PMIX_ABI_SUCCESS, c->arg);
		free(c);
		return;
	}
	if (f->data.len && status == PMIX_ABI_SUCCESS) {
		copy = malloc(f->data.len);
		if (copy)
			memcpy(copy, f->data.data, f->data.len);
		else
			status = PMIX_ABI_ERR_NOMEM;
	}
	c->done(status, copy, copy ? f->data.len : 0, c->arg, free, copy);
	free(c);
}

/* ---- requests of the library ---- */

static int pmix_host_on_connected(const struct pmix_abi_proc *proc,
				  void *object, pmix_abi_done *done, void *arg)
{
	pmix_host_send(HELPER_CONNECTED, proc->rank, 0, SLICE("", 0));
	if (done)
		done(PMIX_ABI_SUCCESS, arg);
	return PMIX_ABI_SUCCESS;
}

static int on_connected2(const struct pmix_abi_proc *proc, void *object,
			 struct pmix_abi_info *info, size_t n,
			 pmix_abi_done *done, void *arg)
{
	return pmix_host_on_connected(proc, object, done, arg);
}

static int pmix_host_on_finalized(const struct pmix_abi_proc *proc,
				  void *object, pmix_abi_done *done, void *arg)
{
	pmix_host_send(HELPER_FINALIZED, proc->rank, 0, SLICE("", 0));
	if (done)
		done(PMIX_ABI_SUCCESS, arg);
	return PMIX_ABI_SUCCESS;
}

static int pmix_host_on_abort(const struct pmix_abi_proc *proc, void *object,
			      int status, const char *text,
			      struct pmix_abi_proc *procs, size_t n,
			      pmix_abi_done *done, void *arg)
{
	/* Open MPI passes this if there is no text */
	if (text && strcmp(text, "N/A") == 0)
		text = "";
	pmix_host_send_text(HELPER_ABORT, proc->rank, status, text);
	if (done)
		done(PMIX_ABI_SUCCESS, arg);
	return PMIX_ABI_SUCCESS;
}

static void pmix_host_put_said(struct buf *out,
			       const struct pmix_abi_info *info)
{
	const struct pmix_abi_value *v = &info->value;
	struct slice text = SLICE("", 0);

	if (v->type == PMIX_ABI_BYTE_OBJECT && v->data.bytes.data &&
	    strcmp(info->key, "pmix.log.msg") == 0)
		text = pmix_said(SLICE(v->data.bytes.data, v->data.bytes.size));
	else if (v->type == PMIX_ABI_STRING && v->data.string &&
		 strcmp(info->key, "pmix.log.stderr") == 0)
		text = SLICE_STR(v->data.string);
	buf_put(out, text.data, text.len);
}

/* Before version 5, Open MPI hands its errors to the server to print, as
 * mpirun's orted does. The library holds a lock here that the callback takes,
 * so that the answer follows from another thread. */
static void pmix_host_on_log(const struct pmix_abi_proc *proc,
			     const struct pmix_abi_info *data, size_t n,
			     const struct pmix_abi_info *directives,
			     size_t ndirectives, pmix_abi_done *done, void *arg)
{
	struct buf text = BUF_INIT(SAID_BYTES);
	uint32_t id = pmix_host_add_call(
		(struct pmix_host_call){.heard = done, .arg = arg});

	for (size_t i = 0; i < n; i++)
		pmix_host_put_said(&text, &data[i]);
	if (id)
		pmix_host_send(HELPER_SAID, id, (int32_t)proc->rank,
			       SLICE(text.data, text.failed ? 0 : text.len));
	else /* nobody would answer the rank */
		pmix_host_send_text(HELPER_FAILED, 0, 0,
				    "a message of a rank: out of memory");
	buf_release(&text);
}

/* 1 if all ranks of the world take part. */
static int pmix_host_is_world(const struct pmix_abi_proc *procs, size_t n)
{
	return n == host.job->world_size ||
	       (n == 1 && procs[0].rank == PMIX_ABI_RANK_WILDCARD);
}

static int pmix_host_on_fence(const struct pmix_abi_proc *procs, size_t n,
			      const struct pmix_abi_info *info, size_t ninfo,
			      char *data, size_t size, pmix_abi_modex *done,
			      void *arg)
{
	uint32_t id;

	if (!pmix_host_is_world(procs, n)) {
		pmix_host_send_text(HELPER_REFUSED, procs[0].rank, 0,
				    "a fence of some ranks only, on several "
				    "nodes");
		return PMIX_ABI_ERR_NOT_SUPPORTED;
	}
	id = pmix_host_add_call(
		(struct pmix_host_call){.done = done, .arg = arg});
	if (!id) {
		/* libpmix does not tell its ranks: they would wait for ever */
		pmix_host_send_text(HELPER_FAILED, 0, 0,
				    "a fence of PMIx: out of memory");
		return PMIX_ABI_ERR_NOMEM;
	}
	pmix_host_send(HELPER_FENCE, id, 0,
		       SLICE(data ? data : "", data ? size : 0));
	return PMIX_ABI_SUCCESS;
}

static int pmix_host_on_direct_modex(const struct pmix_abi_proc *proc,
				     const struct pmix_abi_info *info,
				     size_t ninfo, pmix_abi_modex *done,
				     void *arg)
{
	uint32_t id = pmix_host_add_call(
		(struct pmix_host_call){.done = done, .arg = arg});

	if (!id)
		return PMIX_ABI_ERR_NOMEM;
	pmix_host_send(HELPER_WANT, id, (int32_t)proc->rank, SLICE("", 0));
	return PMIX_ABI_SUCCESS;
}

static int pmix_host_on_spawn(const struct pmix_abi_proc *proc,
			      const struct pmix_abi_info *info, size_t ninfo,
			      const void *apps, size_t n, void (*done)(void),
			      void *arg)
{
	pmix_host_send_text(HELPER_REFUSED, proc->rank, 0,
			    "MPI_Comm_spawn: start all processes at once "
			    "(--nproc-per-node)");
	return PMIX_ABI_ERR_NOT_SUPPORTED;
}

/* Ranks ask to hear of failures; the job ends with the first one. */
static int pmix_host_on_register_events(int *codes, size_t n,
					const struct pmix_abi_info *info,
					size_t ninfo, pmix_abi_done *done,
					void *arg)
{
	return PMIX_ABI_OPERATION_SUCCEEDED;
}

static int pmix_host_on_deregister_events(int *codes, size_t n,
					  pmix_abi_done *done, void *arg)
{
	return PMIX_ABI_OPERATION_SUCCEEDED;
}

/* The library asks only if this exists, and itself takes the requests of ranks
 * that name the files to remove when they have ended. */
static int pmix_host_on_job_control(const struct pmix_abi_proc *from,
				    const struct pmix_abi_proc *targets,
				    size_t n, const struct pmix_abi_info *info,
				    size_t ninfo, void (*done)(void), void *arg)
{
	return PMIX_ABI_ERR_NOT_SUPPORTED;
}

static const struct pmix_abi_module module = {
	.client_connected = pmix_host_on_connected,
	.client_connected2 = on_connected2,
	.client_finalized = pmix_host_on_finalized,
	.abort = pmix_host_on_abort,
	.fence_nb = pmix_host_on_fence,
	.direct_modex = pmix_host_on_direct_modex,
	.spawn = pmix_host_on_spawn,
	.register_events = pmix_host_on_register_events,
	.deregister_events = pmix_host_on_deregister_events,
	.log = pmix_host_on_log,
	.job_control = pmix_host_on_job_control,
};

/* ---- requests of other nodes ---- */

static void pmix_host_on_found(int status, char *data, size_t n, void *arg)
{
	pmix_host_send(HELPER_DATA, (uint32_t)(uintptr_t)arg, status,
		       SLICE(data ? data : "", data ? n : 0));
}

static void pmix_host_want(const struct pmix_frame *f)
{
	struct pmix_abi_proc proc;
	int status;

	memset(&proc, 0, sizeof(proc));
	strcpy(proc.nspace, host.job->name);
	proc.rank = (uint32_t)f->code;
	status = host.library.dmodex_request(&proc, pmix_host_on_found,
					     (void *)(uintptr_t)f->id);
	if (status != PMIX_ABI_SUCCESS)
		pmix_host_send(HELPER_DATA, f->id, status, SLICE("", 0));
}

void pmix_host_handle(const struct pmix_frame *f)
{
	if (f->type == HELPER_WANTED)
		pmix_host_want(f);
	else if (f->type == HELPER_FENCED || f->type == HELPER_FOUND ||
		 f->type == HELPER_HEARD)
		pmix_host_answer(f);
}

/* ---- from start to end ---- */

int pmix_host_load(int fd, struct err *e)
{
	host.fd = fd;
	return pmix_library_load(&host.library, e);
}

int pmix_host_begin(const struct pmix_job *job, struct buf *vars,
		    struct err *e)
{
	host.job = job;
	return pmix_host_register(&host, &module, vars, e);
}

void pmix_host_end(void)
{
	if (host.has_begun)
		host.library.server_finalize();
}
