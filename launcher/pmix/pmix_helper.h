/* pmix_helper.h: `ddprun --pmix-helper`, a child of an agent for one round: it
 * runs libpmix's server, so that the agent needs neither library nor thread.
 * It talks to the agent on its stdin, a socket (pmix_frame.h), and ends with
 * it. It blocks, unlike our other programs: it waits only for the agent. */
#ifndef LAUNCHER_PMIX_HELPER_H
#define LAUNCHER_PMIX_HELPER_H

/* Not an option for users. */
#define PMIX_HELPER_COMMAND "--pmix-helper"

/* The library may wait for ever while it starts, without memory or a thread
 * for example. After this time SIGALRM ends the process. */
enum { PMIX_HELPER_BEGIN_S = 15 };

int pmix_helper_main(int argc, char **argv);

#endif
