/* nccl_p2p.c: messages between two ranks.
 *
 * NCCL runs the calls of a communicator in order, whatever their streams: two
 * ranks that both send first would wait for ever, and so would a collective
 * behind a message. So each pair of ranks has a communicator and a stream per
 * direction, made with its first message: the sender puts an id into the store.
 * Large worlds in which all ranks talk to all should use all_to_all. Nothing
 * here waits. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "worker-sdk/nccl/nccl_backend.h"

enum { POLL_NS = 500000 };

/* Before 2.27.3 NCCL has room for one non-blocking call per thread, and writes
 * over it when the thread makes another one on any communicator
 * (ncclGroupJobMain in src/group.cc; 2.18 refuses the call). A message may wait
 * for its other rank while this one goes on. */
enum { CALLS_PER_THREAD = 22703 };

enum state { NEW, MEETING, READY, SENDING, SELF };

/* A call to NCCL on a pair: init if buf is NULL, else the message. For old
 * releases a thread makes and polls it. */
struct pair_call {
	struct ddp__nccl_id id;
	void *buf;
	size_t count;
	int type, sends;
	int has_thread;
	pthread_t thread;
	_Atomic int leave; /* the thread has ended, or must abort */
	_Atomic int is_done;
	int rc;
};

struct ddp__nccl_pair {
	struct ddp__nccl *n;
	int from, to; /* ranks of the communicator; this rank is one of them */
	enum state state;
	void *comm, *stream;
	struct pair_call call;
	struct ddp__nccl_op *first, **last; /* not posted yet */
	uint64_t asked; /* when the store was asked for the id, ns */
};

static int pair_is_send(const struct ddp__nccl_op *op)
{
	return op->call->kind == DDP__SEND;
}

static char *pair_op_text(const struct ddp__nccl_op *op, char *out)
{
	return ddp__call_text(op->call, out);
}

static struct ddp__nccl_pair *pair_get(struct ddp__nccl *n,
				       const struct ddp__nccl_op *op,
				       struct err *e)
{
	size_t size = (size_t)n->c->size;
	size_t at = (size_t)op->call->root + (pair_is_send(op) ? 0 : size);
	struct ddp__nccl_pair *p;

	if (!n->pairs)
		n->pairs = calloc(2 * size, sizeof(*n->pairs));
	p = n->pairs ? n->pairs[at] : NULL;
	if (p)
		return p;
	p = n->pairs ? calloc(1, sizeof(*p)) : NULL;
	if (!p) {
		err_no_memory(e, "a message");
		return NULL;
	}
	p->n = n;
	p->from = pair_is_send(op) ? n->c->rank : op->call->root;
	p->to = pair_is_send(op) ? op->call->root : n->c->rank;
	p->state = p->from == p->to ? SELF : NEW;
	p->last = &p->first;
	n->pairs[at] = p;
	return p;
}

int ddp__nccl_post(struct ddp__nccl *n, struct ddp__nccl_op *op, struct err *e)
{
	int rc = ddp__nccl_event(n, &op->ready, e);

	if (!rc)
		rc = ddp__nccl_event(n, &op->done, e);
	if (!rc)
		rc = ddp__cuda_check(n->cuda,
				     n->cuda->event_record(op->ready, n->user),
				     "cudaEventRecord", e);
	if (rc)
		return rc;
	op->pair = pair_get(n, op, e);
	if (!op->pair)
		return e->code;
	*op->pair->last = op;
	op->pair->last = &op->next;
	return 0;
}

static void pair_pop(struct ddp__nccl_pair *p)
{
	struct ddp__nccl_op *op = p->first;

	p->first = op->next;
	if (!p->first)
		p->last = &p->first;
	op->next = NULL;
	op->posted = 1;
}

void ddp__nccl_unpost(struct ddp__nccl *n, struct ddp__nccl_op *op)
{
	struct ddp__nccl_pair *p = op->pair;
	struct ddp__nccl_op **at;

	if (!p || op->posted)
		return;
	for (at = &p->first; *at != op; at = &(*at)->next)
		;
	*at = op->next;
	if (!*at)
		p->last = at;
	op->next = NULL;
}

void *ddp__nccl_pair_comm(const struct ddp__nccl_pair *p)
{
	return p->comm;
}

/* ---- meeting */

static struct slice pair_key(const struct ddp__nccl *n,
			     const struct ddp__nccl_pair *p, char out[128])
{
	snprintf(out, 128, "ddp/%u/nccl/%s/message/%d/%d",
		 n->c->world->joined, n->c->name, p->from, p->to);
	return SLICE_STR(out);
}

/* 1 and the id for both ranks; 0: the sender has not arrived yet. */
static int pair_get_id(struct ddp__nccl *n, struct ddp__nccl_pair *p,
		       struct ddp__nccl_id *id, struct err *e)
{
	struct ddp__kv *kv = n->c->world->kv;
	struct slice value;
	char key[128];
	int rc;

	if (p->from == n->c->rank) {
		rc = n->lib->get_unique_id(id);
		if (rc)
			return ddp__nccl_fail(n->lib, NULL, rc,
					      "ncclGetUniqueId", e);
		value = SLICE(id->bytes, sizeof(id->bytes));
		rc = kv->ops->set(kv, pair_key(n, p, key), value, e);
		return rc < 0 ? rc : 1;
	}
	if (clock_ns() - p->asked < POLL_NS)
		return 0;
	p->asked = clock_ns();
	rc = kv->ops->get(kv, pair_key(n, p, key), 0, &value, e);
	if (rc > 0 && value.len != sizeof(id->bytes))
		return err_set(e, ERR_PROTOCOL,
			       "the store's %s is not an NCCL id", key);
	if (rc > 0)
		memcpy(id->bytes, value.data, sizeof(id->bytes));
	return rc;
}

/* ---- calls to NCCL */

static int pair_make_call(struct ddp__nccl_pair *p)
{
	const struct ddp__nccl_lib *lib = p->n->lib;
	int me = p->to == p->n->c->rank;
	struct pair_call *k = &p->call;
	struct ddp__nccl_config config;

	if (k->buf)
		return k->sends ? lib->send(k->buf, k->count, k->type, !me,
					    p->comm, p->stream)
				: lib->recv(k->buf, k->count, k->type, !me,
					    p->comm, p->stream);
	ddp__nccl_configure(&config);
	/* never blocking: it would wait here until the other rank comes, and
	 * two ranks that both send first would wait for each other */
	config.blocking = 0;
	return lib->init(&p->comm, 2, k->id, me, &config);
}

/* The state of the last call on the pair's communicator. */
static int pair_ask(const struct ddp__nccl_pair *p)
{
	int state = DDP__NCCL_SUCCESS;
	int rc = p->n->lib->async_error(p->comm, &state);

	return rc ? rc : state;
}

/* Makes the call and polls it to its end. If the pair is to leave, the thread
 * aborts it, as NCCL refers to the thread's own memory until then. */
static void *pair_thread_main(void *arg)
{
	struct ddp__nccl_pair *p = arg;
	struct pair_call *k = &p->call;

	p->n->cuda->set_device(p->n->device);
	k->rc = pair_make_call(p);
	while (k->rc == DDP__NCCL_IN_PROGRESS && !k->leave) {
		nanosleep(&(struct timespec){0, 100000}, NULL);
		k->rc = pair_ask(p);
	}
	if (atomic_exchange(&k->leave, 1) && p->comm) {
		p->n->lib->abort(p->comm);
		p->comm = NULL;
	}
	k->is_done = 1;
	return NULL;
}

/* Begins the call in p->call; pair_is_settled tells when it has ended. */
static int pair_begin(struct ddp__nccl_pair *p, const char *what,
		      struct err *e)
{
	struct pair_call *k = &p->call;
	int rc;

	if (p->n->lib->version >= CALLS_PER_THREAD) {
		rc = pair_make_call(p);
		return rc && rc != DDP__NCCL_IN_PROGRESS
			       ? ddp__nccl_error(p->n, p->comm, rc, what, e)
			       : 0;
	}
	k->is_done = k->leave = 0;
	rc = pthread_create(&k->thread, NULL, pair_thread_main, p);
	if (rc)
		return err_set(e, -rc, "%s: pthread_create: %s", what,
			       strerror(rc));
	k->has_thread = 1;
	return 0;
}

/* Ends the thread of a call. */
static int pair_join(struct ddp__nccl_pair *p)
{
	pthread_join(p->call.thread, NULL);
	p->call.has_thread = 0;
	return p->call.rc;
}

/* 1: NCCL has completed its last call on this pair; 0: not yet. */
static int pair_is_settled(struct ddp__nccl *n, struct ddp__nccl_pair *p,
			   struct err *e)
{
	char text[DDP__CALL_TEXT];
	int rc;

	if (p->call.has_thread && !p->call.is_done)
		return 0;
	rc = p->call.has_thread ? pair_join(p) : pair_ask(p);
	if (rc == DDP__NCCL_IN_PROGRESS)
		return 0;
	return rc ? ddp__nccl_error(n, p->comm, rc,
				    pair_op_text(p->first, text), e)
		  : 1;
}

static int pair_connect(struct ddp__nccl *n, struct ddp__nccl_pair *p,
			struct err *e)
{
	int rc = pair_get_id(n, p, &p->call.id, e);
	char text[DDP__CALL_TEXT];

	if (rc <= 0)
		return rc;
	rc = ddp__cuda_check(n->cuda,
			     n->cuda->stream_create(&p->stream,
						    DDP__CUDA_NON_BLOCKING, 0),
			     "cudaStreamCreateWithPriority", e);
	if (rc)
		return rc;
	p->call.buf = NULL;
	rc = pair_begin(p, pair_op_text(p->first, text), e);
	if (!rc)
		p->state = MEETING;
	return rc;
}

/* ---- messages */

static int pair_start_first(struct ddp__nccl *n, struct ddp__nccl_pair *p,
			    struct err *e)
{
	struct ddp__nccl_op *op = p->first;
	const struct ddp__call *call = op->call;
	char text[DDP__CALL_TEXT];
	int rc = ddp__cuda_check(n->cuda,
				 n->cuda->stream_wait(p->stream, op->ready, 0),
				 "cudaStreamWaitEvent", e);

	if (rc)
		return rc;
	p->call.buf = op->buf;
	p->call.count = call->count;
	p->call.type = ddp__nccl_type(call->type);
	p->call.sends = pair_is_send(op);
	rc = pair_begin(p, pair_op_text(op, text), e);
	if (!rc)
		p->state = SENDING;
	return rc;
}

static int pair_end_first(struct ddp__nccl *n, struct ddp__nccl_pair *p,
			  struct err *e)
{
	int rc = ddp__cuda_check(n->cuda,
				 n->cuda->event_record(p->first->done,
						       p->stream),
				 "cudaEventRecord", e);

	if (rc)
		return rc;
	pair_pop(p);
	p->state = READY;
	return 0;
}

static int pair_push(struct ddp__nccl *n, struct ddp__nccl_pair *p,
		     struct err *e)
{
	int rc = 0;

	while (p->first && !rc) {
		switch (p->state) {
		case NEW:
			rc = pair_connect(n, p, e);
			if (!rc && p->state == NEW)
				return 0;
			break;
		case MEETING:
			rc = pair_is_settled(n, p, e);
			if (rc <= 0)
				return rc;
			p->state = READY;
			rc = 0;
			break;
		case READY:
			rc = pair_start_first(n, p, e);
			break;
		case SENDING:
			rc = pair_is_settled(n, p, e);
			if (rc <= 0)
				return rc;
			rc = pair_end_first(n, p, e);
			break;
		case SELF:
			return 0;
		}
	}
	return rc;
}

static int pair_copy(struct ddp__nccl *n, struct ddp__nccl_op *send,
		     struct ddp__nccl_op *recv, struct err *e)
{
	const struct ddp__cuda *cu = n->cuda;
	size_t size = send->call->count * ddp_type_size(send->call->type);
	char a[DDP__CALL_TEXT], b[DDP__CALL_TEXT];
	int rc;

	if (send->call->count != recv->call->count ||
	    send->call->type != recv->call->type)
		return err_set(e, ERR_ARGUMENT,
			       "%s does not match %s: both must have the same "
			       "count and type",
			       pair_op_text(recv, a), pair_op_text(send, b));
	rc = cu->stream_wait(n->stream, send->ready, 0);
	if (!rc)
		rc = cu->stream_wait(n->stream, recv->ready, 0);
	if (!rc && size)
		rc = cu->copy(recv->buf, send->buf, size, DDP__CUDA_COPY_ANY,
			      n->stream);
	if (!rc)
		rc = cu->event_record(send->done, n->stream);
	if (!rc)
		rc = cu->event_record(recv->done, n->stream);
	return ddp__cuda_check(cu, rc, "a message to this rank itself", e);
}

static int pair_push_self(struct ddp__nccl *n, struct err *e)
{
	struct ddp__nccl_pair *s = n->pairs[n->c->rank];
	struct ddp__nccl_pair *r = n->pairs[n->c->size + n->c->rank];
	int rc = 0;

	while (s && r && s->first && r->first && !rc) {
		rc = pair_copy(n, s->first, r->first, e);
		if (!rc) {
			pair_pop(s);
			pair_pop(r);
		}
	}
	return rc;
}

int ddp__nccl_push(struct ddp__nccl *n, struct err *e)
{
	int rc = 0;

	if (!n->pairs)
		return 0;
	for (int i = 0; i < 2 * n->c->size && !rc; i++)
		if (n->pairs[i] && n->pairs[i]->first)
			rc = pair_push(n, n->pairs[i], e);
	return rc ? rc : pair_push_self(n, e);
}

void ddp__nccl_pairs_abort(struct ddp__nccl *n, struct ddp__aborts *a)
{
	for (int i = 0; n->pairs && i < 2 * n->c->size; i++) {
		struct ddp__nccl_pair *p = n->pairs[i];

		if (!p)
			continue;
		if (p->call.has_thread && !atomic_exchange(&p->call.leave, 1)) {
			ddp__aborts_join(a, p->call.thread);
			p->call.has_thread = 0;
			continue;
		}
		if (p->call.has_thread)
			pair_join(p);
		if (p->comm) {
			ddp__aborts_add(a, p->comm);
			p->comm = NULL;
		}
	}
}

void ddp__nccl_pairs_free(struct ddp__nccl *n, int leave)
{
	struct ddp__aborts a;

	/* abort instead of an orderly end: the other rank may be gone, and
	 * every awaited message is done */
	if (n->pairs && !leave) {
		ddp__aborts_begin(&a, n->lib);
		ddp__nccl_pairs_abort(n, &a);
		ddp__aborts_end(&a);
	}
	for (int i = 0; n->pairs && i < 2 * n->c->size; i++) {
		struct ddp__nccl_pair *p = n->pairs[i];

		if (p && p->stream && !leave)
			n->cuda->stream_destroy(p->stream);
		free(p);
	}
	free(n->pairs);
	n->pairs = NULL;
}
