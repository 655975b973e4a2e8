/* input.h: ddprun's standard input, and which of this node's workers read it.
 * One worker gets the descriptor itself, where that is no terminal: nothing is
 * copied. A terminal, or all workers, get pipes that are filled from it no
 * faster than they are read. */
#ifndef LAUNCHER_INPUT_H
#define LAUNCHER_INPUT_H

#include "base/error.h"
#include "base/loop.h"

/* Whose standard input it is: nobody's, every worker's, or that of one rank. */
enum { INPUT_NONE = -1, INPUT_ALL = -2 };

struct input_pipe;

struct input {
	uv_loop_t *loop;
	long rank;       /* INPUT_NONE, INPUT_ALL, or one */
	int pumped;      /* it is read by us */
	int is_terminal;
	int is_copy;     /* of what other nodes get, too: see input_unread */
	int given;       /* to a worker of this round */
	int unread;      /* what comes now is thrown away */
	int is_plain;    /* a file or device: always ready, cannot be polled */
	int begun, ended;
	int fd;          /* where it is read from; -1: not yet, or over */
	uv_poll_t poll;  /* for what is there to read */
	uv_timer_t retry;
	char *bytes;     /* at hand: read, and not yet sent to all */
	size_t len;
	struct input_pipe *pipes;
	int kept;        /* a single reader's end of its pipe; -1: none */
};

/* rank: INPUT_NONE, INPUT_ALL, or the one that reads. Nothing is read before
 * there is a reader. */
void input_init(struct input *in, uv_loop_t *loop, long rank);

/* What the worker of this rank is to have as its stdin: in *fd, the caller's to
 * close; -1 is nothing. 0, or -errno with the text. */
int input_open(struct input *in, uint32_t rank, int *fd, struct err *e);

/* A round runs: here, with all workers started, or without this node. Where
 * is_copy is set somebody sends the same to several nodes and waits for the
 * slowest (srun): what comes through a pipe while no worker here reads is
 * thrown away, until the round is over or input_open has a reader. */
void input_unread(struct input *in);

/* The worker of this rank has ended: nothing is read for it any more. */
void input_gone(struct input *in, uint32_t rank);

/* The round is over. What a single reader left in its pipe is for the next one
 * of that rank; where all read, each begins anew. */
void input_end_round(struct input *in);

/* For good; the loop must run once more before in's memory goes. */
void input_close(struct input *in);

#endif
