/* keeper.h: the server that this process has: its socket and its journal stay
 * ours, so that a ddprdzv which dies is started again and goes on with them.
 * Three times a minute, and only where it keeps a journal. */
#ifndef LAUNCHER_KEEPER_H
#define LAUNCHER_KEEPER_H

#include <stdint.h>

#include "base/sock.h"
#include "launcher/daemon.h"
#include "rendezvous/auth.h"

enum { KEEPER_RESTARTS = 3 };

struct keeper {
	struct daemon server;
	int fds[SOCK_LISTEN_MAX], n; /* where it listens */
	int journal_fd;              /* -1: none */
	const char *job, *journal; /* the caller's */
	struct auth auth;          /* the next one's, too */
	int keeps;                 /* it has a journal */
	uint64_t restarts_ms[KEEPER_RESTARTS];
	unsigned restarts;
};

#define KEEPER_INIT {.server = DAEMON_INIT, .journal_fd = -1}

/* Takes the n listening sockets, also where it fails. journal: a file; "none";
 * or NULL, in memory that is gone with us. job as in daemon_order. client: our
 * own way to prove ourselves to it, which changes as auth_for_server says. */
int keeper_start(struct keeper *h, const int *fds, int n, const char *job,
		  const char *journal, struct auth *client, struct err *e);

enum keeper_end {
	KEEPER_NOT_OURS, /* another child's end */
	KEEPER_AS_TOLD,
	KEEPER_AGAIN, /* it died, and has been started again: that was said */
	KEEPER_OVER,  /* it died, e says how, and nobody listens any more */
};

/* A child has ended. */
enum keeper_end keeper_reaped(struct keeper *h, pid_t pid, int status,
				struct err *e);

/* Tells it to go; it ends by itself, later. Idempotent. */
void keeper_dismiss(struct keeper *h);

#endif
