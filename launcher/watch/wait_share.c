/* wait_share.c: sums over the slices of a minute. */
#include "launcher/watch/wait_share.h"

uint64_t wait_share_most(const struct wait_share *w, uint64_t ns,
			 uint64_t tick_ns)
{
	uint64_t took = ns - w->ns;

	if (!w->ns)
		return 0;
	/* a tick that comes late has more waits in it */
	return WAIT_SHARE_LONGEST * (took > tick_ns ? took : tick_ns);
}

int wait_share_add(struct wait_share *w, uint64_t ns, uint64_t waited_ns,
		   uint64_t tick_ns)
{
	uint64_t took = ns - w->ns, waited = waited_ns - w->waited_ns;
	uint64_t most = wait_share_most(w, ns, tick_ns);
	int is_first = !w->ns;

	/* the worker has restarted, or its memory is garbage */
	if (waited_ns < w->waited_ns)
		waited = 0;
	w->ns = ns;
	w->waited_ns = waited_ns;
	if (is_first)
		return 0;
	w->slice.ns += took;
	w->slice.waited_ns += waited < most ? waited : most;
	return ++w->ticks == WAIT_SHARE_TICKS;
}

void wait_share_end_slice(struct wait_share *w, const struct delays *now)
{
	w->slice.until = *now;
	w->past[w->n++ % (WAIT_SHARE_SLICES + 1)] = w->slice;
	w->slice = (struct wait_slice){0};
	w->ticks = 0;
}

/* i slices ago; 0: the last that is full. */
static const struct wait_slice *wait_share_slice(const struct wait_share *w,
						 unsigned i)
{
	return &w->past[(w->n - 1 - i) % (WAIT_SHARE_SLICES + 1)];
}

uint64_t wait_share_ns(const struct wait_share *w)
{
	uint64_t ns = 0;

	for (unsigned i = 0; i < WAIT_SHARE_SLICES; i++)
		ns += wait_share_slice(w, i)->ns;
	return ns;
}

int32_t wait_share_permille(const struct wait_share *w)
{
	uint64_t waited = 0, ns;

	if (w->n <= WAIT_SHARE_SLICES)
		return -1;
	for (unsigned i = 0; i < WAIT_SHARE_SLICES; i++)
		waited += wait_share_slice(w, i)->waited_ns;
	ns = wait_share_ns(w) / 1000;
	if (!ns || waited / ns >= 1000)
		return 1000;
	return (int32_t)(waited / ns);
}

char *wait_share_cause(const struct wait_share *w, char *out)
{
	out[0] = '\0';
	if (w->n > WAIT_SHARE_SLICES)
		delays_words(&wait_share_slice(w, WAIT_SHARE_SLICES)->until,
			     &wait_share_slice(w, 0)->until,
			     wait_share_ns(w) / 1000, out);
	return out;
}
