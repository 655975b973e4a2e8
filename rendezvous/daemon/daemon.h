/* daemon.h: the rendezvous server on a libuv loop: clients in, jobs, drain.
 * Turns frames into events of a job or requests of a session, and a job's
 * actions into frames. Decides nothing about jobs itself. */
#ifndef RENDEZVOUS_DAEMON_H
#define RENDEZVOUS_DAEMON_H

#include "base/loop.h"
#include "rendezvous/auth/auth.h"
#include "rendezvous/store/account.h"

struct server;
struct server_hooks;
struct leadership_options;

struct daemon_options {
	const int *listen_fds;	 /* listening sockets; the server closes them */
	int listeners;		 /* how many, up to SOCK_LISTEN_MAX */
	int parent_fd;		 /* a pipe whose end means: drain; -1: none */
	uint64_t lease_ms;	 /* an agent's silence that makes it lost */
	uint64_t hello_ms;	 /* to get from connecting to HELLO */
	uint64_t silent_ms;	 /* after which a client's host is gone */
	const struct auth *auth; /* who is let in; copied */
	uint32_t guests; /* ranks of the one job without agents; 0: none */
	/* of each job: clients that are connected, its store; and of jobs */
	uint32_t max_connections, max_jobs;
	size_t max_keys, max_bytes;
	struct account_limits accounts; /* of jobs and tenants, in all */
	uint64_t idle_ms;      /* a job that does nothing for that long ends */
	const char *token_dir; /* of tenants' tokens, or NULL; outlives it */
	const char *metrics;   /* where /health and /metrics are, or NULL */
	const char *journal;   /* a file that jobs outlive us in; NULL: none */
	int journal_fd;	       /* or inherited memory; 0: none */
	/* Or a place in etcd, but for its job and address; NULL: none */
	const struct leadership_options *leadership;
	const char *job; /* the only one that is served; NULL: any. It has
			  * to outlive the server */
};

/* Starts accepting on the loop. On success *out is the caller's. */
int daemon_new(struct server **out, uv_loop_t *loop,
	       const struct daemon_options *options, struct err *e);
/* Runs until it is drained: by a signal, or because the parent has gone. */
void daemon_run(struct server *s);
void daemon_free(struct server *s); /* after daemon_run */

/* The rooms that jobs and peers of a server notify: server.h. */
extern const struct server_hooks daemon_hooks;

#endif
