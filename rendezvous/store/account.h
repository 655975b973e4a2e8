/* account.h: the memory that a server uses for a job, and for all jobs of a
 * tenant: stores, waiting requests, clients' buffers. Pure. Reference-counted,
 * because a store may outlive its job. */
#ifndef RENDEZVOUS_ACCOUNT_H
#define RENDEZVOUS_ACCOUNT_H

#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "rendezvous/store/hash_table.h"

struct account {
	struct hash_item item;  /* a tenant's, by name, in */
	struct hash_table *tenants; /* this table; NULL: a job's account */
	struct account *above;   /* the job's tenant, or NULL */
	const char *option;      /* which sets max; for messages */
	size_t bytes, max;       /* max 0: no limit */
	uint32_t connections;    /* charged to it */
	uint32_t holders;
	char name[];             /* job 'x', tenant 'x' */
};

/* 0: no limit. */
struct account_limits {
	size_t job_bytes, tenant_bytes;
	uint32_t tenant_jobs, tenant_connections;
};

/* The tenant of a job called TENANT/...; "" if it has none. */
struct slice account_tenant_of(struct slice job);
/* A tenant's account, made if there is none; the caller holds it. NULL: out of
 * memory. */
struct account *account_of_tenant(struct hash_table *tenants, struct slice name,
				  const struct account_limits *l);
/* A job's account, which holds its tenant's, above (NULL: it has no tenant). */
struct account *account_of_job(struct slice job, struct account *above,
			       const struct account_limits *l);
/* All calls below do nothing if a is NULL. */
struct account *account_ref(struct account *a);
void account_unref(struct account *a);

/* Charges n bytes to the job and its tenant: ERR_REFUSED, and charges nothing,
 * if one of them would exceed its limit. */
int account_charge(struct account *a, size_t n, struct err *e);
/* The same for memory that is in use already: ignores the limits. */
void account_add(struct account *a, size_t n);
void account_sub(struct account *a, size_t n);
/* A connection was added (1) or removed (-1). */
void account_connection(struct account *a, int n);
/* The account of the two that exceeds its limit, or NULL. */
const struct account *account_over(const struct account *a);

#endif
