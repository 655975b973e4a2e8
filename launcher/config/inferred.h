/* inferred.h: what the user did not say and Slurm does: how many nodes, which
 * one this is, how many workers, where they meet, what the job is called. It
 * fills struct config; whatever was given stays. */
#ifndef LAUNCHER_INFERRED_H
#define LAUNCHER_INFERRED_H

#include "base/buf.h"
#include "launcher/config/config.h"

/* Finds out whether Slurm is to be asked, and asks: c->slurm, and --nnodes
 * where it is not given. Not with --standalone, nor for what is no task of
 * srun's own (a worker of ddprun's or of an mpirun's), nor in an allocation
 * without a step for who says the endpoint or the node rank: that is one
 * command a node, by hand. ERR_USAGE as in allocation.h. */
int inferred_init(struct config *c, struct err *e);

/* With --nnodes decided: what this many nodes cannot be, the node rank and the
 * job's name. An endpoint of the user's may bring nodes of several steps
 * together. */
int inferred_nodes(struct config *c, struct err *e);

/* In a step: nproc; GPUs first, then the tasks that the batch script asked for,
 * then CPUs. */
int inferred_nproc(struct config *c, struct err *e);

/* The endpoint, the ports and who hosts: 1; 0 where Slurm does not say it. */
int inferred_endpoint(struct config *c);
/* Port 0 of an endpoint that was given: the step's own ports, where it has
 * several nodes. */
void inferred_port(struct config *c);

/* One line of what was inferred, as the options that would say the same, and a
 * warning where there are fewer GPUs than workers, or --gpus-per-task shows but
 * one. On the step's first node only. */
void inferred_say(const struct config *c);

/* What is wrong is said by the step's first task: 1 for the others, who are to
 * end without a word, once that task had the time for it. */
int inferred_is_said(const struct config *c);

/* The server's "node 1 (not connected), node 3 and 2 more" with the names that
 * Slurm has for these nodes; as it is where Slurm does not start them. */
void inferred_name_nodes(const struct config *c, const char *nodes,
			 struct buf *out);

/* Who started this ddprun says to those of all nodes what one is to hear: that
 * the job is to stop, or that a node has failed. Slurm and mpirun may say one
 * thing twice. */
int inferred_hears_all(const struct config *c);
int inferred_says_twice(const struct config *c);

/* srun sends its standard input to the ddpruns of several nodes, and waits for
 * each of them to read. */
int inferred_copies_input(const struct config *c);

/* A first SIGTERM to who is failing already: srun --kill-on-bad-exit and mpirun
 * say to all what one node's ddprun has told them before. It is no second
 * word; nor is any signal that the head of a job over ssh passes on to all. */
int inferred_is_echo(const struct config *c, int number);

/* What a node that goes before it was in the job exits with: 128+signal, but in
 * a step of several nodes not for that SIGTERM: srun exits with its tasks'
 * highest code, which is to be that of who failed. */
int inferred_exit_code(const struct config *c, int number, int was_in);

/* First in main, in a step of several nodes: SIGTERM ends this program with 1
 * from here on, as it does later on one that is not in the job yet. Once the
 * agent has its own handlers inferred_drop_early undoes it where SIGTERM is not
 * one of theirs. */
void inferred_catch_early(void);
void inferred_drop_early(void);

/* Before signals get their default again: the exit code is decided, and such an
 * echo must not be it, nor a warning that the others had first. */
void inferred_end_echoes(const struct config *c);

/* Before the end of a ddprun whose job lost a node, or may have: once the tasks
 * of a step are gone, and one of them by a signal, srun throws away what it has
 * not read yet, which would be our last words. */
void inferred_linger(const struct config *c, int lost);

/* Gives back to the workers what the step hid, and hides how. */
void inferred_restore(const struct config *c);

#endif
