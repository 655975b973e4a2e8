/* network.h: what the nodes found out about the network between them, as one
 * matrix, and what that says about each node. Pure: knows no socket. */
#ifndef SDK_CHECK_NETWORK_H
#define SDK_CHECK_NETWORK_H

#include "worker-sdk/check/finding.h"
#include "worker-sdk/check/pair.h"

/* From one node to another. The measurements are those of the pair and are
 * there once, in the row of the lower node; 0: not measured. */
struct network_link {
	int code; /* reach.h's, for the call */
	int error; /* the measurement's: 0, or an error code */
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
/* Both directions can be called. */
int network_is_linked(const struct network *w, int a, int b);
/* The measurements of a pair; NULL: there are none. */
const struct pair_result *network_pair(const struct network *w, int a, int b);

/* The bytes of a node's row, and back: 0, or ERR_PROTOCOL. */
void network_put_row(struct buf *b, const struct network *w, int from);
int network_read_row(struct network *w, int from, struct slice bytes,
		     struct err *e);

/* Adds to each node's findings: whether it can be reached (a failure at as few
 * nodes as explain all links that do not work: leave these out, and the others
 * can run), its latency and bandwidth (a warning for a node, or a single pair,
 * that is far from the others), and its clock. code_text: reach_text. */
void network_judge(const struct network *w, struct findings *const *nodes,
		   const char *(*code_text)(int code));

/* For a summary: of all pairs. 0 pairs: the numbers are 0. */
struct network_summary {
	int pairs, measured;
	double rtt_us, mbytes_s; /* medians */
	double slowest_rtt_us, slowest_mbytes_s;
	int far_a, far_b, slow_a, slow_b; /* the pairs of these */
};
/* 0 or -ENOMEM. */
int network_summarise(const struct network *w, struct network_summary *s);

#endif
