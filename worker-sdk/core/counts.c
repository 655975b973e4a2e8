/* counts.c: sums up, compares and names the counts of each rank. */
#include "worker-sdk/core/counts.h"

#include <string.h>

void ddp__counts_begin(size_t *begin, const size_t *counts, int n)
{
	const size_t most = DDP__COUNT_MAX + 1;

	begin[0] = 0;
	for (int i = 0; i < n; i++)
		begin[i + 1] = begin[i] + (counts[i] < most - begin[i]
						   ? counts[i]
						   : most - begin[i]);
}

uint64_t ddp__counts_digest(const size_t *begin, int n)
{
	uint64_t digest = (uint64_t)n;

	for (int i = 0; i < n; i++)
		digest = ddp__digest(digest, begin[i + 1]);
	return digest;
}

size_t ddp__counts_size(const struct ddp__counts *v)
{
	return sizeof(*v) + 2 * ((size_t)v->n + 1) * sizeof(size_t);
}

struct ddp__counts *ddp__counts_copy(void *to, const struct ddp__counts *v)
{
	struct ddp__counts *copy = to;
	size_t numbers = (size_t)v->n + 1, *begin = (size_t *)(copy + 1);

	*copy = *v;
	copy->send = memcpy(begin, v->send, numbers * sizeof(*begin));
	copy->recv = memcpy(begin + numbers, v->recv, numbers * sizeof(*begin));
	return copy;
}

int ddp__counts_differ(const struct ddp__call *call,
		       const struct ddp__peers *peers, int a,
		       const size_t *a_begin, int b, const size_t *b_begin,
		       int n, struct err *e)
{
	char text[DDP__CALL_TEXT], a_name[DDP__NAME_MAX], b_name[DDP__NAME_MAX];
	int i = 0;

	ddp__call_text(call, text);
	peers->name(peers->owner, a, a_name);
	peers->name(peers->owner, b, b_name);
	while (i < n && ddp__count_of(a_begin, i) == ddp__count_of(b_begin, i))
		i++;
	if (i == n) /* beyond the counts that are known */
		return err_set(e, ERR_ARGUMENT,
			       "%s: %s and %s passed different counts: all "
			       "ranks must pass the same counts",
			       text, a_name, b_name);
	return err_set(e, ERR_ARGUMENT,
		       "%s: %s passed %zu for counts[%d], but %s passed %zu: "
		       "all ranks must pass the same counts",
		       text, a_name, ddp__count_of(a_begin, i), i, b_name,
		       ddp__count_of(b_begin, i));
}

int ddp__counts_mismatch(const struct ddp__call *call,
			 const struct ddp__peers *peers, int from, size_t sent,
			 int to, size_t expected, struct err *e)
{
	char text[DDP__CALL_TEXT];
	char from_name[DDP__NAME_MAX], to_name[DDP__NAME_MAX];

	return err_set(e, ERR_ARGUMENT,
		       "%s: %s sends %zu elements to %s, but that rank "
		       "expects %zu: its recv_counts and the sender's "
		       "send_counts must match",
		       ddp__call_text(call, text),
		       peers->name(peers->owner, from, from_name), sent,
		       peers->name(peers->owner, to, to_name), expected);
}
