/* daemon.h: the ddprdzv that this agent starts where the job meets at its own
 * address: found, started with the listening socket, let go by closing a pipe.
 * Knows no protocol. */
#ifndef LAUNCHER_DAEMON_H
#define LAUNCHER_DAEMON_H

#include <sys/types.h>

#include "rendezvous/auth.h"

struct daemon {
	pid_t pid; /* 0: none runs */
	int pipe;  /* whose end tells it to go; -1: closed */
};

#define DAEMON_INIT {0, -1}

/* Starts $DDP_SERVER, else the ddprdzv beside this program, else that in $PATH,
 * with a copy of listen_fd, which stays the caller's. It serves this job only,
 * or any (NULL), and lets in who proves itself by auth, which goes to it
 * through the pipe, where nobody sees it. */
int daemon_start(struct daemon *s, int listen_fd, const char *job,
		 const struct auth *auth, struct err *e);

/* Tells it to go; it ends by itself, later. */
void daemon_dismiss(struct daemon *s);

#endif
