/* election.c: looks up the leader; follows it, or takes its place if there is
 * none; then renews the lease. */
#include "rendezvous/election/election.h"

#include <errno.h>
#include <stdlib.h>
#include <time.h>

#include "base/log.h"

#include "rendezvous/journal/journal_etcd.h"

enum {
	REQUEST_MAX = 64 << 10,
	RESIGN_MS = 1000, /* if we do not lead */
};

enum state {
	LOOKING,     /* reading the key */
	FOLLOWING,   /* another leads; we watch the key, and read it now and
		      * then because the watched member may hang */
	GRANTING,    /* there is no key: getting a lease */
	CAMPAIGNING, /* writing the key, unless it has changed */
	LEADING,
	OVER,
};

static const char *const state_names[] = {
	"LOOKING", "FOLLOWING", "GRANTING", "CAMPAIGNING", "LEADING", "OVER",
};

struct election {
	struct etcd *etcd;
	const struct election_events *events;
	void *owner;
	struct buf key;
	char *address;
	char *other; /* the address reported last; NULL: none */
	int64_t lease;
	uint32_t ttl_s;
	uint64_t within_ms;
	enum state state;
	int changed;	  /* during a request: read the key again */
	int64_t revision; /* LEADING: our key's */
	struct etcd_watch *watch;
	struct etcd_call *call;	 /* the request that the state waits for */
	struct etcd_call *alive; /* renews the lease */
	uv_timer_t timer;	 /* next renewal; FOLLOWING: next read */
	uint64_t asked_ms;	 /* start of the lease's last request; now_ms */
	uint64_t ends_ms;	 /* the lease may end then */
	uint64_t sure_ms;	 /* it lasts until then; 0: not known */
	void (*resigned)(void *owner);
};

static void election_query(struct election *c);
static void election_check_key(struct election *c);
static void election_grant_lease(struct election *c);

/* Includes suspended time, because etcd's clock goes on. */
static uint64_t election_now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_BOOTTIME, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static void election_set_state(struct election *c, enum state s)
{
	log_debug("etcd: %s -> %s", state_names[c->state], state_names[s]);
	c->state = s;
}

struct slice election_key(const struct election *c)
{
	return SLICE(c->key.data, c->key.len);
}

static void election_stop(struct election *c)
{
	if (c->watch)
		etcd_unwatch(c->watch);
	if (c->call)
		etcd_cancel(c->call);
	if (c->alive)
		etcd_cancel(c->alive);
	c->watch = NULL;
	c->call = c->alive = NULL;
	uv_timer_stop(&c->timer);
	c->state = OVER;
}

static void election_fail(struct election *c, const struct err *why)
{
	const struct election_events *events = c->events;

	if (c->state == OVER)
		return;
	election_stop(c);
	events->on_lost(c->owner, why);
}

static void election_fail_no_memory(struct election *c)
{
	struct err e = ERR_INIT;

	err_set(&e, -ENOMEM, "out of memory for a request to etcd");
	election_fail(c, &e);
}

/* Sends the request that the state waits for. */
static void election_send(struct election *c, const char *path,
			  struct buf *body, etcd_done *done)
{
	c->call = body->failed ? NULL
			       : etcd_send(c->etcd, path,
					   SLICE(body->data, body->len),
					   c->within_ms, done, c);
	buf_release(body);
	if (!c->call)
		election_fail_no_memory(c);
}

/* ---- the lease ---- */

static void election_renew(uv_timer_t *t);

static void election_renew_later(struct election *c)
{
	uv_timer_start(&c->timer, election_renew, c->ttl_s * 1000u / 3, 0);
}

static void election_lease_ended(struct election *c)
{
	struct err e = ERR_INIT;

	err_set(&e, ERR_TIMEOUT,
		"etcd (%s) expired this server's lease: it received no renewal "
		"for %u s; was this host stopped, or cut off from the network?",
		etcd_where(c->etcd), c->ttl_s);
	election_fail(c, &e);
}

/* The lease runs from when etcd received the request, which is not before we
 * sent it. etcd's clock may be faster than ours, so does not rely on the last
 * twentieth. */
static void election_extend(struct election *c)
{
	uint64_t ttl_ms = c->ttl_s * 1000u;

	c->ends_ms = c->asked_ms + ttl_ms;
	c->sure_ms = c->ends_ms - ttl_ms / 20;
}

static void election_on_renewed(void *owner, const struct etcd_reply *r,
				const struct err *why)
{
	struct election *c = owner;

	c->alive = NULL;
	if (r && !r->error.len && r->ttl_s > 0)
		election_extend(c);
	if (!r || r->error.len || r->ttl_s <= 0 ||
	    election_now_ms() >= c->ends_ms) {
		election_lease_ended(c);
		return;
	}
	election_renew_later(c);
	c->events->on_longer(c->owner);
}

static void election_renew(uv_timer_t *t)
{
	struct election *c = t->data;
	struct buf body = BUF_INIT(REQUEST_MAX);
	uint64_t now = election_now_ms();

	if (now >= c->ends_ms) {
		election_lease_ended(c);
		return;
	}
	c->asked_ms = now;
	etcd_put_lease(&body, c->lease);
	c->alive =
		etcd_send(c->etcd, ETCD_KEEPALIVE, SLICE(body.data, body.len),
			  c->ends_ms - now, election_on_renewed, c);
	buf_release(&body);
	if (!c->alive)
		election_fail_no_memory(c);
}

int election_is_sure(const struct election *c)
{
	return c->state == LEADING && election_now_ms() < c->sure_ms;
}

/* ---- who leads ---- */

static void election_on_query_due(uv_timer_t *t)
{
	election_query(t->data);
}

static void election_set_other(struct election *c, struct slice address)
{
	char *other = strndup(address.data, address.len);

	if (!other) {
		election_fail_no_memory(c);
		return;
	}
	election_set_state(c, FOLLOWING);
	if (!c->other || strcmp(c->other, other) != 0)
		c->events->on_other(c->owner, other);
	free(c->other);
	c->other = other;
	if (c->changed)
		election_query(c);
	else
		uv_timer_start(&c->timer, election_on_query_due,
			       c->ttl_s * 1000u, 0);
}

static void election_lead(struct election *c, int64_t revision)
{
	election_set_state(c, LEADING);
	c->revision = revision;
	if (!c->sure_ms) /* the lease existed before: its end is unknown */
		c->ends_ms = election_now_ms() + c->ttl_s * 1000u;
	if (!uv_is_active((uv_handle_t *)&c->timer) && !c->alive)
		election_renew(&c->timer);
	if (c->state == LEADING)
		c->events->on_won(c->owner, revision);
	if (c->state == LEADING && c->changed)
		election_check_key(c);
}

static void election_claim(struct election *c, int64_t modified);

/* Handles the key's current state. With our lease and address it is ours: our
 * request was repeated, or our agent's former process wrote it. */
static void election_handle_key(struct election *c, const struct etcd_kv *kv)
{
	if (kv->lease == c->lease && kv->value.len == strlen(c->address) &&
	    memcmp(kv->value.data, c->address, kv->value.len) == 0)
		election_claim(c, kv->modified);
	else
		election_set_other(c, kv->value);
}

static void election_set_none(struct election *c)
{
	free(c->other);
	c->other = NULL;
	election_grant_lease(c);
	if (c->state != OVER)
		c->events->on_none(c->owner);
}

static void election_on_queried(void *owner, const struct etcd_reply *r,
				const struct err *why)
{
	struct election *c = owner;

	c->call = NULL;
	if (!r || r->error.len)
		election_fail(c, why);
	else if (r->nkvs)
		election_handle_key(c, r->kvs);
	else
		election_set_none(c);
}

static void election_query(struct election *c)
{
	struct buf body = BUF_INIT(REQUEST_MAX);

	c->changed = 0;
	uv_timer_stop(&c->timer);
	election_set_state(c, LOOKING);
	etcd_put_range(&body, election_key(c), SLICE("", 0), 1, 0);
	election_send(c, ETCD_RANGE, &body, election_on_queried);
}

static void election_on_checked(void *owner, const struct etcd_reply *r,
				const struct err *why)
{
	struct election *c = owner;
	struct err e = ERR_INIT;

	c->call = NULL;
	if (c->changed) {
		election_check_key(c);
		return;
	}
	if (!r || r->error.len || (r->nkvs && r->kvs->modified == c->revision))
		return; /* a failed request is handled by the lease */
	err_set(&e, ERR_ABORTED,
		"another process wrote or removed %.*s in etcd (%s)",
		(int)c->key.len, c->key.data, etcd_where(c->etcd));
	election_fail(c, &e);
}

/* Checks that the key is still ours. */
static void election_check_key(struct election *c)
{
	struct buf body = BUF_INIT(REQUEST_MAX);

	c->changed = 0;
	etcd_put_range(&body, election_key(c), SLICE("", 0), 1, 0);
	election_send(c, ETCD_RANGE, &body, election_on_checked);
}

static void election_on_changed(void *owner)
{
	struct election *c = owner;

	if (c->state == FOLLOWING)
		election_query(c);
	else if (c->state == LEADING && !c->call)
		election_check_key(c);
	else
		c->changed = 1;
}

/* ---- becoming the leader ---- */

static void election_on_key(void *owner, const struct etcd_reply *r,
			    const struct err *why)
{
	struct election *c = owner;

	c->call = NULL;
	if (r && r->code == ETCD_NOT_FOUND)
		election_grant_lease(
			c); /* the lease ended before its use */
	else if (!r || r->error.len)
		election_fail(c, why);
	else if (r->succeeded)
		election_lead(c, r->revision);
	else if (r->nkvs)
		election_handle_key(c, r->kvs);
	else
		election_query(c);
}

/* Writes the key if it still has that revision; 0: if it does not exist. */
static void election_claim(struct election *c, int64_t modified)
{
	struct buf body = BUF_INIT(REQUEST_MAX);
	struct etcd_txn t;

	election_set_state(c, CAMPAIGNING);
	etcd_txn_init(&t, REQUEST_MAX);
	etcd_txn_if_modified(&t, election_key(c), modified);
	/* also if it is ours: late writes of our agent's former process depend
	 * on the old revision and fail from here on */
	etcd_txn_put(&t, election_key(c), SLICE_STR(c->address), c->lease);
	etcd_txn_else_get(&t, election_key(c), SLICE("", 0), 1);
	etcd_put_txn(&body, &t);
	etcd_txn_release(&t);
	election_send(c, ETCD_TXN, &body, election_on_key);
}

static void election_on_granted(void *owner, const struct etcd_reply *r,
				const struct err *why)
{
	struct election *c = owner;

	c->call = NULL;
	/* FAILED_PRECONDITION: our lease exists already, for an unknown time */
	if (!r || (r->error.len && r->code != ETCD_PRECONDITION)) {
		election_fail(c, why);
		return;
	}
	election_extend(c);
	if (r->error.len)
		c->sure_ms = 0;
	election_claim(c, 0);
}

static void election_grant_lease(struct election *c)
{
	struct buf body = BUF_INIT(REQUEST_MAX);

	election_set_state(c, GRANTING);
	c->asked_ms = election_now_ms();
	etcd_put_grant(&body, c->lease, c->ttl_s);
	election_send(c, ETCD_GRANT, &body, election_on_granted);
}

/* ---- begin and end ---- */

static void election_on_closed(uv_handle_t *t)
{
	struct election *c = t->data;

	buf_release(&c->key);
	free(c->address);
	free(c->other);
	free(c);
}

int election_start(struct election **out, struct etcd *etcd, uv_loop_t *loop,
		   const struct election_options *o,
		   const struct election_events *events, void *owner,
		   struct err *e)
{
	struct election *c = calloc(1, sizeof(*c));

	if (!c)
		return err_no_memory(e, "the election in etcd");
	c->etcd = etcd;
	c->events = events;
	c->owner = owner;
	c->lease = o->lease;
	c->ttl_s = o->ttl_s;
	c->within_ms = o->within_ms;
	c->address = strdup(o->address);
	buf_init(&c->key, REQUEST_MAX);
	journal_etcd_put_folder(&c->key, o->job);
	buf_printf(&c->key, "server");
	if (!c->key.failed && c->address)
		c->watch = etcd_watch(etcd, election_key(c), SLICE("", 0),
				      election_on_changed, c);
	uv_timer_init(loop, &c->timer);
	c->timer.data = c;
	if (!c->watch) {
		election_close(c);
		return err_no_memory(e, "the election in etcd");
	}
	*out = c;
	election_query(c);
	return 0;
}

static void election_on_resigned(void *owner, const struct etcd_reply *r,
				 const struct err *why)
{
	struct election *c = owner;

	c->call = NULL;
	c->resigned(c->owner);
}

void election_resign(struct election *c, void (*done)(void *owner))
{
	struct buf body = BUF_INIT(REQUEST_MAX);
	/* the key may be our former process's until we have read it */
	int may_be_ours = c->state != FOLLOWING && c->state != OVER;
	int led = c->state == LEADING;

	election_stop(c);
	c->resigned = done;
	etcd_put_lease(&body, c->lease);
	if (may_be_ours)
		c->call = etcd_send(c->etcd, ETCD_REVOKE,
				    SLICE(body.data, body.len),
				    led ? c->ttl_s * 1000u : RESIGN_MS,
				    election_on_resigned, c);
	buf_release(&body);
	if (!c->call)
		done(c->owner);
}

void election_close(struct election *c)
{
	election_stop(c);
	uv_close((uv_handle_t *)&c->timer, election_on_closed);
}
