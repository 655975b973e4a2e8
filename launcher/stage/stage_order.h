/* stage_order.h: what an agent's stage helper is to do, and what it reports:
 * the bytes of the pipes between them. Pure.
 *
 * A report is a line: a letter, a blank, and
 *   L BYTES FILES NAME	the list is known
 *   N TEXT		something worth a log line
 *   P BYTES		of the copy are there
 *   D HOW PATH		the copy is complete: HOW is 0, or 1: it was there
 *   A			and so are those of all nodes after this one
 *   E CODE TEXT	it failed (base/error.h); the helper exits */
#ifndef LAUNCHER_STAGE_ORDER_H
#define LAUNCHER_STAGE_ORDER_H

#include "base/buf.h"
#include "rendezvous/auth/cipher.h"

/* Texts are borrowed. */
struct stage_order {
	struct slice source; /* read it; "": get it from another node */
	struct slice folder; /* keeps the copies; "": the default */
	struct slice copy;   /* pass on this complete copy; "": none */
	struct slice addr;   /* the other node's, without the port */
	uint16_t port;
	struct slice name;   /* the other node's, for messages */
	struct proof token;  /* to get it */
	uint8_t serves;      /* pass it on to the node after this one */
	struct proof own;    /* the token that peers of this node must have */
	struct proof shared; /* the first node's: the key of all frames */
};

enum { STAGE_ORDER_MAX = 64 << 10 };

void stage_order_put(struct buf *out, const struct stage_order *o);
/* 0, or -1: these are not the bytes of an order. */
int stage_order_get(struct stage_order *o, struct slice in);

struct stage_report {
	char kind;
	uint64_t bytes;	   /* L, P */
	uint32_t files;	   /* L */
	int number;	   /* D: HOW; E: CODE */
	struct slice text; /* NAME, TEXT or PATH */
};

/* One line, without its newline. 0, or -1. */
int stage_report_parse(struct stage_report *r, struct slice line);

#endif
