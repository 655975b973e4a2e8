/* console.h: stdout and stderr of a ddprun that has no workers of its own: what
 * others wrote, whole lines, as fast as they are read. Knows no hosts. */
#ifndef LAUNCHER_CONSOLE_H
#define LAUNCHER_CONSOLE_H

#include "launcher/output/writer.h"

struct console {
	struct writer writers[2];
	struct writer *out, *err; /* the same where both are one file */
	void (*on_full)(void *arg, int full); /* stop, go on */
	void *arg;
	int full, closing, told_lost;
};

/* Takes over stdout, stderr and the log's lines. */
void console_init(struct console *c, uv_loop_t *loop,
		  void (*on_full)(void *arg, int full), void *arg);
void console_put(struct console *c, int is_stderr, struct slice text);
/* Closes when all is out. */
void console_close(struct console *c);
/* Drops what is not out yet. */
void console_abandon(struct console *c);
void console_release(struct console *c);

#endif
