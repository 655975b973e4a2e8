/* daemon.h: the rendezvous server on a libuv loop: starts it, accepts clients,
 * keeps leases, and drains it at the end. Decides nothing about jobs itself. */
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
	int parent_fd;		 /* a pipe whose end drains the server; -1:
				  * none */
	uint64_t lease_ms;	 /* a silent agent is lost after that */
	uint64_t hello_ms;	 /* from connecting to HELLO */
	uint64_t silent_ms;	 /* after that a client's host counts as gone */
	const struct auth *auth; /* how clients authenticate; copied */
	uint32_t guests; /* ranks of the one job without agents; 0: none */
	/* connections of a job; jobs; keys and bytes of a round's store */
	uint32_t max_connections, max_jobs;
	size_t max_keys, max_bytes;
	struct account_limits accounts; /* limits of jobs and tenants */
	uint64_t idle_ms;      /* an idle job ends after that time */
	const char *token_dir; /* folder of tenants' tokens, or NULL;
				* borrowed */
	const char *metrics;   /* the address of /health and /metrics, or
				* NULL */
	const char *web; /* the address of the page, or NULL */
	const char *journal;   /* a file, or NULL */
	int journal_fd;	       /* an inherited memory file; 0: none */
	/* for a journal in etcd; without job and address. NULL: none */
	const struct leadership_options *leadership;
	const char *job; /* the only job to serve; NULL: any; borrowed */
	/* the job whose clients of PyTorch's store connect to the same sockets;
	 * NULL: none; borrowed */
	const char *torch_job;
};

/* Starts accepting on the loop. On success, free *out with daemon_free. */
int daemon_new(struct server **out, uv_loop_t *loop,
	       const struct daemon_options *options, struct err *e);
/* Runs until a signal or the end of the parent has drained it. */
void daemon_run(struct server *s);
void daemon_free(struct server *s); /* after daemon_run */

/* Callbacks to the other rooms, for jobs and peers: server.h. */
extern const struct server_hooks daemon_hooks;

#endif
