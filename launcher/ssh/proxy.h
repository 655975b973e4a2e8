/* proxy.h: the far end of an ssh. Receives a job on stdin, checks whether it
 * can run here, and runs an ordinary ddprun for it; ends all that when stdin
 * ends or is silent for too long. May reach further hosts, and forwards what
 * the head and they send each other. */
#ifndef LAUNCHER_PROXY_H
#define LAUNCHER_PROXY_H

/* ddprun --remote-end BUILD [check]: returns PROXY_OTHER_BUILD if this is
 * another build; with check, does nothing else. */
int proxy_main(int argc, char **argv);

enum { PROXY_OTHER_BUILD = 3 };

#endif
