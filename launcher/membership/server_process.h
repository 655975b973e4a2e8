/* server_process.h: one ddprdzv as our child: started (server_exec.h) with the
 * sockets that it listens on, and asked to exit by the end of a pipe. Owns the
 * pid and its own end of that pipe; the descriptors stay the caller's. Starting
 * may fail: no such program, no process, no descriptors. Knows no protocol. */
#ifndef LAUNCHER_SERVER_PROCESS_H
#define LAUNCHER_SERVER_PROCESS_H

#include <sys/types.h>

#include "launcher/membership/etcd_options.h"
#include "rendezvous/auth/auth.h"

struct server_process {
	pid_t pid; /* 0: none runs */
	int pipe;  /* its end asks the server to exit; -1: closed */
};

/* clang-format off */
#define SERVER_PROCESS_INIT {0, -1}
/* clang-format on */

struct server_process_options {
	const int *fds; /* n listening sockets */
	int n;
	int journal_fd;		 /* where it keeps its state; -1: not there */
	const char *journal;	 /* but in this file; NULL: in none */
	const char *job;	 /* it serves no other; NULL: any */
	const char *torch_job; /* its PyTorch clients also connect here */
	const struct auth *auth; /* how its clients prove themselves */
	/* Where it is a candidate, of which etcd chooses one; NULL: it is not.
	 * lease: the same for all servers that replace each other here. */
	const struct etcd_options *etcd;
	int64_t lease;
};

/* Starts the program that server_exec_init finds. auth goes to it through the
 * pipe, where no other process sees it. */
int server_process_start(struct server_process *s,
			 const struct server_process_options *o, struct err *e);

/* It runs, and is stopped by a signal (SIGSTOP). */
int server_process_is_stopped(const struct server_process *s);

/* Its clients prove themselves like this from now on. */
int server_process_send_auth(struct server_process *s, const struct auth *auth,
			     struct err *e);

/* This node has left: jobs that are not over end, and late nodes learn how,
 * until server_process_stop. */
void server_process_send_node_gone(struct server_process *s);

/* Asks it to exit, which it does later. Idempotent. */
void server_process_stop(struct server_process *s);

#endif
