/* account.h: how many bytes a server holds for a job, and for all jobs of a
 * tenant: stores, requests that wait, clients' buffers. Pure. An account lives
 * until the last of those that hold it lets go: a store may outlive its job. */
#ifndef RENDEZVOUS_ACCOUNT_H
#define RENDEZVOUS_ACCOUNT_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "rendezvous/store/hash_table.h"

struct account {
	struct hash_item item;  /* of a tenant: by its name, in */
	struct hash_table *tenants;   /* this table; NULL: a job's */
	struct account *above;   /* a job's tenant; NULL: it has none */
	const char *option;      /* that says max */
	size_t bytes, max;       /* max 0: there is no limit */
	uint32_t connections;    /* of those that are charged to it */
	uint32_t holders;
	char name[];             /* job 'x', tenant 'x' */
};

/* 0: no limit. */
struct account_limits {
	size_t job_bytes, tenant_bytes;
	uint32_t tenant_jobs, tenant_connections;
};

/* The tenant of a job called TENANT/...; "" where it has none. */
struct slice account_tenant_of(struct slice job);
/* A tenant's account, made where there is none; held for the caller. NULL when
 * memory ran out. */
struct account *account_of_tenant(struct hash_table *tenants, struct slice name,
				  const struct account_limits *l);
/* A job's, below above, which is held by it; NULL: it has no tenant. */
struct account *account_of_job(struct slice job, struct account *above,
			       const struct account_limits *l);
/* NULL is fine in all that follows: nothing is counted. */
struct account *account_hold(struct account *a);
void account_let_go(struct account *a);

/* n bytes more, for the job and its tenant: ERR_REFUSED, and nothing is
 * counted, where that is too much for one of them. */
int account_take(struct account *a, size_t n, struct err *e);
/* The same of what is there already, whatever it is too much for. */
void account_add(struct account *a, size_t n);
void account_sub(struct account *a, size_t n);
/* A connection comes (1) or goes (-1). */
void account_connection(struct account *a, int n);
/* Which of the two has more than it may; NULL: neither. */
const struct account *account_over(const struct account *a);

#endif
