/* seal.h: by munge nothing says what a job's key is but its first server, which
 * draws it. Where etcd may make another ddprdzv the server that key lies in the
 * journal, sealed: a credential of munge's that only this user can open, on the
 * hosts that have munge's key. So whoever is the server next has the same one,
 * whether its own agent was ever told it or not. */
#ifndef RENDEZVOUS_SEAL_H
#define RENDEZVOUS_SEAL_H

#include "base/error.h"

struct server;

/* The journal has been read, and nobody has been told anything: this server's
 * key is the one that is sealed there, from now on, or, where none is, its own,
 * and that is put there. Nothing to do where munge has no say. Blocks as munge
 * does (credential.h). ERR_PROOF: munge cannot be asked, or does not open it;
 * the text says what to do. */
int seal_agree(struct server *s, struct err *e);

#endif
