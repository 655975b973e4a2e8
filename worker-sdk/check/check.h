/* check.h: a check from start to end, on all nodes at once: each node's probes,
 * calls from each node to every other, measurements in round-robin pairs, then
 * the comparison. At the end every node has the same results and reaches the
 * same verdict. Owns all of it until check_release. */
#ifndef SDK_CHECK_CHECK_H
#define SDK_CHECK_CHECK_H

#include "base/buf.h"
#include "worker-sdk/check/network.h"
#include "worker-sdk/check/reach.h"
#include "worker-sdk/core/env.h"
#include "worker-sdk/kv/kv.h"

/* ---- exchange.c ----
 *
 * Values that the nodes of a check exchange through the store of their round:
 * each node sets one and gets those of all. Owns the connection to the store,
 * which the environment names (core/env.h). */

struct exchange {
	struct ddp__env env;
	char host[SOCK_HOST_MAX]; /* this host's name */
	struct ddp__kv *kv;
	int me, n; /* this node's rank, and the number of nodes */
};

/* Connects. ERR_USAGE: not started by ddprun. */
int exchange_open(struct exchange *x, struct err *e);
void exchange_close(struct exchange *x); /* also after an error */

/* Sets this node's value and waits, at most time_ms, for those of all nodes:
 * values[n], which the caller releases, also after an error. what: the values'
 * name, new each time. meanwhile, unless it is NULL, is called repeatedly while
 * nodes are missing. ERR_TIMEOUT names the missing node. */
int exchange_gather(struct exchange *x, const char *what, struct slice mine,
		    struct buf *values, int time_ms,
		    void (*meanwhile)(void *arg), void *arg, struct err *e);

/* exchange_set sets this node's flag; exchange_wait waits for `node`'s, without
 * limit: if it is never set, the round ends, and this process with it. */
int exchange_set(struct exchange *x, const char *what, struct err *e);
int exchange_wait(struct exchange *x, const char *what, int node,
		  struct err *e);

enum { CHECK_PARTS_MAX = 8, CHECK_ADDR_MAX = SOCK_TEXT_MAX };

struct check_options {
	int full; /* --full: 30 s instead of 2 */
	const char *folders, *command; /* as in probe_options */
	int with_collective; /* ddp_init and all_reduce as well */
	int time_ms; /* for each probe; 0: the default (for tests) */
};

struct check_node {
	char host[SOCK_HOST_MAX], addr[CHECK_ADDR_MAX];
	uint16_t port;
	struct findings found;
};

struct check_part {
	const char *name;
	double seconds; /* on this node */
};

struct check {
	const struct check_options *o;
	struct exchange x;
	struct check_node *nodes; /* x.n */
	struct network network;
	struct check_part parts[CHECK_PARTS_MAX];
	int nparts;
	/* private: */
	uint64_t part_ns;
	struct reach reach;
	unsigned char cookie[DDP__COOKIE]; /* node 0's */
	const char **hosts, **addrs;
	struct findings **founds;
	struct buf *values;
};

/* Runs the check over c->x, which exchange_open has opened. 0, or the error
 * that stopped the check: a node that does not report, a lost server, no
 * memory. A node that is not fit is not an error. */
int check_run(struct check *c, const struct check_options *o, struct err *e);
void check_release(struct check *c); /* also closes the exchange */

/* The worst verdict of all nodes. */
enum finding_verdict check_verdict(const struct check *c);

/* ---- report.c ----
 *
 * The results of a check as a table for people, which marks faults and
 * differences, and as JSON (docs/man/ddprun-check.1). */

/* Appends the table. */
void report_put_table(struct buf *out, const struct check *c);
/* "2 of 2 nodes are fit, 1 warning (quick, 0.31 s)" */
void report_put_summary(struct buf *out, const struct check *c);
/* The warnings and failures, one per line. */
void report_put_marks(struct buf *out, const struct check *c);
/* Appends the JSON. 0, or an error if cJSON or memory is missing. */
int report_put_json(struct buf *out, const struct check *c, struct err *e);

#endif
