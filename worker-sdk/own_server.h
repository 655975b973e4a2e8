/* own_server.h: the ddprdzv that rank 0 starts where nobody else keeps a store
 * for its world: found, started with the listening socket, let go by closing a
 * pipe. It is nobody's child: the program sees no SIGCHLD and no wait() of its
 * own returns it. Knows no protocol. */
#ifndef SDK_OWN_SERVER_H
#define SDK_OWN_SERVER_H

#include "rendezvous/auth.h"

/* Starts $DDP_SERVER, else the ddprdzv beside libddp, beside this program, in
 * ../bin of either, or in $PATH, with a copy of listen_fd, for a job of that
 * name and so many ranks, who prove themselves by auth. *pipe is the caller's:
 * the server ends when it is closed, here or with this process, and the ranks
 * have gone. */
int ddp__own_server_start(int *pipe, int listen_fd, const char *job, int ranks,
			  const struct auth *auth, struct err *e);

#endif
