/* limits.h: what one job may take of a server that others use, too:
 * connections, jobs in all, memory, idle time, and what is left of the
 * process's descriptors; and one tenant, by all its jobs. Each refusal names
 * the limit, the job and the option. */
#ifndef RENDEZVOUS_LIMITS_H
#define RENDEZVOUS_LIMITS_H

#include "rendezvous/server/hosted_job.h"

enum {
	LIMITS_SPARE = 16, /* descriptors for what a server must still open */
	LIMITS_POLITE = 16, /* and for those who are told that it is full */
};

/* Before anything is accepted. */
void limits_init(struct server *s);
void limits_close(struct server *s);

/* A connection was taken, scarce: with the last descriptor. 0; 1: it is to be
 * told that the server is full, when it says HELLO; -1: there is no room even
 * for that. */
int limits_accepted(struct server *s, struct peer *m, int scarce);
int limits_full(const struct server *s, struct err *e);

/* One more connection for this job; a job of that name. ERR_REFUSED. */
int limits_check_client(const struct hosted_job *h, struct err *e);
int limits_check_job(const struct server *s, const char *id, struct err *e);

/* A client of one of its jobs comes, which is counted as the tenant's from here
 * on. ERR_REFUSED; -ENOMEM. */
int limits_check_tenant(struct peer *m, struct slice job, struct err *e);
/* A job's account, below its tenant's, if it has one; the caller's to let go.
 * NULL when memory ran out. */
struct account *limits_account(struct server *s, struct slice job);

/* Something happened in it, or its first node came: it is not idle. */
void limits_touch(struct hosted_job *h);

#endif
