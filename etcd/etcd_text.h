/* etcd_text.h: etcd's requests and replies in the JSON of its HTTP gateway (API
 * v3, "gRPC gateway" in etcd's documentation): keys and values are base64,
 * 64-bit numbers are strings. Pure: bytes in, bytes out. */
#ifndef ETCD_TEXT_H
#define ETCD_TEXT_H

#include "base/buf.h"
#include "base/error.h"

/* Bodies of requests; each appends one JSON object to out. */

/* The keys from `key` to before `end`, in order, at most limit (0: all) of
 * them; with an empty end only `key`. revision 0: the current one. */
void etcd_put_range(struct buf *out, struct slice key, struct slice end,
		    int64_t limit, int64_t revision);
/* We choose the id, so that a repeated request is the same. */
void etcd_put_grant(struct buf *out, int64_t id, int64_t ttl_s);
void etcd_put_lease(struct buf *out, int64_t id); /* keepalive, revoke */
/* Watches changes of these keys from that revision on. */
void etcd_put_watch(struct buf *out, struct slice key, struct slice end,
		    int64_t revision);
void etcd_put_login(struct buf *out, const char *user, const char *password);

/* A transaction: `then` if all compares hold, else `otherwise`, in one
 * revision. */
struct etcd_txn {
	struct buf compare, then, otherwise;
};

void etcd_txn_init(struct etcd_txn *t, size_t max);
void etcd_txn_release(struct etcd_txn *t);
/* Holds if the key was not written since that revision; with 0, if it does not
 * exist. */
void etcd_txn_if_modified(struct etcd_txn *t, struct slice key,
			  int64_t revision);
/* The key is deleted with its lease; 0: no lease. */
void etcd_txn_put(struct etcd_txn *t, struct slice key, struct slice value,
		  int64_t lease);
void etcd_txn_delete(struct etcd_txn *t, struct slice key, struct slice end);
void etcd_txn_else_get(struct etcd_txn *t, struct slice key, struct slice end,
		       int64_t limit);
void etcd_put_txn(struct buf *out, const struct etcd_txn *t);

struct etcd_kv {
	struct slice key, value; /* empty value: deleted, or empty */
	int64_t created, modified, lease;
	int deleted; /* in a watch's events */
};

/* A parsed reply; fields that it lacks are 0. */
struct etcd_reply {
	int64_t revision;
	int succeeded; /* a transaction's compares held */
	int more;      /* a range has more keys than its limit */
	int canceled;  /* the watch; a new one can begin at compacted */
	int64_t compacted;
	int64_t lease, ttl_s;
	struct etcd_kv *kvs; /* a range's, a transaction's, or events */
	size_t nkvs;
	struct slice token; /* a login's */
	struct slice error; /* etcd's own text; empty: none */
	int code;           /* gRPC's number of the error */
	struct buf memory;  /* that the slices point to */
};

enum { /* gRPC's codes that we handle */
	ETCD_NOT_FOUND = 5,
	ETCD_DENIED = 7,
	ETCD_PRECONDITION = 9,
	ETCD_UNAVAILABLE = 14,
	ETCD_UNAUTHENTICATED = 16,
};

/* 0, and the caller releases r; or ERR_PROTOCOL: it is not a reply from etcd.
 */
int etcd_reply_parse(struct etcd_reply *r, struct slice json, struct err *e);
void etcd_reply_release(struct etcd_reply *r);

#endif
