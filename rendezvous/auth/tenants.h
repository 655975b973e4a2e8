/* tenants.h: the tenants of a shared server: the job "alice/run7" belongs to
 * the holder of the token in the file alice of a folder. Files are read on each
 * use, so that tokens can be added, changed or removed while the server runs.
 */
#ifndef RENDEZVOUS_TENANTS_H
#define RENDEZVOUS_TENANTS_H

#include "rendezvous/auth/proof.h"

/* 1 and *secret: the job belongs to a tenant. 0: its name has no tenant part.
 * ERR_PROOF: there is no such tenant, or its file is not a valid secret; the
 * text is for the log only. */
int tenants_secret(const char *folder, struct slice job, struct proof *secret,
		   struct err *e);

#endif
