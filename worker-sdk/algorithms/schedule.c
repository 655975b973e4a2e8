/* schedule.c: chooses each collective's algorithm and prepares its schedule. */
#include "worker-sdk/algorithms/schedule.h"

#include <stdlib.h>

#include "worker-sdk/algorithms/schedule_internal.h"

enum {
	/* Up to this size one message to each other host is faster than a
	 * ring. */
	SMALL_MAX = 32 << 10,
	SMALL_TOTAL_MAX = 1 << 20,
	/* With two hosts, up to this size one exchange of the whole buffer is
	 * faster than two exchanges of halves. */
	EXCHANGE_MAX = 1 << 20
};

static void schedule_prepare(struct ddp__schedule *s, const struct ddp__path *p,
			     const struct ddp__call *call, void *buf,
			     int (*step)(struct ddp__schedule *s,
					 struct err *e))
{
	*s = (struct ddp__schedule){
		.transport = p->transport,
		.endpoint = p->collectives,
		.call = *call,
		.step = step,
		.buf = buf,
		.elem = ddp_type_size(call->type),
		.divisor = 1,
		.scaled = ddp__is_scaled(call->type, call->op)};
	p->transport->step.begin(s);
}

static int schedule_is_small(const struct ddp__schedule *s, size_t size)
{
	return size <= SMALL_MAX && size * (size_t)s->n <= SMALL_TOTAL_MAX;
}

void ddp__schedule_all_reduce(struct ddp__schedule *s,
			      const struct ddp__path *p,
			      const struct ddp__call *call, void *buf,
			      size_t count, int divisor)
{
	size_t size = count * ddp_type_size(call->type);

	schedule_prepare(s, p, call, buf, ddp__ring_all_reduce);
	s->count = count;
	s->divisor = divisor;
	if (s->n == 2 ? size <= EXCHANGE_MAX
		      : s->n <= DDP__DIRECT_HOSTS && schedule_is_small(s, size))
		s->step = ddp__direct_all_reduce;
	else if (schedule_is_small(s, size))
		s->step = ddp__doubling_all_reduce;
}

void ddp__schedule_reduce(struct ddp__schedule *s, const struct ddp__path *p,
			  const struct ddp__call *call, void *buf, size_t count,
			  int root, int divisor)
{
	schedule_prepare(s, p, call, buf, ddp__ring_reduce_to_root);
	s->count = count;
	s->root = root;
	s->divisor = divisor;
	if (schedule_is_small(s, count * s->elem))
		s->step = ddp__tree_reduce;
}

void ddp__schedule_reduce_scatter(struct ddp__schedule *s,
				  const struct ddp__path *p,
				  const struct ddp__call *call, void *buf,
				  const size_t *begin, int divisor)
{
	schedule_prepare(s, p, call, buf, ddp__ring_reduce_scatter);
	s->begin = begin;
	s->divisor = divisor;
	if (schedule_is_small(s, begin[s->n] * s->elem))
		s->step = ddp__direct_reduce_scatter;
}

void ddp__schedule_all_gather(struct ddp__schedule *s,
			      const struct ddp__path *p,
			      const struct ddp__call *call, void *buf,
			      const size_t *begin)
{
	schedule_prepare(s, p, call, buf, ddp__ring_all_gather);
	s->begin = begin;
	if (s->n == 2 || schedule_is_small(s, begin[s->n]))
		s->step = ddp__direct_all_gather;
}

void ddp__schedule_gather(struct ddp__schedule *s, const struct ddp__path *p,
			  const struct ddp__call *call, const void *mine,
			  void *all, const size_t *begin, int root)
{
	schedule_prepare(s, p, call, all, ddp__direct_gather);
	s->other = (char *)mine;
	s->begin = begin;
	s->root = root;
}

void ddp__schedule_scatter(struct ddp__schedule *s, const struct ddp__path *p,
			   const struct ddp__call *call, const void *all,
			   void *mine, const size_t *begin, int root)
{
	schedule_prepare(s, p, call, (void *)all, ddp__direct_scatter);
	s->other = mine;
	s->begin = begin;
	s->root = root;
}

void ddp__schedule_broadcast(struct ddp__schedule *s, const struct ddp__path *p,
			     const struct ddp__call *call, void *buf,
			     size_t size, int root)
{
	schedule_prepare(s, p, call, buf, ddp__ring_broadcast);
	s->count = size;
	s->root = root;
	if (schedule_is_small(s, size))
		s->step = ddp__tree_broadcast;
}

void ddp__schedule_all_to_all(struct ddp__schedule *s,
			      const struct ddp__path *p,
			      const struct ddp__call *call, const void *send,
			      const size_t *from, void *recv, const size_t *to)
{
	schedule_prepare(s, p, call, (void *)send, ddp__direct_all_to_all);
	s->begin = from;
	s->other = recv;
	s->other_begin = to;
}

void ddp__schedule_barrier(struct ddp__schedule *s, const struct ddp__path *p,
			   const struct ddp__call *call)
{
	schedule_prepare(s, p, call, NULL, ddp__doubling_barrier);
}

int ddp__schedule_advance(struct ddp__schedule *s, struct err *e)
{
	return s->transport->step.advance(s, e);
}

int ddp__schedule_run(struct ddp__schedule *s, struct err *e)
{
	int rc = s->transport->step.wait(s, e);

	ddp__schedule_release(s);
	return rc;
}

void ddp__schedule_release(struct ddp__schedule *s)
{
	if (s->transport)
		s->transport->step.release(s);
	free(s->ranges);
	s->ranges = NULL;
}
