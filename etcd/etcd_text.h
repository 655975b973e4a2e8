/* etcd_text.h: etcd's requests and replies as JSON, as its HTTP gateway has
 * them (api v3: "gRPC gateway" in etcd's documentation): keys and values are
 * base64, 64-bit numbers strings. Pure: bytes in, bytes out. */
#ifndef ETCD_TEXT_H
#define ETCD_TEXT_H

#include "base/buf.h"
#include "base/error.h"

/* Bodies of requests; each appends one whole JSON object to out. */

/* All keys from `key` to before `end`; end empty: that key alone. By key, at
 * most limit (0: all) of them. revision 0: as of now. */
void etcd_put_range(struct buf *out, struct slice key, struct slice end,
		    int64_t limit, int64_t revision);
/* id is ours to choose, so that a request that is sent again is the same. */
void etcd_put_grant(struct buf *out, int64_t id, int64_t ttl_s);
void etcd_put_lease(struct buf *out, int64_t id); /* keepalive, revoke */
/* Changes of these keys, from that revision on. */
void etcd_put_watch(struct buf *out, struct slice key, struct slice end,
		    int64_t revision);
void etcd_put_login(struct buf *out, const char *user, const char *password);

/* A transaction: if all compares hold, all of `then`, else all of `otherwise`,
 * in one revision. */
struct etcd_txn {
	struct buf compare, then, otherwise;
};

void etcd_txn_init(struct etcd_txn *t, size_t max);
void etcd_txn_release(struct etcd_txn *t);
/* Holds while nobody has written the key since that revision; 0: while there is
 * no such key. */
void etcd_txn_if_modified(struct etcd_txn *t, struct slice key,
			  int64_t revision);
/* lease 0: none; the key goes with its lease. */
void etcd_txn_put(struct etcd_txn *t, struct slice key, struct slice value,
		  int64_t lease);
void etcd_txn_delete(struct etcd_txn *t, struct slice key, struct slice end);
void etcd_txn_else_get(struct etcd_txn *t, struct slice key, struct slice end,
		       int64_t limit);
void etcd_put_txn(struct buf *out, const struct etcd_txn *t);

/* The end of all keys that begin with prefix, into end (as long as prefix). */
struct slice etcd_prefix_end(struct slice prefix, char *end);

struct etcd_kv {
	struct slice key, value; /* empty value: deleted, or empty */
	int64_t created, modified, lease;
	int deleted; /* in a watch's events */
};

/* What a reply said; what it did not say is 0. */
struct etcd_reply {
	int64_t revision;
	int succeeded; /* a transaction's compares held */
	int more;      /* of a range, beyond the limit */
	int canceled;  /* of a watch; compacted says from where on it could */
	int64_t compacted;
	int64_t lease, ttl_s;
	struct etcd_kv *kvs; /* of a range, of a transaction's, or events */
	size_t nkvs;
	struct slice token; /* of a login */
	struct slice error; /* etcd's own text; empty: none */
	int code;           /* with it: gRPC's number */
	struct buf memory;  /* what the slices point to */
};

enum { /* gRPC's codes that we know by number */
	ETCD_NOT_FOUND = 5,
	ETCD_DENIED = 7,
	ETCD_PRECONDITION = 9,
	ETCD_UNAVAILABLE = 14,
	ETCD_UNAUTHENTICATED = 16,
};

/* 0, and r is to be released; ERR_PROTOCOL: this is no reply of etcd's. */
int etcd_reply_parse(struct etcd_reply *r, struct slice json, struct err *e);
void etcd_reply_release(struct etcd_reply *r);

#endif
