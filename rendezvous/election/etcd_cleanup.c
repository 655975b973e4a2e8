/* etcd_cleanup.c: reads and watches one key. */
#include "rendezvous/election/election.h"

#include <stdlib.h>

#include "rendezvous/journal/journal_etcd.h"

enum { REQUEST_MAX = 64 << 10, SPARE_MS = 5000 };

struct etcd_cleanup {
	struct etcd *etcd;
	struct buf key;
	uint32_t ttl_s;
	void (*on_known)(void *owner, enum etcd_cleanup_state how);
	void *owner;
	struct etcd_watch *watch;
	struct etcd_call *call;
	int changed; /* since the call began */
	uv_timer_t timer;
};

static void etcd_cleanup_query(struct etcd_cleanup *r);

static void etcd_cleanup_on_changed(void *owner)
{
	struct etcd_cleanup *r = owner;

	r->changed = 1;
	if (!r->call)
		etcd_cleanup_query(r);
}

static void etcd_cleanup_on_queried(void *owner, const struct etcd_reply *reply,
				    const struct err *why)
{
	struct etcd_cleanup *r = owner;

	r->call = NULL;
	if (!reply || reply->error.len) {
		r->on_known(r->owner, ETCD_CLEANUP_UNKNOWN);
		return;
	}
	if (!reply->nkvs) {
		r->on_known(r->owner, ETCD_CLEANUP_NONE);
		return;
	}
	if (!r->watch) {
		r->watch = etcd_watch(r->etcd, SLICE(r->key.data, r->key.len),
				      SLICE("", 0), etcd_cleanup_on_changed, r);
		r->on_known(r->owner, ETCD_CLEANUP_THERE);
	} else if (r->changed) {
		etcd_cleanup_query(r);
	}
}

static void etcd_cleanup_query(struct etcd_cleanup *r)
{
	struct buf body = BUF_INIT(REQUEST_MAX);

	r->changed = 0;
	etcd_put_range(&body, SLICE(r->key.data, r->key.len), SLICE("", 0), 1,
		       0);
	if (!body.failed)
		r->call = etcd_send(
			r->etcd, ETCD_RANGE, SLICE(body.data, body.len),
			r->ttl_s * 1000u, etcd_cleanup_on_queried, r);
	buf_release(&body);
}

static void etcd_cleanup_on_timeout(uv_timer_t *t)
{
	struct etcd_cleanup *r = t->data;

	r->on_known(r->owner, ETCD_CLEANUP_UNKNOWN);
}

int etcd_cleanup_watch(struct etcd_cleanup **out, struct etcd *etcd,
		       uv_loop_t *loop, const char *job, uint32_t ttl_s,
		       void (*on_known)(void *owner,
					enum etcd_cleanup_state how),
		       void *owner, struct err *e)
{
	struct etcd_cleanup *r = calloc(1, sizeof(*r));

	if (!r)
		return err_no_memory(e, "the clean-up of etcd");
	r->etcd = etcd;
	r->ttl_s = ttl_s;
	r->on_known = on_known;
	r->owner = owner;
	uv_timer_init(loop, &r->timer);
	r->timer.data = r;
	uv_timer_start(&r->timer, etcd_cleanup_on_timeout,
		       2000ull * ttl_s + SPARE_MS, 0);
	buf_init(&r->key, REQUEST_MAX);
	journal_etcd_put_folder(&r->key, job);
	buf_printf(&r->key, "ended");
	if (!r->key.failed)
		etcd_cleanup_query(r);
	if (!r->call) {
		etcd_cleanup_close(r);
		return err_no_memory(e, "the clean-up of etcd");
	}
	*out = r;
	return 0;
}

static void etcd_cleanup_on_closed(uv_handle_t *t)
{
	struct etcd_cleanup *r = t->data;

	buf_release(&r->key);
	free(r);
}

void etcd_cleanup_close(struct etcd_cleanup *r)
{
	if (!r)
		return;
	if (r->watch)
		etcd_unwatch(r->watch);
	if (r->call)
		etcd_cancel(r->call);
	uv_close((uv_handle_t *)&r->timer, etcd_cleanup_on_closed);
}
