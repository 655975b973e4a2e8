/* parent_pipe.h: the pipe to the ddprun that started this server: its end, that
 * its own node has gone before, and the job's key where that comes later
 * (protocol-etcd.txt). */
#ifndef RENDEZVOUS_PARENT_PIPE_H
#define RENDEZVOUS_PARENT_PIPE_H

#include "base/loop.h"
#include "rendezvous/auth/auth.h"

struct server;

struct parent_pipe_events {
	void (*on_gone)(struct server *s);
	void (*on_node_gone)(struct server *s); /* others may still come */
};

struct parent_pipe {
	uv_pipe_t pipe;
	const struct parent_pipe_events *events;
	unsigned char record[AUTH_BYTES];
	size_t have; /* of it */
};

/* Takes fd; from now on signals are the parent's to understand. */
int parent_pipe_watch(struct server *s, int fd,
		      const struct parent_pipe_events *events, struct err *e);

#endif
