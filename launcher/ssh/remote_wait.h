/* remote_wait.h: how long the head waits for the agents of the hosts: without a
 * limit while the job runs; for a limited time once it is over, or once all
 * agents that have not exited are stopped by a signal. */
#ifndef LAUNCHER_REMOTE_WAIT_H
#define LAUNCHER_REMOTE_WAIT_H

#include "base/loop.h"
#include "launcher/ssh/remote_host.h"

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

#endif
