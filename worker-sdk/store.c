/* store.c: the public store calls, on whatever store the world has (kv.h). */
#include <string.h>

#include "rendezvous/wire.h"
#include "worker-sdk/comm.h"
#include "worker-sdk/last_error.h"

/* Checks what all calls have; *k is the key. */
static int check(const ddp_comm *c, const char *what, const char *key,
		 const void *value, size_t size, struct slice *k)
{
	struct err *e = ddp__last_error();

	if (!c || !key || (!value && size))
		return err_set(e, ERR_ARGUMENT, "%s: %s is NULL", what,
			       !c     ? "the communicator"
			       : !key ? "key"
				      : "value");
	*k = SLICE_STR(key);
	if (k->len < 1 || k->len > WIRE_KEY_MAX)
		return err_set(e, ERR_ARGUMENT,
			       "%s: a key of %zu bytes; 1 to %d are legal",
			       what, k->len, WIRE_KEY_MAX);
	if (size > WIRE_VALUE_MAX)
		return err_set(e, ERR_ARGUMENT,
			       "%s: %s: a value of %zu bytes; at most %d", what,
			       key, size, WIRE_VALUE_MAX);
	return 0;
}

int ddp_store_set(ddp_comm *c, const char *key, const void *value, size_t size)
{
	struct slice k;
	int rc = check(c, "ddp_store_set", key, value, size, &k);
	struct ddp__kv *kv;

	if (rc)
		return rc;
	kv = c->world->kv;
	return kv->ops->set(kv, k, SLICE(value, size), ddp__last_error());
}

int64_t ddp_store_get(ddp_comm *c, const char *key, void *value,
		      size_t capacity, int timeout_ms)
{
	struct err *e = ddp__last_error();
	struct slice k, got;
	int rc = check(c, "ddp_store_get", key, value, capacity ? 1 : 0, &k);
	struct ddp__kv *kv;

	if (rc)
		return rc;
	kv = c->world->kv;
	rc = kv->ops->get(kv, k, timeout_ms, &got, e);
	if (rc == 0)
		return err_set(e, ERR_TIMEOUT, "ddp_store_get: no key %s%s",
			       key,
			       !c->world->env.alone
				       ? ""
				       : "; in a world of one nobody else can "
					 "set it");
	if (rc < 0)
		return rc;
	if (capacity && got.len)
		memcpy(value, got.data,
		       got.len < capacity ? got.len : capacity);
	return (int64_t)got.len;
}

int ddp_store_add(ddp_comm *c, const char *key, int64_t delta, int64_t *result)
{
	int64_t sum = 0;
	struct slice k;
	int rc = check(c, "ddp_store_add", key, NULL, 0, &k);

	if (rc)
		return rc;
	rc = c->world->kv->ops->add(c->world->kv, k, delta, &sum,
				    ddp__last_error());
	if (rc >= 0 && result)
		*result = sum;
	return rc < 0 ? rc : 0;
}

static int same(struct slice a, struct slice b)
{
	return a.len == b.len && (!a.len || !memcmp(a.data, b.data, a.len));
}

int ddp_store_compare_set(ddp_comm *c, const char *key, const void *expected,
			  size_t expected_size, const void *desired,
			  size_t desired_size)
{
	struct slice k, now = {NULL, 0};
	struct slice old = SLICE(expected, expected_size);
	struct slice new = SLICE(desired, desired_size);
	int rc = check(c, "ddp_store_compare_set", key, expected, expected_size,
		       &k);

	if (!rc)
		rc = check(c, "ddp_store_compare_set", key, desired,
			   desired_size, &k);
	if (rc)
		return rc;
	rc = c->world->kv->ops->compare_set(c->world->kv, k, old, new, &now,
					    ddp__last_error());
	return rc <= 0 ? rc : same(now, new);
}

int ddp_store_append(ddp_comm *c, const char *key, const void *value,
		     size_t size)
{
	struct slice k;
	int rc = check(c, "ddp_store_append", key, value, size, &k);

	if (rc)
		return rc;
	rc = c->world->kv->ops->append(c->world->kv, k, SLICE(value, size),
				       ddp__last_error());
	return rc < 0 ? rc : 0;
}

int ddp_store_delete(ddp_comm *c, const char *key)
{
	struct slice k;
	int rc = check(c, "ddp_store_delete", key, NULL, 0, &k);

	if (rc)
		return rc;
	return c->world->kv->ops->delete(c->world->kv, k, ddp__last_error());
}
