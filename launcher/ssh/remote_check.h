/* remote_check.h: what the head knows of each host, and --host-check's lines of
 * it. */
#ifndef LAUNCHER_REMOTE_CHECK_H
#define LAUNCHER_REMOTE_CHECK_H

#include "launcher/config/config.h"
#include "launcher/ssh/remote_frame.h"

enum remote_host_state {
	HOST_CALLED,  /* ssh is under way */
	HOST_OPEN,    /* it has its job, and looks whether it can */
	HOST_READY,
	HOST_RUNNING,
	HOST_DONE,    /* its agent has exited */
	HOST_FAILED   /* not reached, cannot, or lost */
};

struct remote_host {
	enum remote_host_state state;
	int copied; /* ddprun was not there */
	uint32_t nproc, cpus, gpus;
	uint32_t code;    /* its agent's, or what is to be exited with */
	uint32_t stopped; /* the pid of its agent, while that is; else 0 */
	char *addr, *why; /* where ssh came to; why it failed */
	uint64_t asked_ms;  /* unix time */
	int64_t skew_ms;  /* of its clock, as far as it is certain */
};

/* Unix time. */
uint64_t remote_check_now(void);

/* Its answer to JOB. -ENOMEM. */
int remote_check_take(struct remote_host *h, const struct remote_ready *ready);
void remote_check_free(struct remote_host *h);

/* A line for each host, to stdout; what to exit with. */
int remote_check_print(const struct remote_host *hosts, uint32_t n,
		       const struct config *c);

/* --dry-run: what would be started on which host. */
void remote_check_dry_run(const struct config *c,
			  const struct remote_branch *b);

#endif
