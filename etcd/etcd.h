/* etcd.h: a client of an etcd cluster on a libuv loop, over its HTTP gateway. A
 * request is sent to one member after another until one answers, so it must be
 * idempotent. Knows etcd's calls, not what they are used for. */
#ifndef ETCD_ETCD_H
#define ETCD_ETCD_H

#include "base/loop.h"
#include "etcd/etcd_text.h"
#include "etcd/http.h"

struct etcd;
struct etcd_call;
struct etcd_watch;

struct etcd_options {
	const char *endpoints; /* "host:2379,host:2379" */
	int https;
	struct http_tls tls;
	const char *user, *password; /* or NULL */
};

enum { ETCD_ENDPOINTS_MAX = 16, ETCD_PORT = 2379 };

/* Strings are copied. ERR_USAGE: endpoints do not parse. */
int etcd_new(struct etcd **out, uv_loop_t *loop,
	     const struct etcd_options *options, struct err *e);
/* Drops all calls and watches. Do not call it in a watch's callback. */
void etcd_close(struct etcd *c);

/* r is valid until return; NULL if no member answered in time or etcd refused,
 * and then why has the reason and the last member's address. */
typedef void etcd_done(void *owner, const struct etcd_reply *r,
		       const struct err *why);

/* Paths of the gateway. */
#define ETCD_RANGE "/v3/kv/range"
#define ETCD_TXN "/v3/kv/txn"
#define ETCD_GRANT "/v3/lease/grant"
#define ETCD_KEEPALIVE "/v3/lease/keepalive"
#define ETCD_REVOKE "/v3/lease/revoke"

/* Calls done once, from the loop, after within_ms at the latest, but not after
 * etcd_cancel. body is copied. NULL: out of memory. */
struct etcd_call *etcd_send(struct etcd *c, const char *path,
			    struct slice body, uint64_t within_ms,
			    etcd_done *done, void *owner);
void etcd_cancel(struct etcd_call *k);

/* Calls changed when a key from `key` to before `end` was set or deleted, and
 * whenever one may have been: when the watch begins, and when it moves to
 * another member. The caller then reads the keys. NULL: out of memory. */
struct etcd_watch *etcd_watch(struct etcd *c, struct slice key,
			      struct slice end, void (*changed)(void *owner),
			      void *owner);
void etcd_unwatch(struct etcd_watch *w);

/* "h1:2379, h2:2379", for messages. */
const char *etcd_where(const struct etcd *c);

#endif
