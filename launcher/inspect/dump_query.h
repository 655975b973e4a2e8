/* dump_query.h: asks a job's rendezvous server for a dump of each node, and
 * waits for the answers. Blocks, with a loop of its own; does not read what is
 * in a dump. */
#ifndef LAUNCHER_DUMP_QUERY_H
#define LAUNCHER_DUMP_QUERY_H

#include <stddef.h>

#include "base/sock.h"
#include "rendezvous/auth/auth.h"

struct dump_node {
	int32_t node_rank; /* -1: it has none */
	char *host;
	int answered;
	uint64_t silent_ms; /* since the server last heard from it */
	char *text; /* what went wrong, or "" */
	struct slice page;
	struct slice out, err; /* the last lines of a rank's output */
	struct wire_items calls; /* the last collectives of its ranks */
};

struct dump_query {
	char *job;
	struct dump_node *nodes; /* by node rank; those without one last */
	size_t n;
};

/* 0, or an error: the server cannot be reached, is not a rendezvous server,
 * refuses, or sends nothing for some seconds beyond the time that the nodes
 * have (m's). The caller releases q in any case. */
int dump_query_init(struct dump_query *q, const struct endpoint *server,
		    const char *job, const struct auth *auth,
		    const struct wire_dump *m, struct err *e);
void dump_query_release(struct dump_query *q);

#endif
