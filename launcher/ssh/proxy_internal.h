/* proxy_internal.h: the parts of the far end of an ssh (proxy.c): the job that
 * it prepares, and the agent that it runs. */
#ifndef LAUNCHER_PROXY_INTERNAL_H
#define LAUNCHER_PROXY_INTERNAL_H

#include <sys/types.h>

#include "base/buf.h"
#include "base/error.h"
#include "base/loop.h"
#include "launcher/config/preflight.h"
#include "launcher/ssh/remote_frame.h"
#include "rendezvous/auth/auth.h"

/* ---- proxy_job.c ----
 *
 * Prepares a job on the far side of an ssh: sets the environment and the
 * working directory, parses the options, and checks whether it could run.
 * Starts nothing. */

struct proxy_job {
	struct buf texts; /* that argv points into */
	char **argv;      /* ddprun's, with room for two more options */
	int nargs, nwords;
	struct preflight_trial trial; /* with the options of the server */
	struct auth auth; /* methods 0: the head did not choose */
	char host[SOCK_HOST_MAX];
	char nproc[40], endpoint[SOCK_TEXT_MAX + 32];
};

/* Enters the job's environment and directory, then checks all that a run would
 * need. The answer's texts point into h and e. */
void proxy_job_prepare(struct proxy_job *h, const struct remote_job *job,
		       struct remote_ready *answer, struct err *e);

/* The agent's arguments, with the number of workers and the endpoint ("": none)
 * that are decided only now. */
char **proxy_job_argv(struct proxy_job *h, const char *endpoint);
void proxy_job_release(struct proxy_job *h);

/* The address at which the others reach this host: that of the interface
 * towards one of them unless it is loopback, else the address that ssh
 * connected to. */
void proxy_job_address(const struct remote_list *others, struct sock_addr *own);

/* ---- remote_agent.c ----
 *
 * The ordinary ddprun that a proxy runs on its host: a child with pipes for
 * its stdin, stdout, stderr and failure page. With --tty, stdin and stdout are
 * a pseudo-terminal, raw, which stands for that of the head. */

struct remote_agent;

struct remote_agent_events {
	/* type is REMOTE_OUT or REMOTE_ERR, whole lines, or REMOTE_TTY,
	 * REMOTE_PAGE or REMOTE_LENT. */
	void (*on_text)(struct remote_agent *a, uint8_t type,
			struct slice text);
	/* The last remote_agent_write is done; is_read 0: it has closed its
	 * stdin. */
	void (*on_ack)(struct remote_agent *a, int is_read);
	/* It has exited, and all its output was reported. If another process
	 * killed it, that is logged and code is 69: the node is lost. */
	void (*on_gone)(struct remote_agent *a, int code);
};

enum { REMOTE_AGENT_OUTS = 4 };

struct remote_agent_out {
	uv_pipe_t pipe;
	struct buf text; /* not reported yet */
	int ended;
};

struct remote_agent {
	void *owner;
	const struct remote_agent_events *events;
	int has_terminal;
	struct remote_window window;
	int is_lent;   /* to a worker: its stdout is reported as it comes */
	int line_open; /* the last of it was no whole line */
	pid_t pid; /* 0: it does not run */
	uint64_t signals_sent; /* by us, a bit each; not SIGKILL */
	int signal_fd; /* an eventfd that tells it that we sent one */
	int code;
	struct remote_agent_out outs[REMOTE_AGENT_OUTS];
	uv_pipe_t in;
	int in_open;
	uv_write_t write;
	struct buf writing;
	uv_timer_t drain;
	int parts, paused;
};

/* Starts path with argv, this environment and DDP_REMOTE_NODE for node; passes
 * auth (methods 0: none) through a pipe. The caller has set owner, events,
 * has_terminal and window. After an error nothing runs. */
int remote_agent_start(struct remote_agent *a, uv_loop_t *loop,
		       const char *path, char **argv, uint32_t node,
		       const struct auth *auth, struct err *e);
/* The head is gone: asks it to stop. It notices why (launch_env_is_gone),
 * and leaves an elastic job alone. */
void remote_agent_abandon(struct remote_agent *a);
/* After SIGCHLD: 1 if a signal has stopped it, 0 if it continues, -1 if
 * neither. */
int remote_agent_stopped(const struct remote_agent *a);
void remote_agent_signal(struct remote_agent *a, int number);
/* Writes to its stdin; no bytes: closes it. on_ack follows; until then no other
 * call. */
void remote_agent_write(struct remote_agent *a, struct slice bytes);
/* The head's window has another size. */
void remote_agent_resize(struct remote_agent *a, const struct remote_window *w);
void remote_agent_pause(struct remote_agent *a, int paused);
int remote_agent_reaped(struct remote_agent *a, pid_t pid, int status);

#endif
