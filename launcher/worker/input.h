/* input.h: passes ddprun's standard input on to this node's workers. A single
 * worker gets the descriptor itself, and nothing is copied. If stdin is a
 * terminal, or all workers read it, they get pipes, which we fill no faster
 * than they are read. */
#ifndef LAUNCHER_INPUT_H
#define LAUNCHER_INPUT_H

#include "base/error.h"
#include "base/loop.h"

/* Which workers read it: none, all, or the one with this rank. */
enum { INPUT_NONE = -1, INPUT_ALL = -2 };

struct input_pipe;

struct input {
	uv_loop_t *loop;
	long rank;       /* INPUT_NONE, INPUT_ALL, or a rank */
	int pumped;      /* we read it and fill pipes */
	int is_terminal;
	int is_copy;     /* other nodes get the same: see input_unread */
	int given;       /* to a worker of this round */
	int unread;      /* input is read and discarded */
	int is_plain;    /* a file or device: always ready, cannot be polled */
	int begun, ended;
	int fd;          /* our copy of stdin; -1: not yet, or ended */
	uv_poll_t poll;  /* for fd */
	uv_timer_t retry;
	char *bytes;     /* read, and not yet sent to all pipes */
	size_t len;
	struct input_pipe *pipes;
	int kept;        /* the read end of a single reader's pipe; -1: none */
};

/* rank: INPUT_NONE, INPUT_ALL, or the rank that reads. Nothing is read before
 * there is a reader. */
void input_init(struct input *in, uv_loop_t *loop, long rank);

/* Writes the stdin of the worker with this rank to *fd, which the caller
 * closes; -1: it gets none. 0 or -errno. */
int input_open(struct input *in, uint32_t rank, int *fd, struct err *e);

/* A round runs, and this node's workers, if it has any, were started. If
 * is_copy is set, srun sends its input to several nodes and waits for the
 * slowest: input from a pipe that no worker here reads is then discarded, until
 * the round is over or input_open has a reader. */
void input_unread(struct input *in);

/* The worker with this rank has ended: reads nothing for it any more. */
void input_gone(struct input *in, uint32_t rank);

/* The round is over. Input that a single reader left in its pipe is kept for
 * the next worker of that rank; with INPUT_ALL each worker gets a new pipe. */
void input_end_round(struct input *in);

/* Closes it; the loop must run once more before in is freed. */
void input_close(struct input *in);

#endif
