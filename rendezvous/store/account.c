/* account.c: charges memory to a job and to its tenant. */
#include "rendezvous/store/account.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

struct slice account_tenant_of(struct slice job)
{
	const char *slash = memchr(job.data, '/', job.len);

	return SLICE(job.data, slash ? (size_t)(slash - job.data) : 0);
}

static struct account *account_new(const char *what, struct slice name,
				   size_t max, const char *option)
{
	size_t size = strlen(what) + name.len + sizeof " ''";
	struct account *a = calloc(1, sizeof(*a) + size);

	if (!a)
		return NULL;
	snprintf(a->name, size, "%s '%.*s'", what, SLICE_FMT(name));
	a->max = max;
	a->option = option;
	a->holders = 1;
	return a;
}

struct account *account_of_tenant(struct hash_table *tenants, struct slice name,
				  const struct account_limits *l)
{
	struct account *a = (struct account *)hash_table_find(tenants, name);

	if (a)
		return account_ref(a);
	a = account_new("tenant", name, l->tenant_bytes, "--tenant-memory");
	if (!a)
		return NULL;
	a->item.key = SLICE(a->name + strlen("tenant '"), name.len);
	if (hash_table_insert(tenants, &a->item) < 0) {
		free(a);
		return NULL;
	}
	a->tenants = tenants;
	return a;
}

struct account *account_of_job(struct slice job, struct account *above,
			       const struct account_limits *l)
{
	struct account *a =
		account_new("job", job, l->job_bytes, "--max-memory");

	if (a)
		a->above = account_ref(above);
	return a;
}

struct account *account_ref(struct account *a)
{
	if (a)
		a->holders++;
	return a;
}

void account_unref(struct account *a)
{
	if (!a || --a->holders)
		return;
	account_unref(a->above);
	if (a->tenants)
		hash_table_remove(a->tenants, &a->item);
	free(a);
}

int account_charge(struct account *a, size_t n, struct err *e)
{
	for (const struct account *x = a; x; x = x->above)
		if (x->max && (x->bytes > x->max || n > x->max - x->bytes))
			return err_set(e, ERR_REFUSED,
				       "the rendezvous server holds %zu bytes "
				       "for %.300s, and its limit is %zu, too "
				       "few for %zu more (%s of that ddprdzv)",
				       x->bytes, x->name, x->max, n, x->option);
	account_add(a, n);
	return 0;
}

void account_add(struct account *a, size_t n)
{
	for (; a; a = a->above)
		a->bytes += n;
}

void account_sub(struct account *a, size_t n)
{
	for (; a; a = a->above)
		a->bytes -= n;
}

void account_connection(struct account *a, int n)
{
	for (; a; a = a->above)
		a->connections += (uint32_t)n;
}

const struct account *account_over(const struct account *a)
{
	while (a && (!a->max || a->bytes <= a->max))
		a = a->above;
	return a;
}
