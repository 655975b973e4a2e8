/* elected_server.h: a server that leads only while etcd says so: connects the
 * leadership to the server's journal, jobs and waiting clients. */
#ifndef RENDEZVOUS_ELECTED_SERVER_H
#define RENDEZVOUS_ELECTED_SERVER_H

#include "rendezvous/election/leadership.h"
#include "rendezvous/server/server.h"

/* Sets s->leadership. o lacks job, address and is_quiet, which are s's.
 * ERR_USAGE, ERR_SYSTEM. */
int elected_server_open(struct server *s, const struct leadership_options *o,
			struct err *e);

#endif
