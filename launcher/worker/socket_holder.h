/* socket_holder.h: which process has a socket open, one that is asked about or
 * one that it started, as /proc says it to this user. Knows neither workers nor
 * addresses. */
#ifndef LAUNCHER_SOCKET_HOLDER_H
#define LAUNCHER_SOCKET_HOLDER_H

#include <stdint.h>
#include <sys/types.h>

enum { SOCKET_HOLDER_LOOKS = 8192 };

struct socket_search {
	char link[40]; /* what its descriptors lead to */
	/* descriptors and threads are looked at, so many more in all: 50 ms of
	 * the caller's time; none: it is not found */
	int looks;
};

void socket_search_init(struct socket_search *s, uint64_t inode);
/* 1: that process has it. */
int socket_search_in(struct socket_search *s, pid_t pid);
/* The first that has it of those that it started, and these, while their
 * parents live; 0: none. A kernel without lists of children knows none. */
pid_t socket_search_under(struct socket_search *s, pid_t pid);

#endif
