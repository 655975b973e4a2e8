/* tty.h: lends ddprun's terminal to one worker (--tty): a pseudo-terminal that
 * is the worker's stdin, stdout and stderr, and the controlling terminal of its
 * session. Passes keys and the window's size on to it; its output is a stream
 * of launcher/output. While that worker runs, our terminal is in raw mode, so
 * that Ctrl-C reaches the worker alone. */
#ifndef LAUNCHER_TTY_H
#define LAUNCHER_TTY_H

#include "launcher/worker/terminal.h"

enum { TTY_NONE = -1 };

struct tty_link;

struct tty {
	uv_loop_t *loop;
	long rank; /* TTY_NONE, or the rank that gets the terminal */
	int note_fd;
	struct terminal own;
	struct tty_link *link; /* to the worker that has it; NULL: none has */
};

/* Nothing is opened before the worker starts. With note_fd (0: none) our
 * terminal stands for one far away: "1" is written there when a worker has it,
 * "0" when none has any more, and no key is ours. */
void tty_init(struct tty *t, uv_loop_t *loop, struct guard *guard, long rank,
	      int note_fd);

/* If it is this rank's: makes a pseudo-terminal, and puts ours into raw mode.
 * The caller closes *worker, which the worker gets, and *ours, from which its
 * output is read. Both are -1 if the rank is another one. 0, or an error:
 * ERR_USAGE if stdin or stdout is no terminal. */
MUST_CHECK int tty_open(struct tty *t, uint32_t rank, int *worker, int *ours,
			struct err *e);

/* The worker with this rank has ended: our terminal is as it was. */
void tty_gone(struct tty *t, uint32_t rank);

/* Ctrl-Z, and what follows it: between the two calls our terminal is as it
 * was. */
void tty_suspend(struct tty *t);
void tty_continue(struct tty *t);

/* Closes it; the loop must run once more before t is freed. */
void tty_close(struct tty *t);

#endif
