/* torch_home.h: where a job's round has its port for PyTorch's clients: at
 * which addresses, and that the next server opens it again there. */
#ifndef RENDEZVOUS_TORCH_HOME_H
#define RENDEZVOUS_TORCH_HOME_H

struct hosted_job;

/* Of the round that begins, where its first node has the server: else, or where
 * that fails (the log says why), rank 0 has to keep the store: torch_port 0. */
void torch_home_open(struct hosted_job *h);

/* Of a round that a journal brought back: the same addresses and the same port.
 * Who connects waits until torch_home_begin, as agents who could vouch for him
 * are not back yet. Where that fails the log says so. */
void torch_home_open_again(struct hosted_job *h);
void torch_home_begin(struct hosted_job *h);

#endif
