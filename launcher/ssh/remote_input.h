/* remote_input.h: forwards the head's standard input to the hosts whose workers
 * read it, no faster than they read. */
#ifndef LAUNCHER_REMOTE_INPUT_H
#define LAUNCHER_REMOTE_INPUT_H

#include "launcher/ssh/remote_host.h"
#include "launcher/worker/input.h"

struct remote_input {
	uv_loop_t *loop;
	long rank; /* INPUT_NONE, INPUT_ALL, or one */
	/* Bytes for a host; none at end of file. */
	void (*on_bytes)(void *arg, uint32_t host, struct slice bytes);
	void *arg;
	struct input input;
	uv_pipe_t pipe;
	char *piece;
	uint8_t *reads; /* for each host, enum flags of the .c */
	uint32_t n;
	int started, open, ended;
};

void remote_input_init(struct remote_input *in, uv_loop_t *loop, long rank,
		       void (*on_bytes)(void *arg, uint32_t host,
					struct slice bytes), void *arg);

/* All hosts run: finds those that read, by their numbers of workers, and
 * begins. 0 or -errno. */
int remote_input_start(struct remote_input *in, const struct remote_host *hosts,
		       uint32_t n, struct err *e);

/* A host has passed on its bytes; is_read 0: nothing reads there any more. */
void remote_input_acknowledge(struct remote_input *in, uint32_t host,
			      int is_read);
void remote_input_host_lost(struct remote_input *in, uint32_t host);

/* The loop must run once more. */
void remote_input_close(struct remote_input *in);

#endif
