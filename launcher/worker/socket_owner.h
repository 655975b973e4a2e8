/* socket_owner.h: whose a TCP connection of this host is, as the kernel says it
 * in this process's network namespace. Knows no protocol; blocks for nothing
 * but the kernel. */
#ifndef LAUNCHER_SOCKET_OWNER_H
#define LAUNCHER_SOCKET_OWNER_H

#include <sys/types.h>

#include "base/sock.h"

enum socket_found {
	SOCKET_NONE,   /* there is none here */
	SOCKET_OWNED,  /* *whose is filled */
	SOCKET_CLOSED, /* its process closed it: nobody knows any more */
};

struct socket_whose {
	uid_t uid;
	uint64_t inode; /* as /proc/PID/fd names it */
};

/* How this kernel can be asked; all zeroes to begin with. */
struct socket_finder {
	int tried;   /* whether there is */
	int no_diag; /* no sock_diag; set by tests, too */
};

/* The socket whose own end is the one and whose other end is the other. By
 * sock_diag, which looks one up; where this kernel has none in /proc/net/tcp
 * and tcp6, which list all: a microsecond for each socket of the host. -errno
 * with text where neither can be asked. */
int socket_owner(struct socket_finder *f, const struct sock_addr *own,
		 const struct sock_addr *peer, struct socket_whose *whose,
		 struct err *e);

#endif
