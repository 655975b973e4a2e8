/* collective_v.c: the public collectives with a count for each rank: sums the
 * counts up, and checks them. Whether those of different ranks match is checked
 * where the ranks meet (shm/shm_collective_v.c, hierarchical_v.c). */
#include <stdlib.h>

#include "worker-sdk/comm/collective.h"
#include "worker-sdk/core/call.h"
#include "worker-sdk/core/last_error.h"

/* ---- checks */

static const char *v_counts_name(const struct ddp__use *u, int sends)
{
	if (u->call.kind != DDP__ALL_TO_ALL_V)
		return "counts";
	return sends ? "send_counts" : "recv_counts";
}

static int v_check_counts(const struct ddp_comm *c, const struct ddp__use *u,
			  const size_t *begin, int sends, struct err *e)
{
	const char *name = v_counts_name(u, sends);

	if (!begin)
		return ddp__refuse_use(&u->call, e, "%s is NULL", name);
	/* a negative count is a very large one here */
	if (begin[c->size] > DDP__COUNT_MAX)
		return ddp__refuse_use(&u->call, e,
				       "%s: too many elements: at most %zu in "
				       "all", name, DDP__COUNT_MAX);
	return 0;
}

/* In place, each rank's own block is at the same address in send and recv,
 * which all_to_all_v does not allow: blocks move. */
static int v_check_buffers(const struct ddp__use *u, size_t sends,
			   size_t receives, size_t own, struct err *e)
{
	size_t elem = ddp_type_size(u->call.type);
	uintptr_t s = (uintptr_t)u->send, r = (uintptr_t)u->recv;

	if ((sends && !s) || (receives && !r))
		return ddp__refuse_use(&u->call, e, "a buffer is NULL");
	if (!sends || !receives || s + sends * elem <= r ||
	    r + receives * elem <= s)
		return 0;
	if ((u->call.kind == DDP__ALL_GATHER_V && s == r + own * elem) ||
	    (u->call.kind == DDP__REDUCE_SCATTER_V && r == s + own * elem))
		return 0;
	return ddp__refuse_use(&u->call, e, "send and recv overlap%s",
			       u->call.kind == DDP__ALL_TO_ALL_V
				       ? ""
				       : " in a way that ddp.h does not allow");
}

int ddp__check_v(const struct ddp_comm *c, const struct ddp__use *u,
		 struct err *e)
{
	const struct ddp__counts *v = u->call.counts;
	int me = c->rank, rc = ddp__check_use(c, u, 1, e);
	size_t sends, receives;

	if (!rc)
		rc = ddp__check_op(&u->call, e);
	if (!rc)
		rc = v_check_counts(c, u, v->send, 1, e);
	if (!rc)
		rc = v_check_counts(c, u, v->recv, 0, e);
	if (rc)
		return rc;
	sends = ddp__count_of(v->send, me);
	receives = ddp__count_of(v->recv, me);
	if (sends != receives)
		return ddp__refuse_use(&u->call, e,
				       "send_counts[%d] is %zu and "
				       "recv_counts[%d] is %zu, but this is "
				       "rank %d itself",
				       me, sends, me, receives, me);
	if (u->call.kind != DDP__ALL_GATHER_V)
		sends = v->send[v->n];
	if (u->call.kind != DDP__REDUCE_SCATTER_V)
		receives = v->recv[v->n];
	return v_check_buffers(u, sends, receives, v->recv[me], e);
}

/* ---- the calls */

static int v_size(const ddp_comm *c)
{
	return c && c->magic == DDP__ALIVE ? c->size : 1;
}

/* NULL for send_counts: as recv_counts. */
static int collective_v(ddp_comm *c, struct ddp__use *u,
			const size_t *send_counts, const size_t *recv_counts,
			ddp_request **request)
{
	int same = u->call.kind != DDP__ALL_TO_ALL_V, n = v_size(c), rc;
	size_t *begin = malloc(2 * ((size_t)n + 1) * sizeof(*begin));
	size_t *sends = same ? begin : begin + n + 1;
	struct ddp__counts v = {.n = n};

	if (!begin)
		return err_no_memory(ddp__last_error(), "the counts of %d "
				     "ranks", n);
	if (recv_counts) {
		ddp__counts_begin(begin, recv_counts, n);
		v.recv = begin;
		v.digest = ddp__counts_digest(begin, n);
	}
	if (send_counts) {
		if (!same)
			ddp__counts_begin(sends, send_counts, n);
		v.send = sends;
	}
	/* a rank without data passes both: nccl finds the memory by them */
	u->send_parts = !v.send || !v.recv || sends[n] || !begin[n];
	u->recv_parts = !v.send || !v.recv || begin[n] || !sends[n];
	u->call.counts = &v;
	rc = ddp__collective(c, u, request);
	free(begin);
	return rc;
}

int ddp_all_gather_v_async(ddp_comm *c, const void *send, void *recv,
			   const size_t *counts, enum ddp_type type,
			   ddp_request **request)
{
	struct ddp__use u = {.call = {.kind = DDP__ALL_GATHER_V, .type = type},
			     .send = send, .recv = recv};

	return collective_v(c, &u, counts, counts, request);
}

int ddp_all_gather_v(ddp_comm *c, const void *send, void *recv,
		     const size_t *counts, enum ddp_type type)
{
	return ddp_all_gather_v_async(c, send, recv, counts, type,
				      &ddp__blocking);
}

int ddp_reduce_scatter_v_async(ddp_comm *c, const void *send, void *recv,
			       const size_t *counts, enum ddp_type type,
			       enum ddp_op op, ddp_request **request)
{
	struct ddp__use u = {.call = {.kind = DDP__REDUCE_SCATTER_V,
				      .type = type, .op = op},
			     .send = send, .recv = recv};

	return collective_v(c, &u, counts, counts, request);
}

int ddp_reduce_scatter_v(ddp_comm *c, const void *send, void *recv,
			 const size_t *counts, enum ddp_type type,
			 enum ddp_op op)
{
	return ddp_reduce_scatter_v_async(c, send, recv, counts, type, op,
					  &ddp__blocking);
}

int ddp_all_to_all_v_async(ddp_comm *c, const void *send,
			   const size_t *send_counts, void *recv,
			   const size_t *recv_counts, enum ddp_type type,
			   ddp_request **request)
{
	struct ddp__use u = {.call = {.kind = DDP__ALL_TO_ALL_V, .type = type},
			     .send = send, .recv = recv};

	return collective_v(c, &u, send_counts, recv_counts, request);
}

int ddp_all_to_all_v(ddp_comm *c, const void *send, const size_t *send_counts,
		     void *recv, const size_t *recv_counts, enum ddp_type type)
{
	return ddp_all_to_all_v_async(c, send, send_counts, recv, recv_counts,
				      type, &ddp__blocking);
}
