/* doubling.c: recursive doubling for small data and many hosts: in log2(n)
 * turns each host exchanges with the hosts 1, 2, 4, ... away. */
#include "worker-sdk/algorithms/schedule_internal.h"

/* If n is not a power of two, the first 2 * pairs hosts form pairs, and one
 * host of each pair takes part for both. id: this host's number among those
 * that take part; -1: it does not take part. */
struct doubling {
	int pairs, id, size;
};

static struct doubling doubling_of(const struct ddp__schedule *s)
{
	struct doubling d = {.size = 1};
	int me = s->me;

	while (d.size * 2 <= s->n)
		d.size *= 2;
	d.pairs = s->n - d.size;
	d.id = me >= 2 * d.pairs ? me - d.pairs : me % 2 ? -1 : me / 2;
	return d;
}

static int doubling_host(const struct doubling *d, int id)
{
	return id < d->pairs ? 2 * id : id + d->pairs;
}

/* Number of ranks on the hosts with the ids first to first + n - 1. */
static int doubling_ranks(const struct ddp__schedule *s,
			  const struct doubling *d, int first, int n)
{
	int host = doubling_host(d, first);

	return ranks_from(s, host, doubling_host(d, first + n) - host);
}

static int doubling_ended(struct ddp__schedule *s, struct err *e)
{
	return 1;
}

/* Phase 0: the hosts without an id send to their partner. Phases 1, 2, 4, ...:
 * exchanges. Then the partners send the result back. */
int ddp__doubling_all_reduce(struct ddp__schedule *s, struct err *e)
{
	struct doubling d = doubling_of(s);
	int me = s->me, rc, other;

	if (s->turn == 0) {
		rc = step_scratch(s, s->count * s->elem, e);
		if (!rc)
			rc = step_reserve(s, 2, 2, e);
		if (!rc && me < 2 * d.pairs)
			step_exchange(s, d.id < 0 ? me - 1 : -1,
				      d.id < 0 ? -1 : me + 1);
		return rc;
	}
	rc = step_reserve(s, 2, 2, e);
	if (rc)
		return rc;
	if (d.id < 0) {
		if (s->turn == 1)
			step_recv(s, me - 1, s->buf, s->count * s->elem);
		return s->turn > 1;
	}
	if (s->phase == 0 && me < 2 * d.pairs)
		step_combine_two(s, s->buf, s->ranks[me], s->scratch,
				 s->ranks[me + 1], 0);
	if (s->phase) {
		/* reduce in the same order at both ends, for the same bits */
		int lower = !(d.id & s->phase), n = s->phase;
		int first = d.id & ~(2 * n - 1);

		step_combine_two(s, lower ? s->buf : s->scratch,
				 doubling_ranks(s, &d, first, n),
				 lower ? s->scratch : s->buf,
				 doubling_ranks(s, &d, first + n, n),
				 2 * n == d.size);
	}
	s->phase = s->phase ? 2 * s->phase : 1;
	if (s->phase < d.size) {
		other = doubling_host(&d, d.id ^ s->phase);
		step_exchange(s, other, other);
		return 0;
	}
	s->step = doubling_ended;
	step_exchange(s, me < 2 * d.pairs ? me + 1 : -1, -1);
	return 0;
}

/* Dissemination (Hensgen, Finkel, Manber 1988): after log2(n) turns each host
 * has heard from all others, directly or not. */
int ddp__doubling_barrier(struct ddp__schedule *s, struct err *e)
{
	int far = 1 << s->turn, me = s->me, rc;

	if (far >= s->n)
		return 1;
	rc = step_reserve(s, 2, 2, e);
	if (rc)
		return rc;
	step_send(s, host_at(s, me + far), NULL, 0, NULL);
	step_recv(s, host_at(s, me - far), NULL, 0);
	return 0;
}
