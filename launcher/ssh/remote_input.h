/* remote_input.h: the head's standard input, on its way to the hosts whose
 * workers read it. No more is read than they have taken. */
#ifndef LAUNCHER_REMOTE_INPUT_H
#define LAUNCHER_REMOTE_INPUT_H

#include "launcher/ssh/remote_check.h"
#include "launcher/worker/input.h"

struct remote_input {
	uv_loop_t *loop;
	long rank; /* INPUT_NONE, INPUT_ALL, or one */
	/* Bytes for a host; none: the end. */
	void (*on_bytes)(void *arg, uint32_t host, struct slice bytes);
	void *arg;
	struct input input;
	uv_pipe_t pipe;
	char *piece;
	uint8_t *reads; /* of each host: 1 it may read, 2 it has not taken it */
	uint32_t n;
	int started, open, ended;
};

void remote_input_init(struct remote_input *in, uv_loop_t *loop, long rank,
		       void (*on_bytes)(void *arg, uint32_t host,
					struct slice bytes), void *arg);

/* The hosts run: finds out who reads, by their numbers of workers, and begins.
 * 0 or -errno with the text. */
int remote_input_start(struct remote_input *in, const struct remote_host *hosts,
		       uint32_t n, struct err *e);

/* A host has passed on what it got; if not is_read, for nobody. */
void remote_input_took(struct remote_input *in, uint32_t host, int is_read);
void remote_input_lost(struct remote_input *in, uint32_t host);

/* For good; the loop must run once more. */
void remote_input_close(struct remote_input *in);

#endif
