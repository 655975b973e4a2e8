/* torch_wire.h: PyTorch's TCPStore protocol as bytes: requests cut out of what
 * has come, replies put. Pure: no sockets, no store, no clock. Its layouts are
 * those of torch/csrc/distributed/c10d/TCPStore.cpp (PyTorch, BSD licence). */
#ifndef RENDEZVOUS_TORCH_WIRE_H
#define RENDEZVOUS_TORCH_WIRE_H

#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

enum {
	TORCH_KEY_MAX = 8 << 10,
	TORCH_VALUE_MAX = 8 << 20,
	TORCH_KEYS_MAX = 131072,
	/* A request is applied whole, so it has to fit in here; PyTorch's
	 * server takes a MULTI_SET in parts and has no such limit. */
	TORCH_REQUEST_MAX = 64 << 20,
	TORCH_REPLY_MAX = 64 << 20, /* a client may leave that much unread */
	TORCH_MAGIC = 0x3c85f7ce,
	TORCH_STRINGS = 3, /* in a request that is no list */
};

/* Who it is, by the first bytes that it sends. */
enum torch_generation {
	TORCH_UNKNOWN,  /* more must come */
	TORCH_NOT,      /* not PyTorch */
	TORCH_OLD,      /* up to 2.0: no handshake, other numbers */
	TORCH_MAGICAL,  /* some of 2023: the magic before each request */
	TORCH_MODERN,   /* 2.2 and later: VALIDATE once */
};

enum torch_op {
	TORCH_VALIDATE, TORCH_SET, TORCH_COMPARE_SET, TORCH_GET, TORCH_ADD,
	TORCH_CHECK, TORCH_WAIT, TORCH_GETNUMKEYS, TORCH_DELETE_KEY,
	TORCH_APPEND, TORCH_MULTI_GET, TORCH_MULTI_SET, TORCH_CANCEL_WAIT,
	TORCH_PING, TORCH_QUEUE_PUSH, TORCH_QUEUE_POP, TORCH_QUEUE_LEN,
	TORCH_LIST_KEYS, TORCH_BARRIER,
	TORCH_MODERN_OPS,
	TORCH_WATCH_KEY = TORCH_MODERN_OPS, /* TORCH_OLD only */
	TORCH_OPS
};

/* Reply bytes of CHECK; of WAIT and BARRIER; of CANCEL_WAIT; of WATCH_KEY, and
 * what follows on it for each change. */
enum { TORCH_READY, TORCH_NOT_READY };
enum { TORCH_STOP_WAITING, TORCH_WAIT_CANCELED };
enum { TORCH_UPDATED, TORCH_CREATED, TORCH_DELETED, TORCH_REGISTERED };

/* One request; its slices point into the bytes that it was cut from. */
struct torch_request {
	enum torch_op op;
	/* SET, APPEND, QUEUE_PUSH: key, value. COMPARE_SET: key, expected,
	 * desired. BARRIER and those with one key: key. */
	struct slice text[TORCH_STRINGS];
	int64_t number; /* ADD's delta, BARRIER's world size, PING's nonce */
	uint32_t count;     /* of a list: its items */
	struct slice items; /* key by key, or key, value by key, value */
};

/* How far the request at the start of the buffer was looked at, so that one
 * that comes in many parts is read once. Zeroed for each request. */
struct torch_cursor {
	size_t at;
	uint32_t strings; /* that are whole before at */
};

/* The generation of who begins with `in`. */
enum torch_generation torch_sniff(struct slice in);

/* Cuts the request at the start of in, and zeroes the cursor. Returns its size
 * in bytes; 0: more must come, and c remembers how far this was looked at, for
 * a call with the same bytes and more behind them; ERR_PROTOCOL with text: no
 * such operation, wrong magic, or over a limit. */
long torch_cut(struct slice in, enum torch_generation g,
	       struct torch_cursor *c, struct torch_request *r, struct err *e);

/* How many bytes more the request needs at least, as far as is known. */
size_t torch_wants(struct slice in, const struct torch_cursor *c);

/* The next of a list's items. */
struct slice torch_item(struct reader *r);

void torch_put_text(struct buf *b, struct slice s); /* u64 length, bytes */

/* "SET", "WAIT"; for logs. */
const char *torch_op_name(enum torch_op op);

#endif
