/* remote_host.h: what the head knows about each host, and how --host-check and
 * --dry-run print it. */
#ifndef LAUNCHER_REMOTE_HOST_H
#define LAUNCHER_REMOTE_HOST_H

#include "launcher/config/remote_options.h"
#include "launcher/ssh/remote_frame.h"

enum remote_host_state {
	HOST_CALLED,  /* ssh is connecting */
	HOST_OPEN,    /* it has its job, and checks whether it can run it */
	HOST_READY,
	HOST_RUNNING,
	HOST_DONE,    /* its agent has exited */
	HOST_FAILED   /* not reached, not able, or lost */
};

struct remote_host {
	enum remote_host_state state;
	int copied; /* ddprun was copied to it */
	uint32_t nproc, cpus, gpus;
	uint32_t code;    /* exit code of its agent, or of its failure */
	uint32_t stopped; /* pid of its agent while that is stopped; else 0 */
	char *addr, *why; /* the address ssh connected to; why it failed */
	uint64_t asked_ms; /* unix time of our question */
	int64_t skew_ms;  /* its clock's: a lower bound */
};

/* Unix time. */
uint64_t remote_host_unix_ms(void);

/* Keeps its answer to JOB. -ENOMEM. */
int remote_host_set_ready(struct remote_host *h,
			  const struct remote_ready *ready);
void remote_host_release(struct remote_host *h);

/* Prints a line for each host; returns the exit code. */
int remote_host_print_check(const struct remote_host *hosts, uint32_t n,
			    const struct remote_options *o);

/* Prints what would be started on which host. */
void remote_host_print_dry_run(const struct remote_options *o,
			       const struct remote_branch *b);

#endif
