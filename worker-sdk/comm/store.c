/* store.c: the public store calls, on any kind of store that the world has
 * (kv.h). */
#include "worker-sdk/comm/comm.h"

#include <sched.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "rendezvous/wire.h"
#include "worker-sdk/comm/call_guard.h"
#include "worker-sdk/comm/engine.h"
#include "worker-sdk/core/last_error.h"

/* With a progress thread, a get waits in slices of this length, so that the
 * thread can ask between two slices why a rank does not arrive. */
enum { SLICE_MS = 200 };

struct ddp__kv *ddp__store_lock(struct ddp__world *w)
{
	/* Otherwise a caller that waits in slices would take the lock again
	 * before the other thread has woken up. */
	while (atomic_load(&w->kv_wanted))
		sched_yield();
	pthread_mutex_lock(&w->kv_lock);
	return w->kv;
}

struct ddp__kv *ddp__store_lock_within(struct ddp__world *w, int ms)
{
	int rc;

	/* TSan of gcc 12 does not know pthread_mutex_clocklock */
	atomic_fetch_add(&w->kv_wanted, 1);
	while ((rc = pthread_mutex_trylock(&w->kv_lock)) && ms-- > 0)
		nanosleep(&(struct timespec){0, 1000000}, NULL);
	atomic_fetch_sub(&w->kv_wanted, 1);
	return rc ? NULL : w->kv;
}

void ddp__store_unlock(struct ddp__world *w)
{
	pthread_mutex_unlock(&w->kv_lock);
}

/* Checks the arguments that all calls share; *k is the key. */
static int store_check(const ddp_comm *c, const char *what, const char *key,
		       const void *value, size_t size, struct slice *k)
{
	struct err *e = ddp__last_error();
	int rc = ddp__check_comm(c, what, e);

	if (rc)
		return rc;
	if (!key || (!value && size))
		return err_set(e, ERR_ARGUMENT, "%s: %s is NULL", what,
			       key ? "value" : "key");
	*k = SLICE_STR(key);
	if (k->len < 1 || k->len > WIRE_KEY_MAX)
		return err_set(
			e, ERR_ARGUMENT,
			"%s: the key has %zu bytes, but 1 to %d are legal",
			what, k->len, WIRE_KEY_MAX);
	if (size > WIRE_VALUE_MAX)
		return err_set(
			e, ERR_ARGUMENT,
			"%s: %s: the value has %zu bytes, but the limit is %d",
			what, key, size, WIRE_VALUE_MAX);
	return 0;
}

/* Checks the arguments and takes the store, which the caller gives back. */
static int store_take(const ddp_comm *c, const char *what, const char *key,
		      const void *value, size_t size, struct slice *k,
		      struct ddp__kv **kv)
{
	int rc = store_check(c, what, key, value, size, k);

	if (!rc)
		*kv = ddp__store_lock(c->world);
	return rc;
}

int ddp_store_set(ddp_comm *c, const char *key, const void *value, size_t size)
{
	struct ddp__kv *kv;
	struct slice k;
	int rc = store_take(c, "ddp_store_set", key, value, size, &k, &kv);

	if (rc)
		return rc;
	rc = kv->ops->set(kv, k, SLICE(value, size), ddp__last_error());
	ddp__store_unlock(c->world);
	return rc;
}

static int store_is_watched(const struct ddp__world *w)
{
	return w->engine && w->engine->threaded && w->kv->ops->fate;
}

/* Takes the store, which the caller gives back, and asks for k until the key
 * exists or timeout_ms (< 0: no limit) has passed. */
static int store_take_and_get(struct ddp__world *w, struct slice k,
			      int timeout_ms, struct slice *got, struct err *e)
{
	struct ddp__kv *kv = ddp__store_lock(w);
	uint64_t start = clock_ms(), waited = 0;

	if (!store_is_watched(w))
		return kv->ops->get(kv, k, timeout_ms, got, e);
	for (;;) {
		uint64_t before = waited;
		int ms = SLICE_MS, rc;

		if (timeout_ms >= 0 && (uint64_t)timeout_ms - waited < SLICE_MS)
			ms = timeout_ms - (int)waited;
		rc = kv->ops->get(kv, k, ms, got, e);
		waited = clock_ms() - start;
		/* an early ERR_TIMEOUT means that the store's server is gone */
		if (rc != ERR_TIMEOUT || waited - before < (uint64_t)ms / 2)
			return rc;
		if (timeout_ms >= 0 && waited >= (uint64_t)timeout_ms)
			return err_set(e, rc, "waited %.1f s: nobody has set "
				       "key '%.*s'", (double)waited / 1e3,
				       SLICE_FMT(k));
		ddp__store_unlock(w);
		ddp__store_lock(w);
	}
}

int64_t ddp_store_get(ddp_comm *c, const char *key, void *value,
		      size_t capacity, int timeout_ms)
{
	struct err *e = ddp__last_error();
	struct slice k, got;
	int rc = store_check(c, "ddp_store_get", key, value, capacity ? 1 : 0,
			     &k);

	if (rc)
		return rc;
	rc = store_take_and_get(c->world, k, timeout_ms, &got, e);
	if (rc > 0 && capacity && got.len)
		memcpy(value, got.data,
		       got.len < capacity ? got.len : capacity);
	ddp__store_unlock(c->world);
	if (rc == 0)
		return err_set(e, ERR_TIMEOUT, "ddp_store_get: no key %s%s",
			       key,
			       !c->world->env.alone ? ""
						    : "; in a world of one, no "
						      "other rank can set it");
	return rc < 0 ? rc : (int64_t)got.len;
}

int ddp_store_add(ddp_comm *c, const char *key, int64_t delta, int64_t *result)
{
	int64_t sum = 0;
	struct ddp__kv *kv;
	struct slice k;
	int rc = store_take(c, "ddp_store_add", key, NULL, 0, &k, &kv);

	if (rc)
		return rc;
	rc = kv->ops->add(kv, k, delta, &sum, ddp__last_error());
	ddp__store_unlock(c->world);
	if (rc >= 0 && result)
		*result = sum;
	return rc < 0 ? rc : 0;
}

int ddp_store_compare_set(ddp_comm *c, const char *key, const void *expected,
			  size_t expected_size, const void *desired,
			  size_t desired_size)
{
	struct slice k, now = {NULL, 0};
	struct slice old = SLICE(expected, expected_size);
	struct slice new = SLICE(desired, desired_size);
	struct ddp__kv *kv;
	int rc = store_check(c, "ddp_store_compare_set", key, expected,
			     expected_size, &k);

	if (!rc)
		rc = store_take(c, "ddp_store_compare_set", key, desired,
				desired_size, &k, &kv);
	if (rc)
		return rc;
	rc = kv->ops->compare_set(kv, k, old, new, &now, ddp__last_error());
	if (rc > 0)
		rc = slice_is_equal(now, new);
	ddp__store_unlock(c->world);
	return rc;
}

int ddp_store_append(ddp_comm *c, const char *key, const void *value,
		     size_t size)
{
	struct ddp__kv *kv;
	struct slice k;
	int rc = store_take(c, "ddp_store_append", key, value, size, &k, &kv);

	if (rc)
		return rc;
	rc = kv->ops->append(kv, k, SLICE(value, size), ddp__last_error());
	ddp__store_unlock(c->world);
	return rc < 0 ? rc : 0;
}

int ddp_store_delete(ddp_comm *c, const char *key)
{
	struct ddp__kv *kv;
	struct slice k;
	int rc = store_take(c, "ddp_store_delete", key, NULL, 0, &k, &kv);

	if (rc)
		return rc;
	rc = kv->ops->delete(kv, k, ddp__last_error());
	ddp__store_unlock(c->world);
	return rc;
}
