/* tcp_listen.h: where a rank waits for those of other hosts: at the addresses
 * by which these may come, and at no others. */
#ifndef SDK_TCP_LISTEN_H
#define SDK_TCP_LISTEN_H

#include <stdint.h>

#include "base/error.h"

enum { DDP__LISTEN_MAX = 16 }; /* as the server does: SOCK_LISTEN_MAX */

struct pollfd;

/* All at one port. n 0: none; zeroed is fine. */
struct ddp__listener {
	int fd[DDP__LISTEN_MAX];
	int n;
};

/* On addr, where the others will be told to connect. Where that is a name that
 * means loopback here, as Debian gives a host's own name 127.0.1.1, on the
 * addresses that they may find behind it. If it is no address of this host's,
 * as behind a NAT, on every interface: where the way ends nobody knows. */
int ddp__listen(struct ddp__listener *l, const char *addr, uint16_t *port,
		struct err *e);
/* The next one's descriptor (non-blocking), or -1: nobody waits. */
int ddp__listen_accept(const struct ddp__listener *l);
/* Returns how many are put into out; at most max. */
int ddp__listen_polls(const struct ddp__listener *l, struct pollfd *out,
		      int max);
void ddp__listen_close(struct ddp__listener *l);

#endif
