/* top_terminal.h: the terminal of `ddprun top`: a screen of its own without
 * echo, keys one by one, its size. Whatever ends the program, the terminal is
 * as it was before. Linux: signals come through a descriptor, so that nothing
 * happens in a handler. */
#ifndef LAUNCHER_TOP_TERMINAL_H
#define LAUNCHER_TOP_TERMINAL_H

#include <signal.h>
#include <termios.h>

#include "base/error.h"

/* Besides bytes as they are typed. */
enum top_key {
	KEY_NOTHING = 0, /* the time is up */
	KEY_ESCAPE = 27,
	KEY_UP = 256,
	KEY_DOWN,
	KEY_PAGE_UP,
	KEY_PAGE_DOWN,
	KEY_HOME,
	KEY_END,
	KEY_REDRAW, /* the size changed, or the program was continued */
	KEY_QUIT    /* SIGINT, SIGTERM, SIGHUP, or the terminal is gone */
};

struct top_terminal {
	int columns, lines;
	int signals;	 /* a signalfd */
	int signal;	 /* that ended it, or 0 */
	int is_entered;
	struct termios before;
	sigset_t mask_before;
};

/* stdin and stdout must be terminals. Takes over the screen and the signals. */
int top_terminal_init(struct top_terminal *t, struct err *e);
/* Gives both back. */
void top_terminal_release(struct top_terminal *t);

/* For a program that runs meanwhile: the ordinary screen, and back. */
void top_terminal_leave(struct top_terminal *t);
void top_terminal_enter(struct top_terminal *t);

/* The next key, or KEY_NOTHING after ms. Stops this program at Ctrl-Z. */
int top_terminal_key(struct top_terminal *t, int ms);

#endif
