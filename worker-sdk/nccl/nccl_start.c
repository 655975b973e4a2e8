/* nccl_start.c: connects and disconnects the ranks of an nccl communicator. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "worker-sdk/nccl/nccl_backend.h"

/* Ranks that one root serves; larger communicators have more roots. */
enum { RANKS_A_ROOT = 128, LEAVE_MS = 5000 };

static int nccl_no_memory(struct err *e)
{
	return err_no_memory(e, "ddp_init (NCCL)");
}

void ddp__nccl_configure(struct ddp__nccl_config *config)
{
	const char *blocking = getenv("DDP_NCCL_BLOCKING");

	*config = (struct ddp__nccl_config)DDP__NCCL_CONFIG;
	config->blocking = blocking && !strcmp(blocking, "1");
}

/* ---- the agreement */

/* Gathers all records in `size` bytes each; 1: one is longer. */
static int nccl_gather_records(struct ddp_comm *c, const struct buf *record,
			       size_t size, struct ddp__nccl_place *all,
			       struct err *e)
{
	struct ddp__call call = {.kind = DDP__INIT,
				 .type = DDP_U8,
				 .count = size};
	struct buf own = BUF_INIT(DDP__PLACE_MAX);
	size_t n = (size_t)c->size;
	char *flat = calloc(n + 1, size);
	char *me = flat ? flat + n * size : NULL;
	struct reader r;
	int rc = 0;

	buf_put_slice(&own, SLICE(record->data, record->len));
	if (!flat || record->failed || own.failed) {
		rc = nccl_no_memory(e);
		goto out;
	}
	memcpy(me, own.data, own.len < size ? own.len : size);
	if (c->state)
		rc = c->backend->gather(c, &call, me, flat, size, e);
	else
		memcpy(flat, me, size);
	for (size_t i = 0; i < n && !rc; i++) {
		reader_init(&r, SLICE(flat + i * size, size));
		rc = reader_u32(&r) > size - 4;
		reader_init(&r, SLICE(flat + i * size, size));
		if (!rc)
			rc = ddp__nccl_place_get(&all[i], reader_slice(&r), e);
	}
out:
	buf_release(&own);
	free(flat);
	return rc;
}

/* Gathers every rank's place, through the cpu communicator: this takes
 * microseconds, so that a job without GPUs does not start later. The report "no
 * driver" is short; only if a rank's record is longer, all ranks send theirs in
 * full. */
static int nccl_gather_places(struct ddp_comm *c,
			      const struct ddp__nccl_place *mine,
			      struct ddp__nccl_place *all, struct err *e)
{
	struct buf record = BUF_INIT(DDP__PLACE_MAX);
	int rc;

	ddp__nccl_place_put(&record, mine);
	rc = nccl_gather_records(c, &record, DDP__PLACE_BRIEF, all, e);
	if (rc > 0)
		rc = nccl_gather_records(c, &record, DDP__PLACE_MAX, all, e);
	buf_release(&record);
	return rc;
}

/* Adds to what ddp_warning returns. */
static void nccl_warn(struct ddp__world *w, const char *text)
{
	size_t n = strlen(w->warning);

	snprintf(w->warning + n, sizeof(w->warning) - n, "%s%s", n ? "; " : "",
		 text);
}

/* 1: all ranks can use NCCL; 0: not all can, and wish is auto; or an error. */
static int nccl_agree(struct ddp_comm *c, const char *wish,
		      struct ddp__nccl_place *mine, struct err *e)
{
	struct ddp__nccl_place *all = calloc((size_t)c->size, sizeof(*all));
	char why[ERR_TEXT_MAX];
	int rc = all ? nccl_gather_places(c, mine, all, e) : nccl_no_memory(e);

	if (!rc)
		rc = ddp__nccl_agree(all, c->size, &c->peers, why);
	if (rc == 1 && ddp__nccl_kinds_differ(all, c->size, &c->peers, why))
		nccl_warn(c->world, why);
	free(all);
	if (rc)
		return rc;
	if (!strcmp(wish, "auto")) {
		err_note(e, "backend auto: cpu, because %.900s", why);
		return 0;
	}
	return err_set(e, ERR_USAGE,
		       "backend nccl: %.900s; fix that, or use cpu or auto",
		       why);
}

/* ---- meeting */

static int nccl_roots(const struct ddp__nccl *n, int size)
{
	if (!n->lib->init_scalable || n->lib->version < DDP__NCCL_SCALABLE ||
	    size <= RANKS_A_ROOT)
		return 1;
	return (size + RANKS_A_ROOT - 1) / RANKS_A_ROOT;
}

/* Gives every rank the ids of all roots; a rank of its own makes each id. A
 * rank's value, which may be empty, also tells the others that it has arrived:
 * NCCL begins only after that. */
static int nccl_exchange_ids(struct ddp__nccl *n, const struct ddp__exchange *x,
			     struct ddp__nccl_id *ids, int roots, struct err *e)
{
	struct ddp_comm *c = n->c;
	struct slice *values = calloc((size_t)c->size, sizeof(*values));
	struct slice mine = {"", 0};
	struct ddp__nccl_id id;
	int rc = values ? 0 : nccl_no_memory(e), found = 0;

	for (int i = 0; i < roots && !rc; i++) {
		if ((long)i * c->size / roots != c->rank)
			continue;
		rc = n->lib->get_unique_id(&id);
		if (rc)
			rc = ddp__nccl_fail(n->lib, NULL, rc, "ncclGetUniqueId",
					    e);
		mine = SLICE(id.bytes, sizeof(id.bytes));
	}
	if (!rc && c->size > 1)
		rc = x->gather(x->owner, "nccl", mine, values, e);
	else if (!rc)
		values[0] = mine;
	for (int r = 0; r < c->size && !rc && found < roots; r++)
		if (values[r].len == sizeof(id.bytes))
			memcpy(ids[found++].bytes, values[r].data,
			       sizeof(id.bytes));
	free(values);
	if (!rc && found < roots)
		rc = err_set(e, ERR_PROTOCOL,
			     "ddp_init (NCCL): received %d of %d ids: start "
			     "all ranks with the same libddp",
			     found, roots);
	return rc;
}

int ddp__nccl_connect(struct ddp__nccl *n, const struct ddp__exchange *x,
		      struct err *e)
{
	int roots = nccl_roots(n, n->c->size), rc;
	struct ddp__nccl_id *ids = calloc((size_t)roots, sizeof(*ids));
	struct ddp__nccl_config config;

	if (!ids)
		return nccl_no_memory(e);
	ddp__nccl_configure(&config);
	n->blocking = config.blocking;
	rc = nccl_exchange_ids(n, x, ids, roots, e);
	if (!rc) {
		rc = roots > 1 ? n->lib->init_scalable(&n->comm, n->c->size,
						       n->c->rank, roots, ids,
						       &config)
			       : n->lib->init(&n->comm, n->c->size, ids[0],
					      n->c->rank, &config);
		rc = ddp__nccl_settle(n, n->comm, rc, "ddp_init (NCCL)", e);
	}
	free(ids);
	return rc;
}

/* Streams, events and a byte of memory. */
static int nccl_make_resources(struct ddp__nccl *n, struct err *e)
{
	const struct ddp__cuda *cu = n->cuda;
	int least = 0, greatest = 0, rc;

	/* communication before computation: other ranks wait for it */
	cu->stream_priorities(&least, &greatest);
	rc = ddp__cuda_check(cu,
			     cu->stream_create(&n->stream,
					       DDP__CUDA_NON_BLOCKING,
					       greatest),
			     "cudaStreamCreateWithPriority", e);
	if (!rc)
		rc = ddp__cuda_check(cu, cu->alloc(&n->token, 1), "cudaMalloc",
				     e);
	if (!rc)
		rc = ddp__nccl_event(n, &n->fence, e);
	if (!rc)
		rc = ddp__nccl_event(n, &n->finish, e);
	return rc;
}

static struct ddp__nccl *nccl_state_new(struct ddp_comm *c,
					struct ddp_comm *host, struct err *e)
{
	struct ddp__nccl *n = calloc(1, sizeof(*n));

	if (!n) {
		nccl_no_memory(e);
		return NULL;
	}
	n->c = c;
	n->host = host;
	c->backend = &ddp__nccl;
	c->state = n;
	return n;
}

/* Megatron's users set it. */
static void nccl_warn_of_one_queue(struct ddp__world *w)
{
	const char *queues = getenv("CUDA_DEVICE_MAX_CONNECTIONS");

	if (queues && !strcmp(queues, "1"))
		nccl_warn(w, "CUDA_DEVICE_MAX_CONNECTIONS is 1: all streams of "
			  "a GPU share one queue, where a message to a late "
			  "rank holds up the other ranks' collectives, which "
			  "can wait for each other for ever; unset it if the "
			  "program sends messages");
}

int ddp__nccl_init(struct ddp_comm *c, const struct ddp__exchange *x,
		   const char *wish, struct ddp_comm **out, struct err *e)
{
	struct ddp__nccl_place mine;
	struct ddp__nccl *n;
	struct ddp_comm *up;
	int rc;

	ddp__nccl_place_find(&mine, &c->world->env, !strcmp(wish, "auto"));
	rc = nccl_agree(c, wish, &mine, e);
	if (rc <= 0)
		return rc;
	/* only now: it takes time, and some of the GPU's memory */
	rc = ddp__cuda_check(mine.cuda, mine.cuda->set_device(mine.device),
			     "cudaSetDevice", e);
	if (rc)
		return rc;
	up = ddp__comm_new(c->world);
	if (!up)
		return nccl_no_memory(e);
	up->rank = c->rank;
	up->size = c->size;
	n = nccl_state_new(up, c, e);
	if (!n)
		return e->code; /* ddp_finalize frees up */
	n->cuda = mine.cuda;
	n->lib = mine.nccl;
	n->device = mine.device;
	rc = ddp__nccl_connect(n, x, e);
	if (!rc)
		rc = nccl_make_resources(n, e);
	if (rc) {
		ddp__nccl_abort(up, e);
		n->host = NULL; /* c still belongs to the caller */
		return rc;
	}
	nccl_warn_of_one_queue(c->world);
	*out = up;
	return 1;
}

/* ---- what is under way */

/* Waits until the work that is now in stream is done. */
static int nccl_await_stream(struct ddp__nccl *n, void *stream,
			     struct ddp__watch *w, struct err *e)
{
	int rc = ddp__cuda_check(n->cuda,
				 n->cuda->event_record(n->finish, stream),
				 "cudaEventRecord", e);

	return rc ? rc : ddp__nccl_await_event(n, w, n->finish, e);
}

/* NCCL wants nothing under way on a communicator that is split, which may
 * deadlock otherwise (NCCL's manual, ncclCommSplit). */
static int nccl_quiesce(struct ddp__nccl *n, const char *what, struct err *e)
{
	struct ddp__watch w;
	int rc;

	ddp__watch_init(&w, n->c, what);
	rc = nccl_await_stream(n, n->stream, &w, e);
	if (!rc && n->user)
		rc = nccl_await_stream(n, n->user, &w, e);
	return rc;
}

/* 1 once nothing of this world's communicators runs in their streams. 0 if that
 * takes too long: freeing a communicator frees memory of the device, which
 * waits for all that runs there. */
static int nccl_is_idle(struct ddp__world *w)
{
	uint64_t end = w->is_ending	    ? clock_ms() + LEAVE_MS
		       : w->timeout_ms >= 0 ? clock_ms() +
						      (uint64_t)w->timeout_ms
					    : UINT64_MAX;

	for (struct ddp_comm *at = w->comms; at; at = at->next) {
		struct ddp__nccl *n = at->state;
		int rc;

		if (at->backend != &ddp__nccl || !n || n->dead || !n->finish ||
		    n->cuda->event_record(n->finish, n->stream))
			continue;
		while ((rc = n->cuda->event_query(n->finish)) ==
			       DDP__CUDA_NOT_READY && clock_ms() < end)
			nanosleep(&(struct timespec){0, 100000}, NULL);
		if (!rc)
			continue;
		ddp__cuda_forget(n->cuda, rc);
		return 0;
	}
	return 1;
}

/* ---- groups */

/* Makes the cpu communicator beside a group. */
static int nccl_start_host(struct ddp__nccl *n, const struct ddp__exchange *x,
			   struct err *e)
{
	struct ddp_comm *c = n->c, *h = ddp__comm_new(c->world);
	size_t size = (size_t)c->size * sizeof(int);

	if (!h)
		return nccl_no_memory(e);
	n->host = h;
	h->backend = &ddp__cpu;
	h->rank = c->rank;
	h->size = c->size;
	memcpy(h->name, c->name, sizeof(h->name));
	h->id = c->id;
	h->ranks = malloc(size);
	if (!h->ranks)
		return nccl_no_memory(e);
	memcpy(h->ranks, c->ranks, size);
	return h->size > 1 ? ddp__cpu.start(h, x, e) : 0;
}

/* All of the parent's ranks call ncclCommSplit, those without a group as well.
 * A non-blocking split returns ncclSuccess while it runs: p->part stays NULL
 * until p's state is ncclSuccess (src/init.cc, ncclCommInitChildComm in NCCL
 * 2.28.9; so from 2.18.1 to 2.30.7). */
static int nccl_split(struct ddp__nccl *p, int color, int key, struct err *e)
{
	static const char what[] = "ddp_comm_split (NCCL)";
	int rc;

	p->is_splitting = 1;
	rc = p->lib->split(p->comm, color, key, &p->part, NULL);
	if (rc == DDP__NCCL_SUCCESS && !p->blocking)
		rc = DDP__NCCL_IN_PROGRESS;
	rc = ddp__nccl_settle(p, p->comm, rc, what, e);
	if (!rc)
		p->is_splitting = 0;
	if (!rc && p->part)
		rc = ddp__nccl_settle(p, p->part, DDP__NCCL_IN_PROGRESS, what,
				      e);
	return rc;
}

int ddp__nccl_split(struct ddp_comm *parent, struct ddp_comm *group, int color,
		    int key, const struct ddp__exchange *x, struct err *e)
{
	struct ddp__nccl *p = parent->state, *n;
	int before = ddp__nccl_device(p), rc;

	rc = nccl_quiesce(p, "ddp_comm_split", e);
	if (!rc)
		rc = nccl_split(p, color, key, e);
	if (rc)
		ddp__nccl_abort(parent, e); /* joins NCCL's thread */
	if (rc || !group)
		goto out;
	n = nccl_state_new(group, NULL, e);
	if (!n) {
		rc = e->code;
		goto out;
	}
	n->cuda = p->cuda;
	n->lib = p->lib;
	n->device = p->device;
	n->blocking = p->blocking;
	n->comm = p->part;
	rc = nccl_start_host(n, x, e);
	if (!rc)
		rc = nccl_make_resources(n, e);
	if (rc)
		ddp__nccl_stop(group);
out:
	p->cuda->set_device(before);
	return rc;
}

/* ---- leaving */

/* Leaves without waiting for other ranks: NCCL's own end waits for the work in
 * its streams and, on a host, for the other ranks, so it gets a limited
 * time. */
static int nccl_leave(struct ddp__nccl *n)
{
	uint64_t end = clock_ms() + LEAVE_MS;
	int state = DDP__NCCL_IN_PROGRESS;
	int rc = n->lib->finalize(n->comm);

	if (rc && rc != DDP__NCCL_IN_PROGRESS)
		return -1;
	while (n->lib->async_error(n->comm, &state) == 0 &&
	       state == DDP__NCCL_IN_PROGRESS && clock_ms() < end)
		nanosleep(&(struct timespec){0, 1000000}, NULL);
	if (state != DDP__NCCL_SUCCESS)
		return -1;
	return n->lib->destroy(n->comm) ? -1 : 0;
}

static void nccl_free_events(struct ddp__nccl *n)
{
	const struct ddp__cuda *cu = n->cuda;

	while (n->spares)
		cu->event_destroy(n->spare[--n->spares]);
	if (n->fence)
		cu->event_destroy(n->fence);
	if (n->finish)
		cu->event_destroy(n->finish);
	if (n->stream)
		cu->stream_destroy(n->stream);
}

/* It may be freed already: ddp_finalize frees communicators one by one. */
static void nccl_free_host(struct ddp__nccl *n)
{
	struct ddp_comm *at = n->c->world->comms;

	while (at && at != n->host)
		at = at->next;
	if (at)
		ddp__comm_free(at);
}

void ddp__nccl_stop(struct ddp_comm *c)
{
	struct ddp__nccl *n = c->state;
	struct err why = ERR_INIT;
	int before;

	before = n->cuda ? ddp__nccl_device(n) : 0;
	if (!n->dead && n->comm && !nccl_is_idle(c->world)) {
		err_set(&why, ERR_ABORTED,
			"a rank left with work that had not ended");
		ddp__nccl_abort(c, &why);
	}
	ddp__nccl_forget_buffers(n, NULL);
	/* a pair also has no orderly end but ncclCommAbort */
	ddp__nccl_pairs_free(n, n->dead ||
				ddp__nccl_abort_crashes(n->lib->version));
	if (n->comm && !n->dead && nccl_leave(n))
		n->dead = 1;
	/* cudaFree waits for the device, where a kernel may spin for ever */
	if (n->token && !n->dead)
		n->cuda->free(n->token);
	if (n->cuda) {
		nccl_free_events(n);
		n->cuda->set_device(before);
	}
	nccl_free_host(n);
	if (!n->is_splitting)
		free(n);
	c->state = NULL;
}

static void nccl_abort_all(struct ddp__world *w, const struct ddp__nccl *first)
{
	struct ddp__aborts a;

	ddp__aborts_begin(&a, first->lib);
	for (struct ddp_comm *at = w->comms; at; at = at->next) {
		struct ddp__nccl *n = at->state;

		if (at->backend != &ddp__nccl || !n || !n->dead)
			continue;
		ddp__nccl_pairs_abort(n, &a);
		if (n->comm)
			ddp__aborts_add(&a, n->comm);
		n->comm = NULL;
		n->is_splitting = 0;
	}
	ddp__aborts_end(&a);
}

/* The end of one communicator ends all of this world. */
void ddp__nccl_abort(struct ddp_comm *c, const struct err *why)
{
	struct ddp__nccl *n = c->state;
	int before;

	if (n->dead)
		return;
	for (struct ddp_comm *at = c->world->comms; at; at = at->next) {
		if (at->backend != &ddp__nccl || !at->state)
			continue;
		((struct ddp__nccl *)at->state)->dead = 1;
		if (at != c && !at->broken.code)
			at->broken = *why;
	}
	ddp__watch_publish(c, why);
	before = ddp__nccl_device(n);
	if (!ddp__nccl_abort_crashes(n->lib->version))
		nccl_abort_all(c->world, n);
	n->comm = NULL;
	n->cuda->set_device(before);
}
