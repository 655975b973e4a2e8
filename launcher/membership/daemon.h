/* daemon.h: the ddprdzv that this agent starts where the job meets at its own
 * address: found, started with the listening sockets, let go by closing a pipe.
 * Knows no protocol. */
#ifndef LAUNCHER_DAEMON_H
#define LAUNCHER_DAEMON_H

#include <sys/types.h>

#include "launcher/config/etcd_place.h"
#include "rendezvous/auth/auth.h"

struct daemon {
	pid_t pid; /* 0: none runs */
	int pipe;  /* whose end tells it to go; -1: closed */
};

#define DAEMON_INIT {0, -1}

struct daemon_order {
	const int *fds; /* n listening sockets */
	int n;
	int journal_fd;      /* where it keeps its state; -1: not there */
	const char *journal; /* but in this file; NULL: in none */
	const char *job;     /* the only one that it serves; NULL: any */
	const struct auth *auth; /* by which it lets in who proves itself */
	/* where it is one of several, of which etcd chooses; NULL: it is not.
	 * lease: the same for all that take each other's place here */
	const struct etcd_place *etcd;
	int64_t lease;
};

/* Starts $DDP_SERVER, else the ddprdzv beside this program, else that in $PATH,
 * with copies of the descriptors, which stay the caller's; auth goes to it
 * through the pipe, where nobody sees it. */
int daemon_start(struct daemon *s, const struct daemon_order *o,
		 struct err *e);

/* It is there, and was sent SIGSTOP. */
int daemon_is_stopped(const struct daemon *s);

/* By which it lets in from now on. */
int daemon_tell(struct daemon *s, const struct auth *auth, struct err *e);

/* This node has gone: jobs that are not over end, and nodes that come late
 * learn how, until daemon_dismiss. */
void daemon_tell_gone(struct daemon *s);

/* Tells it to go; it ends by itself, later. */
void daemon_dismiss(struct daemon *s);

#endif
