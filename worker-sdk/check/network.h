/* network.h: the results of all nodes about the network between them, as one
 * matrix, and each node's findings that follow from it. Pure: knows no
 * socket. */
#ifndef SDK_CHECK_NETWORK_H
#define SDK_CHECK_NETWORK_H

#include "worker-sdk/check/finding.h"
#include "worker-sdk/check/pair.h"

/* From one node to another. The measurements are those of the pair: they are in
 * the row of the lower node only; 0: not measured. */
struct network_link {
	int code; /* the call's result, as in reach.h */
	int error; /* the measurement's result: 0, or an error code */
	struct pair_result pair;
};

struct network {
	int n;
	struct network_link *links; /* [n][n]: row of the caller */
	const char *const *hosts, *const *addrs; /* borrowed, for texts */
};

/* 0 or -ENOMEM. */
int network_init(struct network *w, int n, const char *const *hosts,
		 const char *const *addrs);
void network_release(struct network *w);

struct network_link *network_at(const struct network *w, int from, int to);
/* 1 if both directions can be called. */
int network_is_linked(const struct network *w, int a, int b);
/* The measurements of a pair; NULL: there are none. */
const struct pair_result *network_pair(const struct network *w, int a, int b);

/* Encodes a node's row; decodes it: 0, or ERR_PROTOCOL. */
void network_put_row(struct buf *b, const struct network *w, int from);
int network_read_row(struct network *w, int from, struct slice bytes,
		     struct err *e);

/* Adds to each node's findings: whether other nodes can reach it (a failure at
 * the fewest nodes that explain all broken links: without them the others can
 * run), its latency and bandwidth (a warning for a node, or a single pair, that
 * is far from the others), and its clock. code_text: reach_text. */
void network_judge(const struct network *w, struct findings *const *nodes,
		   const char *(*code_text)(int code));

/* A summary of all pairs. 0 pairs: the numbers are 0. */
struct network_summary {
	int pairs, measured;
	double rtt_us, mbytes_s; /* medians */
	double slowest_rtt_us, slowest_mbytes_s;
	int far_a, far_b, slow_a, slow_b; /* the pairs that are the slowest */
};
/* 0 or -ENOMEM. */
int network_summarise(const struct network *w, struct network_summary *s);

#endif
