/* connection_internal.h: whether this node starts a server, at which of the
 * job's places, and that it is told to people. A part of connection.c. */
#ifndef LAUNCHER_CONNECTION_INTERNAL_H
#define LAUNCHER_CONNECTION_INTERNAL_H

#include "launcher/membership/connection.h"

/* 1: there is one of ours, c->addr is where it listens (c->hosts: the job's;
 * c->is_candidate: one of those of which etcd chooses); 0: someone else has the
 * port, c->addr says where; else an error, -EADDRNOTAVAIL if the address is not
 * ours. */
int connection_host(struct connection *c, struct err *e);
/* One of those of which etcd chooses says nothing: where it is stopped that is
 * said, and another takes its place. */
void connection_host_check_stopped(struct connection *c);

/* The endpoint's port is ours, and for a while it could be neither bound nor
 * connected to: some process holds it and does not listen. 1 with text. */
int connection_host_is_unheard(struct connection *c, const struct err *why,
			       struct err *e);

#endif
