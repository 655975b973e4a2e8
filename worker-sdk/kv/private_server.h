/* private_server.h: starts a ddprdzv for a world that has no other store, with
 * the rank's listening sockets. The server is not a child of the program, which
 * sees no SIGCHLD and no extra wait() result, and it ends when a pipe is
 * closed. Knows no protocol. */
#ifndef SDK_PRIVATE_SERVER_H
#define SDK_PRIVATE_SERVER_H

#include "rendezvous/auth/auth.h"

/* Starts the program that server_exec_init finds, with copies of n listening
 * sockets, for job `job` of `ranks` ranks, which authenticate with auth. The
 * caller closes *pipe: the server ends once the pipe is closed, also by this
 * process's death, and the ranks have left. ERR_USAGE: there is no such
 * program. */
int ddp__private_server_start(int *pipe, const int *fds, int n, const char *job,
			  int ranks, const struct auth *auth, struct err *e);

#endif
