/* remote_agent.h: on a host that was reached over ssh, the ordinary ddprun that
 * runs the job there: a child with pipes for all that it reads and writes. */
#ifndef LAUNCHER_REMOTE_AGENT_H
#define LAUNCHER_REMOTE_AGENT_H

#include <sys/types.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/loop.h"
#include "rendezvous/auth/auth.h"

struct remote_agent;

struct remote_agent_events {
	/* REMOTE_OUT, REMOTE_ERR or REMOTE_PAGE; the first two whole lines. */
	void (*on_text)(struct remote_agent *a, uint8_t type,
			struct slice text);
	/* What was given it to read is passed on; 0: nobody reads any more. */
	void (*on_took)(struct remote_agent *a, int is_read);
	/* It has exited, and all that it wrote has been told. One that was
	 * killed is a lost node: 69, and that was logged. */
	void (*on_gone)(struct remote_agent *a, int code);
};

enum { REMOTE_AGENT_OUTS = 3 };

struct remote_agent_out {
	uv_pipe_t pipe;
	struct buf text; /* not told yet */
	int ended;
};

struct remote_agent {
	void *owner;
	const struct remote_agent_events *events;
	pid_t pid; /* 0: none runs */
	uint64_t told; /* by us, which signals: a bit each; not SIGKILL */
	int told_fd;   /* and it knows that it was by us */
	int code;
	struct remote_agent_out outs[REMOTE_AGENT_OUTS];
	uv_pipe_t in;
	int in_open;
	uv_write_t write;
	struct buf writing;
	uv_timer_t straggler;
	int parts, paused;
};

/* Starts path with argv and this environment, and DDP_REMOTE_NODE for node;
 * auth (methods 0: none) goes to it through a pipe. A negative error: nothing
 * runs. owner and events are set. */
int remote_agent_start(struct remote_agent *a, uv_loop_t *loop,
		       const char *path, char **argv, uint32_t node,
		       const struct auth *auth, struct err *e);
/* Tells it to stop, for nobody is there any more who started the job: it sees
 * that (remote_node_is_cut_off), and of an elastic job only this node goes. */
void remote_agent_abandon(struct remote_agent *a);
/* Whether a signal has stopped it since this was last asked (1), or it goes on
 * after that (0); -1: neither. */
int remote_agent_stopped(const struct remote_agent *a);
void remote_agent_signal(struct remote_agent *a, int number);
/* No bytes: the end. One at a time: on_took answers. */
void remote_agent_write(struct remote_agent *a, struct slice bytes);
void remote_agent_pause(struct remote_agent *a, int paused);
int remote_agent_reaped(struct remote_agent *a, pid_t pid, int status);

#endif
