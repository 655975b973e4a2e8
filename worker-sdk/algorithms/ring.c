/* ring.c: collectives that pass blocks around a ring of hosts. They put the
 * fewest bytes on each link, so large data uses them. */
#include <stdlib.h>

#include "worker-sdk/algorithms/schedule_internal.h"

/* Block b starts at host b + 1, collects each host's part on its way around the
 * ring, and ends, reduced, at host b. Returns the message that completes this
 * host's block. Each byte is sent on as soon as it has been reduced. */
static void *ring_reduce(struct ddp__schedule *s)
{
	int me = s->me, n = s->n;
	void *in = NULL;

	for (int turn = 0; turn < n - 1; turn++) {
		int out = host_at(s, me - turn - 1), own = host_at(s, out - 1);

		/* the arriving data is the sum of hosts out to me - 1 */
		step_send(s, host_at(s, me + 1), block_at(s, out, s->elem),
			  block_size(s, out, s->elem), in);
		in = step_fold(s, host_at(s, me - 1), block_at(s, own, s->elem),
			       block_size(s, own, s->elem),
			       ranks_from(s, out, turn + 1), turn == n - 2);
	}
	return in;
}

/* mine: the message that completes this host's block; NULL: the block is
 * complete. */
static void ring_gather(struct ddp__schedule *s, size_t unit, void *mine)
{
	int me = s->me;
	void *in = mine;

	for (int turn = 0; turn < s->n - 1; turn++) {
		int out = host_at(s, me - turn), other = host_at(s, out - 1);

		step_send(s, host_at(s, me + 1), block_at(s, out, unit),
			  block_size(s, out, unit), in);
		in = step_recv(s, host_at(s, me - 1), block_at(s, other, unit),
			       block_size(s, other, unit));
	}
}

/* Cuts the buffer into blocks of whole cache lines; the last blocks may be
 * short or empty. */
static int ring_cut(struct ddp__schedule *s, struct err *e)
{
	size_t n = (size_t)s->n, lines = 64 / s->elem, each;
	size_t *begin = malloc((n + 1) * sizeof(*begin));

	if (!begin)
		return err_no_memory(e, "%zu hosts", n);
	each = ((s->count + n - 1) / n + lines - 1) / lines * lines;
	for (size_t h = 0; h <= n; h++)
		begin[h] = h * each < s->count ? h * each : s->count;
	s->begin = s->ranges = begin;
	return 0;
}

int ddp__ring_all_reduce(struct ddp__schedule *s, struct err *e)
{
	int rc = s->turn ? 1 : ring_cut(s, e);

	if (!rc)
		rc = step_reserve(s, 4 * s->n, 2, e);
	if (!rc)
		ring_gather(s, s->elem, ring_reduce(s));
	return rc;
}

int ddp__ring_reduce_to_root(struct ddp__schedule *s, struct err *e)
{
	void *mine;
	int me = s->me, rc = s->turn ? 1 : ring_cut(s, e);

	if (!rc)
		rc = step_reserve(s, 3 * s->n, s->n + 2, e);
	if (rc)
		return rc;
	mine = ring_reduce(s);
	if (me != s->root)
		step_send(s, s->root, block_at(s, me, s->elem),
			  block_size(s, me, s->elem), mine);
	for (int h = 0; h < s->n && me == s->root; h++)
		if (h != me)
			step_recv(s, h, block_at(s, h, s->elem),
				  block_size(s, h, s->elem));
	return 0;
}

int ddp__ring_reduce_scatter(struct ddp__schedule *s, struct err *e)
{
	int rc = s->turn ? 1 : step_reserve(s, 2 * s->n, 2, e);

	if (!rc)
		ring_reduce(s);
	return rc;
}

int ddp__ring_all_gather(struct ddp__schedule *s, struct err *e)
{
	int rc = s->turn ? 1 : step_reserve(s, 2 * s->n, 2, e);

	if (!rc)
		ring_gather(s, 1, NULL);
	return rc;
}

/* Sends along a chain that starts at the root: each byte is sent on as it
 * arrives. */
int ddp__ring_broadcast(struct ddp__schedule *s, struct err *e)
{
	int next = host_at(s, s->me + 1);
	int rc = s->turn ? 1 : step_reserve(s, 2, 2, e);
	void *in = NULL;

	if (rc)
		return rc;
	if (s->me != s->root)
		in = step_recv(s, host_at(s, s->me - 1), s->buf, s->count);
	if (next != s->root)
		step_send(s, next, s->buf, s->count, in);
	return 0;
}
