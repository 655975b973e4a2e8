/* tenants.h: whose a job is on a server that several share: "alice/run7" is of
 * whoever has the token in the file alice of a folder of tokens. The files are
 * read when they are needed, so that one is added, changed or removed while the
 * server runs. */
#ifndef RENDEZVOUS_TENANTS_H
#define RENDEZVOUS_TENANTS_H

#include "rendezvous/auth/proof.h"

/* 1 and *secret: the job is a tenant's. 0: its name has no '/' before which
 * such a name could be. Negative: it is no tenant's, or the file is no secret
 * (ERR_PROOF; the text says what is wrong with it, for the log alone). */
int tenants_secret(const char *folder, struct slice job, struct proof *secret,
		   struct err *e);

#endif
