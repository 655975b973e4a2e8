/* terminal.h: the terminal that ddprun runs in, while somebody borrows it
 * (--tty): in raw mode, so that Ctrl-C is a key. Reads keys, and reports a new
 * size of its window. Knows no worker and no host. */
#ifndef LAUNCHER_TERMINAL_H
#define LAUNCHER_TERMINAL_H

#include <sys/ioctl.h>
#include <termios.h>

#include "base/error.h"
#include "base/loop.h"
#include "launcher/worker/guard.h"

enum {
	TERMINAL_KEYS = 4096,  /* read at once */
	TERMINAL_ESCAPE = 29,  /* Ctrl-] */
};

struct terminal_events {
	/* Keys were typed, n <= TERMINAL_KEYS; they may be changed in place. 1:
	 * more may come; 0: only after terminal_listen. */
	int (*on_keys)(void *owner, char *keys, size_t n);
	void (*on_resized)(void *owner);
};

struct terminal {
	uv_loop_t *loop;
	struct guard *guard; /* NULL: none */
	const struct terminal_events *events;
	void *owner;
	int fd;    /* opened again; -1: not yet */
	int begun, has_keys; /* which handles exist */
	int is_lent, is_raw;
	struct termios saved; /* how it was */
	uv_poll_t keys;
	uv_timer_t retry;
	uv_signal_t resized;
};

/* Opens nothing. */
void terminal_init(struct terminal *t, uv_loop_t *loop, struct guard *guard,
		   const struct terminal_events *events, void *owner);

/* Lends our stdin, which is a terminal: keys come until it is taken back. Its
 * handles do not keep the loop alive. */
MUST_CHECK int terminal_lend(struct terminal *t, struct err *e);
/* The terminal is as it was. */
void terminal_take_back(struct terminal *t);
/* Reads keys again, after an on_keys that returned 0. */
void terminal_listen(struct terminal *t);
/* The window's size; zeros if it is not known. */
struct winsize terminal_size(const struct terminal *t);

/* Ctrl-Z, and what follows it: between the two calls the terminal is as it
 * was. */
void terminal_suspend(struct terminal *t);
void terminal_continue(struct terminal *t);

/* Closes it; the loop must run once more before t is freed. */
void terminal_close(struct terminal *t);

/* Watches a descriptor, but does not keep the loop alive. */
void terminal_watch(uv_poll_t *poll, int events, uv_poll_cb on_ready);

#endif
