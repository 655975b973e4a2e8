/* stage_helper.h: the process that makes this node's copy and passes it on to
 * the next node of the chain, both at once. A file system that hangs, or a
 * large copy, delays neither the agent nor its lease. stdin has an order,
 * stdout gets reports (stage_order.h); descriptor 3 listens, if the order says
 * that the node serves another.
 *
 * One thread fills the copy, from the source or from the node before this one;
 * the other one sends it on, up to where it has been filled: the frames as they
 * came, or, if the next node lacks what this one had before, new ones. So each
 * byte leaves the node that reads the source once, nodes that have a part of
 * the copy get only the rest, and a node that has all of it gets nothing.
 *
 * Each frame is authenticated (stage_frame.h). The file's hash comes with the
 * last one; bytes that were on a disk before are checked against it. A
 * connection that breaks is made again, and continues; without data for 20 s
 * the helper fails. */
#ifndef LAUNCHER_STAGE_HELPER_H
#define LAUNCHER_STAGE_HELPER_H

#define STAGE_HELPER_COMMAND "--stage-helper"

enum { STAGE_LISTENER = 3 };

/* The exit code. */
int stage_helper_main(int argc, char **argv);

#endif
