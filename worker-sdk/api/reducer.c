/* reducer.c: a step of the reducer: buckets start when they are ready, in one
 * order on all ranks, and complete in that order. */
#include "worker-sdk/api/reducer.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "worker-sdk/comm/call_guard.h"
#include "worker-sdk/comm/request.h"
#include "worker-sdk/core/last_error.h"
#include "worker-sdk/math/copy.h"
#include "worker-sdk/nccl/nccl_backend.h"

enum {
	FIRST_BUCKET = 1 << 20,
	BUCKET = 25 << 20,
	/* No computation overlaps with the last bucket, so it should be a small
	 * part of the whole. */
	BUCKETS_MIN = 16,
	/* Spans of at least this many bytes are buckets of their own: copying
	 * them costs more than another call, which is cheap within a host. */
	SPAN_ALONE = 256 << 10,
	SPAN_ALONE_IN_HOST = 64 << 10
};

/* ---- Making a reducer ---- */

static int reducer_check(const struct ddp_reducer *r, const size_t *counts,
			 int n, struct err *e)
{
	if (n < 0 || (n && !counts))
		return err_set(e, ERR_ARGUMENT, "ddp_reducer_new: %s",
			       n < 0 ? "n is negative" : "counts is NULL");
	if (r->type != DDP_F32 && r->type != DDP_F64)
		return err_set(e, ERR_ARGUMENT, "ddp_reducer_new: gradients "
			       "are f32 or f64, not type %d", (int)r->type);
	if (r->o.bf16 && r->type != DDP_F32)
		return err_set(e, ERR_ARGUMENT, "ddp_reducer_new: bf16 is for "
			       "f32 gradients");
	if ((r->o.find_unused || r->apart) && r->c->backend != &ddp__cpu)
		return err_set(e, ERR_ARGUMENT, "ddp_reducer_new: %s needs the "
			       "backend cpu, with gradients in the host's "
			       "memory", r->o.find_unused
						 ? "find_unused"
						 : "an array of spans");
	return 0;
}

/* Bytes of each bucket after the first. */
static size_t reducer_later_bucket(const struct ddp_reducer *r,
				   const size_t *counts, int n)
{
	size_t total = 0, least = r->o.first_bucket;

	for (int i = 0; i < n && total < (size_t)BUCKET * BUCKETS_MIN; i++)
		total += counts[i] * r->element;
	total /= BUCKETS_MIN;
	if (total < least)
		total = least;
	return total < BUCKET ? total : BUCKET;
}

/* Gradients with at least this many elements get a bucket of their own. */
static size_t reducer_span_alone(const struct ddp_reducer *r)
{
	if (!r->apart)
		return SIZE_MAX;
	return (r->c->topology.nhosts > 1 ? SPAN_ALONE : SPAN_ALONE_IN_HOST) /
	       r->element;
}

static int reducer_set_up(struct ddp_reducer *r, const size_t *counts, int n,
			  struct err *e)
{
	size_t params = (size_t)n + 1, total;
	int rc = reducer_check(r, counts, n, e);

	if (rc)
		return rc;
	if (!r->o.bucket)
		r->o.bucket = reducer_later_bucket(r, counts, n);
	rc = ddp__buckets_init(&r->b, counts, n, r->o.first_bucket / r->element,
			       r->o.bucket / r->element, reducer_span_alone(r));
	if (rc == -EOVERFLOW)
		return err_set(e, ERR_ARGUMENT, "ddp_reducer_new: more "
			       "elements than memory can hold");
	total = rc ? 0 : r->b.at[n];
	if (total && !r->grads && !r->apart)
		return err_set(e, ERR_ARGUMENT, "ddp_reducer_new: grads is "
			       "NULL");
	r->requests = calloc(params, sizeof(*r->requests));
	r->mine = calloc(params, 1);
	r->used = calloc(params, 1);
	if (rc || !r->requests || !r->mine || !r->used ||
	    ddp__reducer_memory_init(r))
		return err_no_memory(e, "ddp_reducer_new: %d parameters", n);
	return ddp__reducer_use_gpu(r, e);
}

/* On GPUs buckets share the program's communicator: each bucket starts in the
 * call of ready that completes it, independent of timing, and a second NCCL
 * communicator would take much GPU memory. */
static int reducer_make_comm(struct ddp_reducer *r)
{
	ddp_comm *own;
	int rc;

	if (!r->c->state || r->c->backend != &ddp__cpu)
		return 0;
	rc = ddp__comm_new_for_reducer(r->c, &own);
	if (rc)
		return rc;
	r->c = own;
	r->owns_c = 1;
	own->kept_at = &r->c;
	return 0;
}

static void reducer_release(struct ddp_reducer *r)
{
	if (r->owns_c && r->c)
		ddp__comm_free(r->c);
	else if (!r->owns_c)
		ddp__nccl_deregister(r->c, r->registration);
	ddp__reducer_memory_release(r);
	ddp__reducer_norms_free(r);
	ddp__buckets_release(&r->b);
	free(r->requests);
	free(r->mine);
	free(r->used);
	free(r->kept);
	free(r);
}

/* Completes r, which has its type and its arena or spans. ours: this rank's
 * error in them, if any. */
static int reducer_make(ddp_reducer **out, struct ddp_reducer *r, ddp_comm *c,
			const size_t *counts, int n,
			const struct ddp_reducer_options *options,
			struct err *ours)
{
	int rc;

	r->c = c;
	r->op = DDP_AVG;
	r->element = ddp_type_size(r->type);
	if (options)
		r->o = *options;
	if (!r->o.first_bucket)
		r->o.first_bucket = FIRST_BUCKET;
	r->alone = !c->state && !r->o.hook;
	if (!ours->code)
		reducer_set_up(r, counts, n, ours);
	rc = ddp__reducer_agree(c, r, counts, n, ours);
	if (!rc)
		rc = reducer_make_comm(r);
	if (rc)
		reducer_release(r);
	else
		*out = r;
	return rc;
}

static int reducer_check_new(ddp_reducer **out, ddp_comm *c, const char *what,
			     struct ddp_reducer **r)
{
	struct err *e = ddp__last_error();
	int rc;

	if (!out)
		return err_set(e, ERR_ARGUMENT, "%s: r is NULL", what);
	*out = NULL;
	rc = ddp__check_comm(c, what, e);
	if (rc)
		return rc;
	*r = calloc(1, sizeof(**r));
	return *r ? 0 : err_no_memory(e, "%s", what);
}

int ddp_reducer_new(ddp_reducer **out, ddp_comm *c, void *grads,
		    enum ddp_type type, const size_t *counts, int n,
		    const struct ddp_reducer_options *options)
{
	struct err ours = ERR_INIT;
	struct ddp_reducer *r;
	int rc = reducer_check_new(out, c, "ddp_reducer_new", &r);

	if (rc)
		return rc;
	r->type = type;
	r->grads = grads;
	return reducer_make(out, r, c, counts, n, options, &ours);
}

static int reducer_use_spans(struct ddp_reducer *r,
			     const struct ddp_span *spans, int n,
			     size_t **counts, struct err *e)
{
	size_t room = (size_t)(n > 0 ? n : 0) + 1;

	if (n < 0 || (n && !spans))
		return err_set(e, ERR_ARGUMENT, "ddp_reducer_new_spans: %s",
			       n < 0 ? "n is negative" : "spans is NULL");
	*counts = calloc(room, sizeof(**counts));
	r->data = calloc(room, sizeof(*r->data));
	if (!*counts || !r->data)
		return err_no_memory(e, "ddp_reducer_new_spans: %d spans", n);
	r->type = n ? spans[0].type : DDP_F32;
	for (int i = 0; i < n; i++) {
		if (spans[i].type != r->type)
			return err_set(e, ERR_ARGUMENT, "ddp_reducer_new_spans:"
				       " span %d is of type %d, span 0 of type "
				       "%d: give all the same type", i,
				       (int)spans[i].type, (int)r->type);
		if (spans[i].count && !spans[i].data)
			return err_set(e, ERR_ARGUMENT, "ddp_reducer_new_spans:"
				       " span %d: data is NULL", i);
		r->data[i] = spans[i].data;
		(*counts)[i] = spans[i].count;
	}
	return 0;
}

int ddp_reducer_new_spans(ddp_reducer **out, ddp_comm *c,
			  const struct ddp_span *spans, int n,
			  const struct ddp_reducer_options *options)
{
	struct err ours = ERR_INIT;
	struct ddp_reducer *r;
	size_t *counts = NULL;
	int rc = reducer_check_new(out, c, "ddp_reducer_new_spans", &r);

	if (rc)
		return rc;
	r->apart = 1;
	reducer_use_spans(r, spans, n, &counts, &ours);
	rc = reducer_make(out, r, c, counts, n, options, &ours);
	free(counts);
	return rc;
}

void ddp_reducer_free(ddp_reducer *r)
{
	if (!r)
		return;
	/* operations under way write to the arena until they end */
	ddp_wait_all(r->requests, r->b.taken);
	reducer_release(r);
}

/* ---- One bucket ---- */

static int reducer_fail(struct ddp_reducer *r)
{
	r->state = REDUCER_FAILED;
	r->failed = *ddp__last_error();
	return r->failed.code;
}

static int reducer_call_hook(struct ddp_reducer *r, int k, void *data,
			     size_t count, enum ddp_type type)
{
	struct err *e = ddp__last_error();
	int rc;

	*e = (struct err)ERR_INIT;
	rc = r->o.hook(r->o.hook_arg, r->c, data, count, type, &r->requests[k]);
	if (rc < 0 && e->code != rc)
		err_set(e, rc, "the reducer's hook returned %d for bucket %d",
			rc, k);
	return rc < 0 ? rc : 0;
}

/* 1 for the last bucket when no other is under way: finish then runs it as a
 * blocking call, which wakes sooner than a request, and there is nothing to
 * overlap with. */
static int reducer_is_held(const struct ddp_reducer *r, int k)
{
	return k == r->b.count - 1 && r->landed == k && !r->o.hook &&
	       r->c->backend == &ddp__cpu;
}

static int reducer_begin_bucket(struct ddp_reducer *r, int k)
{
	size_t count = r->b.list[k].count;
	enum ddp_type type;
	void *data;
	int rc;

	if (r->alone || !count)
		return 0;
	if (reducer_is_held(r, k)) {
		r->held = 1;
		return 0;
	}
	data = ddp__reducer_load(r, k, &type);
	if (!data)
		return reducer_fail(r);
	if (r->o.hook)
		rc = reducer_call_hook(r, k, data, count, type);
	else
		rc = ddp_all_reduce_async(r->c, data, data, count, type, r->op,
					  &r->requests[k]);
	return rc < 0 ? reducer_fail(r) : 0;
}

static int reducer_run_held(struct ddp_reducer *r)
{
	enum ddp_type type;
	void *data;
	int k = r->b.count - 1;

	if (!r->held)
		return 0;
	r->held = 0;
	data = ddp__reducer_load(r, k, &type);
	if (ddp_all_reduce(r->c, data, data, r->b.list[k].count, type,
			   r->op) < 0)
		return reducer_fail(r);
	return 0;
}

static int reducer_begin_ready(struct ddp_reducer *r)
{
	int k, rc = 0;

	while (!rc && (k = ddp__buckets_take(&r->b)) >= 0)
		rc = reducer_begin_bucket(r, k);
	return rc;
}

static int reducer_land(struct ddp_reducer *r)
{
	if (ddp_wait(&r->requests[r->landed]) < 0)
		return reducer_fail(r);
	return ddp__reducer_land(r, r->landed++) ? reducer_fail(r) : 0;
}

/* Completes the buckets whose operations have ended. */
static int reducer_land_ended(struct ddp_reducer *r)
{
	int rc = 0;

	while (!rc && r->landed < r->b.taken && !r->held) {
		ddp_request *request = r->requests[r->landed];

		if (request && ddp__request_test(request) == 0)
			return 0;
		rc = reducer_land(r);
	}
	return rc;
}

/* Completes all started buckets. They end in order, so waiting for one is
 * waiting for those before it: this thread and the progress thread switch once,
 * not for each bucket. */
static int reducer_land_all(struct ddp_reducer *r)
{
	int rc = 0;

	while (!rc && r->landed < r->b.taken) {
		int k = r->landed;

		while (!r->o.hook && k + 1 < r->b.taken &&
		       !ddp__reducer_is_copied(r, k))
			k++;
		if (ddp_wait(&r->requests[k]) < 0)
			return reducer_fail(r);
		while (!rc && r->landed <= k)
			rc = reducer_land(r);
	}
	return rc;
}

/* ---- A step ---- */

static int reducer_check_state(ddp_reducer *r, const char *what)
{
	if (!r)
		return err_set(ddp__last_error(), ERR_ARGUMENT,
			       "%s: the reducer is NULL", what);
	if (!r->c)
		return err_set(ddp__last_error(), ERR_ARGUMENT,
			       "%s: the reducer's world was finalized", what);
	if (r->state != REDUCER_FAILED)
		return 0;
	*ddp__last_error() = r->failed;
	return r->failed.code;
}

int ddp_reducer_begin(ddp_reducer *r, int sync)
{
	int rc = reducer_check_state(r, "ddp_reducer_begin");

	if (rc)
		return rc;
	if (r->state == REDUCER_SYNC)
		return err_set(ddp__last_error(), ERR_ARGUMENT,
			       "ddp_reducer_begin: the previous step was not "
			       "finished: call ddp_reducer_finish");
	r->state = sync ? REDUCER_SYNC : REDUCER_LOCAL;
	if (sync) {
		ddp__buckets_reset(&r->b);
		ddp__reducer_reset_norms(r);
		r->landed = 0;
	}
	return 0;
}

int ddp_reducer_ready(ddp_reducer *r, int i)
{
	struct err *e = ddp__last_error();
	int rc = reducer_check_state(r, "ddp_reducer_ready");

	if (rc)
		return rc;
	if (i < 0 || i >= r->b.n)
		return err_set(e, ERR_ARGUMENT, "ddp_reducer_ready: parameter "
			       "%d does not exist: the reducer has %d", i,
			       r->b.n);
	if (r->state == REDUCER_IDLE)
		return err_set(e, ERR_ARGUMENT, "ddp_reducer_ready: parameter "
			       "%d: no step was begun: call ddp_reducer_begin",
			       i);
	r->mine[i] = 1;
	if (r->state == REDUCER_LOCAL)
		return 0;
	if (!ddp__buckets_ready(&r->b, i))
		return err_set(
			e, ERR_ARGUMENT,
			"ddp_reducer_ready: parameter %d is already ready in "
			"this step; its gradient may already be in transit",
			i);
	if (r->checks_finite && !r->not_finite &&
	    !ddp__reducer_is_finite(r, i))
		r->not_finite = i + 1;
	ddp__reducer_note_norm(r, i);
	rc = reducer_begin_ready(r);
	return rc ? rc : reducer_land_ended(r);
}

/* ---- Unused parameters ---- */

static size_t reducer_grad_size(const struct ddp_reducer *r, int i)
{
	return (r->b.at[i + 1] - r->b.at[i]) * r->element;
}

static char *reducer_grad(const struct ddp_reducer *r, int i)
{
	return r->data[i];
}

/* Parameters that this rank did not use count as zeros; their gradients are
 * saved, as no other rank may have used them either. */
static int reducer_zero_unused(struct ddp_reducer *r)
{
	size_t size = 0;
	int rc = 0;

	for (int i = 0; i < r->b.n; i++)
		if (!r->mine[i])
			size += reducer_grad_size(r, i);
	if (size) {
		free(r->kept);
		r->kept = malloc(size);
	}
	if (size && !r->kept) {
		err_no_memory(ddp__last_error(), "ddp_reducer_finish: %zu "
			      "bytes of unused gradients", size);
		return reducer_fail(r);
	}
	size = 0;
	for (int i = r->b.n - 1; i >= 0 && !rc; i--) {
		if (!r->mine[i] && reducer_grad_size(r, i)) {
			ddp__copy_plain(r->kept + size, reducer_grad(r, i),
					reducer_grad_size(r, i));
			memset(reducer_grad(r, i), 0, reducer_grad_size(r, i));
			size += reducer_grad_size(r, i);
		}
		ddp__buckets_ready(&r->b, i);
		rc = reducer_begin_ready(r);
	}
	return rc;
}

/* Collective, after the buckets: finds the parameters that any rank used. */
static int reducer_agree_on_used(struct ddp_reducer *r)
{
	memcpy(r->used, r->mine, (size_t)r->b.n);
	if (r->b.n && ddp_all_reduce(r->c, r->used, r->used, (size_t)r->b.n,
				     DDP_U8, DDP_MAX) < 0)
		return reducer_fail(r);
	return 0;
}

static void reducer_restore_unused(struct ddp_reducer *r)
{
	size_t at = 0;

	for (int i = r->b.n - 1; i >= 0; i--) {
		if (r->mine[i])
			continue;
		if (!r->used[i] && reducer_grad_size(r, i))
			ddp__copy_plain(reducer_grad(r, i), r->kept + at,
					reducer_grad_size(r, i));
		at += reducer_grad_size(r, i);
	}
}

static int reducer_check_all_ready(struct ddp_reducer *r)
{
	for (int i = r->b.n - 1; i >= 0; i--)
		if (!r->b.ready[i])
			return err_set(ddp__last_error(), ERR_ARGUMENT,
				       "ddp_reducer_finish: parameter %d was "
				       "not ready; if a step may leave "
				       "parameters unused, set find_unused",
				       i);
	return 0;
}

static int reducer_end_check(struct ddp_reducer *r)
{
	int rc = r->checks_finite ? ddp__reducer_agree_finite(r) : 0;

	if (!rc && r->norms)
		rc = ddp__reducer_agree_norms(r);
	return rc && rc != ERR_DATA ? reducer_fail(r) : rc;
}

int ddp_reducer_finish(ddp_reducer *r)
{
	int rc = reducer_check_state(r, "ddp_reducer_finish");

	if (rc)
		return rc;
	if (r->state == REDUCER_IDLE)
		return err_set(ddp__last_error(), ERR_ARGUMENT,
			       "ddp_reducer_finish: no step was begun: call "
			       "ddp_reducer_begin");
	if (r->state == REDUCER_LOCAL) {
		r->state = REDUCER_IDLE;
		return 0;
	}
	rc = r->o.find_unused ? reducer_zero_unused(r)
			      : reducer_check_all_ready(r);
	if (!rc)
		rc = reducer_run_held(r);
	if (!rc && r->o.find_unused)
		rc = reducer_agree_on_used(r);
	if (!rc)
		rc = reducer_land_all(r);
	if (!rc && r->converts &&
	    ddp__nccl_bf16_wait(r->converts, ddp__last_error()))
		rc = reducer_fail(r);
	if (rc)
		return rc;
	if (r->o.find_unused)
		reducer_restore_unused(r);
	memset(r->mine, 0, (size_t)r->b.n);
	r->state = REDUCER_IDLE;
	return reducer_end_check(r);
}

int ddp_reducer_use_sums(ddp_reducer *r, int on)
{
	struct err *e = ddp__last_error();

	if (!r)
		return err_set(e, ERR_ARGUMENT, "ddp_reducer_use_sums: the "
			       "reducer is NULL");
	if (r->state == REDUCER_SYNC)
		return err_set(e, ERR_ARGUMENT, "ddp_reducer_use_sums: a step "
			       "is under way: call it before "
			       "ddp_reducer_begin");
	r->op = on ? DDP_SUM : DDP_AVG;
	return 0;
}

int ddp_reducer_used(const ddp_reducer *r, int i)
{
	if (!r || i < 0 || i >= r->b.n)
		return err_set(ddp__last_error(), ERR_ARGUMENT,
			       "ddp_reducer_used: there is no parameter %d", i);
	return r->o.find_unused ? r->used[i] : 1;
}
