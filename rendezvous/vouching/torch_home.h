/* torch_home.h: the addresses and the port of a round's store for PyTorch's
 * clients, and opening it there again after a restart. */
#ifndef RENDEZVOUS_TORCH_HOME_H
#define RENDEZVOUS_TORCH_HOME_H

struct hosted_job;

/* Opens the port for the round that begins, if its first node's host runs the
 * server. Else, or if that fails (which is logged), rank 0 has to be the store,
 * and torch_port is 0. */
void torch_home_open(struct hosted_job *h);

/* Opens the same port at the same addresses for a round from a journal; a
 * failure is logged. Clients that connect wait until torch_home_begin, because
 * the agents that vouch for them are not back yet. */
void torch_home_open_again(struct hosted_job *h);
void torch_home_begin(struct hosted_job *h);

#endif
