/* round_robin.h: which nodes measure their network together: a round-robin
 * tournament by the circle method, so that each pair meets once and no node is
 * in two pairs at a time. Pure. */
#ifndef SDK_CHECK_ROUND_ROBIN_H
#define SDK_CHECK_ROUND_ROBIN_H

/* n - 1 for an even number of nodes, else n: then one node rests in each. */
int round_robin_rounds(int n);

/* The partner of node `me` in that round; -1: it rests. */
int round_robin_partner(int n, int round, int me);

#endif
