/* launch_internal.h: the parts of the head of `ddprun -H` (launch.c): what it
 * sends to the hosts, what it receives, and how long it waits. */
#ifndef LAUNCHER_LAUNCH_INTERNAL_H
#define LAUNCHER_LAUNCH_INTERNAL_H

#include <limits.h>

#include "base/loop.h"
#include "launcher/config/remote_options.h"
#include "launcher/output/writer.h"
#include "launcher/plan/shell_words.h"
#include "launcher/ssh/remote_host.h"
#include "launcher/worker/input.h"
#include "launcher/worker/terminal.h"
#include "rendezvous/auth/auth.h"

/* ---- remote_spec.c ----
 *
 * The messages that tell each host its job, and how to reach the hosts behind
 * it. Pure, except that it reads this process's environment and working
 * directory. */

struct remote_spec {
	const struct remote_options *options;
	char **argv; /* the command as typed */
	char dir[PATH_MAX];
	char job[64]; /* --rdzv-id */
	uint32_t silent_ms;
	uint32_t grace_ms; /* --shutdown-timeout; UINT32_MAX: longer */
	struct auth auth; /* methods 0: each host chooses its own */
	struct shell_words ssh_args;
};

/* ERR_USAGE: --ssh-args; -errno: there is no working directory. */
int remote_spec_init(struct remote_spec *s, const struct remote_options *o,
		     char **argv, struct err *e);
void remote_spec_release(struct remote_spec *s);

/* The body of JOB for the i-th host. -E2BIG. */
int remote_spec_job(const struct remote_spec *s, uint32_t i, struct buf *b,
		    struct err *e);
/* The hosts, for remote_tree_start; m points into texts. */
int remote_spec_branch(const struct remote_spec *s, struct buf *texts,
		       struct remote_branch *m, struct err *e);

/* The body of SERVE, with which the first host starts the job's server. */
void remote_spec_serve(const struct remote_spec *s,
		       const struct remote_host *hosts, uint32_t first,
		       struct buf *b);

/* ---- console.c: stdin ----
 *
 * Forwards the head's standard input to the hosts whose workers read it, no
 * faster than they read; with --tty the keys of its terminal, to the host whose
 * worker has it. */

struct remote_input {
	uv_loop_t *loop;
	long rank; /* INPUT_NONE, INPUT_ALL, or one */
	/* STDIN for a host, whose body is empty at end of file, or WINDOW. */
	void (*on_bytes)(void *arg, uint32_t host, uint8_t type,
			 struct slice bytes);
	void *arg;
	struct terminal terminal;
	long lent_to; /* a host, or -1 */
	struct input input;
	uv_pipe_t pipe;
	char *piece;
	uint8_t *reads; /* for each host, enum flags of the .c */
	uint32_t n;
	int started, open, ended, closed;
};

void remote_input_init(struct remote_input *in, uv_loop_t *loop, long rank,
		       void (*on_bytes)(void *arg, uint32_t host, uint8_t type,
					struct slice bytes), void *arg);

/* --tty: the body of a LENT: a worker of that host has the terminal, or has it
 * no more. */
void remote_input_lend(struct remote_input *in, uint32_t host,
		       struct slice body);

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

/* ---- remote_wait.c ----
 *
 * How long the head waits for the agents of the hosts: without a limit while
 * the job runs; for a limited time once it is over, or once all agents that
 * have not exited are stopped by a signal. */

struct remote_wait_events {
	/* Send a signal to the host's agent. */
	void (*signal)(void *owner, uint32_t host, int number);
	/* The time is over; the log names the hosts. Called once. */
	void (*on_limit)(void *owner);
};

struct remote_wait {
	const struct remote_options *options;
	const struct remote_wait_events *events;
	void *owner;
	struct remote_host *hosts; /* the head's */
	uint32_t n, first; /* first: the host of the server */
	uv_timer_t timer;
	int held;        /* the head does not read from the hosts now */
	int expects_end; /* a host was lost; SIGTERM is not sent yet */
	int over;        /* the job has ended for all hosts */
	int server_lost; /* each host ends when its workers do */
	int code;        /* the code of the exit that ended the job; -1: none */
	uint32_t last_code;
};

/* hosts, options, events and owner are set. */
void remote_wait_init(struct remote_wait *w, uv_loop_t *loop);
void remote_wait_close(struct remote_wait *w);

/* Ends all waiting. */
void remote_wait_stop(struct remote_wait *w);
/* A host is lost and the job ends with it. If the server does not end the
 * others in time, they get SIGTERM. */
void remote_wait_expect_end(struct remote_wait *w);
/* The host's agent has exited. */
void remote_wait_exited(struct remote_wait *w, uint32_t host);
/* The host's agent was stopped (pid), or continues (0): logs it. */
void remote_wait_stopped(struct remote_wait *w, uint32_t host, uint32_t pid);
/* Output came: a host that is still sending is not late. */
void remote_wait_heard(struct remote_wait *w);
/* The head has stopped reading from the hosts, or reads again. */
void remote_wait_set_held(struct remote_wait *w, int held);
/* The exit code, derived from those of the hosts. */
int remote_wait_code(const struct remote_wait *w);
/* A host's state has changed. */
void remote_wait_check(struct remote_wait *w);

/* ---- console.c: the hosts' output ----
 *
 * Writes the output of the hosts to the head's stdout and stderr, in whole
 * lines, as fast as those are read. Knows no hosts. */

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
/* Bytes for stdout, which need not be lines. */
void relay_put_raw(struct relay *r, struct slice bytes);
/* Closes when all is written. */
void relay_close(struct relay *r);
/* Drops what is not written yet. */
void relay_abandon(struct relay *r);
void relay_release(struct relay *r);

#endif
