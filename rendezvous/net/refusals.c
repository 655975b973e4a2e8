/* refusals.c: a small table, the oldest line's place is the next one's. */
#include "rendezvous/net/refusals.h"

#include <stdio.h>
#include <string.h>

static struct refusal *find(struct refusals *r, const char *address)
{
	for (int i = 0; i < REFUSALS_KEPT; i++) {
		if (strcmp(r->last[i].address, address) == 0)
			return &r->last[i];
	}
	return NULL;
}

/* What it held goes to the sum. */
static struct refusal *oldest(struct refusals *r)
{
	struct refusal *old = &r->last[0];

	for (int i = 1; i < REFUSALS_KEPT; i++) {
		if (r->last[i].said_ms < old->said_ms)
			old = &r->last[i];
	}
	r->unsaid += old->more;
	return old;
}

/* The clock's zero is no time of a line's. */
int refusals_say(struct refusals *r, const char *address, uint64_t now_ms,
		 unsigned *more)
{
	struct refusal *x = find(r, address);

	if (now_ms - r->began_ms >= REFUSALS_AGAIN_MS || !r->began_ms) {
		r->began_ms = now_ms ? now_ms : 1;
		r->lines = 0;
	}
	if (x && now_ms - x->said_ms < REFUSALS_AGAIN_MS) {
		x->more++;
		return 0;
	}
	if (r->lines >= REFUSALS_LINES) {
		if (x)
			x->more++;
		else
			r->unsaid++;
		return 0;
	}
	r->lines++;
	if (!x) {
		x = oldest(r);
		*x = (struct refusal){.more = 0};
		snprintf(x->address, sizeof(x->address), "%s", address);
	}
	*more = x->more + r->unsaid;
	r->unsaid = x->more = 0;
	x->said_ms = now_ms;
	return 1;
}
