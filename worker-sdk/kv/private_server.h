/* private_server.h: the ddprdzv that one rank starts where nobody else keeps a
 * store for its world: found, started with the listening sockets, let go by
 * closing a pipe. It is nobody's child: the program sees no SIGCHLD and no
 * wait() of its own returns it. Knows no protocol. */
#ifndef SDK_PRIVATE_SERVER_H
#define SDK_PRIVATE_SERVER_H

#include "rendezvous/auth/auth.h"

/* Starts $DDP_SERVER, else the ddprdzv beside libddp, beside this program, in
 * ../bin of either, or in $PATH, with copies of n listening sockets, for a job
 * of that name and so many ranks, who prove themselves by auth. *pipe is the
 * caller's: the server ends when it is closed, here or with this process, and
 * the ranks have gone. */
int ddp__private_server_start(int *pipe, const int *fds, int n, const char *job,
			  int ranks, const struct auth *auth, struct err *e);

#endif
