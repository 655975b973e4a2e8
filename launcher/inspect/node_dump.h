/* node_dump.h: makes a dump of this node's workers for a request from another
 * node. A child of ours (`ddprun dump --agent OURS`) writes it, so that the
 * agent never waits for stacks. Several run at once. Knows no server. */
#ifndef LAUNCHER_NODE_DUMP_H
#define LAUNCHER_NODE_DUMP_H

#include <sys/types.h>

#include "base/loop.h"
#include "rendezvous/wire.h"

struct node_dump;

/* A dump is ready, or failed with a text that says why. Called once for each
 * node_dumps_start, possibly inside it, unless node_dumps_close comes first. */
typedef void node_dump_on_done(void *owner, const struct wire_dump_reply *page);

struct node_dumps {
	uv_loop_t *loop;
	struct node_dump *list; /* in progress */
	unsigned n;
	node_dump_on_done *on_done;
	void *owner;
};

void node_dumps_init(struct node_dumps *d, uv_loop_t *loop,
		     node_dump_on_done *on_done, void *owner);
void node_dumps_start(struct node_dumps *d,
		      const struct wire_dump_request *look);
/* A child ended: 1 if it was writing a dump. */
int node_dumps_reaped(struct node_dumps *d, pid_t pid, int status);
/* Kills the children and drops their dumps. The loop must run once more. */
void node_dumps_close(struct node_dumps *d);

#endif
