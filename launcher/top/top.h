/* top.h: `ddprun top`: a screen that shows this user's jobs while they run:
 * nodes, ranks, steps, rates, and which rank the others wait for. Asks the
 * rendezvous servers once a second, as `ddprun status` does, and nothing
 * else. */
#ifndef LAUNCHER_TOP_H
#define LAUNCHER_TOP_H

#include "base/option.h"

extern const struct option_spec top_options[];

/* argv[0] is "top". Returns the exit code. */
int top_main(int argc, char **argv);

#endif
