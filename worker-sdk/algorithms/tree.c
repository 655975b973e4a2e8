/* tree.c: binomial trees towards a root and away from it, for small data. */
#include "worker-sdk/algorithms/schedule_internal.h"

/* A host that has sent its sum is finished. */
int ddp__tree_reduce(struct ddp__schedule *s, struct err *e)
{
	int me = s->me, n = s->n, mask = 1 << s->turn, rc;
	int id = host_at(s, me - s->root);

	if (s->turn == 0) {
		rc = step_scratch(s, s->count * s->elem, e);
		if (rc)
			return rc;
	} else if (id & mask / 2) {
		return 1;
	} else if (id + mask / 2 < n) {
		int here = mask / 2, there = n - id - here;

		step_combine_two(s, s->buf, ranks_from(s, me, here), s->scratch,
				 ranks_from(s, host_at(s, me + here),
					    there < here ? there : here),
				 mask >= n);
	}
	if (mask >= n)
		return 1;
	rc = step_reserve(s, 1, 1, e);
	if (rc)
		return rc;
	if (id & mask)
		step_exchange(s, host_at(s, s->me - mask), -1);
	else if (id + mask < n)
		step_exchange(s, -1, host_at(s, s->me + mask));
	return 0;
}

/* Host id receives from the id without its lowest bit. */
int ddp__tree_broadcast(struct ddp__schedule *s, struct err *e)
{
	int me = s->me, n = s->n, id = host_at(s, me - s->root);
	int rc = s->turn ? 1 : step_reserve(s, 33, 33, e), low = 1;
	void *in = NULL;

	if (rc)
		return rc;
	while (id ? !(id & low) : low < n)
		low *= 2;
	if (id)
		in = step_recv(s, host_at(s, me - low), s->buf, s->count);
	for (low /= 2; low; low /= 2)
		if (id + low < n)
			step_send(s, host_at(s, me + low), s->buf, s->count,
				  in);
	return 0;
}
