/* sealed_key.h: the job's key in the journal. With munge, only a job's first
 * server knows the key, because it generates it. So it keeps the key in etcd's
 * journal, sealed in a munge credential that only this user can open, on hosts
 * with the same munge key; each later server of the job uses it. */
#ifndef RENDEZVOUS_SEALED_KEY_H
#define RENDEZVOUS_SEALED_KEY_H

#include "rendezvous/auth/auth.h"
#include "rendezvous/auth/credential.h"

/* Called when the journal is replayed and no client was answered. With "" in
 * sealed, makes a's key the job's and seals it there: returns 1, and it must be
 * recorded. Else opens sealed and makes that key a's: 0. Does nothing without
 * munge. Blocks as munge does (credential.h). ERR_PROOF with what to do: munge
 * does not answer, or does not open it. */
int sealed_key_agree(struct auth *a, const char *job,
		     char sealed[CREDENTIAL_MAX], struct err *e);

#endif
