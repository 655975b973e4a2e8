/* remote_order.h: what the head tells each host: its job, and how to reach the
 * hosts behind it. Pure but for this process's environment and folder. */
#ifndef LAUNCHER_REMOTE_ORDER_H
#define LAUNCHER_REMOTE_ORDER_H

#include <limits.h>

#include "launcher/config/config.h"
#include "launcher/plan/words.h"
#include "launcher/ssh/remote_check.h"

struct remote_order {
	const struct config *config;
	char **argv; /* as it was typed */
	char dir[PATH_MAX];
	char job[64]; /* --rdzv-id */
	uint32_t silent_ms;
	uint32_t grace_ms; /* --shutdown-timeout; UINT32_MAX: longer */
	struct auth auth; /* methods 0: the hosts find out by themselves */
	struct words ssh_args;
};

/* ERR_USAGE: --ssh-args; -errno: there is no working directory. */
int remote_order_init(struct remote_order *o, const struct config *c,
		      char **argv, struct err *e);
void remote_order_release(struct remote_order *o);

/* JOB's body for the i-th host. -E2BIG. */
int remote_order_job(const struct remote_order *o, uint32_t i, struct buf *b,
		     struct err *e);
/* The hosts, as remote_tree_start takes them. texts holds m's. */
int remote_order_branch(const struct remote_order *o, struct buf *texts,
			struct remote_branch *m, struct err *e);

/* What the first host needs to start the job's server: the body of SERVE. */
void remote_order_serve(const struct remote_order *o,
			const struct remote_host *hosts, uint32_t first,
			struct buf *b);

#endif
