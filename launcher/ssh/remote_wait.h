/* remote_wait.h: how long the head waits for the ddpruns of the hosts: for good
 * while the job goes on, and for a limited time once it is over, or all of them
 * that have not exited are stopped. */
#ifndef LAUNCHER_REMOTE_WAIT_H
#define LAUNCHER_REMOTE_WAIT_H

#include "base/loop.h"
#include "launcher/ssh/remote_check.h"

struct remote_wait_events {
	/* To its ddprun. */
	void (*signal)(void *owner, uint32_t host, int number);
	/* They have had their time, and are named; once. */
	void (*on_limit)(void *owner);
};

struct remote_wait {
	const struct config *config;
	const struct remote_wait_events *events;
	void *owner;
	struct remote_host *hosts; /* the head's */
	uint32_t n, first; /* first: has the server */
	uv_timer_t timer;
	int held;     /* nothing is read from them */
	int pushes;   /* they have not been told by a signal yet */
	int over;     /* the job is, for all of them */
	int unserved; /* the server has died: each ends when it is done */
	int code;     /* what the exit said that showed it; -1: none did */
	uint32_t last_code;
};

/* hosts, config, events and owner are set. */
void remote_wait_init(struct remote_wait *w, uv_loop_t *loop);
void remote_wait_close(struct remote_wait *w);

/* No more is waited for. */
void remote_wait_stop(struct remote_wait *w);
/* A host is lost, with which the job ends. The others hear of it from the
 * server; if they do not, SIGTERM. */
void remote_wait_push(struct remote_wait *w);
/* The host's ddprun has exited. */
void remote_wait_exited(struct remote_wait *w, uint32_t host);
/* Its ddprun was stopped (pid), or goes on (0): tells the user. */
void remote_wait_stopped(struct remote_wait *w, uint32_t host, uint32_t pid);
/* A line has come: a host that is slow to tell all is not late. */
void remote_wait_heard(struct remote_wait *w);
/* Nothing is read from the hosts, which may have much to tell; or again. */
void remote_wait_hold(struct remote_wait *w, int held);
/* What the head exits with, by what the hosts have. */
int remote_wait_code(const struct remote_wait *w);
/* Some other host's state has changed. */
void remote_wait_look(struct remote_wait *w);

#endif
