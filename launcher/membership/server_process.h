/* server_process.h: the ddprdzv that this agent starts where the job meets at
 * its own address: found, started with the listening sockets, let go by closing
 * a pipe. Knows no protocol. */
#ifndef LAUNCHER_SERVER_PROCESS_H
#define LAUNCHER_SERVER_PROCESS_H

#include <sys/types.h>

#include "launcher/config/etcd_place.h"
#include "rendezvous/auth/auth.h"

struct server_process {
	pid_t pid; /* 0: none runs */
	int pipe;  /* whose end tells it to go; -1: closed */
};

#define SERVER_PROCESS_INIT \
	{                   \
		0, -1       \
	}

struct server_process_options {
	const int *fds; /* n listening sockets */
	int n;
	int journal_fd;		 /* where it keeps its state; -1: not there */
	const char *journal;	 /* but in this file; NULL: in none */
	const char *job;	 /* the only one that it serves; NULL: any */
	const struct auth *auth; /* by which it lets in who proves itself */
	/* where it is one of several, of which etcd chooses; NULL: it is not.
	 * lease: the same for all that take each other's place here */
	const struct etcd_place *etcd;
	int64_t lease;
};

/* Starts $DDP_SERVER, else the ddprdzv beside this program, else that in $PATH,
 * with copies of the descriptors, which stay the caller's; auth goes to it
 * through the pipe, where nobody sees it. */
int server_process_start(struct server_process *s,
			 const struct server_process_options *o, struct err *e);

/* It is there, and was sent SIGSTOP. */
int server_process_is_stopped(const struct server_process *s);

/* By which it lets in from now on. */
int server_process_send_auth(struct server_process *s, const struct auth *auth,
			     struct err *e);

/* This node has gone: jobs that are not over end, and nodes that come late
 * learn how, until server_process_stop. */
void server_process_send_node_gone(struct server_process *s);

/* Tells it to go; it ends by itself, later. */
void server_process_stop(struct server_process *s);

#endif
