/* relay.h: writes the output of the hosts to the head's stdout and stderr, in
 * whole lines, as fast as those are read. Knows no hosts. */
#ifndef LAUNCHER_RELAY_H
#define LAUNCHER_RELAY_H

#include "launcher/output/writer.h"

struct relay {
	struct writer_pair own;
	void (*on_full)(void *arg, int full); /* 1: stop reading; 0: resume */
	void *arg;
	int full, closing;
};

/* Takes over stdout, stderr and the log. */
void relay_init(struct relay *r, uv_loop_t *loop,
		void (*on_full)(void *arg, int full), void *arg);
void relay_put(struct relay *r, int is_stderr, struct slice text);
/* Closes when all is written. */
void relay_close(struct relay *r);
/* Drops what is not written yet. */
void relay_abandon(struct relay *r);
void relay_release(struct relay *r);

#endif
