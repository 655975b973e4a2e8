/* tcp_callers.h: connections whose ends have not yet proved who they are
 * (tcp_hello.h): those that this rank makes, and those that it accepts. */
#ifndef SDK_TCP_CALLERS_H
#define SDK_TCP_CALLERS_H

#include "base/sock.h"
#include "worker-sdk/tcp/tcp_hello.h"
#include "worker-sdk/tcp/tcp_listen.h"

/* A connection that this rank makes, to the first of n addresses that answers.
 * The user sets at and n, and fd to -1. "No route to host" may be the late
 * result of a search that began while the network was cut; the kernel gives it
 * to all connections that wait when the search ends. So unless no_retry is
 * set, one more round of calls searches again. */
struct ddp__dial {
	const struct sock_addr *at; /* borrowed */
	int n, next, rounds;
	int no_retry, has_retried;
	int fd; /* non-blocking; the user takes it and sets -1, or closes it */
	int is_connecting; /* fd is not yet writable */
	struct ddp__hello hello;
};

/* Calls the next address. error: why the address before it failed. 0; or, if no
 * address is left, the errno of the last. */
int ddp__dial(struct ddp__dial *d, int error);
/* fd has become writable: sends the hello. As ddp__dial. */
int ddp__dial_connected(struct ddp__dial *d, const struct ddp__link *me);
/* The other end has hung up, perhaps because of strangers among its callers:
 * calls again from the first address. As ddp__dial; EPIPE: it has hung up too
 * often. */
int ddp__dial_again(struct ddp__dial *d);

/* Accepted connections. Anyone can connect: a silent caller makes way for
 * others after a second, so it cannot keep out a caller that is proving itself
 * for longer. */
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
