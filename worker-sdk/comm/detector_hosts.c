/* detector_hosts.c: how hosts report their blocked ranks to each other. */
#include <stdlib.h>

#include "worker-sdk/comm/cpu.h"
#include "worker-sdk/comm/detector.h"

enum { TOLD_MAX = 8 }; /* ranks in one answer */

_Static_assert(sizeof(struct ddp__blocked) <= DDP__TCP_NOTICE_MAX,
	       "one goes with a notice");

/* All ranks known to be blocked, gathered on first use. */
struct word {
	const struct ddp__detector *d;
	const struct ddp__shm *shm;
	struct ddp__blocked *all; /* NULL: not gathered */
	int n;
};

/* Finds the ranks of this host that have not begun comm's call with that
 * number, then the ranks that these wait for. */
static int hosts_find_absent(const struct word *w, uint64_t comm,
			    uint64_t number, int found[TOLD_MAX])
{
	int n = 0;

	for (int i = 0; i < w->n && n < TOLD_MAX; i++)
		if (w->all[i].host == w->d->mine.host &&
		    ddp__has_not_begun(&w->all[i], comm, number))
			found[n++] = i;
	return n ? ddp__blocked_reach(w->all, w->n, found, n, TOLD_MAX) : 0;
}

/* A digest that is equal for equal answers. */
static uint64_t hosts_digest(const struct word *w, uint64_t number,
			    const int *found, int n)
{
	uint64_t digest = number;

	for (int i = 0; i < n; i++) {
		const struct ddp__blocked *b = &w->all[found[i]];

		digest = ddp__digest(digest, (uint64_t)b->rank + 1);
		digest = ddp__digest(digest, b->turn);
	}
	return digest;
}

/* The other host waits for its call on c, and a rank of this host is blocked
 * elsewhere. Reports that once. */
static void hosts_answer(struct word *w, const struct ddp_comm *c, int host)
{
	struct ddp__cpu *cpu = c->state;
	struct ddp__tcp_wait *wait = &cpu->tcp.waits[host];
	uint64_t number = wait->call.number, said;
	int found[TOLD_MAX], n;

	/* all ranks of this host have begun the call, and its leader has left
	 * it */
	if (!wait->call.word || number < c->calls)
		return;
	if (!w->all)
		w->all = ddp__detector_gather(w->d, w->shm, &w->n);
	if (!w->all)
		return;
	n = hosts_find_absent(w, cpu->id, number, found);
	said = hosts_digest(w, number, found, n);
	if (!n || said == wait->answered)
		return;
	wait->answered = said;
	for (int i = 0; i < n; i++)
		ddp__tcp_send_notice(&cpu->tcp, host, DDP__FRAME_BLOCKED,
				     &w->all[found[i]],
				     ddp__blocked_size(&w->all[found[i]]));
}

void ddp__detector_answer(const struct ddp__detector *d,
			  const struct ddp_comm *world)
{
	struct ddp__cpu *ours = world->state;
	struct word w = {.d = d, .shm = &ours->shm};

	for (struct ddp_comm *c = world->world->comms; c; c = c->next) {
		struct ddp__cpu *cpu = c->state;

		if (!cpu || !cpu->tcp.fd || cpu->tcp.broken)
			continue;
		ddp__tcp_take_notices(&cpu->tcp);
		for (int host = 0; host < cpu->tcp.n; host++)
			if (host != cpu->tcp.me)
				hosts_answer(&w, c, host);
	}
	free(w.all);
}
