/* direct.c: each host sends directly to the hosts that need its block. */

#include "worker-sdk/algorithms/schedule_internal.h"
#include "worker-sdk/math/copy.h"

enum { AT_ONCE = 8 }; /* peers that an all_to_all serves at a time */

/* Collects all hosts' buffers side by side and reduces them in host order. */
int ddp__direct_all_reduce(struct ddp__schedule *s, struct err *e)
{
	size_t size = s->count * s->elem;
	const void *src[DDP__DIRECT_HOSTS];
	int me = s->me, n = s->n, rc;

	if (s->turn == 0) {
		rc = step_scratch(s, size * (size_t)n, e);
		if (!rc)
			rc = step_reserve(s, 2 * n, 2 * n, e);
		for (int h = 0; h < n && !rc; h++) {
			if (h == me)
				continue;
			step_send(s, h, s->buf, size, NULL);
			step_recv(s, h, s->scratch + (size_t)h * size, size);
		}
		return rc;
	}
	for (int h = 0; h < n; h++)
		src[h] = h == me ? s->buf : s->scratch + (size_t)h * size;
	/* The result may be stored over one of the first two sources. */
	step_combine(s, me ? s->scratch : s->buf, src, s->ranks, n, s->count,
		     1);
	if (me)
		ddp__copy_plain(s->buf, s->scratch, size);
	return 1;
}

/* Sends each block to its owner, which reduces in host order. */
int ddp__direct_reduce_scatter(struct ddp__schedule *s, struct err *e)
{
	int me = s->me, n = s->n, rc;
	size_t size = block_size(s, me, s->elem), count = size / s->elem;
	size_t pointers = (size_t)n * sizeof(void *);
	const void **src;
	char *in;

	if (s->turn == 0) {
		rc = step_scratch(s, pointers + size * (size_t)n, e);
		if (!rc)
			rc = step_reserve(s, 2 * n, 2 * n, e);
		for (int h = 0; h < n && !rc; h++) {
			if (h == me)
				continue;
			in = s->scratch + pointers + (size_t)h * size;
			step_send(s, h, block_at(s, h, s->elem),
				  block_size(s, h, s->elem), NULL);
			step_recv(s, h, in, size);
		}
		return rc;
	}
	src = (const void **)(void *)s->scratch;
	for (int h = 0; h < n; h++)
		src[h] = h == me ? block_at(s, me, s->elem)
				 : s->scratch + pointers + (size_t)h * size;
	step_combine(s, (void *)src[0], src, s->ranks, n, count, 1);
	if (me)
		ddp__copy_plain(block_at(s, me, s->elem), src[0], size);
	return 1;
}

int ddp__direct_all_gather(struct ddp__schedule *s, struct err *e)
{
	int me = s->me, n = s->n;
	int rc = s->turn ? 1 : step_reserve(s, 2 * n, 2 * n, e);

	for (int h = 0; h < n && !rc; h++) {
		if (h == me)
			continue;
		step_send(s, h, block_at(s, me, 1), block_size(s, me, 1), NULL);
		step_recv(s, h, block_at(s, h, 1), block_size(s, h, 1));
	}
	return rc;
}

int ddp__direct_gather(struct ddp__schedule *s, struct err *e)
{
	int me = s->me, n = s->n;
	int rc = s->turn ? 1 : step_reserve(s, n, n, e);

	if (!rc && me != s->root)
		step_send(s, s->root, s->other, block_size(s, me, 1), NULL);
	for (int h = 0; h < n && !rc && me == s->root; h++)
		if (h != me)
			step_recv(s, h, block_at(s, h, 1), block_size(s, h, 1));
	return rc;
}

int ddp__direct_scatter(struct ddp__schedule *s, struct err *e)
{
	int me = s->me, n = s->n;
	int rc = s->turn ? 1 : step_reserve(s, n, n, e);

	if (!rc && me != s->root)
		step_recv(s, s->root, s->other, block_size(s, me, 1));
	for (int h = 0; h < n && !rc && me == s->root; h++)
		if (h != me)
			step_send(s, h, block_at(s, h, 1), block_size(s, h, 1),
				  NULL);
	return rc;
}

/* In each turn a host serves the next AT_ONCE hosts after it, so that no host
 * is flooded. */
int ddp__direct_all_to_all(struct ddp__schedule *s, struct err *e)
{
	int me = s->me, first = s->turn * AT_ONCE + 1, rc;

	if (first >= s->n)
		return 1;
	rc = step_reserve(s, 2 * AT_ONCE, 2 * AT_ONCE, e);
	for (int k = first; k < first + AT_ONCE && k < s->n && !rc; k++) {
		int out = host_at(s, me + k), in = host_at(s, me - k);

		step_send(s, out, block_at(s, out, 1), block_size(s, out, 1),
			  NULL);
		step_recv(s, in, s->other + s->other_begin[in],
			  s->other_begin[in + 1] - s->other_begin[in]);
	}
	return rc;
}
