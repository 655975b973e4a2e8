/* hosting.h: the server that this process has: its socket and its journal stay
 * ours, so that a ddprdzv which dies is started again and goes on with them.
 * Three times a minute, and only where it keeps a journal. */
#ifndef LAUNCHER_HOSTING_H
#define LAUNCHER_HOSTING_H

#include <stdint.h>

#include "launcher/daemon.h"
#include "rendezvous/auth.h"

enum { HOSTING_RESTARTS = 3 };

struct hosting {
	struct daemon server;
	int listen_fd, journal_fd; /* -1: none */
	const char *job, *journal; /* the caller's */
	struct auth auth;          /* the next one's, too */
	int keeps;                 /* it has a journal */
	uint64_t restarts_ms[HOSTING_RESTARTS];
	unsigned restarts;
};

#define HOSTING_INIT {.server = DAEMON_INIT, .listen_fd = -1, .journal_fd = -1}

/* Takes listen_fd, also where it fails. journal: a file; "none"; or NULL, in
 * memory that is gone with us. job as in daemon_order. client: our own way to
 * prove ourselves to it, which changes as auth_for_server says. */
int hosting_start(struct hosting *h, int listen_fd, const char *job,
		  const char *journal, struct auth *client, struct err *e);

enum hosting_end {
	HOSTING_NOT_OURS, /* another child's end */
	HOSTING_AS_TOLD,
	HOSTING_AGAIN, /* it died, and has been started again: that was said */
	HOSTING_OVER,  /* it died, e says how, and nobody listens any more */
};

/* A child has ended. */
enum hosting_end hosting_reaped(struct hosting *h, pid_t pid, int status,
				struct err *e);

/* Tells it to go; it ends by itself, later. Idempotent. */
void hosting_dismiss(struct hosting *h);

#endif
