/* socket_holder.h: finds in /proc whether a process or one of its descendants
 * has a socket open. Sees only what this user may. Knows neither workers nor
 * addresses. */
#ifndef LAUNCHER_SOCKET_HOLDER_H
#define LAUNCHER_SOCKET_HOLDER_H

#include <stdint.h>
#include <sys/types.h>

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
