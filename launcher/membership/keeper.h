/* keeper.h: the server that this process has: its socket and its journal stay
 * ours, so that a ddprdzv which dies is started again and goes on with them.
 * Three times a minute, and only where it keeps a journal, or etcd does; one
 * that etcd took its place from always is, to stand by. */
#ifndef LAUNCHER_KEEPER_H
#define LAUNCHER_KEEPER_H

#include <stdint.h>

#include "base/sock.h"
#include "launcher/membership/daemon.h"
#include "rendezvous/auth/auth.h"

enum { KEEPER_RESTARTS = 3 };

struct keeper {
	struct daemon server;
	int fds[SOCK_LISTEN_MAX], n; /* where it listens */
	int journal_fd;              /* -1: none */
	const char *job, *journal; /* the caller's */
	const struct etcd_place *etcd; /* the caller's; NULL: none */
	int64_t lease; /* in etcd, of each of them */
	struct auth auth;          /* the next one's, too */
	int keeps;                 /* it has a journal */
	uint64_t again_ms; /* when it was last said that it is started again */
	int node_gone; /* the next one has to know it, too */
	int cut_off; /* the last one reached neither etcd nor other nodes */
	uint64_t restarts_ms[KEEPER_RESTARTS];
	unsigned restarts;
};

#define KEEPER_INIT {.server = DAEMON_INIT, .journal_fd = -1}

struct keeper_order {
	const int *fds; /* n listening sockets, taken also where it fails */
	int n;
	const char *job;     /* as in daemon_order */
	const char *journal; /* a file; "none"; NULL: in memory, gone with us */
	const struct etcd_place *etcd; /* keeps it instead; NULL: no etcd */
};

/* client: our own way to prove ourselves to it, which changes as
 * auth_for_server says; not with etcd, where the job's server may be another
 * one. */
int keeper_start(struct keeper *h, const struct keeper_order *o,
		 struct auth *client, struct err *e);

/* The job's key, as its server has told us: ours, where munge gave each of them
 * a secret of its own, lets the job's workers in by it from now on. */
void keeper_learn_key(struct keeper *h, const struct proof *key);

enum keeper_end {
	KEEPER_NOT_OURS, /* another child's end */
	KEEPER_AS_TOLD,
	KEEPER_AGAIN, /* it died, and has been started again: that was said */
	KEEPER_OVER,  /* it died, e says how, and nobody listens any more */
};

/* A child has ended. */
enum keeper_end keeper_reaped(struct keeper *h, pid_t pid, int status,
				struct err *e);

/* As daemon_tell_gone. */
void keeper_node_gone(struct keeper *h);

/* Tells it to go; it ends by itself, later. Idempotent. */
void keeper_dismiss(struct keeper *h);

#endif
