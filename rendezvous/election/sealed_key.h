/* sealed_key.h: the job's key in the journal. With munge, only a job's first
 * server knows the key, because it generates it. So it keeps the key in etcd's
 * journal, sealed in a munge credential that only this user can open, on hosts
 * with the same munge key; each later server of the job uses it. */
#ifndef RENDEZVOUS_SEALED_KEY_H
#define RENDEZVOUS_SEALED_KEY_H

#include "rendezvous/auth/auth.h"
#include "rendezvous/auth/credential.h"

/* Call it after replay, before any client gets a reply. With "" in sealed, a's
 * key becomes the job's and is sealed there: returns 1, and the caller must
 * record it. Else opens sealed and makes that key a's: returns 0. Does nothing
 * without munge. Blocks as munge does (credential.h). ERR_PROOF with the
 * remedy: munge does not answer, or cannot open it. */
int sealed_key_agree(struct auth *a, const char *job,
		     char sealed[CREDENTIAL_MAX], struct err *e);

#endif
