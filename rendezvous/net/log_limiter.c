/* log_limiter.c: a small table; a new address replaces the one logged longest
 * ago. */
#include "rendezvous/net/log_limiter.h"

#include <stdio.h>
#include <string.h>

static struct refusal *log_limiter_find(struct log_limiter *r,
					const char *address)
{
	for (int i = 0; i < LOG_LIMITER_KEPT; i++) {
		if (strcmp(r->last[i].address, address) == 0)
			return &r->last[i];
	}
	return NULL;
}

/* The entry logged longest ago; its count moves to unlogged. */
static struct refusal *log_limiter_oldest(struct log_limiter *r)
{
	struct refusal *old = &r->last[0];

	for (int i = 1; i < LOG_LIMITER_KEPT; i++) {
		if (r->last[i].logged_ms < old->logged_ms)
			old = &r->last[i];
	}
	r->unlogged += old->more;
	return old;
}

/* In began_ms, 0 means that no minute has begun. */
int log_limiter_check(struct log_limiter *r, const char *address,
		      uint64_t now_ms, unsigned *more)
{
	struct refusal *x = log_limiter_find(r, address);

	if (now_ms - r->began_ms >= LOG_LIMITER_AGAIN_MS || !r->began_ms) {
		r->began_ms = now_ms ? now_ms : 1;
		r->lines = 0;
	}
	if (x && now_ms - x->logged_ms < LOG_LIMITER_AGAIN_MS) {
		x->more++;
		return 0;
	}
	if (r->lines >= LOG_LIMITER_LINES) {
		if (x)
			x->more++;
		else
			r->unlogged++;
		return 0;
	}
	r->lines++;
	if (!x) {
		x = log_limiter_oldest(r);
		*x = (struct refusal){.more = 0};
		snprintf(x->address, sizeof(x->address), "%s", address);
	}
	*more = x->more + r->unlogged;
	r->unlogged = x->more = 0;
	x->logged_ms = now_ms;
	return 1;
}
