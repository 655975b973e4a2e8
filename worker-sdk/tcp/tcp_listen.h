/* tcp_listen.h: where a rank listens for ranks of other hosts: on the addresses
 * by which they may come, and on no others. */
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

/* Listens on addr, the address that the others will get. Where that is a name
 * that means loopback here, as Debian gives a host's own name 127.0.1.1,
 * listens on the addresses that others may find behind it. Where it is no
 * address of this host, as behind a NAT, listens on every interface. */
int ddp__listen(struct ddp__listener *l, const char *addr, uint16_t *port,
		struct err *e);
/* Accepts a connection: its descriptor (non-blocking), or -1 if there is
 * none. */
int ddp__listen_accept(const struct ddp__listener *l);
/* Returns how many are put into out; at most max. */
int ddp__listen_polls(const struct ddp__listener *l, struct pollfd *out,
		      int max);
void ddp__listen_close(struct ddp__listener *l);

#endif
