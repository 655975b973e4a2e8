/* reach.h: which nodes can be reached, and which of them reach this one: each
 * node calls all others at once, at the addresses that a job would use, and
 * both ends prove that they belong to the job (tcp_hello.h). Owns the
 * connections. */
#ifndef SDK_CHECK_REACH_H
#define SDK_CHECK_REACH_H

#include "base/sock.h"
#include "worker-sdk/core/key.h"
#include "worker-sdk/tcp/tcp_callers.h"

/* A link that works is REACH_OK; else why it does not: an errno, or one of the
 * following. They travel to other nodes. */
enum {
	REACH_OK = 0,
	REACH_NO_ANSWER = 100000, /* not even a refusal */
	REACH_STRANGER = 100001,  /* not a node of this job */
	REACH_NO_NAME = 100002,   /* its address is a name without one */
	REACH_SILENT = 100003,	  /* connected, but without a proof */
};

struct reach_peer {
	struct endpoint where; /* set by the caller */
	int code; /* calling it */
	int out, in; /* connections that we and it have made; -1: none */
};

struct reach_call;

struct reach {
	int me, n;
	uint32_t round;
	unsigned char key[DDP__KEY];
	struct ddp__listener listener;
	struct reach_peer *peers; /* n; that of `me` is not used */
	/* private: */
	struct ddp__callers callers;
	struct reach_call *calls;
	int missing; /* calls that are under way */
};

/* Listens at addr, at a port that it chooses; *port is that. The caller then
 * fills in key and peers[].where. reach_release, also after an error. */
int reach_init(struct reach *r, int me, int n, uint32_t round, const char *addr,
	       uint16_t *port, struct err *e);
void reach_release(struct reach *r);

/* Calls all others, and answers those that call: until each call has succeeded
 * or failed. A node fails if it does not connect within connect_ms. Then it
 * has answer_ms for the proof, for which the other node needs a CPU.
 * peers[].code and out are set then. -ENOMEM or 0: links that do not work are
 * not an error. */
int reach_all(struct reach *r, int connect_ms, int answer_ms, struct err *e);
/* Answers those that call now; others may still do so when our own calls are
 * over. Does not wait. Sets peers[].in. */
void reach_serve(struct reach *r);

/* "no answer (a firewall?)": a few words for a code. */
const char *reach_text(int code);

#endif
