/* tcp_listen.h: the sockets on which a rank accepts ranks of other hosts: on
 * the addresses by which these may come, and on no others. */
#ifndef SDK_TCP_LISTEN_H
#define SDK_TCP_LISTEN_H

#include <stdint.h>

#include "base/error.h"

enum { DDP__LISTEN_MAX = 16 }; /* as for the server: SOCK_LISTEN_MAX */

struct pollfd;

/* All have one port. n 0: none; zeroed is valid. */
struct ddp__listener {
	int fd[DDP__LISTEN_MAX];
	int n;
};

/* Listens on addr, the address that the other ranks will get. If that is a name
 * that means loopback here (Debian gives a host's own name 127.0.1.1), listens
 * on the addresses that other hosts may find behind it. If it is not an address
 * of this host (behind a NAT), listens on every interface. */
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
