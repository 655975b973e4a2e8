/* socket_owner.h: asks the kernel which user owns a TCP connection of this
 * host, in this process's network namespace. Knows no protocol; blocks only for
 * the kernel. */
#ifndef LAUNCHER_SOCKET_OWNER_H
#define LAUNCHER_SOCKET_OWNER_H

#include <stdint.h>
#include <sys/types.h>

#include "base/sock.h"

enum socket_found {
	SOCKET_NONE,   /* no such socket here */
	SOCKET_OWNED,  /* *whose is filled */
	SOCKET_CLOSED, /* its process closed it: the owner is unknown */
};

struct socket_whose {
	uid_t uid;
	uint64_t inode; /* as /proc/PID/fd names it */
};

/* Whether this kernel has sock_diag; all zeroes to begin with. */
struct socket_finder {
	int tried;   /* no_diag is known */
	int no_diag; /* there is no sock_diag; also set by tests */
};

/* Finds the socket whose own address is own and whose peer's is peer. Uses
 * sock_diag, which looks up one socket, or, on a kernel without it,
 * /proc/net/tcp and tcp6, which list all: a microsecond for each socket of the
 * host. Returns an enum socket_found, or -errno if neither works. */
int socket_owner(struct socket_finder *f, const struct sock_addr *own,
		 const struct sock_addr *peer, struct socket_whose *whose,
		 struct err *e);

/* ---- the process that has a socket open ----
 *
 * Finds in /proc whether a process or one of its descendants has a socket
 * open. Sees only what this user may. Knows neither workers nor addresses. */

enum { SOCKET_HOLDER_LOOKS = 8192 };

struct socket_search {
	char link[40]; /* the target of its links in /proc/PID/fd */
	/* how many more descriptors and threads may be examined, which limits
	 * the search to 50 ms; at 0 nothing is found */
	int looks;
};

void socket_search_init(struct socket_search *s, uint64_t inode);
/* 1 if that process has the socket open. */
int socket_search_in(struct socket_search *s, pid_t pid);
/* The first descendant of pid that has the socket open, found through living
 * parents; 0: none, as on a kernel without lists of children. */
pid_t socket_search_under(struct socket_search *s, pid_t pid);

#endif
