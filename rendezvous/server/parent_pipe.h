/* parent_pipe.h: the pipe from the ddprun that started this server: it reports
 * that ddprun has ended, that its own node has left the job, and the job's key
 * if that comes later (protocol-etcd.txt). */
#ifndef RENDEZVOUS_PARENT_PIPE_H
#define RENDEZVOUS_PARENT_PIPE_H

#include "base/loop.h"
#include "rendezvous/auth/auth.h"

struct server;

struct parent_pipe_events {
	void (*on_gone)(struct server *s);
	void (*on_node_gone)(struct server *s); /* late nodes may still come */
};

struct parent_pipe {
	uv_pipe_t pipe;
	const struct parent_pipe_events *events;
	unsigned char record[AUTH_BYTES];
	size_t have; /* bytes of it */
};

/* Takes fd, and ignores the signals that the parent handles for us. */
int parent_pipe_watch(struct server *s, int fd,
		      const struct parent_pipe_events *events, struct err *e);

#endif
