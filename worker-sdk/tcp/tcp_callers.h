/* tcp_callers.h: the connections that a listener accepted and whose callers
 * have not proved yet who they are (tcp_hello.h). Anybody can connect: silent
 * callers make way for others after a second, and never take the place of one
 * that is just proving itself. */
#ifndef SDK_TCP_CALLERS_H
#define SDK_TCP_CALLERS_H

#include "worker-sdk/tcp/tcp_hello.h"
#include "worker-sdk/tcp/tcp_listen.h"

struct ddp__caller;

struct ddp__callers {
	struct ddp__caller *list; /* in the order in which they came */
	int n, max;
	const unsigned char *key; /* borrowed; DDP__KEY bytes */
	void *owner;
	/* Whether a caller is expected that says this of itself, which is not
	 * proved yet. If so, *me is my end of the connection. */
	int (*expects)(void *owner, const struct ddp__link *caller,
		       struct ddp__link *me);
	/* It is who it says: its descriptor is the owner's now. */
	void (*came)(void *owner, const struct ddp__hello *hello, int fd);
};

/* At most max at a time. 0 or -ENOMEM. The caller sets key and what follows
 * it. */
int ddp__callers_init(struct ddp__callers *c, int max);
/* Hangs up on those who are there. Zeroed c is fine. */
void ddp__callers_close(struct ddp__callers *c);
/* Hears those who are there and those whom the listener has. */
void ddp__callers_serve(struct ddp__callers *c, const struct ddp__listener *l);
/* What it waits for; at most max into out. Returns how many. While no further
 * caller fits, the listener is not among them. */
int ddp__callers_polls(const struct ddp__callers *c,
		       const struct ddp__listener *l, struct pollfd *out,
		       int max);

#endif
