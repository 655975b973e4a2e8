/* tcp_callers.h: accepted connections whose callers have not yet proved their
 * claim (tcp_hello.h). Anyone can connect: a silent caller makes way for others
 * after a second, so it cannot keep out a caller that is proving itself for
 * longer. */
#ifndef SDK_TCP_CALLERS_H
#define SDK_TCP_CALLERS_H

#include "worker-sdk/tcp/tcp_hello.h"
#include "worker-sdk/tcp/tcp_listen.h"

struct ddp__caller;

struct ddp__callers {
	struct ddp__caller *list; /* in the order of connecting */
	int n, max;
	const unsigned char *key; /* borrowed; DDP__KEY bytes */
	void *owner;
	/* 1 if a caller with this claim, not yet proved, is expected. Then *me
	 * becomes this end of the connection. */
	int (*expects)(void *owner, const struct ddp__link *caller,
		       struct ddp__link *me);
	/* The caller has proved its claim: the owner takes its descriptor. */
	void (*on_caller)(void *owner, const struct ddp__hello *hello, int fd);
};

/* For at most max callers at a time. 0 or -ENOMEM. The user of the struct sets
 * key and the fields after it. */
int ddp__callers_init(struct ddp__callers *c, int max);
/* Disconnects all callers. c may be zeroed. */
void ddp__callers_close(struct ddp__callers *c);
/* Reads from all callers and accepts new ones. */
void ddp__callers_serve(struct ddp__callers *c, const struct ddp__listener *l);
/* The descriptors to poll; fills in at most max and returns how many. The
 * listener is left out while there is no room for another caller. */
int ddp__callers_polls(const struct ddp__callers *c,
		       const struct ddp__listener *l, struct pollfd *out,
		       int max);

#endif
