/* server_supervisor.h: the server that this process has: its socket and its
 * journal stay ours, so that a ddprdzv which dies is started again and goes on
 * with them. Three times a minute, and only where it keeps a journal, or etcd
 * does; one that etcd took its place from always is, to stand by. */
#ifndef LAUNCHER_SERVER_SUPERVISOR_H
#define LAUNCHER_SERVER_SUPERVISOR_H

#include <stdint.h>

#include "base/sock.h"
#include "launcher/membership/server_process.h"
#include "rendezvous/auth/auth.h"

enum { SERVER_RESTARTS_MAX = 3 };

struct server_supervisor {
	struct server_process server;
	int fds[SOCK_LISTEN_MAX], n;   /* where it listens */
	int journal_fd;		       /* -1: none */
	const char *job, *journal;     /* the caller's */
	const struct etcd_place *etcd; /* the caller's; NULL: none */
	int64_t lease;		       /* in etcd, of each of them */
	struct auth auth;	       /* the next one's, too */
	int keeps;		       /* it has a journal */
	uint64_t again_ms; /* when it was last said that it is started again */
	int node_gone;	   /* the next one has to know it, too */
	int cut_off; /* the last one reached neither etcd nor other nodes */
	uint64_t restarts_ms[SERVER_RESTARTS_MAX];
	unsigned restarts;
};

#define SERVER_SUPERVISOR_INIT                                  \
	{                                                       \
		.server = SERVER_PROCESS_INIT, .journal_fd = -1 \
	}

struct server_supervisor_options {
	const int *fds; /* n listening sockets, taken also where it fails */
	int n;
	const char *job;     /* as in server_process_options */
	const char *journal; /* a file; "none"; NULL: in memory, gone with us */
	const struct etcd_place *etcd; /* keeps it instead; NULL: no etcd */
};

/* client: our own way to prove ourselves to it, which changes as
 * auth_for_server says; not with etcd, where the job's server may be another
 * one. */
int server_supervisor_start(struct server_supervisor *h,
			    const struct server_supervisor_options *o,
			    struct auth *client, struct err *e);

/* The job's key, as its server has told us: ours, where munge gave each of them
 * a secret of its own, lets the job's workers in by it from now on. */
void server_supervisor_learn_key(struct server_supervisor *h,
				 const struct proof *key);

enum server_end {
	SERVER_NOT_OURS, /* another child's end */
	SERVER_ENDED,
	SERVER_RESTARTED, /* it died, and has been started again: that was said
			   */
	SERVER_LOST,	  /* it died, e says how, and nobody listens any more */
};

/* A child has ended. */
enum server_end server_supervisor_reaped(struct server_supervisor *h, pid_t pid,
					 int status, struct err *e);

/* As server_process_send_node_gone. */
void server_supervisor_node_gone(struct server_supervisor *h);

/* Tells it to go; it ends by itself, later. Idempotent. */
void server_supervisor_stop(struct server_supervisor *h);

#endif
