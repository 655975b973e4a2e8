/* remote_job.h: what the far side of an ssh makes of a job that it is given:
 * environment, folder, options, and whether it could run. Starts nothing. */
#ifndef LAUNCHER_REMOTE_JOB_H
#define LAUNCHER_REMOTE_JOB_H

#include "launcher/config/config.h"
#include "launcher/ssh/remote_frame.h"

struct remote_job_here {
	struct buf texts; /* what argv consists of */
	char **argv;      /* ddprun's, room for two more before the words */
	int nargs, nwords;
	struct config config;
	struct auth auth; /* methods 0: the head has said nothing of it */
	char host[SOCK_HOST_MAX];
	char nproc[40], endpoint[SOCK_TEXT_MAX + 32];
};

/* Makes this process's environment and folder the job's, then looks at all that
 * a run would. The answer's texts are here's or e's. */
void remote_job_prepare(struct remote_job_here *here,
			const struct remote_job *job,
			struct remote_ready *answer, struct err *e);

/* The agent's arguments, with what was only decided now; endpoint "": none. */
char **remote_job_argv(struct remote_job_here *here, const char *endpoint);
void remote_job_release(struct remote_job_here *here);

/* The address of this host that others reach: of the interface towards one of
 * them, where that is no loopback, else the one that ssh came to. */
void remote_job_address(const struct remote_list *others,
			struct sock_addr *own);

#endif
