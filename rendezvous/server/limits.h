/* limits.h: what a job, and a tenant with all its jobs, may use of a shared
 * server: connections, jobs, memory, idle time, and the process's descriptors.
 * Every refusal names the limit, the job and the option. */
#ifndef RENDEZVOUS_LIMITS_H
#define RENDEZVOUS_LIMITS_H

#include "rendezvous/server/hosted_job.h"

enum {
	LIMITS_SPARE = 16,  /* descriptors kept for the server's own files */
	LIMITS_POLITE = 16, /* and for clients that are refused with a reason */
};

/* Before anything is accepted. */
void limits_init(struct server *s);
void limits_close(struct server *s);

/* A connection was accepted; scarce: with the last descriptor. 0; 1: refuse its
 * HELLO because the server is full; -1: there is no descriptor even for that.
 */
int limits_accepted(struct server *s, struct peer *p, int scarce);
int limits_full(const struct server *s, struct err *e);

/* Whether one more connection for the job, or one more job, is allowed. 0 or
 * ERR_REFUSED. */
int limits_check_client(const struct hosted_job *h, struct err *e);
int limits_check_job(const struct server *s, const char *id, struct err *e);

/* Whether the job's tenant may have one more connection, which is charged to it
 * from now on. 0, ERR_REFUSED or -ENOMEM. */
int limits_check_tenant(struct peer *p, struct slice job, struct err *e);
/* A new account for the job, below its tenant's if it has one; the caller
 * releases it. NULL: out of memory. */
struct account *limits_account(struct server *s, struct slice job);

/* Something happened in the job, so it is not idle. */
void limits_touch(struct hosted_job *h);

#endif
