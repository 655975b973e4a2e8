/* stage_helper.h: the process that makes this node's copy and passes it on to
 * the next node of the chain, both at once. A file system that hangs, or a
 * large copy, delays neither the agent nor its lease. stdin has an order,
 * stdout gets reports (stage_order.h); descriptor 3 listens, if the order says
 * that the node serves another.
 *
 * One thread fills the copy, from the source or from the node before this one;
 * the other one reads it back and sends it, up to where it has been filled. So
 * each byte leaves the node that reads the source once, nodes that have a part
 * of the copy get only the rest, and a node that has all of it gets nothing.
 *
 * The next node checks the hash of each file, which came with it. A connection
 * that breaks is made again, and continues; without one for RETRY_S the helper
 * fails. */
#ifndef LAUNCHER_STAGE_HELPER_H
#define LAUNCHER_STAGE_HELPER_H

#define STAGE_HELPER_COMMAND "--stage-helper"

enum { STAGE_LISTENER = 3 };

/* The exit code. */
int stage_helper_main(int argc, char **argv);

#endif
