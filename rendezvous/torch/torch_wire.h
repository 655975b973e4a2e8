/* torch_wire.h: PyTorch's TCPStore protocol as bytes: cuts requests out of the
 * input and encodes replies. Pure: no sockets, no store, no clock. The layouts
 * are those of torch/csrc/distributed/c10d/TCPStore.cpp (PyTorch, BSD
 * licence). */
#ifndef RENDEZVOUS_TORCH_WIRE_H
#define RENDEZVOUS_TORCH_WIRE_H

#include <stdint.h>

#include "base/buf.h"
#include "base/error.h"

enum {
	TORCH_KEY_MAX = 8 << 10,
	TORCH_VALUE_MAX = 8 << 20,
	TORCH_KEYS_MAX = 131072,
	/* A request is applied as a whole, so it must fit in this. PyTorch's
	 * server applies a MULTI_SET in parts and has no such limit. */
	TORCH_REQUEST_MAX = 64 << 20,
	TORCH_REPLY_MAX = 64 << 20, /* the most that a client may leave
				     * unread */
	TORCH_MAGIC = 0x3c85f7ce,
	TORCH_STRINGS = 3, /* at most, in a request without a list */
};

/* The client's version, by its first bytes. */
enum torch_generation {
	TORCH_UNKNOWN,  /* more bytes are needed */
	TORCH_NOT,      /* not PyTorch */
	TORCH_OLD,      /* up to 2.0: no handshake, other operation numbers */
	TORCH_MAGICAL,  /* some versions of 2023: the magic before each
			 * request */
	TORCH_MODERN,   /* 2.2 and later: one VALIDATE first */
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

/* Reply bytes of CHECK; of WAIT and BARRIER; of CANCEL_WAIT; of WATCH_KEY and
 * of each change after it. */
enum { TORCH_READY, TORCH_NOT_READY };
enum { TORCH_STOP_WAITING, TORCH_WAIT_CANCELED };
enum { TORCH_UPDATED, TORCH_CREATED, TORCH_DELETED, TORCH_REGISTERED };

/* One request; its slices point into the input bytes. */
struct torch_request {
	enum torch_op op;
	/* SET, APPEND, QUEUE_PUSH: key, value. COMPARE_SET: key, expected,
	 * desired. BARRIER and those with one key: key. */
	struct slice text[TORCH_STRINGS];
	int64_t number; /* ADD's delta, BARRIER's world size, PING's nonce */
	uint32_t count;     /* the items of a list */
	struct slice items; /* key by key, or key, value by key, value */
};

/* How far the partial request at the start of the buffer has been parsed, so
 * that bytes are parsed once even if it arrives in many parts. Zeroed for each
 * request. */
struct torch_cursor {
	size_t at;
	uint32_t strings; /* complete ones before at */
};

/* The generation of a client whose first bytes are `in`. */
enum torch_generation torch_sniff(struct slice in);

/* Cuts the request at the start of in, and zeroes the cursor. Returns its size
 * in bytes. 0: it is incomplete; call again with the same bytes and more behind
 * them, and c continues where it was. ERR_PROTOCOL with text: unknown
 * operation, wrong magic, or over a limit. */
long torch_cut(struct slice in, enum torch_generation g,
	       struct torch_cursor *c, struct torch_request *r, struct err *e);

/* The least number of bytes that the request still lacks, as far as is
 * known. */
size_t torch_wants(struct slice in, const struct torch_cursor *c);

/* The next item of a list. */
struct slice torch_item(struct reader *r);

void torch_put_text(struct buf *b, struct slice s); /* u64 length, bytes */

/* "SET", "WAIT"; for logs. */
const char *torch_op_name(enum torch_op op);

#endif
