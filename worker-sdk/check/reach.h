/* reach.h: which nodes this one can reach, and which can reach it: each node
 * calls all others at once, at the addresses that a job would use, and both
 * ends prove that they belong to the job (tcp_hello.h). Owns the
 * connections. */
#ifndef SDK_CHECK_REACH_H
#define SDK_CHECK_REACH_H

#include "base/sock.h"
#include "worker-sdk/core/key.h"
#include "worker-sdk/tcp/tcp_callers.h"

/* REACH_OK, or why a link is broken: an errno, or one of these. The values
 * travel to other nodes. */
enum {
	REACH_OK = 0,
	REACH_NO_ANSWER = 100000, /* not even a refusal */
	REACH_STRANGER = 100001,  /* the other end is not a node of this job */
	REACH_NO_NAME = 100002,   /* the node's name has no address here */
	REACH_SILENT = 100003,	  /* connected, but without a proof */
};

struct reach_peer {
	struct endpoint where; /* set by the caller */
	int code; /* the result of the call to it */
	int out, in; /* connections made by us and by it; -1: none */
};

struct reach_call;

struct reach {
	int me, n;
	uint32_t round;
	unsigned char key[DDP__KEY];
	struct ddp__listener listener;
	struct reach_peer *peers; /* n; peers[me] is not used */
	/* private: */
	struct ddp__callers callers;
	struct reach_call *calls;
	int missing; /* calls that are under way */
};

/* Listens at addr, on a free port, which *port gets. The caller then fills in
 * key and peers[].where, and calls reach_release, also after an error. */
int reach_init(struct reach *r, int me, int n, uint32_t round, const char *addr,
	       uint16_t *port, struct err *e);
void reach_release(struct reach *r);

/* Calls all others, and answers their calls, until each call has succeeded or
 * failed. A call fails if it does not connect within connect_ms, or if the
 * proof takes longer than answer_ms: the other node needs a CPU for it. Sets
 * peers[].code and out. -ENOMEM or 0: a broken link is not an error. */
int reach_all(struct reach *r, int connect_ms, int answer_ms, struct err *e);
/* Answers calls that have arrived, without waiting; other nodes may still call
 * when our own calls have ended. Sets peers[].in. */
void reach_serve(struct reach *r);

/* "no answer (a firewall?)": a few words for a code. */
const char *reach_text(int code);

#endif
