/* parent.h: the pipe to the ddprun that started this server: its end, and the
 * job's key where that comes later (protocol-etcd.txt). */
#ifndef RENDEZVOUS_PARENT_H
#define RENDEZVOUS_PARENT_H

#include "base/loop.h"
#include "rendezvous/auth.h"

struct server;

struct parent {
	uv_pipe_t pipe;
	void (*on_gone)(struct server *s);
	unsigned char record[AUTH_BYTES];
	size_t have; /* of it */
};

/* Takes fd; from now on signals are the parent's to understand. */
int parent_watch(struct server *s, int fd, void (*on_gone)(struct server *s),
		 struct err *e);

#endif
