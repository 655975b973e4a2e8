/* remote_node.h: what a ddprun knows that another has started on this host over
 * ssh: that it is one, and where its failure page goes. */
#ifndef LAUNCHER_REMOTE_NODE_H
#define LAUNCHER_REMOTE_NODE_H

#include "base/buf.h"
#include "rendezvous/auth/auth.h"

/* "NUMBER PAGE-FD SECRET-FD TOLD-FD" */
#define REMOTE_NODE "DDP_REMOTE_NODE"

/* Reads the variable, and takes it from the workers' environment. Log lines
 * then name this host, and only the first one's say what all know. */
void remote_node_init(void);

/* 1 if this ddprun is such a one. */
int remote_node_is(void);

/* Its place among the hosts that started, from 0 on; 0 if it is no such one. */
uint32_t remote_node_number(void);

/* 1 if it is one and the ddprun that started it is gone or unreachable: nobody
 * reads its page. */
int remote_node_is_cut_off(void);

/* 1 if the ddprun that started it has sent it a signal: the job is meant. */
int remote_node_is_told(void);

/* How this node proves itself, where who started us has said it; else
 * untouched. */
void remote_node_auth(struct auth *a);

/* Gives the page to who started us: 1; 0: it is ours to print. first_is_here:
 * what failed first did so on this host, so this page knows most. */
int remote_node_tell(struct slice page, int first_is_here);

#endif
