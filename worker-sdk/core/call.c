/* call.c: unpacks and names calls like the flight recorder, which records them;
 * sums up, compares and names the counts of each rank. */
#include "worker-sdk/core/call.h"

#include <assert.h>
#include <string.h>

#include "rendezvous/wire.h"

static_assert((int)DDP__KINDS == (int)FLIGHT_KINDS &&
		      (int)DDP__BARRIER == (int)FLIGHT_BARRIER &&
		      (int)DDP__SEND == (int)FLIGHT_SEND &&
		      (int)DDP__REDUCER == (int)FLIGHT_REDUCER &&
		      (int)DDP__PROGRESS == (int)FLIGHT_PROGRESS &&
		      (int)DDP__WAIT_EVENT == (int)FLIGHT_WAIT_EVENT,
	      "base/flight_recorder.h names what call.h numbers");
static_assert((int)DDP_TYPES == (int)FLIGHT_TYPES &&
		      (int)DDP_OPS == (int)FLIGHT_OPS,
	      "and what ddp.h does");
static_assert((int)DDP__CALL_TEXT >= (int)FLIGHT_CALL_MAX, "its texts fit");
static_assert((int)FLIGHT_ROOT_MOST >= (int)WIRE_WORLD_MAX,
	      "each rank of a world can be named");

static struct flight_call call_to_flight(const struct ddp__call *c)
{
	return (struct flight_call){
		.kind = c->kind, .type = c->type, .op = c->op, .root = c->root,
		.count = c->count, .number = c->number, .group = c->group,
	};
}

void ddp__call_unpack(struct ddp__call *c, uint64_t word, uint64_t number)
{
	struct flight_call f;

	flight_unpack(&f, word, number);
	*c = (struct ddp__call){.kind = (enum ddp__kind)f.kind,
				.type = (enum ddp_type)f.type,
				.op = (enum ddp_op)f.op, .root = f.root,
				.count = f.count, .number = number};
}

char *ddp__call_text(const struct ddp__call *c, char *out)
{
	struct flight_call f = call_to_flight(c);

	return flight_call_text(&f, out);
}

/* ---- a count for each rank ---- */

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
