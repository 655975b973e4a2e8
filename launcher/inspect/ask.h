/* ask.h: asks a job's rendezvous server what the job's nodes do, and waits for
 * their answers. Blocks, with a loop of its own; what is in a page is not its
 * business. */
#ifndef LAUNCHER_ASK_H
#define LAUNCHER_ASK_H

#include <stddef.h>

#include "base/sock.h"
#include "rendezvous/auth/auth.h"

struct asked_node {
	int32_t node_rank; /* -1: it has none */
	char *host;
	int answered;
	uint64_t silent_ms; /* that nothing was heard of it */
	char *text; /* what is wrong, or "" */
	struct slice page;
	struct wire_items calls; /* how far its ranks are */
};

struct ask {
	char *job;
	struct asked_node *nodes; /* by node rank; those without at the end */
	size_t n;
};

/* 0, or no answer at all: the server cannot be reached, is none, refuses, or
 * says nothing for some seconds after the time that the nodes have (m's). The
 * caller releases a in any case. */
int ask_init(struct ask *a, const struct endpoint *server, const char *job,
	     const struct auth *auth, const struct wire_dump *m,
	     struct err *e);
void ask_release(struct ask *a);

#endif
