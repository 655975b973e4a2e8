/* rdzv_host.h: whether this node starts a server, at which of the job's places,
 * and that it is told to people. A part of rdzv.c. */
#ifndef LAUNCHER_RDZV_HOST_H
#define LAUNCHER_RDZV_HOST_H

#include "launcher/membership/rdzv.h"

/* 1: there is one of ours, c->addr is where it listens (c->hosts: the job's;
 * c->beside: one of those of which etcd chooses); 0: someone else has the port,
 * c->addr says where; else an error, -EADDRNOTAVAIL if the address is not
 * ours. */
int rdzv_host(struct rdzv *c, struct err *e);
/* One of those of which etcd chooses says nothing: where it is stopped that is
 * said, and another takes its place. */
void rdzv_host_is_mute(struct rdzv *c);

/* The endpoint's port is ours, and for a while it could be neither bound nor
 * connected to: some process holds it and does not listen. 1 with text. */
int rdzv_host_is_unheard(struct rdzv *c, const struct err *why, struct err *e);

#endif
