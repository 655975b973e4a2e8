/* remote_spec.h: the messages that tell each host its job, and how to reach
 * the hosts behind it. Pure, except that it reads this process's environment
 * and working directory. */
#ifndef LAUNCHER_REMOTE_SPEC_H
#define LAUNCHER_REMOTE_SPEC_H

#include <limits.h>

#include "launcher/config/remote_options.h"
#include "launcher/plan/shell_words.h"
#include "launcher/ssh/remote_host.h"
#include "rendezvous/auth/auth.h"

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

#endif
