/* store.c: the public store calls: on the server's store, or in a world of one
 * without a server on one in this process. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "worker-sdk/comm.h"
#include "worker-sdk/last_error.h"
#include "worker-sdk/local_store.h"

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
	struct err *e = ddp__last_error();
	struct slice k;
	int rc = check(c, "ddp_store_set", key, value, size, &k);

	if (rc)
		return rc;
	return c->client ? client_set(c->client, k, SLICE(value, size), e)
			 : ddp__local_store_set(c->store, k,
						SLICE(value, size), e);
}

/* 1 and *value, 0: not there after timeout_ms, or an error. */
static int find(ddp_comm *c, struct slice key, int timeout_ms,
		struct slice *value, struct err *e)
{
	int rc;

	if (!c->client)
		return ddp__local_store_get(c->store, key, value);
	rc = client_get(c->client, key, value, e);
	if (rc || timeout_ms == 0)
		return rc;
	rc = client_wait(c->client, &key, 1, timeout_ms, e);
	return rc < 0 ? rc : client_get(c->client, key, value, e);
}

int64_t ddp_store_get(ddp_comm *c, const char *key, void *value,
		      size_t capacity, int timeout_ms)
{
	struct err *e = ddp__last_error();
	struct slice k, got;
	int rc = check(c, "ddp_store_get", key, value, capacity ? 1 : 0, &k);

	if (!rc)
		rc = find(c, k, timeout_ms, &got, e);
	else
		return rc;
	if (rc == 0)
		return err_set(e, ERR_TIMEOUT, "ddp_store_get: no key %s%s",
			       key,
			       c->client ? ""
					 : "; in a world of one nobody else "
					   "can set it");
	if (rc < 0)
		return rc;
	if (capacity && got.len)
		memcpy(value, got.data,
		       got.len < capacity ? got.len : capacity);
	return (int64_t)got.len;
}

static int local_add(struct ddp__local_store *s, struct slice key,
		     int64_t delta, int64_t *sum, struct err *e)
{
	struct slice old;
	char text[32] = "0", *end;

	if (ddp__local_store_get(s, key, &old) && old.len) {
		if (old.len >= sizeof(text))
			goto no_number;
		memcpy(text, old.data, old.len);
		text[old.len] = 0;
	}
	errno = 0;
	*sum = strtoll(text, &end, 10);
	if (*end || errno || __builtin_add_overflow(*sum, delta, sum))
		goto no_number;
	snprintf(text, sizeof(text), "%lld", (long long)*sum);
	return ddp__local_store_set(s, key, SLICE_STR(text), e);
no_number:
	return err_set(e, ERR_ARGUMENT,
		       "ddp_store_add: the value of %.*s is no number, or the "
		       "sum does not fit 64 bits", SLICE_FMT(key));
}

int ddp_store_add(ddp_comm *c, const char *key, int64_t delta, int64_t *result)
{
	struct err *e = ddp__last_error();
	int64_t sum = 0;
	struct slice k;
	int rc = check(c, "ddp_store_add", key, NULL, 0, &k);

	if (rc)
		return rc;
	rc = c->client ? client_add(c->client, k, delta, &sum, e)
		       : local_add(c->store, k, delta, &sum, e);
	if (rc >= 0 && result)
		*result = sum;
	return rc < 0 ? rc : 0;
}

static int same(struct slice a, struct slice b)
{
	return a.len == b.len && (!a.len || !memcmp(a.data, b.data, a.len));
}

/* As COMPARE_SET does it: found, and what is there now. */
static int local_compare_set(struct ddp__local_store *s, struct slice key,
			     struct slice expected, struct slice desired,
			     struct slice *now, struct err *e)
{
	int found = ddp__local_store_get(s, key, now), rc;

	if (found ? !same(*now, expected) : expected.len != 0)
		return found;
	rc = ddp__local_store_set(s, key, desired, e);
	return rc ? rc : ddp__local_store_get(s, key, now);
}

int ddp_store_compare_set(ddp_comm *c, const char *key, const void *expected,
			  size_t expected_size, const void *desired,
			  size_t desired_size)
{
	struct err *e = ddp__last_error();
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
	rc = c->client ? client_compare_set(c->client, k, old, new, &now, e)
		       : local_compare_set(c->store, k, old, new, &now, e);
	return rc <= 0 ? rc : same(now, new);
}

int ddp_store_append(ddp_comm *c, const char *key, const void *value,
		     size_t size)
{
	struct err *e = ddp__last_error();
	struct slice k;
	int64_t length;
	int rc = check(c, "ddp_store_append", key, value, size, &k);

	if (rc)
		return rc;
	rc = c->client ? client_append(c->client, k, SLICE(value, size),
				       &length, e)
		       : ddp__local_store_append(c->store, k,
						 SLICE(value, size), e);
	return rc < 0 ? rc : 0;
}

int ddp_store_delete(ddp_comm *c, const char *key)
{
	struct slice k;
	int rc = check(c, "ddp_store_delete", key, NULL, 0, &k);

	if (rc)
		return rc;
	return c->client ? client_delete(c->client, k, ddp__last_error())
			 : ddp__local_store_delete(c->store, k);
}
